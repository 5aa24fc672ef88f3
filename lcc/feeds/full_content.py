"""The full content plugin: a feed whose items are kept in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from lcc.domain.items import choose_policy, identify
from lcc.feeds.feed import FeedPlugin
from lcc.feeds.run import FeedRun
from lcc.model.feeds import FeedInfo, FeedItem
from lcc.model.items import as_json, feed_object, item_object


class FullContentPlugin(FeedPlugin):
    """Stores the feed and its items; with ``--full-content``, puts the permalinks of new items into the queue."""

    name = "full-content"
    summary = "feed, and stores feed and items; with --full-content, has the permalinks fetched"

    def storefeed(self, run: FeedRun, info: FeedInfo, items: Sequence[FeedItem]) -> None:
        """Store what the feed says of itself; decide by what its items are known, if that is not decided yet."""
        run.policy = run.policy or choose_policy(items)
        run.own["identified"] = {id(item): names for *names, item in identify(items, run.policy)} if items else {}
        equal = len(items) - len(run.own["identified"])
        if equal:
            run.log(f"{equal} items are equal to others")
        run.store_object(feed_object(info, run.policy))

    def store(self, run: FeedRun, item: FeedItem) -> None:
        """Store an item."""
        names = run.own["identified"].get(id(item))
        if names is None:
            return  # an item equal to it is stored
        identity, digest = names
        wanted = run.permalinks and urlsplit(item.link).scheme in ("http", "https")
        run.store_object(item_object(self._record(run, item), identity, digest, item.link if wanted else ""))

    def _record(self, run: FeedRun, item: FeedItem) -> dict[str, Any]:
        """What is too long loses its content, then its summary and lists."""
        record = item.record()
        for left_out in ((), ("content",), ("summary", "text"), ("links", "enclosures", "categories", "places")):
            for name in left_out:
                record.pop(name, None)
            size = len(as_json(record).encode("utf-8", "replace"))
            if size <= run.limits.record_bytes_max:
                break
            run.log(f"the item {item.link or item.title!r:.200} has {size} bytes: cut")
        return record
