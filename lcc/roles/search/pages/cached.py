"""``/cached/KEY``: the copy of a page in the cache, in a frame that may do nothing; ``/copy/KEY``: what is in it.

A copy is what strangers wrote.  The frame is a sandbox, and so is the document itself (also where somebody opens it
alone): no script runs, no form is sent, nothing is loaded, and no other page takes its place.  No policy keeps a
``<link rel=preconnect>``, or a frame, from connecting, so there are none.  What browsers do not show without
plugins is given as a file.
"""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.interfaces import IConsumer, IReactorTime
from zope.interface import implementer

from lcc.client.blocking import Gone
from lcc.model.states import CACHED
from lcc.roles.front import printable
from lcc.roles.search.index import NotOpen
from lcc.roles.search.pages.base import Front, SearchFrontPage, shown_address
from lcc.roles.search.readers import Reader
from lcc.search.interfaces import IndexDamaged
from lcc.transport.http_replies import HttpError
from lcc.transport.http_security import PAGE_HEADERS
from lcc.transport.http_server import BodyRequest
from lcc.transport.http_streaming import HttpWriter

COPY_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
"""Styles and pictures that are in the page itself; nothing else."""
_KEY = re.compile(rb"[0-9a-f]{40}").fullmatch
_SHOWN_HTML = "text/html"
_HTML = frozenset({_SHOWN_HTML, "application/xhtml+xml"})
_CONNECTING = ("link", "iframe", "frame", "fencedframe", "object", "embed", "portal")
"""Elements for which browsers connect before any policy is asked."""
_ELEMENT = re.compile(
    rb"<\x00?(?:%s)" % b"|".join(rb"\x00?".join(map(str.encode, name)) for name in _CONNECTING), re.IGNORECASE
)
"""In ASCII and what contains it, and in UTF-16."""
_ELEMENT_BYTES = 24
"""At most."""
TEXT_CHARS_MAX = 100_000
"""Of a text without its page."""
NOT_FOUND = "There is no copy of this page, or it is in the cache no longer."


class _OfKey(SearchFrontPage):
    """A page about a cached one."""

    def takes(self, request: Any) -> bool:
        return True

    async def row(self, request: BodyRequest, reader: Reader) -> dict[str, Any]:
        """The row of the key, if who asks may see it.

        :raises HttpError: there is none, or it may not: nobody can tell which.
        """
        path = request.postpath or []
        if len(path) != 1 or not _KEY(path[0]):
            raise HttpError(404, NOT_FOUND)
        found = None
        rows = await self.front.client.urls(key=path[0].decode())
        async for row in rows:
            found = row
        if found is None or found["state"] != CACHED or not reader.access.sees(found["pid"]):
            raise HttpError(404, NOT_FOUND)
        return found


class CachedPage(_OfKey):
    """``/cached/KEY``."""

    async def answer(self, request: BodyRequest, reader: Reader) -> None:
        row = await self.row(request, reader)
        url = row["burl"] or row["curl"]
        shows = kind_shown(row["mimetype"]) != ""
        text = "" if shows else await self._text(row)
        self.front.page(
            request,
            "cached",
            f"Copy of {shown_address(url)}",
            url=url,
            browsable=row["burl"] is not None,
            row=row,
            shows=shows,
            text=printable(text[:TEXT_CHARS_MAX]),
            text_cut=len(text) > TEXT_CHARS_MAX,
            modified=row["mtime"],
            fetched=row["fetched_time"],
        )

    async def _text(self, row: dict[str, Any]) -> str:
        """What the index has as its text; empty: nothing, or nothing of this content."""
        try:
            return await self.front.engine.index.text(row["key"], row["change"])
        except (NotOpen, IndexDamaged):
            return ""


class CopyPage(_OfKey):
    """``/copy/KEY``.

    :param stall_seconds: who takes nothing for so long is dropped.
    """

    def __init__(self, front: Front, clock: IReactorTime, stall_seconds: float) -> None:
        super().__init__(front)
        self._clock = clock
        self._stall = stall_seconds

    async def answer(self, request: BodyRequest, reader: Reader) -> None:
        row = await self.row(request, reader)
        try:
            content = await self.front.client.content(row)
        except Gone:
            raise HttpError(404, NOT_FOUND) from None
        channel: Any = request.channel
        if channel is None:  # who asked has gone
            content.close()
            return
        kind = kind_shown(row["mimetype"])
        charset = f"; charset={row['charset']}" if row["charset"] else ""
        request.setHeader("content-type", f"{kind}{charset}" if kind else "application/octet-stream")
        request.setHeader("content-disposition", "inline" if kind else f'attachment; filename="{row["key"][:12]}"')
        headers = PAGE_HEADERS | {
            "content-security-policy": COPY_POLICY,
            "x-frame-options": "SAMEORIGIN",
            "x-dns-prefetch-control": "off",
            "content-length": str(content.size_bytes),
        }
        for name, value in headers.items():
            request.setHeader(name, value)
        if request.method == b"HEAD":
            content.close()
            request.finish()
            return
        writer = HttpWriter(request, self._clock, self._stall)
        if kind == _SHOWN_HTML:
            filtered = Unconnected(writer)
            await content.pipe_to(filtered)
            filtered.flush()
        else:
            await content.pipe_to(writer)
        writer.finish()


@implementer(IConsumer)
class Unconnected:
    """Passes HTML on, in which elements that connect have become elements that mean nothing; its length stays."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._rest = b""

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._writer.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        self._writer.unregisterProducer()

    def write(self, data: bytes) -> None:
        data = _ELEMENT.sub(lambda match: match[0][:-1] + b"x", self._rest + data)
        # What could be the beginning of another one waits.
        end = max(0, len(data) - _ELEMENT_BYTES + 1)
        self._rest = data[end:]
        self._writer.write(data[:end])

    def flush(self) -> None:
        """Pass on what is left."""
        self._writer.write(self._rest)


def kind_shown(mimetype: str) -> str:
    """The type that a copy of this type is shown as; empty: it is not shown."""
    if mimetype in _HTML:
        return _SHOWN_HTML  # XML would have other names for elements of HTML
    return "text/plain" if mimetype.startswith("text/") or mimetype.endswith(("/xml", "+xml")) else ""
