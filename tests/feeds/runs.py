"""Runs of the feed worker in this process."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from lcc.feeds.registry import plugin_named
from lcc.feeds.run import FeedRun, run_stages
from lcc.interfaces import IFeedPlugin

NOW = 1_800_000_000
URL = "http://feeds.example.org/news/feed.xml"


class Kept:
    """Effects, kept."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.stored: list[Mapping[str, Any]] = []
        self.notified: list[tuple[str, str]] = []

    def log(self, text: str) -> None:
        self.logs.append(text)

    def store(self, item: Mapping[str, Any]) -> None:
        self.stored.append(item)

    def notify(self, url: str, source: str) -> None:
        self.notified.append((url, source))

    @property
    def items(self) -> list[Mapping[str, Any]]:
        return [each["item"] for each in self.stored if "item" in each]


def worked(data: bytes, plugin: str | IFeedPlugin = "full-content", **options: Any) -> Kept:
    """What a run with this content does."""
    kept = Kept()
    chosen = plugin_named(plugin) if isinstance(plugin, str) else plugin
    run_stages(chosen, FeedRun(URL, io.BytesIO(data), kept, **{"now": NOW, **options}))
    return kept


def rss(*items: str, head: str = "") -> bytes:
    """An RSS document with these items."""
    inner = "".join(f"<item>{item}</item>" for item in items)
    return (
        '<?xml version="1.0"?><rss version="2.0" xmlns:georss="http://www.georss.org/georss"'
        ' xmlns:media="http://search.yahoo.com/mrss/" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">'
        f"<channel><title>News</title><link>/</link>{head}{inner}</channel></rss>"
    ).encode()
