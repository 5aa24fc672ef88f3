"""A package (tar) of an LCC, read as it comes: rows with their content, in bounded memory.

A manifest comes behind the content of its rows; until then content is held.  The LCC writes one after each few MB.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred

from lcc.client.ahead import Ahead
from lcc.client.blocking import NO_LCC, CacheError, CutOff, read_row
from lcc.model import CachedUrl
from lcc.model.headers import pairs_of_lines, stored_headers
from lcc.model.sources import parse_sources
from lcc.model.spider.links import Page
from lcc.transport.http.client import Answer, HttpFailed

AHEAD_BYTES = 1 << 20
"""Content that is taken from the connection before it is asked for, about."""
ROW_BYTES = 1000
"""What a row counts besides."""
MANIFEST_BYTES_MAX = 64 << 20
_BLOCK = 512
_OCTAL = re.compile(rb"[0-7]{1,12}").fullmatch
_BINARY = 0x80
"""In front of a size that has no place as text."""
_MANIFEST = b"manifest/"
_NOT_BROWSABLE = "-"


class _Member:
    """A member of the tar whose content is arriving.

    :ivar keep: bytes of it that are kept.
    :ivar left: bytes that are still to come, with those that fill the last block up.
    """

    def __init__(self, name: bytes, size_bytes: int, keep: int) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self.keep = min(keep, size_bytes)
        self.left = size_bytes + -size_bytes % _BLOCK
        self.pieces: list[bytes] = []

    @property
    def content(self) -> bytes:
        return b"".join(self.pieces)


class TarPages:
    """Takes a tar apart into pages.

    :param content_bytes_max: of a content; what is behind them is thrown away.
    :ivar end: the end mark; None: it has not come yet.
    """

    def __init__(self, content_bytes_max: int) -> None:
        self.end: dict[str, Any] | None = None
        self._content_bytes_max = content_bytes_max
        self._rest = b""
        self._member: _Member | None = None
        self._contents: dict[str, tuple[bytes, bool]] = {}
        """Content whose row has not come yet, by name in the tar, and whether it is whole."""

    def split(self, data: bytes) -> list[Page]:
        """The pages that are complete now.

        :raises CacheError: this is no package of an LCC.
        """
        pages: list[Page] = []
        at = 0
        if self._rest:
            data, self._rest = self._rest + data, b""
        while self.end is None:
            member = self._member
            if member is None:
                if len(data) - at < _BLOCK:
                    self._rest = data[at:]
                    break
                self._member = self._begin(data[at : at + _BLOCK])
                at += _BLOCK
                continue
            took = min(member.left, len(data) - at)
            if member.keep:
                kept = min(member.keep, took)
                member.pieces.append(data[at : at + kept])
                member.keep -= kept
            member.left -= took
            at += took
            if member.left:
                break
            self._member = None
            pages += self._ended(member)
        return pages

    def _begin(self, header: bytes) -> _Member:
        if header[257:262] != b"ustar":
            raise CacheError(NO_LCC)
        name, folder = header[:100].rstrip(b"\0"), header[345:500].rstrip(b"\0")
        size = header[124:136]
        octal = _OCTAL(size.rstrip(b"\0 "))
        if octal is None and size[0] != _BINARY:
            raise CacheError(NO_LCC)
        size_bytes = int.from_bytes(size[1:], "big") if octal is None else int(octal[0], 8)
        path = b"%s/%s" % (folder, name)
        if not path.startswith(_MANIFEST):
            return _Member(path, size_bytes, self._content_bytes_max)
        if size_bytes > MANIFEST_BYTES_MAX:
            raise CacheError(NO_LCC)
        return _Member(path, size_bytes, size_bytes)

    def _ended(self, member: _Member) -> list[Page]:
        content = member.content
        if not member.name.startswith(_MANIFEST):
            self._contents[member.name.decode("latin-1")] = content, len(content) == member.size_bytes
            return []
        rows = [read_row(line) for line in content.splitlines()]
        if rows and "next" in rows[-1]:
            self.end = rows.pop()
        try:
            return [self._page(row) for row in rows]
        except (KeyError, TypeError, ValueError):
            raise CacheError(NO_LCC) from None

    def _page(self, row: Mapping[str, Any]) -> Page:
        content, whole = (b"", True) if row["file"] is None else self._contents.pop(row["file"])
        return Page(cached_url(row), content, whole, row.get("missing", ""))


def cached_url(row: Mapping[str, Any]) -> CachedUrl:
    """The value of a row as content users get it.

    :raises KeyError, TypeError, ValueError: it is none.
    """
    curl = row["curl"]
    return CachedUrl(
        key=bytes.fromhex(row["key"]),
        pid=row["pid"],
        curl=curl,
        furl="" if row["furl"] == curl else row["furl"],
        burl=_NOT_BROWSABLE if row["burl"] is None else "" if row["burl"] == curl else row["burl"],
        mimetype=row["mimetype"],
        subtype=row["subtype"],
        md5=row["md5"] or "",
        length=row["len"],
        mtime=row["mtime"],
        fetched_time=row["fetched_time"],
        fetched_machineid=row["fetched_machineid"],
        fetched_fileid=row["fetched_fileid"],
        change=row["change"],
        state=row["state"],
        charset=row["charset"] or "",
        headers=stored_headers(pairs_of_lines(row.get("headers") or "")),
        confirmed_time=row["confirmed_time"],
        source=int(parse_sources(row["source"])) if row["source"] else 0,
        fetched_url=row["fetched_url"],
    )


class PageStream:
    """The pages of a package, in the order of change; iterate over it once (``async for``), or ``close`` it.

    Deleted rows are among them (``page.row.state``), and rows whose content cannot be read now (``page.missing``);
    both without content.

    :ivar token: after the last page, where to continue; None: the request was not for changes.
    """

    def __init__(self, answer: Answer, content_bytes_max: int) -> None:
        self.token: str | None = None
        self._tar = TarPages(content_bytes_max)
        self._pages = Ahead(self._tar.split, _weigh, AHEAD_BYTES)
        self._body: Deferred[int] = answer.pipe_to(self._pages)
        self._body.addBoth(self._pages.end)

    def __aiter__(self) -> AsyncIterator[Page]:
        return self._all()

    async def _all(self) -> AsyncIterator[Page]:
        try:
            while True:
                try:
                    page = await self._pages.next()
                except HttpFailed as error:
                    if self._tar.end is None:
                        raise CutOff(str(error)) from error
                    page = None  # all was read
                if page is None:
                    break
                yield page
            if self._tar.end is None:
                raise CutOff("the package ends without an end mark")
            self.token = self._tar.end["next"]
        finally:
            self.close()

    def close(self) -> None:
        """Stop reading."""
        with suppress(HttpFailed):
            self._body.cancel()


def _weigh(page: Page) -> int:
    return ROW_BYTES + len(page.content)


async def batches(stream: PageStream, size_bytes: int) -> AsyncIterator[list[Page]]:
    """The pages of a stream, so many bytes of content at a time, about."""
    batch: list[Page] = []
    size = 0
    async for page in stream:
        batch.append(page)
        size += _weigh(page)
        if size >= size_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
