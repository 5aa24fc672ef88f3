"""Many feeds at once: those that a page names, and lists of other feed readers (OPML)."""

from __future__ import annotations

import io

from lcc.insight.feed_lists import (
    LIST_TITLE,
    FeedList,
    compare_list,
    in_chunks,
    order_feeds,
    outline_page,
    said_of,
)
from lcc.insight.task_inputs import InputError, feed_url
from lcc.model.feed_options import FeedOptions
from lcc.protocols.opml import OpmlError, Outline, read_opml, write_opml
from lcc.roles.web.discovery import NotDiscovered
from lcc.roles.web.pages.orders import OrderingPage, bad_input
from lcc.storage.tasks.feeds.views import feed_urls
from lcc.transport.http.pages import read_upload
from lcc.transport.http.replies import HttpError, reply
from lcc.transport.http.server import BodyRequest

OPML_BYTES_MAX = 4 << 20
"""Of a list that is imported: some 25,000 feeds."""
IMPORT_PATH = "feeds-import"
_REFUSED_SHOWN = 100


class DiscoverPage(OrderingPage):
    """``/feed-discover``: the feeds that a page names, each with a button that adds it."""

    methods = (b"POST",)

    async def post(self, request: BodyRequest) -> None:
        try:
            url = feed_url(self.sent(request).get("page", ""))
        except InputError as error:
            raise bad_input(error) from None
        fault = ""
        found: list[dict[str, str]] = []
        try:
            found = await self.monitor.discovery.feeds_of(url)
        except NotDiscovered as error:
            fault = str(error)
        known = await self.asked(feed_urls)
        self.front.page(request, "feed_discover", "Feeds of a page", page=url, found=found, fault=fault, known=known)


class ExportPage(OrderingPage):
    """``/feeds.opml``: all feeds, as other feed readers import them."""

    async def get(self, request: BodyRequest) -> None:
        outlines: list[Outline] = []
        after: int | None = 0
        while after is not None:
            page = await self.asked(outline_page, after)
            outlines += page.outlines
            after = page.last
        data = "".join(write_opml(LIST_TITLE, outlines)).encode()
        named = {"content-disposition": 'attachment; filename="feeds.opml"', "cache-control": "no-store"}
        reply(request, 200, "text/x-opml; charset=utf-8", data, {**named, "x-content-type-options": "nosniff"})


class ImportPage(OrderingPage):
    """``/feeds-import``: adds the feeds of a list; those that are there already stay as they are."""

    methods = (b"GET", b"HEAD", b"POST")

    async def get(self, request: BodyRequest) -> None:
        self.front.page(request, "feeds_import", "Import feeds", bytes_max=OPML_BYTES_MAX, said="", refused=())

    async def post(self, request: BodyRequest) -> None:
        fields = self.sent(request, read_upload)
        options = FeedOptions(full_content=bool(fields.get("full_content")))
        found = await self.monitor.in_thread(_compare, fields.get("file", ""), await self.asked(feed_urls))
        if isinstance(found, str):
            raise HttpError(400, f"Not done: {found}. Go back and give a list as OPML, as feed readers export it.")
        for some in in_chunks(found.new):
            await self.monitor.tasks.write(order_feeds, some, options, None, int(self.monitor.now()))
        if found.new:
            self.ordered(request, "import", f"{len(found.new)} feeds")
        refused = found.refused[:_REFUSED_SHOWN]
        self.front.page(
            request, "feeds_import", "Import feeds", bytes_max=OPML_BYTES_MAX, said=said_of(found), refused=refused
        )


def _compare(text: str, known: dict[str, int]) -> FeedList | str:
    """In a thread; a text: it is no list, and why."""
    try:
        return compare_list(read_opml(io.BytesIO(text.encode("latin-1"))), known)
    except OpmlError as error:
        return str(error)
