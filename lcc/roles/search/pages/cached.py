"""``/cached/KEY``: the copy of a page in the cache, in a frame that may do nothing; ``/copy/KEY``: what is in it.

A copy is what strangers wrote.  The frame is a sandbox, and so is the document itself (also where somebody opens it
alone): no script runs, no form is sent, nothing is loaded, and no other page takes its place.  No policy keeps a
``<link rel=preconnect>``, or a frame, from connecting, so there are none.  What browsers do not show without
plugins is given as a file.  HTML is sent in UTF-8, whatever it was in, so that browsers read what was looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twisted.internet.interfaces import IReactorTime

from lcc.client.blocking import Gone
from lcc.domain.fetches.robots_rules import AGENT
from lcc.model.headers import pairs_of_lines
from lcc.model.states import CACHED
from lcc.roles.front import printable
from lcc.roles.search.index import NotOpen
from lcc.roles.search.pages.base import Front, SearchFrontPage, shown_address
from lcc.roles.search.readers import Reader
from lcc.search.interfaces import IndexDamaged
from lcc.search.texts import wants_no_copy
from lcc.spider.extractors.found import Document
from lcc.spider.extractors.html import in_utf8
from lcc.transport.http.replies import HttpError
from lcc.transport.http.security import PAGE_HEADERS
from lcc.transport.http.server import BodyRequest
from lcc.transport.http.streaming import HttpWriter

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
    rb"<(%s)." % b"|".join(b"%s(?=%s)" % (name[:-1], name[-1:]) for name in map(str.encode, _CONNECTING)),
    re.IGNORECASE,
)
"""Their names without the last letter; and that."""
_ROBOT = AGENT.lower()
_PIECE_BYTES = 1 << 17
HTML_BYTES_MAX = 4 << 20
"""Of a copy that is shown as HTML."""
TEXT_CHARS_MAX = 100_000
"""Of a text without its page."""
TOO_LONG = "This page is too long to be shown."
NO_COPY = "This page asks that no copy of it is shown."
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
        if wants_no_copy(_document(found), _ROBOT):
            raise HttpError(404, NO_COPY)
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
            text=await self.front.in_thread(printable, text[:TEXT_CHARS_MAX]),
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
        charset, size_bytes = row["charset"], content.size_bytes
        html = None
        if kind == _SHOWN_HTML:
            if size_bytes > HTML_BYTES_MAX:
                content.close()
                raise HttpError(404, TOO_LONG)
            html = await self.front.in_thread(_shown, _document(row, await content.read(HTML_BYTES_MAX)))
            if html is None:
                raise HttpError(404, NO_COPY)
            channel = request.channel
            if channel is None:
                return
            charset, size_bytes = "utf-8", len(html)
        parameter = f"; charset={charset}" if charset else ""
        request.setHeader("content-type", f"{kind}{parameter}" if kind else "application/octet-stream")
        request.setHeader("content-disposition", "inline" if kind else f'attachment; filename="{row["key"][:12]}"')
        headers = PAGE_HEADERS | {
            "content-security-policy": COPY_POLICY,
            "x-frame-options": "SAMEORIGIN",
            "x-dns-prefetch-control": "off",
            "content-length": str(size_bytes),
        }
        for name, value in headers.items():
            request.setHeader(name, value)
        if request.method == b"HEAD":
            if html is None:
                content.close()
            request.finish()
            return
        writer = HttpWriter(request, self._clock, self._stall)
        if html is not None:
            writer.write(html)
        else:
            await content.pipe_to(writer)
        writer.finish()


def _document(row: dict[str, Any], content: bytes = b"") -> Document:
    headers = pairs_of_lines(row["headers"] or "")
    return Document(row["curl"], row["mimetype"], row["charset"] or "", headers, content)


def _shown(document: Document) -> bytes | None:
    """HTML as it is shown; None: it asks not to be."""
    return None if wants_no_copy(document, _ROBOT) else unconnected(document.content, document.charset)


def unconnected(content: bytes, charset: str) -> bytes:
    """HTML in UTF-8, in which elements that connect have become elements that mean nothing.

    In other encodings, such as ISO-2022-JP, a browser would read names of elements that no byte spells.

    :param charset: as its site says; empty: it does not.
    """
    return b"".join(_ELEMENT.sub(rb"<\1x", piece) for piece in _pieces(in_utf8(content, charset)[0]))


def _pieces(content: bytes) -> Iterator[bytes]:
    """Of a length that lets other threads work in between; no element begins in one and ends in another."""
    begin = 0
    while begin < len(content):
        end = content.find(b"<", begin + _PIECE_BYTES)
        end = len(content) if end < 0 else end
        yield content[begin:end]
        begin = end


def kind_shown(mimetype: str) -> str:
    """The type that a copy of this type is shown as; empty: it is not shown."""
    if mimetype in _HTML:
        return _SHOWN_HTML  # XML would have other names for elements of HTML
    return "text/plain" if mimetype.startswith("text/") or mimetype.endswith(("/xml", "+xml")) else ""
