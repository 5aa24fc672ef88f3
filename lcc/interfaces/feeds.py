"""Plugins of the feed worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zope.interface import Attribute, Interface

from lcc.model.feeds import FeedInfo, FeedItem


class IFeedPlugin(Interface):
    """Says what the feed worker does in each of its stages: a ``twisted.plugin`` in ``lcc/feeds/plugins``
    (doc/feeds.md).

    One object serves many runs: what belongs to one is kept in it (``run.own``, :class:`lcc.feeds.run.FeedRun`).  A
    stage that raises ends the job; nothing of it takes effect then.  Most plugins extend one of ours:
    ``lcc.feeds.default.DefaultPlugin`` has all stages.
    """

    name: str = Attribute("Names it among all plugins; ``lcc-admin feed add --plugin`` names it.")
    summary: str = Attribute("A few words for people.")

    def open(run: Any) -> None:
        """Initialise the worker; ``close`` is not called if this raises."""

    def fetch(run: Any) -> bytes:
        """The raw content at the URL: ``run.content()`` is what the robot fetched."""

    def fetchclean(run: Any, data: bytes) -> bytes:
        """Clean the content; what follows expects UTF-8."""

    def parse(run: Any, data: bytes) -> tuple[FeedInfo, Sequence[FeedItem]]:
        """What the feed says of itself, and its items."""

    def filter(run: Any, items: Sequence[FeedItem]) -> Iterable[FeedItem]:
        """The items that are not to be disregarded."""

    def clean(run: Any, item: FeedItem) -> FeedItem:
        """The item, cleaned."""

    def process(run: Any, item: FeedItem) -> FeedItem:
        """The item, processed in some way."""

    def storefeed(run: Any, info: FeedInfo, items: Sequence[FeedItem]) -> None:
        """Store what the feed says of itself."""

    def store(run: Any, item: FeedItem) -> None:
        """Store an item."""

    def close(run: Any) -> None:
        """Clean up the worker; called whatever else failed."""
