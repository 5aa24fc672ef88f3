"""Who names a URL: its sources, a bit mask.

The site itself tells (CP/UNS), pushes (IndexNow, WebSub) or lists it (a sitemap, ResourceSync, the site's own feed):
these are its own words.  An item of somebody's feed, or a link on a page, is a hint.  A document that the LCC
wants to read for itself (a feed, a sitemap, robots.txt) is polled: that is nobody's word.

A set has one source; a row of the queue or of the cache has all that name it.  Where masks are handled by the million
they are plain integers: operations of :class:`Source` take ten times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from functools import lru_cache
from typing import NamedTuple


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


@lru_cache(maxsize=128)
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


@lru_cache(maxsize=128)
def source_text(mask: int) -> str:
    """The names of these sources, as :func:`parse_sources` reads them; empty: there is none."""
    return ",".join(name for name, source in _BY_NAME.items() if mask & source)


COUNTED = int(SITE | HINTS)
"""Mask of the sources by which a URL is one of its provider's pages: it is counted, has quotas, and content users see
it."""
_OWN_WORDS = (int(Source.TOLD), int(Source.PUSHED), int(Source.LISTED))
_TOLD = int(Source.TOLD)


class Standing(NamedTuple):
    """Who names a URL, and since when: as a row of the queue or of the cache has it.

    Each of the site's own words has an order number of its own, that of its last operation, so that an older one of
    the same source does nothing, whatever other sources have said since.

    :ivar connseq: the order number of the operation that the attributes are from.
    :ivar source: mask of all that name it.  Where nothing names it any longer (a tombstone, a queue row that does
        nothing): of those whose word that is.
    :ivar words: numbers of own words, ``source:number`` with spaces between them, but for those that are as usual:
        ``connseq`` of a source in the mask, 0 of another one.
    """

    connseq: int
    source: int = _TOLD
    words: str = ""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the last operation of each of the site's own words: told, pushed, listed."""
        connseq, source, words = self
        if not words:
            return tuple([connseq if source & bit else 0 for bit in _OWN_WORDS])
        said = {int(bit): int(number) for bit, _, number in (word.partition(":") for word in words.split(" "))}
        return tuple([said.get(bit, connseq if source & bit else 0) for bit in _OWN_WORDS])

    @property
    def told_number(self) -> int:
        """Of the last operation of the provider's own sets."""
        return self.numbers[0] if self.words else self.connseq if self.source & _TOLD else 0

    def joined(self, other: Standing) -> Standing:
        """The same, with the last numbers of both: those of two rows of one URL."""
        return Standing.of(self.connseq, self.source, list(map(max, self.numbers, other.numbers)))

    def left_to(self, source: int) -> Standing:
        """The same, named by these only; the last numbers of all stay."""
        return Standing.of(self.connseq, source, self.numbers)

    @classmethod
    def of(cls, connseq: int, source: int, numbers: Sequence[int]) -> Standing:
        """The standing with these numbers."""
        words = [
            f"{bit}:{number}"
            for bit, number in zip(_OWN_WORDS, numbers, strict=True)
            if number != (connseq if source & bit else 0)
        ]
        return cls(connseq, source, " ".join(words))
