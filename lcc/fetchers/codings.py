"""Content codings: what a server has compressed is stored decoded.

gzip and deflate always; brotli and zstd where their libraries are installed (``pip install lcc[codings]``).  Every
decoder works piece by piece, with bounded memory, and notices an end that comes too early and whatever stands behind
the end.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from zope.interface import implementer

from lcc.errors import FetchError
from lcc.interfaces import IContentSink

try:
    import brotli
except ImportError:
    brotli = None
try:
    from compression import zstd  # Python 3.14 and later
except ImportError:
    try:
        from backports import zstd
    except ImportError:
        zstd = None

PIECE_BYTES = 65536
"""Decoded content is handed on in pieces of about this size."""
RATIO_FREE_BYTES = 1 << 20
"""So much may come out of however little."""
ZSTD_WINDOW_LOG_MAX = 23
"""8 MiB of memory at most: what RFC 9659 asks every decoder to take, and every encoder to keep to."""
ZSTD_FRAMES_MAX = 1000
"""Each takes as long to begin as many KiB to decode, and may be empty."""


class Decoder(Protocol):
    """Undoes one coding."""

    @property
    def complete(self) -> bool:
        """The coding's end has come."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes; give what they decode to, in bounded pieces.

        :raises FetchError: "coding-damaged".
        """


class _Zlib:
    """gzip (also several members one after the other) and both kinds of deflate: with zlib's frame, as the standard
    has it, and without, as some servers send it."""

    def __init__(self, gzip: bool, piece_bytes: int) -> None:
        self._gzip = gzip
        self._piece_bytes = piece_bytes
        self._held = b""
        self._inflater: Any = zlib.decompressobj(31) if gzip else None

    @property
    def complete(self) -> bool:
        return self._inflater is not None and self._inflater.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._inflater is None:
            data = self._held = self._held + data
            if len(data) < 2:
                return
            self._inflater = zlib.decompressobj(15 if _is_framed(data) else -15)
            self._held = b""
        piece = b""
        # An output that is full may leave some more inside, without any input left.
        while data or len(piece) == self._piece_bytes:
            inflater = self._inflater
            if inflater.eof:
                if not data:
                    return
                if not self._gzip:
                    raise FetchError("coding-damaged", "trailing data after the deflate coding")
                inflater = self._inflater = zlib.decompressobj(31)
            try:
                piece = inflater.decompress(data, self._piece_bytes)
            except zlib.error as error:
                raise FetchError("coding-damaged", str(error)[:200]) from None
            if piece:
                yield piece
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail


def _is_framed(data: bytes) -> bool:
    """Whether deflate comes in zlib's frame.  No encoder begins the bare kind like this."""
    return data[0] & 0x0F == 8 and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0


class _Brotli:
    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self._decoder = brotli.Decompressor()
        self.complete = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        decoder = self._decoder
        while data or not self.complete:
            try:
                piece = decoder.process(data, output_buffer_limit=self._piece_bytes)
            except brotli.error:
                raise FetchError("coding-damaged", "not brotli, or trailing data after it") from None
            self.complete = decoder.is_finished()
            data = b""
            if piece:
                yield piece
            elif decoder.can_accept_more_data():
                return


class _Zstd:
    """zstd, also several frames one after the other."""

    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self._options = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX}
        self._decoder = zstd.ZstdDecompressor(options=self._options)
        self._frames = 1

    @property
    def complete(self) -> bool:
        return bool(self._decoder.eof)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._decoder.eof:
                if not data:
                    return
                self._frames += 1
                if self._frames > ZSTD_FRAMES_MAX:
                    raise FetchError("coding-damaged", f"more than {ZSTD_FRAMES_MAX} frames")
                self._decoder = zstd.ZstdDecompressor(options=self._options)
            try:
                piece = self._decoder.decompress(data, self._piece_bytes)
            except zstd.ZstdError as error:
                raise FetchError("coding-damaged", str(error)[:200]) from None
            if piece:
                yield piece
            data = b""
            if self._decoder.eof:
                data = self._decoder.unused_data
            elif self._decoder.needs_input:
                return


_MAKERS: dict[str, Callable[[int], Decoder]] = {
    "gzip": lambda piece_bytes: _Zlib(True, piece_bytes),
    "deflate": lambda piece_bytes: _Zlib(False, piece_bytes),
}
# Older versions cannot bound what comes out of a few bytes.
if brotli is not None and hasattr(brotli.Decompressor, "can_accept_more_data"):
    _MAKERS["br"] = _Brotli
if zstd is not None:
    _MAKERS["zstd"] = _Zstd

CODINGS = tuple(_MAKERS)
"""The codings that are understood here."""
_OLD_NAMES = {"x-gzip": "gzip"}
_GZIP_FILES = frozenset(["application/gzip", "application/x-gzip", "application/x-tgz"])


def coding_of(values: list[bytes], mimetype: str) -> str:
    """The coding that a response came in; empty: none.

    :param values: of all Content-Encoding fields.
    :param mimetype: of the response.  A file that is itself gzip, and that a server calls gzip-coded besides, is
        taken as it is: that is a common mistake, and undoing it would give another file than the provider has.
    :raises FetchError: "bad-coding": it was not asked for.
    """
    names = [name.strip().lower() for value in values for name in value.decode("latin-1").split(",")]
    names = [_OLD_NAMES.get(name, name) for name in names if name not in ("", "identity")]
    if not names or (names == ["gzip"] and mimetype in _GZIP_FILES):
        return ""
    if len(names) > 1 or names[0] not in _MAKERS:
        raise FetchError("bad-coding", ascii(", ".join(names)[:80]))
    return names[0]


def make_decoder(coding: str, piece_bytes: int = PIECE_BYTES) -> Decoder:
    """What undoes one of :data:`CODINGS`."""
    return _MAKERS[coding](piece_bytes)


@implementer(IContentSink)
class DecodingSink:
    """Takes coded content; what it decodes to goes to another sink.

    :param bytes_max: of the decoded content.
    :param ratio_max: decoded content beyond :data:`RATIO_FREE_BYTES` may be so many times as long as what came.
    """

    def __init__(
        self, sink: IContentSink, coding: str, bytes_max: int, ratio_max: int, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self._sink = sink
        self._coding = coding
        self._bytes_max = bytes_max
        self._ratio_max = ratio_max
        self._decoder = make_decoder(coding, piece_bytes)
        self._taken_bytes = 0
        self._given_bytes = 0

    def write(self, data: bytes) -> None:
        """As :meth:`lcc.interfaces.IContentSink.write`.

        :raises FetchError: it cannot be decoded, or becomes too long.
        """
        self._taken_bytes += len(data)
        most = max(RATIO_FREE_BYTES, self._ratio_max * self._taken_bytes)
        for piece in self._decoder.pieces(data):
            self._given_bytes += len(piece)
            if self._given_bytes > self._bytes_max:
                raise FetchError("body-too-long", f"more than {self._bytes_max} bytes when it is decoded")
            if self._given_bytes > most:
                raise FetchError("body-too-long", f"it decodes to more than {self._ratio_max} times its length")
            self._sink.write(piece)

    def finish(self) -> None:
        """That was all.  No bytes at all are an empty content, whatever the coding.

        :raises FetchError: "early-eof": the coding has not ended.
        """
        if self._taken_bytes and not self._decoder.complete:
            raise FetchError("early-eof", f"in the {self._coding} coding, after {self._taken_bytes} bytes")
