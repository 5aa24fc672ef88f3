"""Content codings: whatever the cuts, decoded the same; what is wrong with them is noticed; memory stays bounded."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import pairwise

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.errors import FetchError
from lcc.fetchers.codings import (
    CODINGS,
    PIECE_BYTES,
    RATIO_FREE_BYTES,
    ZSTD_FRAMES_MAX,
    DecodingSink,
    coding_of,
    make_decoder,
    zstd,
)
from tests.support.roles.fetchers import Sink

MANY = 1 << 40

ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip, stored": ("gzip", lambda data: gzip.compress(data, 0)),
    "deflate, framed": ("deflate", zlib.compress),
    "deflate, framed, stored": ("deflate", lambda data: zlib.compress(data, 0)),
    "deflate, bare": ("deflate", lambda data: zlib.compress(data, wbits=-15)),
    "deflate, bare, stored": ("deflate", lambda data: zlib.compress(data, 0, wbits=-15)),
    "deflate, bare, best": ("deflate", lambda data: zlib.compress(data, 9, wbits=-9)),
    "brotli": ("br", brotli.compress),
    "brotli, fast": ("br", lambda data: brotli.compress(data, quality=0, lgwin=10)),
    "zstd": ("zstd", zstd.compress),
    "zstd, checked": ("zstd", lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})),
}
ONE_AFTER_THE_OTHER = ("gzip", "zstd")
"""Codings that may stand several times, one after the other."""

# Long runs make more than one piece out of a few bytes.
CONTENTS = st.one_of(
    st.binary(max_size=300),
    st.builds(
        lambda unit, times, tail: unit * times + tail,
        st.binary(min_size=1, max_size=4),
        st.integers(0, 3000),
        st.binary(max_size=20),
    ),
)


def decode(coding: str, pieces: list[bytes], piece_bytes: int = PIECE_BYTES) -> bytes:
    """What these pieces decode to; every decoded piece is bounded."""
    sink = Sink()
    decoding = DecodingSink(sink, coding, MANY, MANY, piece_bytes)
    for piece in pieces:
        decoding.write(piece)
    decoding.finish()
    return sink.content


def failure(coding: str, pieces: list[bytes], piece_bytes: int = PIECE_BYTES) -> str:
    """The name of the error that these end with; empty: they do not."""
    try:
        decode(coding, pieces, piece_bytes)
    except FetchError as error:
        return error.entry.name
    return ""


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces, some of them empty."""
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


def test_all_codings_are_tested() -> None:
    assert {coding for coding, _ in ENCODERS.values()} == set(CODINGS) == {"gzip", "deflate", "br", "zstd"}


# One test for all kinds: pytest-twisted cannot run a hypothesis test that is parametrised.
@given(CONTENTS, st.lists(st.integers(0, 10_000), max_size=6), st.sampled_from((1, 7, 64, PIECE_BYTES)))
def test_every_segmentation_gives_the_same(content: bytes, places: list[int], piece_bytes: int) -> None:
    for coding, encode in ENCODERS.values():
        coded = encode(content)
        assert decode(coding, cut(coded, places), piece_bytes) == content
        assert decode(coding, [coded], piece_bytes) == content
    for coding in ONE_AFTER_THE_OTHER:
        encode = ENCODERS[coding][1]
        coded = encode(content) + encode(b"") + encode(content)
        assert decode(coding, cut(coded, places), piece_bytes) == content * 2


@pytest.mark.parametrize("name", ENCODERS)
def test_byte_by_byte(name: str) -> None:
    coding, encode = ENCODERS[name]
    content = bytes(range(256)) * 3 + b"\0" * 2000
    coded = encode(content)
    assert decode(coding, [coded[at : at + 1] for at in range(len(coded))]) == content


