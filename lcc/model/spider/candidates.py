"""Links on their way into a spider's frontier: their names, what is known of them, and what the filters say."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NamedTuple

import attrs


class Names(NamedTuple):
    """A URL's two names (:class:`lcc.spider.names.UrlNames`).

    :ivar curl: compares: URLs with one curl are one page to a crawl; the scope is held to it.  No fragment.
    :ivar furl: fetches: as linked, normal (:func:`lcc.domain.urls.normalise`), no fragment.  It is what other roles
        see: the URL that is told, and asked for.
    :ivar host: of ``furl``, with the port if that is not the usual one.
    """

    curl: str
    furl: str
    host: str


class Candidate(NamedTuple):
    """A URL that may enter the frontier.

    :ivar depth: links from a start URL; that has 0.
    :ivar page: curl of the page with the link; empty: a start URL.
    :ivar nofollow: the link, its page or the page's header asks not to follow it.
    :ivar copies: how many other pages of the host had the content of the page with the link before it was read.
    """

    names: Names
    depth: int
    page: str = ""
    nofollow: bool = False
    copies: int = 0


class HostFacts(NamedTuple):
    """What the frontier knows of a host.

    :ivar excluded: by an operator.
    :ivar robots_allow: as in :mod:`lcc.domain.fetches.robots_rules`; empty: not known yet.
    :ivar robots_rules: the text of robots.txt.
    """

    excluded: bool = False
    robots_allow: str = ""
    robots_rules: str = ""


class Facts(NamedTuple):
    """What the frontier knows of a candidate.

    :ivar known: the frontier has its curl already (or: it was accepted before in the same batch).
    :ivar host: of its furl.
    :ivar traps: how many URLs of the host were accepted for each key of :func:`lcc.spider.filters.traps.trap_keys`;
        one mapping for each root of a batch.  Whoever accepts a candidate that was not known adds 1 for each of its
        keys, here and with the row.
    """

    known: bool
    host: HostFacts
    traps: MutableMapping[bytes, int]


class Refusal(NamedTuple):
    """A filter lets a candidate not pass.

    :ivar filter: its name, as crawls count it.
    :ivar reason: for people, without the URL.
    """

    filter: str
    reason: str


@attrs.frozen
class TrapLimits:
    """Settings ``[spider] trap_…``: what a trap is (:mod:`lcc.spider.filters.traps`).  0 switches a rule off.

    :ivar segments: of a path.
    :ivar repeats: how often the same one to five segments may follow each other.
    :ivar parameters: of a query.
    :ivar years_ahead: of a date at the end of a path or in a query, from now.
    :ivar calendar: pages of one calendar: URLs that differ in their dates only.
    :ivar sessions: URLs that differ in their session ids only.
    :ivar facets: URLs of one path with a value of a parameter: one with three parameters or more is a trap once there
        are so many for each of its values.
    :ivar copies: pages with the same content whose links are followed.
    """

    segments: int = 32
    repeats: int = 2
    parameters: int = 12
    years_ahead: int = 2
    calendar: int = 10_000
    sessions: int = 1
    facets: int = 200
    copies: int = 10


@attrs.frozen
class FilterRules:
    """What a crawl's filters go by.

    :ivar scope: a Perl-like expression (:mod:`lcc.spider.names.scope`) held to curls; empty: everything.
    :ivar roots: furls begin with one of them; empty: with anything.
    :ivar depth_max: links from a start URL at most; None: no limit.
    :ivar url_chars: the longest furl.
    :ivar schemes: of furls.
    :ivar known_paths: expressions; a furl that one of them matches anywhere is refused.
    :ivar year: now, for :attr:`TrapLimits.years_ahead`.
    """

    scope: str = ""
    roots: tuple[str, ...] = ()
    depth_max: int | None = None
    url_chars: int = 4096
    schemes: tuple[str, ...] = ("http", "https", "ftp", "file")
    known_paths: tuple[str, ...] = ()
    traps: TrapLimits = TrapLimits()
    year: int = 0
