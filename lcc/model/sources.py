"""Who names a URL: its sources, a bit mask.

The site itself tells (CP/UNS), pushes (IndexNow, WebSub) or lists it (a sitemap, ResourceSync, the site's own feed):
these are its own words.  An item of somebody's feed, or a link on a page, is a hint.  A document that the LCC
wants to read for itself (a feed, a sitemap, robots.txt) is polled: that is nobody's word.

A set has one source; a row of the queue or of the cache has all that name it.  Where masks are handled by the million
they are plain integers: operations of :class:`Source` take ten times as long.
"""

from __future__ import annotations

from enum import IntFlag


class Source(IntFlag):
    """The bits, as tables hold them.  Never to be changed."""

    TOLD = 1
    PUSHED = 2
    LISTED = 4
    FEED = 8
    LINK = 16
    POLLED = 32


SITE = Source.TOLD | Source.PUSHED | Source.LISTED
"""The site's own words: ordered among each other by their sets' order numbers."""
HINTS = Source.FEED | Source.LINK
"""Somebody else's words: without order numbers, and nothing against the site's own."""

SOURCE_NAMES = tuple(str(source.name).lower() for source in Source)
_BY_NAME = dict(zip(SOURCE_NAMES, Source, strict=True))


def parse_sources(text: str) -> Source:
    """The mask of source names with commas between them, as ``told,listed``.

    :raises ValueError: a name is unknown, or there is none.
    """
    mask = Source(0)
    for name in text.split(","):
        source = _BY_NAME.get(name.strip())
        if source is None:
            raise ValueError(f"unknown source {name.strip()[:40]!r} (there are {', '.join(SOURCE_NAMES)})")
        mask |= source
    return mask


def parse_source(text: str) -> Source:
    """The one source of this name.

    :raises ValueError: it is none.
    """
    source = parse_sources(text)
    if source not in _BY_NAME.values():
        raise ValueError(f"more than one source: {text[:40]!r}")
    return source


def source_text(mask: int) -> str:
    """The names of these sources, as :func:`parse_sources` reads them; empty: there is none."""
    return ",".join(name for name, source in _BY_NAME.items() if mask & source)
