"""The full content plugin: a feed whose items are kept in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from lcc.domain.tasks.items import choose_policy, identify
from lcc.feeds.feed import FeedPlugin
from lcc.feeds.run import FeedRun
from lcc.model.feed_options import ANYWHERE, SAME_HOST
from lcc.model.feeds import FeedInfo, FeedItem
from lcc.model.items import as_json, feed_object, item_object

OVERHEAD_BYTES = 300
"""Of an item beside its record."""
RESERVED_BYTES = 1000
"""For each item that is still to come: it has room for its title and link at least, as a rule."""


class FullContentPlugin(FeedPlugin):
    """Stores the feed and its items; with ``--full-content``, puts the permalinks of new items into the queue."""

    name = "full-content"
    summary = "feed, and stores feed and items; with --full-content, has the permalinks fetched"

    def storefeed(self, run: FeedRun, info: FeedInfo, items: Sequence[FeedItem]) -> None:
        """Store what the feed says of itself; decide by what its items are known, if that is not decided yet."""
        run.policy = run.policy or choose_policy(items)
        run.own["identified"] = {id(item): names for *names, item in identify(items, run.policy)} if items else {}
        run.own["waiting"] = len(run.own["identified"])
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
        record = self._record(run, item)
        if record is not None:
            run.store_object(item_object(record, identity, digest, _permalink(run, item.link)))

    def close(self, run: FeedRun) -> None:
        """Say what was left out."""
        if run.own.get("left_out"):
            run.log(f"{run.own['left_out']} items are left out: all together are longer than can be stored at once")

    def _record(self, run: FeedRun, item: FeedItem) -> dict[str, Any] | None:
        """What is too long loses its content, then its summary and lists; None: there is no room at all."""
        record = item.record()
        run.own["waiting"] -= 1
        left = run.limits.stored_bytes_max - run.own.setdefault("stored_bytes", 0)
        most = min(run.limits.record_bytes_max, left - RESERVED_BYTES * run.own["waiting"])
        for left_out in ((), ("content",), ("summary", "text"), ("links", "enclosures", "categories", "places")):
            for name in left_out:
                record.pop(name, None)
            size = len(as_json(record).encode("utf-8", "replace")) + OVERHEAD_BYTES
            if size <= most:
                break
        if size <= min(left, run.limits.record_bytes_max):
            run.own["stored_bytes"] += size
            return record
        run.own["left_out"] = run.own.get("left_out", 0) + 1
        return None


def _permalink(run: FeedRun, link: str) -> str:
    """The link, if it is to be fetched; else empty."""
    host = _host(link)
    wanted = run.permalinks == ANYWHERE or (run.permalinks == SAME_HOST and host in map(_host, (run.url, run.base)))
    return link if host and wanted else ""


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_page = parts.scheme in ("http", "https") and "@" not in parts.netloc  # no site has another's password
        return parts.hostname or "" if is_page else ""
    except ValueError:
        return ""
