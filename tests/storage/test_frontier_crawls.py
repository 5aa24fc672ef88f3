"""The frontier of crawls: their limits, what operators order, and the spiders that share them."""

from __future__ import annotations

import pytest

from lcc.domain.spider.rules import FrontierRules
from lcc.errors import Busy
from lcc.model.spider.crawls import FrontierBatch, HostRef, Trap, bucket_of
from lcc.storage.spider.orders import (
    CRAWL_EXCLUDE,
    CRAWL_INCLUDE,
    CRAWL_PAUSE,
    CRAWL_REMOVE,
    CRAWL_RESUME,
    CRAWL_SET,
    CRAWL_START,
    ORDERS,
)
from tests.support.databases import DirectDatabase, result_of
from tests.support.frontier import ALL, NOW, Spider

A, B = "http://a.example/", "http://b.example/"


def test_limits_of_a_crawl_are_kept_and_counted(spider: Spider) -> None:
    spider.rules = FrontierRules(hosts_per_domain=2)
    spider.store._rules = spider.rules
    spider.add(A, urls_max=6, hosts_max=4)
    spider.read(A, *[f"http://{name}.example.org/" for name in "abcd"])
    assert spider.status().dropped == {"domain-hosts-max": 2}
    spider.read(A, *[f"http://{name}.example/" for name in "bcd"], change=10)
    assert (spider.counts()["hosts"], spider.status().dropped["hosts-max"]) == (4, 2)
    spider.read(A, *[f"{A}{number}" for number in range(6)], change=11)
    assert (spider.counts()["known"], spider.status().dropped["urls-max"]) == (6, 4)


def test_hosts_are_excluded_and_included(spider: Spider) -> None:
    spider.add(A)
    assert spider.order(CRAWL_EXCLUDE, hosts=["a.example", "b.example"]) == {"crawl": 1}
    assert spider.ready() == [] and spider.status().is_done
    (crawl,) = result_of(spider.store.crawls())
    assert (crawl.excluded, crawl.version) == ({"a.example", "b.example"}, 2)
    spider.read(A, B)
    assert spider.ready() == []
    spider.order(CRAWL_INCLUDE, hosts=["b.example"])
    assert [host.root for host in spider.ready()] == [B]


def test_orders_change_crawls(spider: Spider) -> None:
    spider.add(A, revisit_seconds=5, roots=("http://a.example/",))
    assert "already" in spider.order("crawl-add", settings={})["error"]
    assert "no crawl 'x'" in spider.order(CRAWL_PAUSE, "x")["error"]
    assert "knows no order" in spider.order("nonsense")["error"]
    assert "understand" in spider.order("crawl-add", "new", settings={"what": 1})["error"]
    assert spider.order(CRAWL_PAUSE) == {"crawl": 1}
    assert spider.told(A) == []
    spider.order(CRAWL_RESUME)
    assert "cannot change" in spider.order(CRAWL_SET, settings={"names": "larm"})["error"]
    spider.order(CRAWL_SET, settings={"depth_max": 3})
    (crawl,) = result_of(spider.store.crawls())
    settings = crawl.settings
    assert (settings.depth_max, settings.revisit_seconds, settings.roots) == (3, 5, (A,))
    spider.order(CRAWL_START, starts=[B, A])
    assert sorted(spider.told()) == [A, B]
    assert result_of(spider.store.open_orders(5)) == []


def test_a_crawl_that_may_be_private_later_asks_for_its_providers_again(spider: Spider) -> None:
    spider.add(A, B)
    result_of(spider.store.watched([(HostRef(1, A), 7)], NOW))
    spider.order(CRAWL_SET, settings={"depth_max": 3})
    assert spider.host(A).pid == 7
    spider.order(CRAWL_SET, settings={"allow_private": True})
    assert spider.host(A).pid == 0
    result_of(spider.store.watched([(HostRef(1, A), 7)], NOW))
    spider.order(CRAWL_SET, settings={"allow_private": True})
    assert spider.host(A).pid == 7


