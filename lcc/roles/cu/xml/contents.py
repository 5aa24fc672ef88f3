"""Rows with their content, in base64, in pieces of bounded length.

Each piece is asked for by itself and held whole: a content user that does not read keeps no connection to a content
port busy, and what it costs is one piece.
"""

from __future__ import annotations

import binascii

import attrs

from lcc.client.content import ContentGone, ContentOpener, ContentUnavailable
from lcc.insight.records import CACHED, user_record
from lcc.model import CachedUrl
from lcc.protocols.cu import CONTENT_CLOSE, content_missing, content_open
from lcc.roles.cu.cache import Cache, row_of
from lcc.roles.cu.formats import row_attributes
from lcc.roles.cu.query import Query
from lcc.roles.cu.xml.writer import XmlWriter

PIECE_BYTES = 196_608
"""Of content; a multiple of three, so that its base64 needs no padding."""
ATTEMPTS = 3
"""How often a row is read again whose file has been replaced meanwhile."""
MACHINE_FAILURES = 3
"""After so many failures in a row a machine's content is not asked for again in the same answer."""

GONE, UNAVAILABLE = "gone", "unavailable"


class ContentWriter:
    """Writes rows with their content.

    :param query: what they are the answer to.
    """

    def __init__(self, cache: Cache, client: ContentOpener, writer: XmlWriter, query: Query) -> None:
        self._cache = cache
        self._client = client
        self._writer = writer
        self._query = query
        self._failures: dict[int, int] = {}

    async def write(self, row: CachedUrl) -> None:
        """Write a row: as it is now, if its file has been replaced meanwhile."""
        for _ in range(ATTEMPTS):
            if row.state != CACHED:
                self._writer.write(f"{_tag(row)}/>\n")
                return
            if row.fetched_fileid is None:
                break  # lost by a disk
            try:
                first = await self._first_piece(row)
            except ContentUnavailable:
                self._write_missing(row, UNAVAILABLE)
                return
            except ContentGone:
                now = await self._now(row)
                if now is None:
                    return
                row = now
                continue
            await self._write_content(row, first)
            return
        self._write_missing(row, GONE)

    async def _now(self, row: CachedUrl) -> CachedUrl | None:
        """The row as it is now; None: it no longer belongs to the answer."""
        now = await row_of(self._cache, row.key)
        held = now is not None and self._query.selection.holds(now)
        if self._query.since is None:
            return now if held and now is not None and now.state == CACHED else None
        return now if held else attrs.evolve(now or row, state="deleted")

    async def _first_piece(self, row: CachedUrl) -> bytes:
        size, machine = row.length or 0, row.fetched_machineid or 0
        if not size:
            return b""
        if self._failures.get(machine, 0) >= MACHINE_FAILURES:
            raise ContentUnavailable("this machine has failed before")
        try:
            first = await self._read(row, 0)
        except ContentUnavailable:
            self._failures[machine] = self._failures.get(machine, 0) + 1
            raise
        self._failures.pop(machine, None)
        return first

    async def _write_content(self, row: CachedUrl, data: bytes) -> None:
        writer, size = self._writer, row.length or 0
        writer.write(f"{_tag(row)}>\n{content_open(size)}{_base64(data)}")
        done, broken = len(data), ""
        while done < size:
            await writer.room()
            try:
                data = await self._read(row, done)
            except ContentGone:
                broken = content_missing(GONE)
                break
            except ContentUnavailable:
                broken = content_missing(UNAVAILABLE)
                break
            writer.write(_base64(data))
            done += len(data)
        writer.write(f"{CONTENT_CLOSE}{broken}\n</url>\n")
        await writer.room()

    async def _read(self, row: CachedUrl, first: int) -> bytes:
        size = row.length or 0
        length = min(PIECE_BYTES, size - first)
        part = None if length == size else length
        content = await self._client.open(row.fetched_machineid or 0, row.fetched_fileid or 0, first, part)
        if content.whole_bytes != size or content.size_bytes != length:
            content.drop()
            raise ContentUnavailable("the file is of another length than its row says")
        return await content.read(length)

    def _write_missing(self, row: CachedUrl, reason: str) -> None:
        self._writer.write(f"{_tag(row)}>\n{content_missing(reason)}\n</url>\n")


def _tag(row: CachedUrl) -> str:
    return f"<url{row_attributes(user_record(row))}"


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii") + "\n"
