"""From pages and their links to what is saved of them: one batch of the frontier."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import attrs

from lcc.errors import code
from lcc.interfaces import IFrontier
from lcc.model.spider.candidates import Candidate, Facts, HostFacts
from lcc.model.spider.crawls import (
    FoundUrl,
    FrontierBatch,
    KnownUrl,
    ReadPage,
    Redirect,
    StoreWork,
    Trap,
    UrlAnswer,
    UrlState,
    Verdict,
)
from lcc.model.spider.links import Page, PageLinks
from lcc.roles.spider.counters import Counters
from lcc.roles.spider.crawl_rules import CrawlRules, Named
from lcc.roles.spider.sites import Sites
from lcc.spider.filters.traps import copies_key, trap_keys

VISITED = "visited"
"""What counts the links to URLs that the frontier has: none of them is told again."""
REDIRECTS = "redirects"
"""The same of redirects from host to host without end."""
REDIRECTS_MAX = 5
"""From host to host, in a row: as many as a robot follows on one host ([bot] redirects_max)."""
REDIRECT_OUTSIDE = code("redirect-outside")
"""What is an error of a robot: another host has another provider."""
_CACHED = "cached"
_READ_MAX = 10_000
"""More than there can be between the choice of a page and its commit."""


class _Version(NamedTuple):
    """A version of a page that was committed.

    :ivar moment: :attr:`Reading.moment`, with its commit.
    """

    change: int
    md5: str
    moment: int


class _Mine(NamedTuple):
    """A page of a crawl.

    :ivar at: its place among the pages that were chosen.
    :ivar depth: links from a start.
    """

    at: int
    url: FoundUrl
    depth: int


@attrs.frozen
class Chosen:
    """Of some pages, those whose links are to be followed.

    :ivar pages: in the order of their changes.
    :ivar crawls: whose they are.
    :ivar gone: pages of crawls that are not cached any longer.
    """

    pages: list[Page]
    crawls: list[tuple[CrawlRules, list[_Mine]]]
    gone: list[UrlAnswer]


@attrs.define
class _Sums:
    """What is added to the frontier's counts."""

    dropped: Counter[tuple[int, str]] = attrs.field(factory=Counter)
    traps: Counter[Trap] = attrs.field(factory=Counter)


