"""Random histories of what is found, told and answered, against a model in a dictionary.

Spiders come and go, lose the answers of commits, and read again what they had committed: the tables say what the
model says, and each URL is told until it is answered, one spider at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.domain.spider.rules import FrontierRules
from lcc.errors import Busy, StoreUnavailable
from lcc.model.spider.crawls import NEVER, FoundUrl, FrontierBatch, HostRef, ReadPage, UrlState, Verdict
from lcc.storage.spider.orders import CRAWL_EXCLUDE, CRAWL_INCLUDE
from tests.support.databases import DirectDatabase, result_of
from tests.support.frontier import NOW, Spider, found, frontier_database
from tests.support.switches import LONG

DAY = 86400
ROOTS = ("http://a.example/", "http://b.example/", "https://c.example/")
URLS = tuple(f"{root}{name}" for root in ROOTS for name in ("", "1", "2", "3"))
url = st.integers(0, len(URLS) - 1)
STEP = st.one_of(
    st.tuples(st.just("read"), url, st.lists(url, max_size=5), st.integers(0, 3)),
    st.tuples(st.just("again"), st.integers(0, 50)),
    st.tuples(st.just("unheard"), st.sampled_from(["lose", "fail_after"])),
    st.tuples(st.just("tell")),
    st.tuples(st.just("answer"), url, st.sampled_from(Verdict), st.sampled_from([0, 403, 404, 503, 1302])),
    st.tuples(st.just("stale"), url, st.sampled_from(Verdict)),
    st.tuples(st.just("later"), st.integers(1, 40)),
    st.tuples(st.just("restart")),
    st.tuples(st.just("exclude"), st.sampled_from(["a.example", "c.example"]), st.booleans()),
)


@attrs.define
class Known:
    """What the model knows of a URL."""

    depth: int
    state: UrlState = UrlState.WAITING
    change: int = 0
    md5: str = ""
    failures: int = 0
    told_set: int = 0


class Walk:
    """A history, played on the tables and in the model."""

    def __init__(self, database: DirectDatabase) -> None:
        self.database = database
        self.now = NOW
        self.change = 0
        self.pages: list[tuple[ReadPage, list[FoundUrl]]] = []
        self.settled: dict[bytes, int] = {}
        """From which depth on links to a URL are left out, as commits have said."""
        self.model: dict[str, Known] = {URLS[0]: Known(0)}
        self.spider = self.begin()
        name = f"walk{result_of(self.spider.store.claim('one')).run}"
        self.spider = self.begin()
        self.crawl = self.spider.add(URLS[0], name=name, revisit_seconds=10 * DAY)
        self.name = name
        self.set = 0

    def begin(self) -> Spider:
        self.set = 0
        return Spider(self.database, rules=FrontierRules(window=3, failures_max=3))

    def commit(self, page: ReadPage, links: list[FoundUrl]) -> None:
        """
        :param links: all of them.
        """
        try:
            said = result_of(self.spider.store.commit(FrontierBatch([page]), self.now))
        except StoreUnavailable:
            said = result_of(self.spider.store.commit(FrontierBatch([page]), self.now))
        self.settled.update(said.get(self.crawl, {}))
        known = self.model.get(page.url.furl)
        if known is None:
            known = self.model[page.url.furl] = Known(0)
        if (page.change, page.md5) == (known.change, known.md5):
            return
        known.state, known.change, known.md5, known.failures = UrlState.CACHED, page.change, page.md5, 0
        for link in links:
            if link.furl == page.url.furl:
                continue
            other = self.model.setdefault(link.furl, Known(known.depth + 1))
            other.depth = min(other.depth, known.depth + 1)

    def read(self, number: int, targets: list[int], farther: int) -> None:
        """
        :param farther: so much farther away the page was when it was chosen.
        """
        self.change += 1
        page, links = found(URLS[number]), [found(URLS[target]) for target in targets]
        known = self.model.get(page.furl)
        depth = 1 if known is None else known.depth + 1 + farther
        rest = [link for link in links if self.settled.get(link.key, NEVER) > depth]
        settled = {link.key for link in links} - {link.key for link in rest}
        read = ReadPage(self.crawl, page, self.change, f"{self.change % 3:032x}", rest, settled, depth)
        self.pages.append((read, links))
        self.commit(read, links)

    def again(self, number: int) -> None:
        if self.pages:
            self.commit(*self.pages[number % len(self.pages)])

    def unheard(self, how: str) -> None:
        setattr(self.database, how, 1)

    def tell(self) -> None:
        before = self.states()
        hosts = self.spider.ready(self.crawl, self.now)
        try:
            self.spider.watch(*(HostRef(*host[:2]) for host in hosts if not host.pid), now=self.now)
            told = result_of(self.spider.store.tell({HostRef(*host[:2]): () for host in hosts}, self.now))
        except StoreUnavailable:
            told = []
        for each in told:
            assert each.number > self.set
            self.set = each.number
            for one in each.urls:
                known = self.model[each.root + one.path]
                there = known.change > 0 and known.state in (UrlState.CACHED, UrlState.FAILED)
                assert known.state is not UrlState.TOLD and one.recheck == there
                known.state, known.told_set = UrlState.TOLD, each.number
        # What was told without anybody having heard of it: as if the spider had died.
        for furl, state in self.states().items():
            if state is UrlState.TOLD and before[furl] is not UrlState.TOLD:
                self.model[furl].state = state
                self.model[furl].told_set = self.spider.url(furl, self.crawl).told_set
        for root in ROOTS:
            assert (
                sum(known.state is UrlState.TOLD for furl, known in self.model.items() if furl.startswith(root)) <= 3
            )

    def states(self) -> dict[str, UrlState]:
        return {furl: row.state for furl, row in self.spider.known(*URLS, crawl=self.crawl).items()}

    def answer(self, number: int, verdict: Verdict, code: int, stale: int = 0) -> None:
        known = self.model.get(URLS[number])
        told_set = known.told_set + stale if known is not None and (stale or number % 2) else 0
        try:
            self.spider.answer(verdict, URLS[number], code=code, told_set=told_set, crawl=self.crawl, now=self.now)
        except StoreUnavailable:
            self.spider.answer(verdict, URLS[number], code=code, told_set=told_set, crawl=self.crawl, now=self.now)
        if known is None:
            return
        of_page = verdict in (Verdict.GONE, Verdict.LOST)
        went = known.state is UrlState.CACHED and of_page and not told_set  # without being asked for
        if not went and (known.state is not UrlState.TOLD or stale):
            return
        if verdict is Verdict.UNCHANGED:
            if known.change:
                known.state, known.failures = UrlState.CACHED, 0
        elif verdict in (Verdict.LOST, Verdict.FULL):
            known.state = UrlState.WAITING
        else:
            known.failures += 1
            of_host = verdict is Verdict.FAILED and code in (503, 1302)
            again = of_host and not known.change and known.failures < 3
            known.state = UrlState.WAITING if again else UrlState[verdict.name]

    def stale(self, number: int, verdict: Verdict) -> None:
        self.answer(number, verdict, 404, stale=1)

    def later(self, days: int) -> None:
        self.now += days * DAY

    def restart(self) -> None:
        self.database.fail_after = 0
        former, self.spider = self.spider, self.begin()
        with pytest.raises(Busy):
            result_of(former.store.commit(FrontierBatch(), self.now))

    def exclude(self, host: str, excluded: bool) -> None:
        self.database.lose = self.database.fail_after = 0
        self.spider.order(CRAWL_EXCLUDE if excluded else CRAWL_INCLUDE, self.name, hosts=[host])

    def check(self) -> None:
        rows = self.spider.known(*URLS, crawl=self.crawl)
        assert {
            furl: Known(row.depth, row.state, row.change, row.md5.hex(), row.failures, row.told_set)
            for furl, row in rows.items()
        } == self.model
        self.spider.check()

    def finish(self) -> None:
        """Whatever has happened: all that waits is told in the end, and nothing is left."""
        self.database.lose = self.database.fail_after = 0
        for host in ("a.example", "c.example"):
            self.exclude(host, False)
        for _ in range(100):
            waiting = [furl for furl, known in self.model.items() if known.state is UrlState.WAITING]
            told = [furl for furl, known in self.model.items() if known.state is UrlState.TOLD]
            if not waiting and not told:
                break
            if waiting:  # for a host that is parked; what is only due again would never end
                self.now += 40 * DAY
            for furl in told:
                self.answer(URLS.index(furl), Verdict.REFUSED, 0)
            self.tell()
        assert not waiting and not told
        self.check()
        assert self.spider.status(self.name).is_done


@pytest.fixture
def database(backend: Any) -> Iterator[DirectDatabase]:
    direct = frontier_database(backend)
    yield direct
    direct.blocking.close()


SHARED = settings(
    max_examples=300 if LONG else 12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def play(database: DirectDatabase, steps: list[tuple[Any, ...]]) -> None:
    walk = Walk(database)
    for name, *values in steps:
        getattr(walk, name)(*values)
    walk.database.lose = walk.database.fail_after = 0
    walk.check()
    walk.finish()


# One test for each database: pytest-twisted cannot run one of Hypothesis with several parameters.


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@SHARED
@given(steps=st.lists(STEP, max_size=40))
def test_random_histories_against_the_model(database: DirectDatabase, steps: list[tuple[Any, ...]]) -> None:
    play(database, steps)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@SHARED
@given(steps=st.lists(STEP, max_size=40))
def test_random_histories_on_mariadb_against_the_model(
    database: DirectDatabase, steps: list[tuple[Any, ...]]
) -> None:
    play(database, steps)