def test_an_order_is_refused(spider: Spider) -> None:
    number = spider.database.now(ORDERS.give, "crawl-add", "x", {}, NOW)
    (order,) = result_of(spider.store.open_orders(5))
    result_of(spider.store.refuse_order(order, "no good", NOW))
    assert spider.database.blocking.interact(ORDERS.answer, number) == {"error": "no good"}
    result_of(spider.store.carry_out(order, [], NOW))
    assert result_of(spider.store.crawls()) == []


def test_a_removed_crawl_goes_in_pages(spider: Spider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.storage.spider.removal.PAGE_ROWS", 10)
    spider.add(*[f"{A}{number}" for number in range(25)])
    spider.add(B, name="b")
    spider.read(B, A, crawl=2, traps={Trap(1, A, b"k"): 1})
    spider.order(CRAWL_EXCLUDE, hosts=["c.example"])
    spider.order(CRAWL_REMOVE)
    pages = 0
    while result_of(spider.store.remove_page()):
        pages += 1
        spider.read(A, A + "more", crawl=1)  # too late
    assert pages >= 4
    for table in ("spurl", "sphost", "spdomain", "sptrap", "spexcluded", "spcount"):
        assert spider.database.query(f"SELECT DISTINCT crawl FROM {table} WHERE crawl <> 2") == [], table
    assert [crawl.name for crawl in result_of(spider.store.crawls())] == ["b"]
    assert spider.add(A, name="a") == 3


def test_spiders_share_buckets(frontier: DirectDatabase) -> None:
    one, two = Spider(frontier, "one"), Spider(frontier, "two")
    assert (len(one.buckets), len(two.buckets)) == (64, 0)
    result_of(one.store.commit(FrontierBatch(tokens=dict.fromkeys(ALL, "t1")), NOW))
    mine = {bucket_of("a.example")}
    result_of(one.store.give_buckets(mine))
    assert result_of(two.store.take_buckets(32)) == dict.fromkeys(mine, "t1")
    one.add(A, B)
    # Each tells its own hosts only; what one has read is told by the other.
    assert one.told(A, B) == [B]
    assert two.told(A, B) == [A]
    one.read(B, A + "x")
    assert two.ready(buckets=mine)[0].root == A
    assert two.told() == [A + "x"]
    # A token of a bucket that is another's is not saved.
    result_of(one.store.commit(FrontierBatch(tokens=dict.fromkeys(ALL, "t2")), NOW))
    assert result_of(two.store.take_buckets(32)) == dict.fromkeys(mine, "t1")
    one.check()


def test_a_spider_that_is_silent_is_retired(frontier: DirectDatabase) -> None:
    one, two = Spider(frontier, "one"), Spider(frontier, "two")
    one.add(A)
    (first, _) = result_of(two.store.spiders())
    assert (first.name, len(first.buckets)) == ("one", 64)
    result_of(one.store.beat("x" * 900, NOW))
    assert not result_of(two.store.retire(first.run, first.beats))
    (first, _) = result_of(two.store.spiders())
    assert (first.trouble, first.seen_time) == ("x" * 500, NOW)
    assert result_of(two.store.retire(first.run, first.beats))
    assert len(result_of(two.store.take_buckets(64))) == 64
    for call in (
        lambda: one.store.beat("", NOW),
        lambda: one.store.tell({HostRef(1, A): ()}, NOW),
        lambda: one.store.commit(FrontierBatch(), NOW),
        lambda: one.store.take_buckets(1),
        lambda: one.store.answer([], [], NOW),
    ):
        with pytest.raises(Busy):
            result_of(call())
    assert two.told() == [A]
    # One that begins again takes part again; numbers of its sets begin anew, in another epoch.
    again = Spider(frontier, "one")
    assert again.claim.epoch != one.claim.epoch
    result_of(two.store.end())
    assert len(result_of(again.store.take_buckets(64))) == 64
    assert [spider.name for spider in result_of(again.store.spiders())] == ["one"]


def test_a_spider_of_the_same_name_takes_over_at_once(frontier: DirectDatabase) -> None:
    one = Spider(frontier)
    one.add(A)
    one.tell()
    again = Spider(frontier)
    assert len(again.buckets) == 64
    with pytest.raises(Busy):
        one.tell(A)
    assert again.asked(now=NOW + 30) == [A]
