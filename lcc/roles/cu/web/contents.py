"""``/content/KEY``: the content of one URL, as it was fetched.

KEY is the ``key`` of a row.  ``/content?provider=N&curl=URL`` names the URL instead, with ``mimetype`` where the page
has several views.  With ``as=text`` it is the text of the page, without navigation and markup.  The entity tag is the
content's md5: it stays the same when the same content is fetched again.
"""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.http import datetimeToString
from twisted.web.server import Request

from lcc.client.content import Content, ContentGone, ContentOpener, ContentUnavailable
from lcc.domain.keys import url_key
from lcc.domain.mimetypes import normalise_mimetype
from lcc.domain.preconditions import PRECONDITION_FAILED, entity_tags, precondition
from lcc.domain.ranges import requested_range
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.insight.records import CACHED
from lcc.model import COUNTED, CachedUrl
from lcc.roles.access import Access
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.cache import Cache, at_home, row_of
from lcc.roles.cu.query import QueryError, parse_query
from lcc.roles.cu.web.listings import asked_pairs
from lcc.roles.cu.web.replies import Asked
from lcc.storage.tasks.feeds.item_views import text_of_page
from lcc.storage.views.selected import views
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import list_header, text_header
from lcc.transport.http.streaming import HttpWriter

_log = Logger()

ATTEMPTS = 3
"""How often a row is read again whose file has been replaced meanwhile."""
_KEY = re.compile(rb"[0-9a-f]{40}").fullmatch
_OCTETS = "application/octet-stream"
TEXT = "text"
"""The value of ``as``: the text of a page instead of its content."""


