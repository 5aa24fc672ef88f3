"""What a role and its extraction workers send each other: frames, each a length and as many bytes.

To a worker: ``[[URL, TYPE, CHARSET, HEADERS, WHOLE, BYTES], …]`` as JSON in a frame, then the contents of all
pages, one behind the other, in a second one.  From it: first ``{"types": […]}``, what it reads; then for each page,
in order, a frame with the fields of a :class:`~lcc.model.spider.links.PageLinks` as JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence

from lcc.model.spider.links import ExtractionLimits, Link, Page, PageLinks
from lcc.spider.extractors.found import Document

_LENGTH = struct.Struct(">I")
FRAME_BYTES_MAX = 1 << 28
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


class BadFrame(Exception):
    """The peer sends what is no message."""


class Frames:
    """Takes a stream apart into frames."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = _LENGTH.size

    def receive(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete with this data.

        :raises BadFrame: one is too long.
        """
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return
        whole = b"".join(self._pieces)
        at, end = 0, len(whole)
        self._wanted = _LENGTH.size
        while end - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(whole, at)
            if length > FRAME_BYTES_MAX:
                raise BadFrame(f"a frame of {length} bytes")
            begin = at + _LENGTH.size
            if end - begin < length:
                self._wanted = _LENGTH.size + length
                break
            at = begin + length
            yield whole[begin:at]
        self._pieces = [whole[at:]]
        self._size = end - at


def frame(data: bytes) -> bytes:
    """The data as a frame."""
    return _LENGTH.pack(len(data)) + data


def write_pages(pages: Sequence[Page], types: frozenset[str], limits: ExtractionLimits) -> bytes:
    """Two frames for pages; contents that nobody reads are left out.

    :param types: what the worker reads.
    """
    heads = []
    contents = []
    for page in pages:
        row = page.row
        read = row.mimetype in types
        content = page.content[: limits.document_bytes] if read else b""
        whole = page.whole and len(content) == len(page.content)
        heads.append((page.url, row.mimetype, row.charset, row.headers, whole or not read, len(content)))
        contents.append(content)
    return frame(_encode(heads).encode()) + frame(b"".join(contents))


def read_pages(heads: bytes, contents: bytes) -> Iterator[Document]:
    """What :func:`write_pages` wrote.

    :raises ValueError: it did not.
    """
    at = 0
    for url, mimetype, charset, headers, whole, size in json.loads(heads):
        flat = json.loads(headers) if headers else ()
        yield Document(
            url, mimetype, charset, tuple(zip(flat[::2], flat[1::2], strict=True)), contents[at : at + size], whole
        )
        at += size


def write_links(found: PageLinks) -> bytes:
    """A frame for what was found on a page."""
    return frame(_encode(found).encode())


def read_links(data: bytes) -> PageLinks:
    """What :func:`write_links` wrote.

    :raises ValueError: it did not.
    """
    try:
        links, base, nofollow, noindex, truncated, faults, *more = json.loads(data)
        return PageLinks(tuple(map(Link._make, links)), base, nofollow, noindex, truncated, tuple(faults), *more)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def write_types(types: Iterable[str]) -> bytes:
    """A frame that says what a worker reads."""
    return frame(_encode({"types": sorted(types)}).encode())


def read_types(data: bytes) -> frozenset[str]:
    """What :func:`write_types` wrote.

    :raises ValueError: it did not.
    """
    try:
        return frozenset(json.loads(data)["types"])
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from None
