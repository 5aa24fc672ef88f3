"""JSON Feed (jsonfeed.org, versions 1 and 1.1)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lcc.feeds.faults import FeedFault, NotAFeed
from lcc.feeds.parsing import PARTS_MAX, ParseLimits, absolute
from lcc.feeds.sanitizing import sanitize
from lcc.feeds.words import tidy, tidy_line
from lcc.model.feeds import Body, Category, Enclosure, FeedInfo, FeedItem, FeedLink, ParsedFeed, Person
from lcc.numbers import INT64_MAX, parse_number

_VERSION = "https://jsonfeed.org/version/"


def looks_like_json(data: bytes) -> bool:
    """Whether a document in UTF-8 is a JSON object, by its first character."""
    return data[:4096].lstrip()[:1] == b"{"


def parse_json_feed(data: bytes, base: str, limits: ParseLimits) -> ParsedFeed:
    """What a JSON Feed says.

    :param data: in UTF-8.
    :param base: its URL.
    :raises FeedFault: it is no JSON; NotAFeed: it is no JSON Feed.
    """
    try:
        feed = json.loads(data, parse_int=_number, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise FeedFault(f"the document is no JSON: {error!s:.200}") from None
    if not isinstance(feed, dict) or not str(feed.get("version", "")).startswith(_VERSION):
        raise NotAFeed("this is JSON, but no JSON Feed: its version is missing")
    entries = feed.get("items")
    if not isinstance(entries, list):
        raise NotAFeed("this JSON Feed has no list of items")
    reader = _Reader(base, limits)
    faults = []
    if len(entries) > limits.items_max:
        faults.append(f"only the first {limits.items_max} of {len(entries)} items are read")
    items = [reader.item(entry) for entry in entries[: limits.items_max] if isinstance(entry, Mapping)]
    if len(items) < len(entries[: limits.items_max]):
        faults.append("some items are no objects: left out")
    return ParsedFeed(reader.info(feed), tuple(items), tuple(faults))


def _number(text: str) -> int | None:
    try:
        return parse_number(text, INT64_MAX, -INT64_MAX)
    except ValueError:
        return None


class _Reader:
    def __init__(self, base: str, limits: ParseLimits) -> None:
        self._base = base
        self._limits = limits

    def info(self, feed: Mapping[str, Any]) -> FeedInfo:
        kind = "jsonfeed" + self._line(str(feed["version"]).removeprefix(_VERSION)).replace(".", "")[:8]
        hubs = [FeedLink(self._url(each.get("url")), "hub") for each in _mappings(feed.get("hubs"))]
        pages = [
            FeedLink(self._url(feed.get(name)), rel) for name, rel in (("feed_url", "self"), ("next_url", "next"))
        ]
        return FeedInfo(
            kind=kind,
            title=self._line(feed.get("title")),
            subtitle=self._line(feed.get("description")),
            link=self._url(feed.get("home_page_url")),
            id=self._line(feed.get("feed_url")),
            language=self._line(feed.get("language")),
            authors=self._people(feed),
            image=self._url(feed.get("icon")),
            links=tuple(link for link in [*pages, *hubs] if link.url),
            expired=feed.get("expired") is True,
        )

    def item(self, entry: Mapping[str, Any]) -> FeedItem:
        link = self._url(entry.get("url")) or self._url(entry.get("external_url"))
        marked, plain = entry.get("content_html"), entry.get("content_text")
        content = Body()
        if isinstance(marked, str) and marked:
            content = Body(sanitize(tidy(marked, self._limits.body_chars_max), link or self._base))
        elif isinstance(plain, str):
            content = Body(tidy(plain, self._limits.body_chars_max), "text/plain")
        others = [FeedLink(self._url(entry.get("external_url")), "related")]
        pictures = [(entry.get("image"), "image"), (entry.get("banner_image"), "banner")]
        others += [FeedLink(self._url(url), rel) for url, rel in pictures]
        return FeedItem(
            id=self._id(entry.get("id")),
            link=link,
            title=self._line(entry.get("title")),
            summary=Body(tidy(entry.get("summary"), self._limits.body_chars_max), "text/plain"),
            content=content,
            published=_time(entry.get("date_published")),
            updated=_time(entry.get("date_modified")),
            authors=self._people(entry),
            categories=tuple(Category(term) for each in _texts(entry.get("tags")) if (term := self._line(each))),
            enclosures=self._enclosures(entry),
            links=tuple(each for each in others if each.url and each.url != link),
            language=self._line(entry.get("language")),
        )

    def _line(self, text: object) -> str:
        return tidy_line(text, self._limits.line_chars_max)

    def _url(self, text: object) -> str:
        return absolute(self._base, self._line(text))

    def _id(self, value: object) -> str:
        """Numbers are not allowed, but common."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        return self._line(value)

    def _people(self, holder: Mapping[str, Any]) -> tuple[Person, ...]:
        people = _mappings(holder.get("authors")) or _mappings([holder.get("author")])
        made = (Person(self._line(each.get("name")), "", self._url(each.get("url"))) for each in people)
        return tuple(person for person in made if any(person))

    def _enclosures(self, entry: Mapping[str, Any]) -> tuple[Enclosure, ...]:
        made = (
            Enclosure(self._url(each.get("url")), self._line(each.get("mime_type")), _size(each.get("size_in_bytes")))
            for each in _mappings(entry.get("attachments"))
        )
        return tuple({each.url: each for each in made if each.url}.values())


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value[:PARTS_MAX] if isinstance(each, Mapping)] if isinstance(value, list) else []


def _texts(value: object) -> Sequence[object]:
    return value[:PARTS_MAX] if isinstance(value, list) else ()


def _size(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 <= value <= INT64_MAX else None


def _time(text: object) -> int | None:
    """Seconds since 1970 of an RFC 3339 time; None: it is none, or before 1970."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text.strip()[:40])
        at = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return int(at) if at >= 0 else None