class Reading:
    """Chooses pages, and judges their links, for each crawl.

    :param sites: what is known of robots.txt.
    :ivar moment: counts commits of pages.
    """

    def __init__(self, frontier: IFrontier, sites: Sites, counters: Counters) -> None:
        self._frontier = frontier
        self._sites = sites
        self._counters = counters
        self.moment = 0
        self._read: OrderedDict[tuple[int, bytes], _Version] = OrderedDict()
        """Crawl and key of pages that were committed lately -> the last version."""

    async def choose(self, crawls: Iterable[CrawlRules], pages: Sequence[Page]) -> Chosen:
        """The pages of crawls that were not read in this version last.

        :param pages: in the order of their changes.
        """
        self._counters.pages += len(pages)
        self._counters.missing += sum(bool(page.missing) for page in pages)
        chosen = Chosen([], [], [])
        places: dict[int, int] = {}
        for rules in crawls:
            named = [(page, url) for page in pages if (url := rules.page(page.row)) is not None]
            known = await self._known(rules, {url.key for _, url in named})
            mine = []
            for page, url in named:
                row = known.get(url.key)
                if page.row.state != _CACHED:
                    if row is not None and row.state not in (UrlState.WAITING, UrlState.GONE):
                        chosen.gone.append(UrlAnswer(rules.crawl.id, url.key, Verdict.GONE))
                elif _is_news(rules, page, row):
                    at = places.setdefault(id(page), len(places))
                    if at == len(chosen.pages):
                        chosen.pages.append(page)
                    mine.append(_Mine(at, url, 0 if row is None else row.depth))
            if mine:
                chosen.crawls.append((rules, mine))
        return chosen

    def note_read(self, chosen: Chosen, settled: Mapping[int, Mapping[bytes, int]]) -> None:
        """Pages are committed.

        :param settled: as :meth:`lcc.interfaces.IFrontier.commit` says.
        """
        self.moment += 1
        for rules, mine in chosen.crawls:
            for each in mine:
                row, at = chosen.pages[each.at].row, (rules.crawl.id, each.url.key)
                self._read[at] = _Version(row.change, row.md5, self.moment)
                self._read.move_to_end(at)
            for key, depth in settled.get(rules.crawl.id, {}).items():
                rules.note_known(key, depth)
        while len(self._read) > _READ_MAX:
            self._read.popitem(last=False)

    def without_read(
        self, chosen: Chosen, links: Sequence[PageLinks], asked: int | None = None
    ) -> tuple[Chosen, Sequence[PageLinks]]:
        """Those of them that were not committed since they were chosen: a page may come with the changes, and on its
        own, at the same time.

        :param asked: of pages that do not come with the changes: the :attr:`moment` when they were asked for.  What
            was committed since may be a later version than theirs.
        """

        def is_new(rules: CrawlRules, each: _Mine) -> bool:
            read, row = self._read.get((rules.crawl.id, each.url.key)), chosen.pages[each.at].row
            if read is None:
                return True
            return (asked is None or read.moment <= asked) and (read.change, read.md5) != (row.change, row.md5)

        left = [(rules, [each for each in mine if is_new(rules, each)]) for rules, mine in chosen.crawls]
        wanted = sorted({each.at for _, mine in left for each in mine})
        if len(wanted) == len(chosen.pages) and sum(len(mine) for _, mine in left) == sum(
            len(mine) for _, mine in chosen.crawls
        ):
            return chosen, links
        places = {at: place for place, at in enumerate(wanted)}
        crawls = [(rules, [each._replace(at=places[each.at]) for each in mine]) for rules, mine in left if mine]
        return Chosen([chosen.pages[at] for at in wanted], crawls, chosen.gone), [links[at] for at in wanted]

    async def batch(
        self,
        chosen: Chosen,
        links: Sequence[PageLinks],
        tokens: Mapping[int, str],
        places: Mapping[str, str],
        stores: Mapping[str, StoreWork],
    ) -> FrontierBatch:
        """What is saved of pages.

        :param links: of the pages that were chosen.
        :param tokens: by bucket, where to read on behind them.
        :param places: by name, how far what else is read was read.
        :param stores: what stores made of them.
        """
        sums = _Sums()
        pages: list[ReadPage] = []
        for rules, mine in chosen.crawls:
            pages += await self._follow(rules, [(each, chosen.pages[each.at], links[each.at]) for each in mine], sums)
        self._counters.read += len(pages)
        self._counters.unread += sum(each.failed for each in links)
        return FrontierBatch(pages, tokens, places, sums.dropped, sums.traps, stores)

    async def redirects(self, rules: CrawlRules, redirects: Iterable[tuple[KnownUrl, str]]) -> FrontierBatch:
        """What is saved of URLs that redirect to other hosts, each with where to."""
        redirects = list(redirects)
        endless = await self._at_the_end(rules, [url for url, _ in redirects])
        sums = _Sums()
        found = []
        for url, target in redirects:
            if url.key in endless:
                self._drop(rules, REDIRECTS, sums)
                continue
            depth = url.depth + bool(url.parent)
            named = rules.link(target, depth, nofollow=False)
            if named.dropped:
                self._drop(rules, named.dropped, sums)
            else:
                found.append((url, named, Candidate(named.names, depth, url.furl)))
        judge = await self._judge(rules, [(named, candidate) for _, named, candidate in found], sums)
        passed = [
            Redirect(url.crawl, FoundUrl(url.key, url.root, url.path), named.found)
            for url, named, candidate in found
            if judge(named, candidate)
        ]
        return FrontierBatch(redirects=passed, dropped=sums.dropped, traps=sums.traps)

    async def _at_the_end(self, rules: CrawlRules, urls: Iterable[KnownUrl]) -> Collection[bytes]:
        """Those that so many redirects in a row have led to already that where they redirect to is not followed."""
        parents = {url.key: url.parent for url in urls}
        for _ in range(REDIRECTS_MAX):
            known = await self._known(rules, {parent for parent in parents.values() if parent})
            parents = {
                key: known[parent].parent
                for key, parent in parents.items()
                if parent in known and known[parent].code == REDIRECT_OUTSIDE
            }
        return parents.keys()

    async def _follow(
        self, rules: CrawlRules, mine: Sequence[tuple[_Mine, Page, PageLinks]], sums: _Sums
    ) -> list[ReadPage]:
        crawl = rules.crawl.id
        contents = [_copies(crawl, each.url.root, page) for each, page, _ in mine]
        asked = {content for content in contents if content is not None}
        copies = Counter(await self._frontier.trap_counts(asked) if asked else {})
        candidates = []
        for (each, page, links), content in zip(mine, contents, strict=True):
            count = 0 if content is None else copies[content]
            candidates.append(self._candidates(rules, page.row.curl, each.depth + 1, links, count, sums))
            if content is not None:
                copies[content] += 1
                sums.traps[content] += 1
        judge = await self._judge(rules, [each for found, _ in candidates for each in found], sums)
        read = []
        for (each, page, _), (found, settled) in zip(mine, candidates, strict=True):
            passed = {named.found.key: named.found for named, candidate in found if judge(named, candidate)}
            settled.difference_update(passed)
            self._counters.followed += len(passed) + len(settled)
            change, md5 = page.row.change, page.row.md5
            read.append(ReadPage(crawl, each.url, change, md5, list(passed.values()), settled, each.depth + 1))
        return read

    def _candidates(
        self, rules: CrawlRules, page: str, depth: int, links: PageLinks, copies: int, sums: _Sums
    ) -> tuple[list[tuple[Named, Candidate]], set[bytes]]:
        """The links of a page that pass the filters that need no facts; and the keys of those that only count."""
        found = []
        settled: set[bytes] = set()
        settled_before = rules.settled(depth)
        visited = 0
        self._counters.links += len(links.links)
        for link in links.links:
            nofollow = links.nofollow or link.nofollow
            key = None if nofollow else settled_before.get(link.url)
            if key is None:
                named = rules.link(link.url, depth, nofollow=nofollow)
                if named.dropped:
                    self._drop(rules, named.dropped, sums)
                    continue
                key = named.found.key
                if nofollow or not rules.settles(link.url, depth, key):
                    found.append((named, Candidate(named.names, depth, page, nofollow, copies)))
                    continue
            settled.add(key)
            visited += 1
        if visited:
            self._drop(rules, VISITED, sums, visited)
        return found, settled

    async def _judge(
        self, rules: CrawlRules, candidates: Sequence[tuple[Named, Candidate]], sums: _Sums
    ) -> Callable[[Named, Candidate], bool]:
        """Judges candidates in their order, with what the frontier knows of them: whether they pass.

        What is known already passes: it counts as one more link to it."""
        crawl = rules.crawl.id
        unsure = {named.found.key for named, _ in candidates if not rules.is_known(named.found.key)}
        for key, row in (await self._known(rules, unsure)).items():
            rules.note_known(key, row.settled_depth(rules.crawl.settings.order))
        new = {named.found.key: named for named, _ in candidates if not rules.is_known(named.found.key)}
        trap_keys_of = {key: [each.key for each in trap_keys(named.names.curl)] for key, named in new.items()}
        asked = {Trap(crawl, named.found.root, each) for key, named in new.items() for each in trap_keys_of[key]}
        traps: dict[str, dict[bytes, int]] = {}
        for trap, count in (await self._frontier.trap_counts(asked) if asked else {}).items():
            traps.setdefault(trap.root, {})[trap.key] = count
        hosts: dict[str, HostFacts] = {}

        def judge(named: Named, candidate: Candidate) -> bool:
            key, root = named.found.key, named.found.root
            if rules.is_known(key):
                self._drop(rules, VISITED, sums)
                return True
            if root not in hosts:
                hosts[root] = rules.host_facts(root, self._sites.said(root))
            dropped = rules.judge(candidate, Facts(False, hosts[root], traps.setdefault(root, {})))
            if dropped:
                self._drop(rules, dropped, sums)
                return False
            rules.note_known(key)
            for each in trap_keys_of.get(key, ()):
                traps[root][each] = traps[root].get(each, 0) + 1
                sums.traps[Trap(crawl, root, each)] += 1
            return True

        return judge

    def _drop(self, rules: CrawlRules, name: str, sums: _Sums, number: int = 1) -> None:
        self._counters.dropped[name] += number
        sums.dropped[rules.crawl.id, name] += number

    async def _known(self, rules: CrawlRules, keys: Collection[bytes]) -> dict[bytes, KnownUrl]:
        return await self._frontier.known(rules.crawl.id, keys) if keys else {}


def _is_news(rules: CrawlRules, page: Page, row: KnownUrl | None) -> bool:
    """Whether a page that is cached is to be read.  What cannot be had now is asked for again; what nobody has linked
    to is no page of a crawl, unless it completes what its provider has told."""
    if page.missing or not page.row.md5:
        return False
    if row is None:
        return bool(rules.crawl.settings.pid)
    return not row.is_version(page.row.change, page.row.md5)


def _copies(crawl: int, root: str, page: Page) -> Trap | None:
    """What counts the pages of a host with this content; None: they are not counted."""
    key = copies_key(page.row.curl, page.row.md5)
    return None if key is None else Trap(crawl, root, key)
