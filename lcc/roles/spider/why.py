"""What became of a URL in a crawl, or which filter drops it: for ``lcc-admin spider why`` and the HTTP interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from lcc.config import SpiderConfig
from lcc.domain.spider.keys import host_key, host_of_root, url_key
from lcc.domain.spider.rules import FrontierRules
from lcc.domain.urls import site_of
from lcc.domain.wording import number
from lcc.insight.crawl_words import url_record, why_known
from lcc.model.shellwords import shell_word
from lcc.model.spider.candidates import Candidate, Facts, HostFacts, Names
from lcc.model.spider.crawls import HOSTS_MAX, URLS_MAX, CrawlState, CrawlStatus, HostRow, KnownUrl
from lcc.model.states import SiteRobots, UnreadRobots
from lcc.spider.crawl_inputs import filters_of, names_of
from lcc.spider.filters.chain import FilterChain, Step
from lcc.spider.filters.traps import trap_keys
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.commit import trap_rows
from lcc.storage.spider.views import domain_hosts, host_by_key, url_by_key, way_to


@attrs.frozen
class UrlInCrawl:
    """What the frontier has of a URL.

    :ivar furl: as it was asked for.
    :ivar known: its row; None: it is not known.
    :ivar host: of the row.
    :ivar way: pages from a start to the one that linked to it first.
    :ivar traps: how many URLs were accepted for each of its keys.
    :ivar full: the counter of the limit that keeps out whatever is new; empty: none does.
    :ivar domain: the registered domain of its host.
    """

    status: CrawlStatus
    furl: str
    names: Names
    filters: FilterChain
    known: KnownUrl | None
    host: HostRow | None
    way: Sequence[KnownUrl]
    traps: Mapping[bytes, int]
    full: str = ""
    domain: str = ""

    @property
    def root(self) -> str:
        """Of the host that it is fetched from, which is asked for its robots.txt."""
        return site_of(self.furl) if self.known is None else self.known.root

    def record(self, robots: SiteRobots) -> dict[str, Any]:
        """For programs."""
        found = {"crawl": self.status.crawl.name, "curl": self.names.curl, "furl": self.furl, "known": False}
        if self.known is None:
            steps = self._steps(robots)
            said = [{"filter": step.filter, "reason": step.reason} for step in steps]
            return {**found, "filters": said, "limit": self.full or None}
        return {**found, **url_record(self.known), "known": True, "way": [page.furl for page in self.way]}

    def facts(self, robots: SiteRobots, unread: UnreadRobots | None, now: int) -> list[tuple[str, str]]:
        """For people: names and values.

        :param unread: where robots.txt of its host is not known.
        """
        compared = [("compared as", self.names.curl)] if self.names.curl != self.furl else []
        if self.known is None:
            steps = self._steps(robots)
            dropped = [("dropped", f"{step.filter}: {step.reason}") for step in steps if step.reason is not None]
            if self.full:
                dropped.append(("dropped", f"{self.full}: {self._limit_words()}"))
            return [*compared, *(dropped or [("not known", self._not_found(steps))])]
        if self.known.furl != self.furl:
            compared.append(("fetched as", self.known.furl))
        said = why_known(self.status, self.known, self.host, unread, self.way, now)
        return [*compared, *(("state" if not index else "", line) for index, line in enumerate(said))]

    def _steps(self, robots: SiteRobots) -> list[Step]:
        excluded = host_of_root(self.root) in self.status.crawl.excluded
        facts = Facts(False, HostFacts(excluded, robots.allow, robots.rules), dict(self.traps))
        return self.filters.explain(Candidate(self.names, 0), facts)

    def _limit_words(self) -> str:
        crawl, counts = self.status.crawl, self.status.counts
        change = f"Next: lcc-admin spider set {shell_word(crawl.name)}"
        if self.full == URLS_MAX:
            return f"the crawl knows {counts.get('known', 0):,} URLs, and takes no new ones; {change} --urls NUMBER"
        if self.full == HOSTS_MAX:
            hosts = number(counts.get("hosts", 0), "host")
            return f"the crawl has {hosts}, and takes no new ones; {change} --hosts NUMBER"
        return f"the crawl takes no more hosts of {self.domain} ([spider] hosts_per_domain)"

    def _not_found(self, steps: Sequence[Step]) -> str:
        if self.status.crawl.state is CrawlState.PAUSED:
            return "no page that was read links to it, and the crawl is paused"
        used = {step.filter for step in steps}
        kinds = [words for name, words in (("nofollow", "nofollow"), ("depth", "too deep")) if name in used]
        or_dropped = f", or all links to it are {' or '.join(kinds)}" if kinds else ""
        return f"it passes the filters, but no page that was read links to it{or_dropped}"


def url_in_crawl(txn: Txn, status: CrawlStatus, furl: str, settings: SpiderConfig, now: float) -> UrlInCrawl:
    """What the frontier has of a URL.

    :param furl: normal, without fragment.
    :raises ConfigError: the filters of the crawl make no sense here.
    """
    crawl = status.crawl
    names, filters = names_of(crawl.settings).names(furl), filters_of(crawl.settings, settings, now)
    known = url_by_key(txn, crawl.id, url_key(names.curl))
    if known is not None:
        host = host_by_key(txn, crawl.id, host_key(known.root))
        return UrlInCrawl(status, furl, names, filters, known, host, way_to(txn, known), {})
    wanted = [(crawl.id, host_key(site_of(furl)), key) for _, key in trap_keys(names.curl)]
    traps = {key: count for (_, _, key), count in trap_rows(txn, wanted)}
    rules = FrontierRules(hosts_per_domain=settings.hosts_per_domain)
    root = site_of(furl)
    _, domain, _ = rules.host_place(root)
    full = ""
    if crawl.settings.urls_max and status.counts.get("known", 0) >= crawl.settings.urls_max:
        full = URLS_MAX
    elif host_by_key(txn, crawl.id, host_key(root)) is None:
        full = rules.is_full(status.counts.get("hosts", 0), crawl.settings, domain_hosts(txn, crawl.id, domain))
    return UrlInCrawl(status, furl, names, filters, None, None, (), traps, full, domain)
