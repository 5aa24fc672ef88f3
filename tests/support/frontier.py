"""The tables of a spider, asked in plain calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lcc.domain.spider.keys import found_url, host_key, url_key
from lcc.domain.spider.rules import FrontierRules
from lcc.model.spider.crawls import (
    BUCKETS,
    CrawlSettings,
    CrawlStatus,
    FoundUrl,
    FrontierBatch,
    HostRef,
    HostRow,
    KnownUrl,
    ReadPage,
    ReadyHost,
    Telling,
    UrlAnswer,
    Verdict,
)
from lcc.storage.database.migrations import MAIN, SPIDER
from lcc.storage.spider.orders import CRAWL_ADD, ORDERS, add_body, starts_of
from lcc.storage.spider.store import FrontierStore
from lcc.storage.spider.views import crawl_status, host_by_key, url_by_key
from tests.support.databases import Backend, DirectDatabase, result_of

NOW = 1_780_000_000
ALL = range(BUCKETS)


def frontier_database(backend: Backend) -> DirectDatabase:
    """The tables of spiders on this backend."""
    return DirectDatabase(backend.url, backend.home, SPIDER if backend.kind == "sqlite" else MAIN)


def found(url: str) -> FoundUrl:
    """A URL whose two names are the same."""
    return found_url(url, url)


class Spider:
    """A spider's store; crawl 1 has the name ``a``."""

    def __init__(self, database: DirectDatabase, name: str = "one", rules: FrontierRules | None = None) -> None:
        self.database = database
        self.rules = rules or FrontierRules(window=10)
        self.store = FrontierStore(database, self.rules)  # type: ignore[arg-type]  # stands in
        self.claim = result_of(self.store.claim(name))
        self.buckets = result_of(self.store.take_buckets(BUCKETS))
        self.change = 0

    def order(self, kind: str, crawl: str = "a", starts: Sequence[str] = (), now: int = NOW, **body: Any) -> Any:
        """Give an order, and have it carried out; its answer."""
        number = self.database.now(ORDERS.give, kind, crawl, {**body, "starts": list(starts)}, now)
        carry_out_all(self, now)
        return self.database.blocking.interact(ORDERS.answer, number)

    def add(self, *starts: str, name: str = "a", now: int = NOW, **settings: Any) -> int:
        """A crawl; its id."""
        body = add_body(CrawlSettings(**settings), starts)
        answer = self.order(CRAWL_ADD, name, body.pop("starts"), now, **body)
        return int(answer["crawl"])

    def read(
        self, url: str, *links: str, crawl: int = 1, now: int = NOW, change: int = 0, md5: str = "", **more: Any
    ) -> None:
        """A page is committed."""
        self.change = change or self.change + 1
        page = ReadPage(crawl, found(url), self.change, md5 or f"{self.change:032x}", [found(link) for link in links])
        result_of(self.store.commit(FrontierBatch([page], **more), now))

    def known(self, *urls: str, crawl: int = 1) -> dict[str, KnownUrl]:
        """By URL."""
        rows = result_of(self.store.known(crawl, [url_key(url) for url in urls]))
        return {row.furl: row for row in rows.values()}

    def url(self, url: str, crawl: int = 1) -> KnownUrl:
        row = self.database.blocking.interact(url_by_key, crawl, url_key(url))
        assert row is not None, url
        return row

    def host(self, root: str, crawl: int = 1) -> HostRow:
        row = self.database.blocking.interact(host_by_key, crawl, host_key(root))
        assert row is not None, root
        return row

    def ready(
        self,
        crawl: int = 1,
        now: int = NOW,
        limit: int = 1000,
        buckets: Collection[int] = ALL,
        after: ReadyHost | None = None,
    ) -> list[ReadyHost]:
        return result_of(self.store.ready_hosts(crawl, buckets, now, limit, after))

    def asked(self, crawl: int = 1, now: int = NOW) -> list[str]:
        """Roots of the hosts that are to be asked for."""
        return [host.root for host in result_of(self.store.told_hosts(crawl, ALL, now, 1000))]

    def tell(self, *roots: str, crawl: int = 1, now: int = NOW) -> list[Telling]:
        """Of these hosts; of all that are ready.  Those without a provider get one."""
        refs = [HostRef(crawl, root) for root in roots] or [HostRef(*host[:2]) for host in self.ready(crawl, now)]
        self.watch(*(ref for ref in refs if not self.host(ref.root, crawl).pid), now=now)
        return result_of(self.store.tell(dict.fromkeys(refs, ()), now))

    def watch(self, *hosts: HostRef, pid: int = 1, now: int = NOW) -> None:
        """These hosts are of this provider."""
        if hosts:
            result_of(self.store.watched([(host, pid) for host in hosts], now))

    def told(self, *roots: str, crawl: int = 1, now: int = NOW) -> list[str]:
        """As :meth:`tell`: the URLs, in order."""
        return [each.root + url.path for each in self.tell(*roots, crawl=crawl, now=now) for url in each.urls]

    def answer(
        self, verdict: Verdict, *urls: str, code: int = 0, told_set: int = 0, crawl: int = 1, now: int = NOW
    ) -> None:
        answers = [UrlAnswer(crawl, url_key(url), verdict, told_set, code) for url in urls]
        result_of(self.store.answer(answers, [], now))

    def status(self, name: str = "a") -> CrawlStatus:
        status = self.database.blocking.interact(crawl_status, name)
        assert status is not None
        return status

    def counts(self, name: str = "a") -> Mapping[str, int]:
        """Those that are not 0."""
        return {each: count for each, count in self.status(name).counts.items() if count}

    def check(self) -> None:
        """What is counted is what there is."""
        names = ("waiting", "told", "cached", "failed", "gone", "refused")
        actual: dict[int, dict[str, int]] = {}
        sql = "SELECT crawl, state, change_number > 0, COUNT(*) FROM spurl GROUP BY crawl, state, change_number > 0"
        for crawl, state, again, count in self.database.query(sql):
            name = "rechecks" if state == 1 and again else names[state]
            counts = actual.setdefault(crawl, {})
            for each in (name, "known"):
                counts[each] = counts.get(each, 0) + count
        sql = "SELECT crawl, COUNT(*), SUM(CASE WHEN parked_time > 0 THEN 1 ELSE 0 END) FROM sphost GROUP BY crawl"
        for crawl, hosts, parked in self.database.query(sql):
            actual.setdefault(crawl, {}).update(hosts=hosts, parked=int(parked))
        sql = "SELECT crawl, SUM(waiting) FROM sphost WHERE parked_time > 0 OR excluded = 1 GROUP BY crawl"
        for crawl, held in self.database.query(sql):
            actual.setdefault(crawl, {})["held"] = int(held)
        counted: dict[int, dict[str, int]] = {}
        for crawl, name, count in self.database.query(
            "SELECT crawl, name, SUM(value) FROM spcount GROUP BY crawl, name"
        ):
            if name in (*names, "rechecks", "known", "hosts", "parked", "held") and count:
                counted.setdefault(crawl, {})[name] = int(count)
        assert counted == {crawl: {n: c for n, c in each.items() if c} for crawl, each in actual.items() if each}
        sql = (
            "SELECT h.crawl, h.root, h.known, h.waiting, h.told, h.cached, COUNT(u.state),"
            " COALESCE(SUM(u.state = 0), 0), COALESCE(SUM(u.state = 1), 0), COALESCE(SUM(u.state = 2), 0)"
            " FROM sphost h LEFT JOIN spurl u ON u.crawl = h.crawl AND u.hostkey = h.hostkey"
            " GROUP BY h.crawl, h.root, h.known, h.waiting, h.told, h.cached"
        )
        for row in self.database.query(sql):
            assert [*row[2:6]] == [int(count) for count in row[6:]], row


def carry_out_all(spider: Spider, now: int = NOW) -> None:
    """Carry out all orders that wait; URLs have one name."""
    for order in result_of(spider.store.open_orders(1000)):
        result_of(spider.store.carry_out(order, [found(url) for url in starts_of(order)], now))
