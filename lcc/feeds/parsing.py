"""RSS, Atom and CDF by feedparser; which kind of feed a document is.

feedparser is given bytes in a file, never a string: it would open one that is a path or a URL.
"""

from __future__ import annotations

import calendar
import io
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urljoin

import attrs

from lcc.feeds.bombs import plain_prolog, refuse_bombs
from lcc.feeds.encodings import legal_references
from lcc.feeds.faults import FeedFault, NotAFeed
from lcc.feeds.words import tidy, tidy_line
from lcc.model.feeds import Body, Category, Enclosure, FeedInfo, FeedItem, FeedLink, ParsedFeed, Person, Place
from lcc.numbers import INT64_MAX, parse_number

DAY_SECONDS = 86400
TTL_SECONDS_MAX = 30 * DAY_SECONDS
PARTS_MAX = 200
"""Links, categories and so on of one item."""
COORDINATES_CHARS_MAX = 20_000
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PERIODS = {"hourly": 3600, "daily": 86400, "weekly": 604800, "monthly": 2592000, "yearly": 31536000}
_SKIP = re.compile(rb"<skip(Hours|Days)>(.{0,2000}?)</skip\1>", re.DOTALL | re.IGNORECASE)
_SKIPPED = re.compile(rb"<(?:hour|day)>\s*(\w{1,9})\s*</", re.IGNORECASE)
_ITEM = re.compile(rb"<(?:\w+:)?(?:item|entry)[\s>]")
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE)
_HEAD_BYTES = 65536


@attrs.frozen
class ParseLimits:
    """
    :ivar items_max: further items of a document are left out.
    :ivar line_chars_max: of a title, name or URL.
    :ivar body_chars_max: of a content or summary.
    """

    items_max: int = 10_000
    line_chars_max: int = 2_000
    body_chars_max: int = 200_000


def parse_feed(data: bytes, base: str, limits: ParseLimits) -> ParsedFeed:
    """What an RSS, Atom or CDF document says; an unknown document has no items, and is of no kind.

    :param data: in UTF-8.
    :param base: its URL.
    :raises FeedFault: it cannot be read, or is made to explode.
    """
    refuse_bombs(data)
    import feedparser  # not before it is needed: it takes 60 ms

    headers = {"content-type": "application/xml; charset=utf-8", "content-location": base}
    try:
        parsed = feedparser.parse(io.BytesIO(legal_references(plain_prolog(data))), response_headers=headers)
    except MemoryError:
        raise
    except Exception as error:  # whatever its documents make feedparser do: it is an error of this job
        raise FeedFault(f"feedparser cannot read the document: {error!r:.300}") from None
    reader = _Reader(base, limits)
    entries = parsed["entries"]
    info = reader.info(parsed.get("version") or "", parsed["feed"], data)
    return ParsedFeed(info, tuple(reader.items(entries)), tuple(_faults(parsed, len(entries), limits)))


def require_feed(parsed: ParsedFeed, data: bytes) -> ParsedFeed:
    """The same; but a document that is no feed is refused.

    :raises NotAFeed: it is none.
    """
    if parsed.info.kind or parsed.items:
        return parsed
    if not data.strip():
        raise NotAFeed("the document is empty")
    if _HTML.search(data[:_HEAD_BYTES]):
        raise NotAFeed("this is an HTML page, not a feed: lcc-admin feed discover URL finds the feeds of a page")
    raise NotAFeed("this is neither RSS, Atom nor JSON Feed")


def _faults(parsed: Mapping[str, Any], count: int, limits: ParseLimits) -> Iterable[str]:
    if parsed.get("bozo"):
        yield f"the document has faults: {parsed.get('bozo_exception')!s:.300}"
    if count > limits.items_max:
        yield f"only the first {limits.items_max} of {count} items are read"


