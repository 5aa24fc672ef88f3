"""What people say of a crawl, checked: by commands, the HTTP interface, and by the spider that carries it out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import attrs

from lcc.config import SpiderConfig
from lcc.domain.registration.sites import host_of
from lcc.domain.urls import normalise
from lcc.errors import ConfigError, UrlError
from lcc.model.spider.candidates import Candidate, FilterRules, TrapLimits
from lcc.model.spider.crawls import CRAWL_NAME_CHARS_MAX, CrawlSettings
from lcc.spider.filters.chain import FilterChain
from lcc.spider.names import UrlNames
from lcc.spider.names.host_resolver import read_host_resolver

_TRAP_LIMITS = tuple(field.name for field in attrs.fields(TrapLimits))
"""As ``[spider]`` names them, with ``trap_`` before."""
SCHEMES = FilterRules().schemes
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{CRAWL_NAME_CHARS_MAX - 1}}}").fullmatch


def check_crawl_name(name: str) -> str:
    """The name of a new crawl.

    :raises ConfigError: it cannot be one.
    """
    if not _NAME(name):
        allowed = f"1 to {CRAWL_NAME_CHARS_MAX} of A-Z a-z 0-9 . _ -, a letter or digit first"
        raise ConfigError([f"{name[:80]!r} cannot be the name of a crawl: {allowed}"])
    return name


def names_of(settings: CrawlSettings) -> UrlNames:
    """How a crawl names URLs.

    :raises ConfigError: its rules of hosts make no sense.
    """
    resolver = read_host_resolver(settings.host_resolver) if settings.host_resolver else None
    return UrlNames(settings.names, resolver)


def filters_of(settings: CrawlSettings, config: SpiderConfig, now: float) -> FilterChain:
    """The filters of a crawl.

    :param now: seconds since 1970.
    :raises ConfigError: they make no sense.
    """
    rules = FilterRules(
        scope=settings.restrict_to,
        roots=settings.roots,
        depth_max=settings.depth_max,
        url_chars=config.url_chars,
        known_paths=config.known_paths,
        traps=TrapLimits(**{limit: getattr(config, f"trap_{limit}") for limit in _TRAP_LIMITS}),
        year=datetime.fromtimestamp(now, UTC).year,
    )
    return FilterChain(rules, config.filters)


def check_settings(settings: CrawlSettings, config: SpiderConfig, now: float) -> FilterChain:
    """Check what a crawl follows; gives its filters.

    :raises ConfigError: it follows everything, or its rules make no sense.
    """
    if not settings.restrict_to and not settings.roots:
        raise ConfigError(["a crawl needs an expression that its URLs match, or a provider"])
    if settings.revisit_least_seconds > settings.revisit_most_seconds:
        raise ConfigError(["the shortest time until a page is looked at again is longer than the longest"])
    names_of(settings)
    return filters_of(settings, config, now)


def check_crawl(settings: CrawlSettings, starts: Sequence[str], config: SpiderConfig, now: float) -> None:
    """Check a new crawl, or further starts of one.

    :param starts: normal, without fragments.
    :raises ConfigError: as :func:`check_settings`; it has no start, or its filters refuse one.
    """
    if not starts and not settings.pid:
        raise ConfigError(["a crawl needs a URL to start from, or a provider"])
    filters, names = check_settings(settings, config, now), names_of(settings)
    faults = []
    for url in starts:
        candidate = Candidate(names.names(url), 0)
        refusal = filters.screen(candidate)
        if refusal is not None:
            compared = candidate.names.curl
            named = "" if compared == url else f" (compared as {compared[:100]})"
            faults.append(f"start {url[:200]}{named}: {refusal.filter}: {refusal.reason}")
    if faults:
        raise ConfigError([*faults[:20], *([f"and {len(faults) - 20} more"] if len(faults) > 20 else [])])


def check_host(text: str) -> str:
    """A host as frontiers have it: lower case, with its port if that is not the usual one.

    :param text: a host, ``host:port``, or a URL.
    :raises ConfigError: it is none.
    """
    try:
        host = host_of(normalise(text if "://" in text else f"http://{text}/"))
    except UrlError as error:
        raise ConfigError([f"{text[:80]!r} is not a host: {error.text}"]) from None
    if not host:
        raise ConfigError([f"{text[:80]!r} has no host"])
    return host
