"""What a spider asks all the time is answered by short walks along an index, as MariaDB says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from lcc.domain.spider.keys import host_key
from lcc.model.spider.crawls import FrontierBatch, HostRef, ReadPage, ReadyHost, UrlAnswer, UrlState, Verdict
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.commit import commit_batch
from lcc.storage.spider.lists import UrlPlace, crawl_host_list, crawl_urls, host_urls
from lcc.storage.spider.removal import remove_page
from lcc.storage.spider.telling import answer, ready_hosts, tell, told_hosts, told_urls
from lcc.storage.spider.views import biggest_hosts, parked_hosts
from lcc.storage.spider.write import FrontierWrite
from tests.support.frontier import ALL, NOW, Spider, found, frontier_database
from tests.support.plans import Explaining

pytestmark = pytest.mark.parametrize("backend", ["mariadb"], indirect=True)

A = "http://a.example/"
URLS = 2000
DAY = 86400
_numbers = count(10**6)
SMALL = {"spcrawl", "spexcluded", "spspider", "spclaim", "spplace", "spcount"}
"""Tables with a row or so for each crawl, spider, bucket."""


@pytest.fixture
def big(backend: Any) -> Iterator[Spider]:
    """Many URLs of one host, a few of many: some wait, some are told, some are looked at again."""
    direct = frontier_database(backend)
    spider = Spider(direct)
    spider.add(A, revisit_seconds=DAY)
    spider.read(A, *[f"{A}{number}" for number in range(URLS)], *[f"http://h{n}.example/" for n in range(200)])
    for number in range(30):
        spider.read(f"{A}{number}", f"{A}{number + 1}")
    spider.tell()
    direct.query("ANALYZE TABLE spurl, sphost, spdomain, sptrap")
    yield spider
    direct.blocking.close()


def explained(spider: Spider, do: Callable[[Any], Any], now: int = NOW) -> dict[str, set[tuple[str, str | None]]]:
    """By table: how its rows were reached."""

    def work(txn: Txn) -> list[tuple[str, str, str, str | None, int]]:
        explaining = Explaining(txn)
        if do.__code__.co_varnames[0] == "txn":
            do(explaining)
        else:
            write = FrontierWrite(explaining, spider.rules, spider.claim.run, next(_numbers), now)
            do(write)
            write.save()
        return explaining.plans

    reached: dict[str, set[tuple[str, str | None]]] = {}
    for sql, table, access, index, _rows in spider.database.now(work):
        assert table in SMALL or access in ("const", "eq_ref", "ref", "range", "system"), (sql, table, access)
        reached.setdefault(table, set()).add((access, index))
    return reached


def telling(big: Spider) -> None:
    some = range(20)
    refs = [HostRef(1, A), HostRef(1, "http://h1.example/")]
    after = ReadyHost(1, A, 0, NOW, 7, b"\1")
    for crawl_at in (NOW, NOW + 2 * DAY):
        reached = explained(big, lambda txn, now=crawl_at: ready_hosts(txn, 1, ALL, now, 100))
        assert reached["sphost"] == {("range", "sphost_ready")}
        reached = explained(big, lambda txn, now=crawl_at: ready_hosts(txn, 1, some, now, 100))
        assert reached["sphost"] == {("range", "sphost_ready")}
        reached = explained(big, lambda txn, now=crawl_at: ready_hosts(txn, 1, ALL, now, 100, after))
        assert reached["sphost"] == {("range", "sphost_ready")}
        reached = explained(big, lambda write: tell(write, dict.fromkeys(refs, ())), crawl_at)
        # Found by the index of ranks, changed by their keys.
        assert ("range", "spurl_next") in reached["spurl"]
        assert reached["spurl"] <= {("range", "spurl_next"), ("range", "PRIMARY")}


def asking_and_answering(big: Spider) -> None:
    later = NOW + DAY
    assert explained(big, lambda txn: told_hosts(txn, 1, ALL, later, 100))["sphost"] == {("range", "sphost_ask")}
    reached = explained(big, lambda txn: told_urls(txn, big.rules, HostRef(1, A), later, 100))
    assert reached["spurl"] == {("range", "spurl_next")}
    answers = [UrlAnswer(1, found(f"{A}{number}").key, Verdict.FAILED, 0, 503) for number in range(100)]
    reached = explained(big, lambda write: answer(write, answers, [HostRef(1, A)]))
    assert {index for _, index in reached["spurl"]} == {"PRIMARY"}


def committing(big: Spider) -> None:
    links = [found(f"{A}{number}") for number in range(300)]
    batch = FrontierBatch([ReadPage(1, found(f"{A}400"), 10**6, "0" * 32, links)], {3: "t"}, {"links": "p"})
    reached = explained(big, lambda write: commit_batch(write, batch))
    assert {index for _, index in reached["spurl"]} == {"PRIMARY"}


def looking_on(big: Spider) -> None:
    assert explained(big, lambda txn: biggest_hosts(txn, 1, 10))["sphost"] == {("ref", "sphost_known")}
    assert explained(big, lambda txn: parked_hosts(txn, 1, 10))["sphost"] == {("range", "sphost_parked")}


def removing(big: Spider) -> None:
    big.order("crawl-remove")
    reached = explained(big, remove_page)
    assert {index for _, index in reached["spurl"]} == {"PRIMARY"}


def listing(big: Spider) -> None:
    def lists(txn: Any) -> None:
        for state in (None, UrlState.WAITING, UrlState.GONE):
            crawl_urls(txn, 1, state, b"\x10", 10, 100)
            host_urls(txn, 1, host_key(A), state, UrlPlace(0, 0, b"\x10"), 10)
        for parked in (False, True):
            crawl_host_list(txn, 1, parked, None, 10)
            crawl_host_list(txn, 1, parked, (3, b"\x10"), 10)

    reached = explained(big, lists)
    assert reached["spurl"] == {("range", "PRIMARY"), ("range", "spurl_next"), ("ref", "spurl_next")}, reached


def test_all_walks_are_short(big: Spider) -> None:
    """In one test: what it takes is to make the tables."""
    for part in (telling, asking_and_answering, committing, looking_on, listing, removing):
        part(big)