class _Reader:
    """Makes our values of feedparser's."""

    def __init__(self, base: str, limits: ParseLimits) -> None:
        self._base = base
        self._limits = limits

    def info(self, kind: str, feed: Mapping[str, Any], data: bytes) -> FeedInfo:
        hours, days = _skipped(data)
        image = feed.get("image")
        return FeedInfo(
            kind=kind,
            title=self._line(feed.get("title")),
            subtitle=self._line(feed.get("subtitle")),
            link=self._line(feed.get("link")),
            id=self._line(feed.get("id")),
            language=self._line(feed.get("language")),
            updated=seconds(_own(feed, "updated_parsed")),
            authors=self._people(feed.get("authors")),
            image=self._url(image.get("href") if isinstance(image, Mapping) else feed.get("logo")),
            generator=self._line(feed.get("generator")),
            links=self._links(feed.get("links")),
            ttl_seconds=_ttl(feed),
            skip_hours=hours,
            skip_days=days,
        )

    def items(self, entries: Iterable[Mapping[str, Any]]) -> Iterable[FeedItem]:
        for _, entry in zip(range(self._limits.items_max), entries, strict=False):
            yield self._item(entry)

    def _item(self, entry: Any) -> FeedItem:
        detail = entry.get("title_detail")
        title_type = detail.get("type") if isinstance(detail, Mapping) else ""
        return FeedItem(
            id=self._line(entry.get("id")),
            link=self._line(entry.get("link")),
            title=self._line(entry.get("title")),
            title_type=self._line(title_type) or "text/plain",
            summary=self._body(entry.get("summary"), entry.get("summary_detail")),
            content=self._content(entry.get("content")),
            published=seconds(_own(entry, "published_parsed") or _own(entry, "created_parsed")),
            updated=seconds(_own(entry, "updated_parsed")),
            authors=self._people(entry.get("authors")),
            categories=self._categories(entry.get("tags")),
            enclosures=self._enclosures(entry),
            links=self._links(entry.get("links")),
            places=_places(entry.get("where")),
            comments=self._url(entry.get("comments")),
            language=self._line(entry.get("language")),
        )

    def _line(self, text: object) -> str:
        return tidy_line(text, self._limits.line_chars_max)

    def _url(self, text: object) -> str:
        return absolute(self._base, self._line(text))

    def _body(self, value: object, detail: object) -> Body:
        kind = detail.get("type") if isinstance(detail, Mapping) else ""
        return Body(tidy(value, self._limits.body_chars_max), self._line(kind) or "text/html")

    def _content(self, contents: object) -> Body:
        bodies = [self._body(each.get("value"), each) for each in _mappings(contents)]
        marked = [body for body in bodies if "html" in body.type]
        return next(iter(marked or bodies), Body())

    def _people(self, people: object) -> tuple[Person, ...]:
        made = (
            Person(*(self._line(each.get(name)) for name in ("name", "email", "href"))) for each in _mappings(people)
        )
        return tuple(person for person in made if any(person))

    def _categories(self, tags: object) -> tuple[Category, ...]:
        names = ("term", "scheme", "label")
        made = (Category(*(self._line(each.get(name)) for name in names)) for each in _mappings(tags))
        return tuple(category for category in made if any(category))

    def _enclosures(self, entry: Any) -> tuple[Enclosure, ...]:
        found: dict[str, Enclosure] = {}
        linked = [each for each in _mappings(entry.get("links")) if each.get("rel") == "enclosure"]
        for each in linked:
            self._enclose(found, each.get("href"), each.get("type"), each.get("length"))
        for each in _mappings(entry.get("media_content")):
            self._enclose(found, each.get("url"), each.get("type"), each.get("filesize"))
        return tuple(found.values())

    def _enclose(self, found: dict[str, Enclosure], url: object, kind: object, length: object) -> None:
        target = self._url(url)
        if target:
            found.setdefault(target, Enclosure(target, self._line(kind), whole(length)))

    def _links(self, links: object) -> tuple[FeedLink, ...]:
        made = (
            FeedLink(self._url(each.get("href")), *(self._line(each.get(name)) for name in ("rel", "type", "title")))
            for each in _mappings(links)
            if each.get("rel") != "enclosure"
        )
        return tuple(link for link in made if link.url)


def _own(mapping: Any, name: str) -> Any:
    """What is there under this very name: feedparser would give another date, with a warning."""
    return dict.get(mapping, name)


def absolute(base: str, url: str) -> str:
    """The URL, resolved; empty: there is none."""
    try:
        return urljoin(base, url) if url else ""
    except ValueError:
        return ""


def seconds(time: Any) -> int | None:
    """Seconds since 1970 of a time tuple (UTC); None: no time, or one before 1970."""
    if time is None:
        return None
    try:
        return at if (at := calendar.timegm(time)) >= 0 else None
    except (TypeError, ValueError, OverflowError):
        return None


def whole(text: object) -> int | None:
    """A number of bytes; None: it is none."""
    try:
        return parse_number(str(text).strip(), INT64_MAX)
    except ValueError:
        return None


def _mappings(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        return []
    return [each for each in value[:PARTS_MAX] if isinstance(each, Mapping)]


def _places(where: object) -> tuple[Place, ...]:
    if not isinstance(where, Mapping) or not where.get("type"):
        return ()
    coordinates = where.get("coordinates")
    if not _finite(coordinates) or len(repr(coordinates)) > COORDINATES_CHARS_MAX:
        return ()
    return (Place(str(where["type"]), coordinates),)


def _finite(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return isinstance(value, int | float) and math.isfinite(value)


def _ttl(feed: Mapping[str, Any]) -> int | None:
    minutes = whole(feed.get("ttl"))
    if minutes is not None:
        return min(minutes * 60, TTL_SECONDS_MAX)
    period = _PERIODS.get(str(feed.get("sy_updateperiod")).strip().lower())
    frequency = whole(feed.get("sy_updatefrequency")) or 1
    return None if period is None else min(period // frequency, TTL_SECONDS_MAX)


def _skipped(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Hours and days in which the feed is not to be read; feedparser keeps only the last."""
    hours: set[int] = set()
    days: set[int] = set()
    for kind, inner in _SKIP.findall(_channel(data)):
        for text in map(bytes.decode, _SKIPPED.findall(inner)):
            if kind.lower() == b"days":
                days |= {_DAYS.index(text.lower())} if text.lower() in _DAYS else set()
            elif (hour := whole(text)) is not None and hour <= 24:
                hours.add(hour % 24)
    return tuple(sorted(hours)), tuple(sorted(days))


def _channel(data: bytes) -> bytes:
    """Before the first item and behind the last one."""
    first = _ITEM.search(data[:_HEAD_BYTES])
    head = data[: first.start()] if first else data[:_HEAD_BYTES]
    return head + data[-2000:] if first else head