class Contents(Asked):
    """``GET /content``: the content of a row, or a part of it.

    :param client: reads content files.
    :param stall_seconds: who takes nothing for so long is dropped.
    """

    takes_path = True

    def __init__(
        self,
        cache: Cache,
        authenticator: Authenticator,
        client: ContentOpener,
        clock: IReactorTime,
        stall_seconds: float,
    ) -> None:
        super().__init__(cache, authenticator)
        self._client = client
        self._clock = clock
        self._stall = stall_seconds

    async def answer(self, request: Request, access: Access) -> None:
        if not access.content:
            raise HttpError(403, "this token is for rows only")
        kind = _asked_as(request)
        row = await self._row(request, access)
        for _ in range(ATTEMPTS):
            if row is None or not access.sees(row.pid):
                raise HttpError(404, "there is no such URL")
            if row.state != CACHED or row.fetched_fileid is None:
                raise HttpError(410, "it is in the cache no longer")
            if kind == TEXT:
                return await self._send_text(request, row)
            try:
                return await self._send(request, row)
            except ContentGone:
                # Replaced or deleted since the row was read.
                row = await row_of(self.cache, row.key)
            except ContentUnavailable as error:
                # Users elsewhere need not know addresses of the LCC's own network; lcc-admin show tells them.
                if request.channel is not None:  # else it is the user who has gone
                    _log.info("Cannot read content: {error}", error=error)
                raise HttpError(503, "its content cannot be read now", retry_after="5") from None
        raise HttpError(503, "its content is missing, or changes too fast", retry_after="5")

    async def _row(self, request: Request, access: Access) -> CachedUrl | None:
        if request.postpath:
            (key, *rest) = request.postpath
            if rest or not _KEY(key):
                raise HttpError(404, "a key is 40 hexadecimal digits, as in the rows")
            return await row_of(self.cache, bytes.fromhex(key.decode()))
        pairs, named = asked_pairs(request, "curl", "as")
        asked = parse_query(pairs).selection
        if "curl" not in named or asked.providers is None or len(asked.providers) != 1:
            raise QueryError(["name the URL: /content/KEY, or ?provider=N&curl=URL"])
        (pid,) = asked.providers
        if not access.sees(pid):
            return None  # before anything tells which views there are
        try:
            curl = normalise(named["curl"])
            mimetypes = [normalise_mimetype(each) for each in asked.mimetypes]
        except UrlError as error:
            raise QueryError([f"curl or mimetype: {error}"]) from None
        key = url_key(pid, curl, "")
        found = [
            row
            for row in await at_home(self.cache, pid, views, key)
            if row.curl == curl
            and row.source & (asked.sources or COUNTED)
            and (not mimetypes or row.mimetype in mimetypes)
        ]
        if len(found) > 1:
            raise QueryError([f"mimetype: one of {', '.join(row.mimetype for row in found)}"])
        return found[0] if found else None

    async def _send_text(self, request: Request, row: CachedUrl) -> None:
        """The text of a page, made of the content that is in the cache now."""
        for tasks in await self.cache.tasks(row.pid):
            found = await tasks.select(text_of_page, row.key)
            if found is not None and found.md5 == row.md5:
                break
        else:
            raise HttpError(404, "there is no text of this content (yet)")
        etag = f'"{row.md5}-text"'
        request.setHeader("etag", etag)
        request.setHeader("cache-control", "no-cache")
        known = list_header(request, "if-none-match") or ""
        if any(tag == etag for _, tag in entity_tags(known)):
            request.setResponseCode(304)
            request.finish()
            return
        body = found.text.text.encode("utf-8", "replace")
        request.setHeader("content-type", "text/plain; charset=utf-8")
        request.setHeader("content-security-policy", "sandbox")
        request.setHeader("x-content-type-options", "nosniff")
        request.setHeader("content-length", str(len(body)))
        if request.method != b"HEAD":
            request.write(body)
        request.finish()

    async def _send(self, request: Request, row: CachedUrl) -> None:
        size = row.length or 0
        etag = f'"{row.md5}"'
        request.setHeader("etag", etag)
        if row.mtime is not None:
            request.setHeader("last-modified", datetimeToString(row.mtime))
        ended = precondition(
            etag,
            row.mtime,
            if_match=list_header(request, "if-match"),
            if_none_match=list_header(request, "if-none-match"),
            if_modified_since=text_header(request, "if-modified-since"),
            if_unmodified_since=text_header(request, "if-unmodified-since"),
        )
        if ended == PRECONDITION_FAILED:
            raise HttpError(412, "the content is another one now")
        if ended:
            request.setResponseCode(ended)
            request.finish()
            return
        condition = text_header(request, "if-range")
        wanted = text_header(request, "range") if condition in (None, etag) else None
        part = requested_range(wanted, size)
        request.setHeader("accept-ranges", "bytes")
        if part is None:
            raise HttpError(416, f"the content has only {size} bytes", content_range=f"bytes */{size}")
        first, length = part
        content: Content | None = None
        if request.method != b"HEAD" and length:
            content = await self._open(row, first, length)
            channel: Any = request.channel
            if channel is None:  # the user has gone, and that came too late to cancel the opening
                content.drop()
                return
        if length != size:
            request.setResponseCode(206)
            request.setHeader("content-range", f"bytes {first}-{first + length - 1}/{size}")
        mimetype = row.mimetype or _OCTETS
        request.setHeader("content-type", f"{mimetype}; charset={row.charset}" if row.charset else mimetype)
        # It is what strangers wrote: no browser shall take it for a page of this server.
        request.setHeader("content-security-policy", "sandbox")
        request.setHeader("x-content-type-options", "nosniff")
        request.setHeader("content-length", str(length))
        if content is not None:
            writer = HttpWriter(request, self._clock, self._stall)
            await content.pipe_to(writer)
            writer.finish()
        else:
            request.finish()

    async def _open(self, row: CachedUrl, first: int, length: int) -> Content:
        machine, file = row.fetched_machineid or 0, row.fetched_fileid or 0
        whole = length == row.length
        content = await self._client.open(machine, file, first, None if whole else length)
        if content.size_bytes != length:
            content.drop()
            raise ContentUnavailable("the file is of another length than its row says")
        return content


def _asked_as(request: Request) -> str:
    values = request.args.get(b"as", [])
    if values not in ([], [TEXT.encode()]):
        raise QueryError([f"as: only {TEXT!r} is known"])
    return TEXT if values else ""
