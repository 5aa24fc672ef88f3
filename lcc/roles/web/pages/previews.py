"""What is cached of a URL: text as text, pictures as pictures.

The content comes from strangers, and is never a page of this site: text is escaped, and pictures are sent with a
policy under which they are nothing else.
"""

from __future__ import annotations

import codecs
from typing import Any

from lcc.client.content import ContentGone, ContentUnavailable
from lcc.model import CachedUrl
from lcc.roles.front import printable
from lcc.roles.web.pages.base import MonitorPage
from lcc.storage.views.selected import url
from lcc.transport.http.replies import HttpError, reply
from lcc.transport.http.security import set_page_headers
from lcc.transport.http.server import BodyRequest

TEXT_BYTES = 1 << 16
"""Of a text that is shown."""
PICTURE_BYTES_MAX = 8 << 20
PICTURE_POLICY = "sandbox; default-src 'none'"
PICTURES = frozenset(f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "avif", "bmp", "x-icon"))
"""Types that cannot hold scripts."""
_TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/x-ndjson")
_TEXT_ENDS = ("+xml", "+json")


def is_text(mimetype: str) -> bool:
    """Whether content of this type can be read by people."""
    return mimetype.startswith(_TEXTS) or mimetype.endswith(_TEXT_ENDS)


class _ContentPage(MonitorPage):
    """A page about what is cached under a key."""

    def takes(self, request: Any) -> bool:
        return len(request.postpath) == 1

    async def row(self, request: BodyRequest) -> CachedUrl:
        """
        :raises HttpError: nothing is cached under the key that the path ends with.
        """
        (text,) = request.postpath or [b""]
        try:
            key = bytes.fromhex(text.decode("ascii"))
        except ValueError:
            key = b""
        found: CachedUrl | None = await self.monitor.database.interact(url, key)
        if found is None or found.fetched_machineid is None or found.fetched_fileid is None:
            raise HttpError(404, "Nothing is cached here (any more).")
        return found

    async def content(self, row: CachedUrl, bytes_max: int) -> bytes:
        """The beginning of it.

        :raises HttpError: it cannot be read.
        """
        try:
            opened = await self.monitor.content.open(
                row.fetched_machineid or 0, row.fetched_fileid or 0, 0, bytes_max
            )
            return await opened.read(bytes_max)
        except ContentGone:
            raise HttpError(
                404, "The content was replaced or deleted meanwhile. Reload the page of the URL."
            ) from None
        except ContentUnavailable as error:
            text = f"The content cannot be read from machine {row.fetched_machineid}: {error}."
            raise HttpError(503, text) from None


class PreviewPage(_ContentPage):
    """``/preview/KEY``."""

    async def get(self, request: BodyRequest) -> None:
        row = await self.row(request)
        text = None
        if is_text(row.mimetype) and row.length:
            text = _decoded(await self.content(row, TEXT_BYTES), row.charset)
        self.front.page(
            request,
            "preview",
            "Cached content",
            row=row,
            text=text,
            cut=(row.length or 0) > TEXT_BYTES,
            is_picture=row.mimetype in PICTURES and 0 < (row.length or 0) <= PICTURE_BYTES_MAX,
        )


class PicturePage(_ContentPage):
    """``/picture/KEY``: the content of a picture."""

    async def get(self, request: BodyRequest) -> None:
        row = await self.row(request)
        if row.mimetype not in PICTURES or (row.length or 0) > PICTURE_BYTES_MAX:
            raise HttpError(404, "This is no picture that can be shown.")
        data = await self.content(row, PICTURE_BYTES_MAX)
        set_page_headers(request, self.front.secure, PICTURE_POLICY)
        reply(request, 200, row.mimetype, data, {})


def _decoded(data: bytes, charset: str) -> str:
    try:
        codec = codecs.lookup(charset or "utf-8")
        text = data.decode(codec.name, "replace")
    except (LookupError, ValueError):
        text = data.decode("utf-8", "replace")
    return "\n".join(map(printable, text.splitlines()))
