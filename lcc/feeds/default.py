"""The default plugin: what every feed worker does unless its plugin does something else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.feeds.encodings import to_utf8
from lcc.feeds.faults import FeedFault
from lcc.feeds.plain import plain_text
from lcc.feeds.run import FeedRun
from lcc.feeds.words import tidy
from lcc.interfaces import IFeedPlugin
from lcc.model.feeds import Body, FeedInfo, FeedItem

FUTURE_SECONDS = 86400
"""A date further in the future is none."""
TITLE_CHARS_MAX = 1000


@implementer(IPlugin, IFeedPlugin)
class DefaultPlugin:
    """Makes UTF-8 of text, and plain text of items; finds, keeps and stores nothing."""

    name = "default"
    summary = "converts text to UTF-8, and items to plain text"

    def open(self, run: FeedRun) -> None:
        """Initialise the worker."""

    def fetch(self, run: FeedRun) -> bytes:
        """The raw content."""
        raise FeedFault(f"the plugin {self.name} fetches nothing")

    def fetchclean(self, run: FeedRun, data: bytes) -> bytes:
        """The content in UTF-8."""
        return to_utf8(data, run.content_type)[0]

    def parse(self, run: FeedRun, data: bytes) -> tuple[FeedInfo, Sequence[FeedItem]]:
        """Feed info and items."""
        return FeedInfo(), ()

    def filter(self, run: FeedRun, items: Sequence[FeedItem]) -> Iterable[FeedItem]:
        """The items that are not to be disregarded."""
        return items

    def clean(self, run: FeedRun, item: FeedItem) -> FeedItem:
        """The item with a plain title and text, and without dates that cannot be."""
        return attrs.evolve(
            item,
            title=_plain_title(item),
            title_type="text/plain",
            text=_plain(item.content if item.content.value else item.summary, run.limits.text_chars_max),
            published=_possible(item.published, run.now),
            updated=_possible(item.updated, run.now),
        )

    def process(self, run: FeedRun, item: FeedItem) -> FeedItem:
        """The item, processed in some way."""
        return item

    def storefeed(self, run: FeedRun, info: FeedInfo, items: Sequence[FeedItem]) -> None:
        """Store what the feed says of itself."""

    def store(self, run: FeedRun, item: FeedItem) -> None:
        """Store an item."""

    def close(self, run: FeedRun) -> None:
        """Clean up the worker."""


def _plain_title(item: FeedItem) -> str:
    if "html" not in item.title_type:
        return item.title
    return _plain(Body(item.title), TITLE_CHARS_MAX).replace("\n", " ")


def _plain(body: Body, chars_max: int) -> str:
    if "<" not in body.value and "&" not in body.value:
        return tidy(body.value.strip(), chars_max)
    if "html" not in body.type:
        return tidy(body.value.strip(), chars_max)
    return tidy(plain_text(body.value, chars_max).text, chars_max)


def _possible(time: int | None, now: int) -> int | None:
    return time if time is None or time <= now + FUTURE_SECONDS else None
