"""Feeds and their items, as workers find them and content users see them.

Texts are what a stranger wrote: markup was cleaned of scripts, never trusted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import attrs

POLICIES = ("id", "link", "hash")
"""By what the items of a feed are known again, the best first (``lcc.domain.tasks.items``)."""


class Person(NamedTuple):
    """An author."""

    name: str = ""
    email: str = ""
    url: str = ""


class Category(NamedTuple):
    """A tag of an item."""

    term: str = ""
    scheme: str = ""
    label: str = ""


class Enclosure(NamedTuple):
    """A file that belongs to an item.

    :ivar size_bytes: as the feed says; None: it does not.
    """

    url: str
    type: str = ""
    size_bytes: int | None = None


class FeedLink(NamedTuple):
    """A link of an item or feed.

    :ivar rel: such as ``alternate``, ``replies``, ``hub``.
    """

    url: str
    rel: str = ""
    type: str = ""
    title: str = ""


class Place(NamedTuple):
    """Where an item happened, as GeoJSON has it (longitude first).

    :ivar kind: ``Point``, ``LineString``, ``Polygon`` or ``Box``.
    """

    kind: str
    coordinates: Any


class Body(NamedTuple):
    """A text with its type.

    :ivar type: ``text/html``, ``text/plain`` or what else the feed says.
    """

    value: str = ""
    type: str = "text/html"


@attrs.frozen
class FeedItem:
    """An item.

    :ivar id: as the feed says; empty: it has none.
    :ivar link: its permalink, absolute; empty: it has none.
    :ivar title: as the feed has it: with markup, if ``title_type`` says so, until it is cleaned.
    :ivar content: the whole text; summary: a shorter one.
    :ivar text: plain text, made by the stage ``clean``.
    :ivar published, updated: as the feed says, in seconds since 1970; None: it does not.
    :ivar comments: the page with comments on it.
    """

    id: str = ""
    link: str = ""
    title: str = ""
    title_type: str = "text/plain"
    summary: Body = Body()
    content: Body = Body()
    text: str = ""
    published: int | None = None
    updated: int | None = None
    authors: tuple[Person, ...] = ()
    categories: tuple[Category, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    links: tuple[FeedLink, ...] = ()
    places: tuple[Place, ...] = ()
    comments: str = ""
    language: str = ""

    def record(self) -> dict[str, Any]:
        """As content users get it: what is empty is left out."""
        return _record(self)


@attrs.frozen
class FeedInfo:
    """What a feed says of itself.

    :ivar kind: such as ``rss20``, ``atom10``, ``jsonfeed11``; empty: unknown.
    :ivar ttl_seconds: it asks not to be read more often; None: it does not say.
    :ivar skip_hours: hours (UTC, 0 to 23) in which it is not to be read.
    :ivar skip_days: days of the week (0: Monday) on which it is not to be read.
    :ivar expired: it says that it has ended (JSON Feed).
    """

    kind: str = ""
    title: str = ""
    subtitle: str = ""
    link: str = ""
    id: str = ""
    language: str = ""
    updated: int | None = None
    authors: tuple[Person, ...] = ()
    image: str = ""
    generator: str = ""
    links: tuple[FeedLink, ...] = ()
    ttl_seconds: int | None = None
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[int, ...] = ()
    expired: bool = False

    def record(self) -> dict[str, Any]:
        """As it is stored and shown: what is empty is left out."""
        return _record(self)


@attrs.frozen
class ParsedFeed:
    """A feed document.

    :ivar faults: what was wrong with it and did not prevent reading it, in words.
    """

    info: FeedInfo
    items: tuple[FeedItem, ...]
    faults: tuple[str, ...] = ()


@attrs.frozen
class PageText:
    """The text of a page.

    :ivar method: what made it: ``trafilatura``, ``lxml`` or ``plain``.
    :ivar cut: it was longer.
    """

    title: str
    text: str
    language: str = ""
    method: str = ""
    cut: bool = False


def _record(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in attrs.fields(type(value)):
        held = getattr(value, field.name)
        if isinstance(held, Body):
            if held.value:
                found[field.name] = held._asdict()
        elif isinstance(held, tuple):
            if held:
                found[field.name] = [_part(each) for each in held]
        elif held != field.default:
            found[field.name] = held
    return found


def _part(part: Any) -> Any:
    if hasattr(part, "_asdict"):
        return {name: held for name, held in part._asdict().items() if held not in ("", None)}
    return part
