"""A crawl, ready to judge links: how it names URLs, and which of them it follows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from lcc.domain.spider.keys import found_url, host_of_root
from lcc.model.cache import CachedUrl
from lcc.model.spider.candidates import Candidate, Facts, HostFacts, Names
from lcc.model.spider.crawls import Crawl, CrawlState, FoundUrl
from lcc.model.states import SiteRobots
from lcc.spider.filters.chain import FilterChain
from lcc.spider.names import UrlNames

SCOPE = "scope"
"""The filter of what lies outside of a crawl."""
_SEEN_MAX = 10_000
"""Links that are remembered with their verdict: pages of a site have many in common."""
_KNOWN_MAX = 50_000
"""Keys of URLs that the frontier has."""
_SETTLED_MAX = 100_000
"""Links that only count, a URL once for each depth."""


class Named(NamedTuple):
    """A link with its names.

    :ivar found: as the frontier has it.
    :ivar dropped: the filter that has dropped it; empty: none yet.
    """

    names: Names
    found: FoundUrl
    dropped: str


class CrawlRules:
    """See :mod:`lcc.roles.spider.crawl_rules`.

    :param names: of URLs.
    :param filters: of links.
    """

    def __init__(self, crawl: Crawl, names: UrlNames, filters: FilterChain) -> None:
        self.crawl = crawl
        self._names = names
        self._filters = filters
        self._seen: OrderedDict[tuple[str, int, bool], Named] = OrderedDict()
        self._known: OrderedDict[bytes, int | None] = OrderedDict()
        """Each with the depth from which on links to it change nothing of it, as far as it is known."""
        self._settled: dict[int, dict[str, bytes]] = {}
        self._settled_count = 0

    @property
    def follows(self) -> bool:
        """Its URLs are told."""
        return self.crawl.state is CrawlState.ACTIVE

    @property
    def reads(self) -> bool:
        """The links of its pages are read."""
        return self.crawl.state is not CrawlState.REMOVING

    def page(self, row: CachedUrl) -> FoundUrl | None:
        """The page of a row of the cache, as the frontier has it; None: it cannot be one of this crawl."""
        settings = self.crawl.settings
        if settings.pid and row.pid != settings.pid:
            return None
        named = self.link(row.curl.partition("#")[0], 0, nofollow=False)
        return None if named.dropped == SCOPE and not settings.pid else named.found

    def link(self, url: str, depth: int, *, nofollow: bool) -> Named:
        """A link, and the verdict of the filters that need no facts.

        :param url: normal, without fragment.
        :param depth: links from a start.
        """
        seen = self._seen.get((url, depth, nofollow))
        if seen is not None:
            return seen
        names = self._names.names(url)
        refusal = self._filters.screen(Candidate(names, depth, "", nofollow))
        dropped = "" if refusal is None else refusal.filter
        named = Named(names, found_url(names.curl, names.furl), dropped)
        self._seen[url, depth, nofollow] = named
        if len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)
        return named

    def judge(self, candidate: Candidate, facts: Facts) -> str:
        """The filter that drops a candidate, among those that need facts; empty: it passes."""
        refusal = self._filters.judge(candidate, facts)
        return "" if refusal is None else refusal.filter

    def is_known(self, key: bytes) -> bool:
        """Whether the frontier has a URL, as far as it was noted lately."""
        return key in self._known

    def note_known(self, key: bytes, settled_depth: int | None = None) -> None:
        """The frontier has this URL, or gets it with the batch at hand.

        :param settled_depth: as :meth:`lcc.model.spider.crawls.UrlRow.settled_depth`, of a row that is committed.
        """
        self._known[key] = settled_depth
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def settled(self, depth: int) -> Mapping[str, bytes]:
        """URLs, with their keys, to which a link of this depth only counts: it passes the filters (unless it is
        ``nofollow``), and changes nothing of the frontier."""
        return self._settled.setdefault(depth, {})

    def settles(self, url: str, depth: int, key: bytes) -> bool:
        """Whether that is so of a link that passes the filters; then it is noted."""
        from_depth = self._known.get(key)
        if from_depth is None or depth < from_depth:
            return False
        if self._settled_count >= _SETTLED_MAX:
            self._settled.clear()
            self._settled_count = 0
        self._settled.setdefault(depth, {})[url] = key
        self._settled_count += 1
        return True

    def host_facts(self, root: str, robots: SiteRobots) -> HostFacts:
        """What the filters are told of a host.

        :param root: ``scheme://host[:port]/``.
        """
        return HostFacts(host_of_root(root) in self.crawl.excluded, robots.allow, robots.rules)

    def starts(self, urls: Iterable[str]) -> Iterator[tuple[str, FoundUrl | str]]:
        """Start URLs, each as the frontier has it, or the filter that drops it.

        :param urls: normal, without fragments.
        """
        for url in urls:
            named = self.link(url, 0, nofollow=False)
            facts = Facts(False, self.host_facts(named.found.root, SiteRobots(named.found.root)), {})
            dropped = named.dropped or self.judge(Candidate(named.names, 0), facts)
            yield url, dropped or named.found