@pytest.mark.parametrize("name", ENCODERS)
def test_every_cut_off_end_is_noticed(name: str) -> None:
    coding, encode = ENCODERS[name]
    coded = encode(b"some content, " * 20 + bytes(range(256)))
    for end in range(1, len(coded)):
        assert failure(coding, [coded[:end]]) == "early-eof", end
        assert failure(coding, [coded[: end // 2], coded[end // 2 : end]], 5) == "early-eof", end


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("behind", [b"\0", b"garbage", b"\r\n", b"<!-- added by a proxy -->"])
def test_whatever_stands_behind_the_end_is_noticed(name: str, behind: bytes) -> None:
    coding, encode = ENCODERS[name]
    coded = encode(b"content" * 50)
    expected = {"coding-damaged"}
    if coding in ONE_AFTER_THE_OTHER:
        expected.add("early-eof")  # it may have been the beginning of one more
    assert failure(coding, [coded + behind]) in expected
    assert failure(coding, [coded, behind]) in expected
    assert failure(coding, [coded, *[bytes([byte]) for byte in behind]], 3) in expected


@given(st.binary(min_size=1, max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_garbage_ends_in_an_error_of_ours(data: bytes, places: list[int]) -> None:
    for coding in CODINGS:
        whole = failure(coding, [data])
        assert whole in ("", "early-eof", "coding-damaged")
        assert failure(coding, cut(data, places)) == whole


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_bit_is_noticed_where_there_is_a_checksum(place: int, flip: int) -> None:
    content = b"".join(b"line %d\n" % number for number in range(50))
    for name in ("gzip", "deflate, framed", "zstd, checked"):
        coding, encode = ENCODERS[name]
        coded = bytearray(encode(content))
        coded[place % len(coded)] ^= flip
        try:
            assert decode(coding, [bytes(coded)]) == content  # a bit that means nothing, such as gzip's time
        except FetchError as error:
            assert error.entry.name in ("coding-damaged", "early-eof", "body-too-long")


@pytest.mark.parametrize("name", ["gzip", "deflate, framed", "deflate, bare", "brotli", "zstd"])
def test_a_bomb_takes_neither_memory_nor_more_than_it_may(name: str) -> None:
    coding, encode = ENCODERS[name]
    bomb = encode(b"\0" * 200_000_000)

    class Counting(Sink):
        bytes_got = 0
        longest = 0

        def write(self, data: bytes) -> None:
            self.bytes_got += len(data)
            self.longest = max(self.longest, len(data))

    for bytes_max, ratio_max, reason in ((50_000_000, 10**9, "when it is decoded"), (10**9, 200, "200 times")):
        sink = Counting()
        tracemalloc.start()
        try:
            with pytest.raises(FetchError, match=reason) as caught:
                for at in range(0, len(bomb), PIECE_BYTES):
                    decoding = DecodingSink(sink, coding, bytes_max, ratio_max) if not at else decoding  # noqa: F821
                    decoding.write(bomb[at : at + PIECE_BYTES])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert caught.value.entry.name == "body-too-long"
        assert sink.bytes_got <= max(RATIO_FREE_BYTES, min(bytes_max, ratio_max * min(len(bomb), PIECE_BYTES)))
        assert sink.longest <= 2 * PIECE_BYTES
        assert peak < 2_000_000


def test_zstd_with_a_huge_window_is_refused() -> None:
    content = bytes(range(256)) * 100
    for log, error in ((23, ""), (24, "coding-damaged"), (27, "coding-damaged")):
        compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: log})
        # In two steps, so that the length is not known when the window is chosen.
        assert failure("zstd", [compressor.compress(content), compressor.flush()]) == error


def test_empty_frames_of_zstd_are_counted() -> None:
    for frame in (zstd.compress(b""), b"\x50\x2a\x4d\x18\0\0\0\0"):
        assert failure("zstd", [frame * ZSTD_FRAMES_MAX]) == ""
        assert failure("zstd", [frame * (ZSTD_FRAMES_MAX + 1)]) == "coding-damaged"


def test_compressible_content_is_no_bomb() -> None:
    page = b"".join(b"<tr><td>%d</td><td>0</td><td>0</td><td></td></tr>\n" % number for number in range(100_000))
    sink = Sink()
    decoding = DecodingSink(sink, "gzip", 1 << 26, 200)
    decoding.write(gzip.compress(page, 6))
    decoding.finish()
    assert sink.content == page


def test_nothing_at_all_is_empty_content() -> None:
    for coding in CODINGS:
        assert decode(coding, []) == b""
        assert decode(coding, [b""]) == b""


def test_a_full_disk_is_not_taken_for_damage() -> None:
    for name in ("gzip", "brotli", "zstd"):
        coding, encode = ENCODERS[name]
        with pytest.raises(OSError, match="No space"):
            DecodingSink(Sink(room=10), coding, MANY, MANY).write(encode(b"x" * 100))


@pytest.mark.parametrize(
    ("values", "mimetype", "coding"),
    [
        ([b"gzip"], "text/html", "gzip"),
        ([b" GZip "], "", "gzip"),
        ([b"x-gzip"], "text/html", "gzip"),
        ([b"identity"], "text/html", ""),
        ([b""], "text/html", ""),
        ([b"identity", b"br"], "text/html", "br"),
        ([b"identity, deflate"], "text/html", "deflate"),
        ([b"zstd"], "text/html", "zstd"),
        ([b"gzip"], "application/gzip", ""),
        ([b"x-gzip"], "application/x-gzip", ""),
        ([b"br"], "application/gzip", "br"),
    ],
)
def test_which_coding(values: list[bytes], mimetype: str, coding: str) -> None:
    assert coding_of(values, mimetype) == coding


@pytest.mark.parametrize("values", [[b"compress"], [b"gzip, gzip"], [b"gzip", b"br"], [b"br, gzip"], [b"\xff" * 500]])
def test_codings_that_were_not_asked_for(values: list[bytes]) -> None:
    with pytest.raises(FetchError) as caught:
        coding_of(values, "text/html")
    assert caught.value.entry.name == "bad-coding"
    assert len(caught.value.text) < 400


def test_a_decoder_says_when_it_is_complete() -> None:
    for coding, encode in ENCODERS.values():
        decoder = make_decoder(coding)
        assert not decoder.complete
        assert b"".join(decoder.pieces(encode(b"abc"))) == b"abc"
        assert decoder.complete
