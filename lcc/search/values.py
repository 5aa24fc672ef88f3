"""What is asked of a search, what it finds, and what its index takes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import attrs


class Order(Enum):
    """Which hits come first."""

    RANK = "rank"
    """Those that fit best."""
    DATE = "date"
    """The youngest."""


class Kind(Enum):
    """What a clause asks for; its value is its prefix in queries, if it has one."""

    WORD = ""
    PHRASE = '"'
    TITLE = "title"
    """A word or phrase of the title."""
    SITE = "site"
    """A host, with all hosts below it."""
    HOST = "host"
    """A host, as :attr:`Hit.site`."""
    TYPE = "type"
    """As :attr:`Hit.type`."""
    LANGUAGE = "lang"
    """As :attr:`Hit.language`."""
    SINCE = "since"
    """A date: pages that are as young, or younger."""


class Clause(NamedTuple):
    """One demand of a query; a page fulfils all of them.

    :ivar text: as it was written, without prefix, quotes and minus.
    :ivar negated: pages that fulfil it are left out.
    :ivar at: where it begins in the query.
    :ivar begin, end: where its word or phrase is in the query, without prefix, quotes and minus.
    :ivar since: seconds since 1970, of :attr:`Kind.SINCE`.
    """

    kind: Kind
    text: str
    negated: bool = False
    at: int = 0
    since: int = 0
    begin: int = 0
    end: int = 0


@attrs.frozen
class Query:
    """A query that was understood (:func:`lcc.search.query.parse_query`).

    :ivar text: as it was written.
    :ivar clauses: at least one.
    """

    text: str
    clauses: tuple[Clause, ...]
    order: Order = Order.RANK


Scopes = frozenset[int] | None
"""Providers whose pages may be seen; None: all."""


class Snippet(NamedTuple):
    """A part of a page's text, plain: whoever shows it as HTML escapes it.

    :ivar marks: begin and end of each word that was searched for, in order, apart from each other.
    :ivar cut_before, cut_after: there is text before it, behind it.
    """

    text: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    cut_before: bool = False
    cut_after: bool = False

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The text in pieces, each with whether it is marked; no piece is empty."""
        at = 0
        for begin, end in self.marks:
            if at < begin:
                yield self.text[at:begin], False
            yield self.text[begin:end], True
            at = end
        if at < len(self.text):
            yield self.text[at:], False


@attrs.frozen
class Hit:
    """A page that was found.

    :ivar url: where people find it; if it is not ``browsable``, only the cached copy can be shown.
    :ivar title: plain text; empty: it has none.
    :ivar score: higher fits better; comparable within one result only; for who may not see all pages, the best hit
        has 1.
    :ivar key: of ``lcc-cu``, hexadecimal: names the cached copy.
    :ivar date: when it was modified, or else fetched; seconds since 1970.
    :ivar type: ``html``, ``pdf``, ``text``, or else its MIME type.
    :ivar site: its host, with the port if that is not the usual one.
    :ivar language: by its letters, such as ``en``; empty: unknown.
    :ivar provider: whose page it is.
    :ivar has_copy: its copy may be shown; false: the page asks that it is not.
    """

    url: str
    title: str
    snippet: Snippet
    score: float
    key: str
    date: int
    type: str
    site: str
    language: str = ""
    provider: int = 0
    browsable: bool = True
    has_copy: bool = True


class Facet(NamedTuple):
    """How many of all hits are of a site or type."""

    name: str
    count: int  # type: ignore[assignment]  # a method of tuples that nobody needs here


@attrs.frozen
class Results:
    """The answer to a query; nothing in it tells of pages out of the asker's scopes.

    :ivar total: hits in all.
    :ivar sites, types: those with the most hits, most first.
    :ivar suggestion: the query with misspelt words put right; empty: there is nothing better.
    :ivar next: names the next hits, as ``after`` of the next search; empty: these are the last.
    """

    hits: tuple[Hit, ...]
    total: int
    sites: tuple[Facet, ...] = ()
    types: tuple[Facet, ...] = ()
    suggestion: str = ""
    next: str = ""


@attrs.frozen
class IndexedPage:
    """A page as the index takes it; an older one with the same key goes.

    :ivar key: 40 hexadecimal digits or so, as ``lcc-cu`` tells it.
    :ivar change: number of the row's last change.
    :ivar type, site, language, date, browsable, has_copy: as of :class:`Hit`.
    :ivar headings: of the page, a line each.
    :ivar hidden: it asks not to be found.
    :ivar missing: the cache could not give its content: it is not found until that is read.
    :ivar fault: why its text could not be read; empty: it could.
    """

    key: str
    change: int
    provider: int
    url: str
    site: str
    type: str
    date: int
    title: str = ""
    headings: str = ""
    text: str = ""
    language: str = ""
    browsable: bool = True
    has_copy: bool = True
    hidden: bool = False
    missing: bool = False
    fault: str = ""


class RemovedPage(NamedTuple):
    """A page that is not cached any longer."""

    key: str


IndexChange = IndexedPage | RemovedPage
