"""Several spiders that write the frontier at the same time."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

from lcc.model.spider.crawls import UrlOrder, bucket_of
from tests.support.databases import DirectDatabase, result_of
from tests.support.frontier import NOW, Spider, frontier_database

DAY = 86400


def test_spiders_that_write_at_once_lose_nothing(backend: Any) -> None:
    """Each reads its own hosts' pages, with links to all; each tells its own."""
    databases = [frontier_database(backend) for _ in range(2)]
    spiders = [Spider(database, name) for database, name in zip(databases, ("one", "two"), strict=True)]
    roots = [f"http://h{number}.example/" for number in range(8)]
    urls = [f"{root}{number}" for root in roots for number in range(200)]
    spiders[0].add(*roots, order=UrlOrder.INLINKS)
    shares = [range(0, 64, 2), range(1, 64, 2)]
    result_of(spiders[0].store.give_buckets(shares[1]))
    assert len(result_of(spiders[1].store.take_buckets(32))) == 32
    told: list[list[str]] = [[], []]
    faults: list[BaseException] = []

    def crawl(at: int) -> None:
        spider, random = spiders[at], Random(at)
        spider.change = at * 10**6
        try:
            for _ in range(8):
                ready = spider.ready(buckets=shares[at])
                now = spider.told(*(host.root for host in ready)) if ready else []
                told[at] += now
                for url in now[:6]:
                    spider.read(url, *random.sample(urls, 50))
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=crawl, args=[at]) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    everything = told[0] + told[1]
    assert len(everything) == len(set(everything))
    assert [{bucket_of(url.split("/")[2]) % 2 for url in each} for each in told] == [{0}, {1}]
    spiders[0].check()
    assert spiders[0].counts()["pages"] == spiders[0].counts()["cached"]
    for database in databases:
        database.blocking.close()


def test_a_host_that_another_spider_has_found_does_not_wait_for_its_clock(frontier: DirectDatabase) -> None:
    """Whoever has the host is a day behind who finds a link to it (seeds 600085s, 600039r)."""
    roots = [f"http://h{number}.example/" for number in range(20)]
    finder = Spider(frontier, "one")
    result_of(finder.store.give_buckets(range(1, 64, 2)))
    owner = Spider(frontier, "two")
    result_of(owner.store.beat("", NOW - DAY))
    own = next(root for root in roots if bucket_of(root.split("/")[2]) % 2 == 0)
    foreign = next(root for root in roots if bucket_of(root.split("/")[2]) % 2 == 1)
    finder.add(own)
    finder.read(own, foreign)
    assert [host.root for host in owner.ready(now=NOW - DAY, buckets=range(1, 64, 2))] == [foreign]
