"""The frontier of crawls: pages with their links go in, URLs to be told come out, each once."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from lcc.domain.spider.keys import found_url, url_key
from lcc.domain.spider.rules import START_CASH, FrontierRules
from lcc.errors import Busy, StoreUnavailable, code
from lcc.model.crawls import (
    NEVER,
    FrontierBatch,
    HostRef,
    ReadPage,
    ReadyHost,
    Redirect,
    StoreTrouble,
    StoreWork,
    Trap,
    UrlAnswer,
    UrlOrder,
    UrlState,
    Verdict,
    bucket_of,
)
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
from lcc.storage.spider.rows import URLS
from lcc.storage.spider.stores import store_troubles
from lcc.storage.spider.views import biggest_hosts, parked_hosts, way_to
from tests.support.databases import DirectDatabase, result_of
from tests.support.frontier import ALL, NOW, Spider, found, frontier_database

A, B = "http://a.example/", "http://b.example/"
DAY = 86400


@pytest.fixture
def database(backend: Any) -> Iterator[DirectDatabase]:
    direct = frontier_database(backend)
    yield direct
    direct.blocking.close()


@pytest.fixture
def spider(database: DirectDatabase) -> Iterator[Spider]:
    one = Spider(database)
    yield one
    one.check()


def test_a_crawl_from_its_start_to_its_end(spider: Spider) -> None:
    spider.add(A)
    assert [(host.root, host.pid) for host in spider.ready()] == [(A, 0)]
    result_of(spider.store.watched([(HostRef(1, A), 7)], NOW))
    assert result_of(spider.store.hosts_this_hour(NOW)) == 1
    assert result_of(spider.store.hosts_this_hour(NOW + 3600)) == 0
    (told,) = spider.tell()
    assert (told.number, told.crawl, told.root, told.pid) == (1, 1, A, 7)
    assert [(url.path, url.recheck, url.told_set) for url in told.urls] == [("", False, 1)]
    assert spider.ready() == []
    assert not spider.status().is_done
    spider.read(A, A + "x", A + "y", B, A)
    assert spider.counts() == {"known": 4, "waiting": 3, "cached": 1, "hosts": 2, "pages": 1, "links": 3}
    assert {host.root for host in spider.ready()} == {A, B}
    assert sorted(spider.told()) == [A + "x", A + "y", B]
    for url in (A + "x", A + "y", B):
        spider.read(url, A)
    assert spider.status().is_done
    assert spider.counts() == {"known": 4, "cached": 4, "hosts": 2, "pages": 4, "links": 6}
    row = spider.url(A + "x")
    assert (row.state, row.depth, row.parent, row.rank) == (UrlState.CACHED, 1, found(A).key, NEVER)
    assert [page.furl for page in spider.database.blocking.interact(way_to, row)] == [A]


def test_a_page_is_committed_once_for_each_change(spider: Spider) -> None:
    spider.add(A, order=UrlOrder.INLINKS)
    spider.read(A, A + "x", change=5)
    before = spider.counts(), spider.known(A, A + "x")
    spider.read(A, A + "x", A + "y", change=5)
    assert (spider.counts(), spider.known(A, A + "x")) == before
    # A page that is read again counts no link twice, but finds new ones.
    spider.read(A, A + "x", A + "y", change=6)
    assert {url: row.inlinks for url, row in spider.known(A + "x", A + "y").items()} == {A + "x": 1, A + "y": 1}


def test_a_commit_that_was_not_heard_of_is_not_done_twice(spider: Spider) -> None:
    spider.add(A)
    batch = FrontierBatch(
        [ReadPage(1, found(A), 1, "0" * 32, [found(A + "x")])],
        {3: "t1"},
        {"links": "p1"},
        {(1, "hosts"): 2, (1, "held"): 3},
        {Trap(1, A, b"k"): 2},
    )
    spider.database.lose = 1
    result_of(spider.store.commit(batch, NOW))
    assert spider.status().dropped == {"hosts": 2, "held": 3}, "filters may be called as other counters are"
    assert spider.counts()["hosts"] == 1 and "held" not in spider.counts()
    assert result_of(spider.store.trap_counts([Trap(1, A, b"k"), Trap(1, A, b"l")])) == {Trap(1, A, b"k"): 2}
    assert result_of(spider.store.take_buckets(64))[3] == "t1"
    assert result_of(spider.store.places()) == {"links": "p1"}
    spider.database.fail_after = 1
    with pytest.raises(StoreUnavailable):
        result_of(spider.store.tell({HostRef(1, A): ()}, NOW))
    # It was done: what nobody has told is found as told.
    assert result_of(spider.store.tell({HostRef(1, A): ()}, NOW)) == []
    assert spider.asked(now=NOW + 30) == [A]
    (url,) = result_of(spider.store.told_urls(HostRef(1, A), NOW + 1, 10))
    assert url.path == "x"
    spider.answer(Verdict.LOST, A + "x")
    assert spider.told() == [A + "x"]


def test_the_backlog_of_a_store(spider: Spider) -> None:
    def save(place: str | None, fault: str = "", lacks: str = "", has: str = "") -> StoreTrouble | None:
        keys = [[letter.encode() * 20 for letter in letters] for letters in (lacks, has)]
        works = {"links": StoreWork("p2"), "text": StoreWork(place, fault, *keys)}
        result_of(spider.store.commit(FrontierBatch(stores=works), NOW))
        return next(iter(spider.database.blocking.interact(store_troubles)), None)

    name = spider.store._name
    assert save("p1") is None
    assert save(None, "full", lacks="abc") == StoreTrouble(name, "text", "full", 3)
    assert save(None, "full", lacks="cd") == StoreTrouble(name, "text", "full", 4), "each page once"
    assert result_of(spider.store.places()) == {"links": "p2", "text": "p1"}
    assert result_of(spider.store.backlog("text", b"", 3)) == [letter * 20 for letter in (b"a", b"b", b"c")]
    assert result_of(spider.store.backlog("text", b"c" * 20, 3)) == [b"d" * 20]
    assert result_of(spider.store.backlog("links", b"", 3)) == []
    assert save("p3", has="abx") == StoreTrouble(name, "text", "", 2)
    assert save("p4", has="cd") is None
    assert result_of(spider.store.places())["text"] == "p4"


def test_hosts_that_are_ready_are_read_page_by_page(spider: Spider) -> None:
    roots = [f"http://h{number}.example/" for number in range(40)]
    spider.add(*roots)
    spider.add("http://other.example/", name="b")
    spider.read(A, *(f"http://later{number}.example/" for number in range(9)), now=NOW + 5)
    for buckets in (ALL, range(0, 64, 2)):
        whole = spider.ready(now=NOW + 5, buckets=buckets)
        assert whole and {host.bucket for host in whole} <= set(buckets)
        for limit in (1, 3, 50):
            paged: list[ReadyHost] = []
            while page := spider.ready(now=NOW + 5, limit=limit, buckets=buckets, after=paged[-1] if paged else None):
                assert len(page) <= limit
                paged += page
            assert paged == whole, "in the same order, each once"
    assert len({host.time for host in whole}) > 1


def test_told_hosts_are_asked_for_once_in_a_while(spider: Spider) -> None:
    spider.add(A, B)
    spider.tell(A, now=NOW)
    spider.tell(B, now=NOW + 5)
    assert spider.asked(now=NOW + 29) == []
    assert spider.asked(now=NOW + 35) == [A, B]
    assert result_of(spider.store.told_urls(HostRef(1, B), NOW + 5, 10)) == []
    assert [url.told_set for url in result_of(spider.store.told_urls(HostRef(1, B), NOW + 6, 10))] == [2]
    result_of(spider.store.answer([], [HostRef(1, A)], NOW + 35))
    assert spider.asked(now=NOW + 36) == [B]
    assert spider.asked(now=NOW + 65) == [B, A]
    spider.answer(Verdict.REFUSED, B)
    assert spider.asked(now=NOW + 65) == [A]
    assert spider.url(B).state is UrlState.REFUSED


def test_a_window_is_kept_and_filled_again_when_half_empty(spider: Spider) -> None:
    urls = [f"{A}{number:02}" for number in range(30)]
    spider.add(*urls)
    told = spider.told()
    assert len(told) == 10
    assert spider.ready() == []
    for url in told[:4]:
        spider.read(url)
    assert spider.ready() == []
    spider.read(told[4])
    assert [host.root for host in spider.ready()] == [A]
    more = spider.told()
    assert len(more) == 5 and not set(more) & set(told)


@pytest.mark.parametrize("order", list(UrlOrder))
def test_urls_are_told_in_the_order_of_the_crawl(spider: Spider, order: UrlOrder) -> None:
    spider.rules = FrontierRules(window=1)
    spider.store._rules = spider.rules
    spider.add(A, order=order)
    assert spider.told() == [A]
    # deep: far from the start, linked to by many; near: the reverse; some: in between.
    spider.read(A, *[f"{B}{number}" for number in range(8)], A + "via", A + "near")
    for number in range(8):
        spider.read(f"{B}{number}", A + "deep", *([A + "some"] if number < 4 else []))
    first = spider.told(A)
    assert (
        first
        == {
            UrlOrder.DEPTH: [min([A + "via", A + "near"], key=lambda url: found(url).key)],
            UrlOrder.INLINKS: [A + "deep"],
            UrlOrder.OPIC: [A + "deep"],
        }[order]
    )
    assert spider.url(A + "deep").depth == 2
    spider.read(A + "via", A + "deep")
    if order is UrlOrder.OPIC:
        # All cash that there is, is somewhere.
        assert spider.database.query("SELECT SUM(cash) FROM spurl") == [(START_CASH,)]


def test_a_shorter_way_moves_a_url_up(spider: Spider) -> None:
    spider.add(A + "1")
    spider.read(A + "1", A + "2")
    spider.read(A + "2", A + "3")
    spider.read(A + "3", A + "4", A + "5")
    assert spider.url(A + "5").rank == 3
    spider.read(A + "1", A + "5", change=10)
    row = spider.url(A + "5")
    assert (row.depth, row.rank, row.parent) == (1, 1, found(A + "3").key)
    assert spider.told()[0] == A + "5"


@pytest.mark.parametrize("order", list(UrlOrder))
def test_links_that_change_nothing_need_not_be_looked_at(spider: Spider, order: UrlOrder) -> None:
    """Two crawls of the same pages, one of which leaves out what is settled: they have the same rows and counts."""
    spider.add(A, order=order)
    spider.add(A, name="b", order=order)
    chance, settled, left_out = Random(5), {}, 0  # type: ignore[var-annotated]
    pages = [f"{root}{name}" for root in (A, B) for name in ("", *range(6))]
    for change in range(1, 80):
        page, links = found(chance.choice(pages)), [found(chance.choice(pages)) for _ in range(5)]
        row = result_of(spider.store.known(2, [page.key])).get(page.key)
        # The page was looked at when it may have been farther away.
        depth = 1 if row is None else row.depth + 1 + chance.choice([0, 0, 1, 3])
        rest = [link for link in links if settled.get(link.key, 1 << 30) > depth]
        without = {link.key for link in links} - {link.key for link in rest}
        left_out += len(without)
        result_of(spider.store.commit(FrontierBatch([ReadPage(1, page, change, f"{change:032x}", links)]), NOW))
        told = ReadPage(2, page, change, f"{change:032x}", rest, without, depth)
        settled.update(result_of(spider.store.commit(FrontierBatch([told]), NOW)).get(2, {}))
        columns = ", ".join(URLS.columns[1:])
        rows = [spider.database.query(f"SELECT {columns} FROM spurl WHERE crawl = {crawl}") for crawl in (1, 2)]
        assert sorted(rows[0]) == sorted(rows[1])
    assert spider.counts("a") == spider.counts("b")
    assert left_out > 100


def test_a_page_that_is_nearer_by_now_brings_its_links_nearer(spider: Spider) -> None:
    spider.add(A)
    spider.read(A, A + "1", A + "2")
    spider.read(A + "1", A + "3")
    spider.read(A + "3", A + "4")
    spider.read(A + "4", A + "5", B)
    assert spider.url(A + "5").depth == 4
    # It was 9 links away when it was chosen, and links to what is 4 away changed nothing.
    settled = [found(A + "5").key, found(B).key]
    page = ReadPage(1, found(A + "2"), 99, "0" * 32, [found(A + "6")], settled, 10)
    result_of(spider.store.commit(FrontierBatch([page]), NOW))
    assert {url: spider.url(url).depth for url in (A + "5", A + "6", B)} == {A + "5": 2, A + "6": 2, B: 2}
    assert spider.url(A + "5").parent == found(A + "4").key
    assert spider.counts()["links"] == 6 + 3


def test_what_the_cache_has_no_longer_is_told_as_new(spider: Spider) -> None:
    """A fetch again of what is not there does nothing (seed 60003s)."""
    spider.add(A, revisit_seconds=DAY)
    now = NOW
    for verdict in (Verdict.GONE, Verdict.LOST):
        spider.tell(now=now)
        spider.read(A, now=now)
        now += 100 * DAY
        (told,) = spider.tell(now=now)
        spider.answer(verdict, A, code=404 if verdict is Verdict.GONE else 0, told_set=told.number, now=now)
        now += 100 * DAY
        (again,) = spider.tell(now=now)
        assert ([url.recheck for url in told.urls], [url.recheck for url in again.urls]) == ([True], [False])
        spider.read(A, now=now)
        now += 100 * DAY


def test_what_was_read_and_is_lost_with_the_cache_is_told_as_new(spider: Spider) -> None:
    links = [f"{A}{number}" for number in range(5)]
    spider.add(A)
    spider.tell()
    spider.read(A, *links, B)
    spider.tell()
    spider.read(links[1])
    spider.read(B)
    result_of(spider.store.watched([(HostRef(1, A), 7)], NOW))
    rows = result_of(spider.store.read_urls(1, b"", 2))
    rows += result_of(spider.store.read_urls(1, rows[-1].key, 2))
    assert sorted((row.url, row.pid, row.bucket) for row in rows) == [
        (A, 7, bucket_of("a.example")),
        (links[1], 7, bucket_of("a.example")),
        (B, 0, bucket_of("b.example")),
    ]
    assert result_of(spider.store.read_urls(1, rows[-1].key, 2)) == []
    result_of(spider.store.forget_providers(1, [bucket_of("b.example")], NOW))
    assert spider.host(A).pid == 7
    result_of(spider.store.forget_providers(1, ALL, NOW))
    assert spider.host(A).pid == 0
    spider.answer(Verdict.LOST, A, B, links[0])  # the last one is told, and lost as well
    assert spider.counts()["waiting"] == 3 and spider.url(links[1]).state is UrlState.CACHED
    told = [url for each in spider.tell() for url in each.urls]
    assert len(told) == 3 and not any(url.recheck for url in told)


def test_numbers_of_changes_are_not_compared_but_for_being_the_same(spider: Spider) -> None:
    """After a backup was put back they begin again: less is no older, and the same is not the same content."""
    spider.add(A, revisit_seconds=DAY)
    spider.tell()
    spider.read(A, change=5, md5="05" * 16)
    for change, md5, pages in ((5, "05", 1), (3, "03", 2), (3, "04", 3), (3, "04", 3), (9, "04", 4)):
        spider.read(A, change=change, md5=md5 * 16)
        assert (spider.url(A).change, spider.url(A).md5.hex()) == (change, md5 * 16)
        assert spider.counts()["pages"] == pages
        (row,) = result_of(spider.store.read_urls(1, b"", 9))
        assert (row.state, row.change, row.md5) == (UrlState.CACHED, change, md5 * 16)


def test_urls_of_several_providers_on_a_host_are_told_each_as_theirs(spider: Spider) -> None:
    spider.add(A)
    spider.tell()
    links = [f"{A}docs/1", f"{A}docs/api/2", f"{A}docs/3", f"{A}4"]
    spider.read(A, *links)
    result_of(spider.store.watched([(HostRef(1, A), 7)], NOW))
    owners = [(f"{A}docs/api/", 9), (f"{A}docs/", 8), (A, 7)]
    told = result_of(spider.store.tell({HostRef(1, A): owners}, NOW))
    assert [(each.pid, sorted(each.root + url.path for url in each.urls)) for each in told] == [
        (pid, [url for url in links if spider.store._rules.owner_of(url, owners) == pid])
        for pid in dict.fromkeys(each.pid for each in told)
    ]
    assert {each.pid for each in told} == {7, 8, 9}
    numbers = [each.number for each in told]
    assert numbers == sorted(set(numbers)) and all(url.told_set == each.number for each in told for url in each.urls)
    assert {spider.url(url).told_set for url in links} == set(numbers)


def test_pages_are_looked_at_again(spider: Spider) -> None:
    spider.add(A, revisit_seconds=10 * DAY, revisit_least_seconds=7 * DAY, revisit_most_seconds=12 * DAY)
    spider.tell()
    spider.read(A, md5="a" * 32)
    due = NOW + 10 * DAY
    assert spider.url(A).rank == due
    assert spider.ready(now=due - 1) == []
    (told,) = spider.tell(now=due)
    assert [url.recheck for url in told.urls] == [True]
    assert spider.counts()["rechecks"] == 1 and spider.status().is_done
    spider.answer(Verdict.UNCHANGED, A, told_set=told.number, now=due)
    assert spider.url(A).interval_seconds == 12 * DAY  # 14, but for the bound
    now = due + 12 * DAY
    assert spider.told(now=now) == [A]
    spider.read(A, md5="b" * 32, now=now)
    assert spider.url(A).interval_seconds == round(12 * DAY * 0.8)
    # A change of its metadata alone: the same content.
    spider.read(A, md5="b" * 32, now=now)
    assert spider.url(A).interval_seconds == 12 * DAY
    now += 12 * DAY
    assert spider.told(now=now) == [A]
    spider.answer(Verdict.GONE, A, code=404, now=now)
    assert (spider.url(A).state, spider.url(A).code) == (UrlState.GONE, 404)
    assert spider.told(now=now + 12 * DAY) == [A]
    spider.answer(Verdict.LOST, A, now=now + 12 * DAY)
    assert spider.told(now=now + 12 * DAY) == [A]


def test_an_answer_to_another_set_is_ignored(spider: Spider) -> None:
    spider.add(A)
    (first,) = spider.tell()
    spider.answer(Verdict.LOST, A, told_set=first.number)
    (second,) = spider.tell()
    assert second.number > first.number
    spider.answer(Verdict.REFUSED, A, told_set=first.number)
    assert spider.url(A).state is UrlState.TOLD
    # What the cache has, but was never read, is no answer.
    spider.answer(Verdict.UNCHANGED, A)
    assert spider.url(A).state is UrlState.TOLD
    spider.answer(Verdict.REFUSED, A, B, told_set=second.number)
    spider.answer(Verdict.GONE, A)
    assert spider.url(A).state is UrlState.REFUSED


def test_a_host_that_fails_is_parked_for_longer_and_longer(spider: Spider) -> None:
    urls = [f"{A}{number:02}" for number in range(20)]
    spider.add(*urls, B)
    refused = code("connect-refused")
    told = spider.told(A)
    spider.answer(Verdict.FAILED, *told[:4], code=refused)
    assert spider.host(A).failures == 4 and not spider.host(A).parked_time
    spider.answer(Verdict.FAILED, told[4], code=refused)
    assert spider.host(A).parked_time == NOW + 3600
    # They wait again: that was the host's fault.
    assert spider.url(told[0]).state is UrlState.WAITING
    assert [host.root for host in spider.ready()] == [B]
    assert spider.counts()["held"] == 15
    assert [row.root for row in spider.database.blocking.interact(parked_hosts, 1)] == [A]
    spider.read(B)
    spider.answer(Verdict.REFUSED, *told[5:])
    assert spider.status().is_done
    later = NOW + 3600
    assert [host.root for host in spider.ready(now=later)] == [A]
    told = spider.told(now=later)
    assert len(told) == 10
    spider.answer(Verdict.FAILED, *told[:5], code=refused, now=later)
    assert spider.host(A).parked_time == later + 7200
    # One that answers is none that fails.
    spider.read(told[5], now=later)
    assert (spider.host(A).parked_time, spider.host(A).parkings) == (0, 0)


def test_a_url_is_given_up_when_its_host_has_failed_often(spider: Spider) -> None:
    spider.add(A)
    now = NOW
    for _ in range(3):
        assert spider.told(now=now) == [A]
        spider.answer(Verdict.FAILED, A, code=503, now=now)
        now += DAY
    assert (spider.url(A).state, spider.url(A).failures) == (UrlState.FAILED, 3)
    assert spider.ready(now=now) == []
    spider.add(B, name="b")
    result_of(spider.store.fail_host(HostRef(2, B), code("dns-failed"), NOW))
    assert spider.host(B, 2).parked_time == NOW + 3600
    assert spider.told(B, crawl=2) == []
    assert spider.told(crawl=2, now=NOW + 3600) == [B]


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


def test_where_a_url_redirects_is_known_from_then_on(spider: Spider) -> None:
    spider.add(A)
    spider.add(A, name="gone")
    spider.order(CRAWL_REMOVE, "gone")
    spider.told(A)
    redirects = [Redirect(crawl, found(A), found(B)) for crawl in (1, 2, 9)]
    for _ in range(2):
        result_of(spider.store.commit(FrontierBatch(redirects=redirects), NOW))
    spider.answer(Verdict.REFUSED, A, code=1407)
    assert (spider.url(B).state, spider.url(B).depth, spider.url(B).parent) == (UrlState.WAITING, 0, url_key(A))
    assert spider.url(A).state == UrlState.REFUSED
    assert spider.counts()["known"] == 2
    for number in range(2):
        target = found(f"http://chain.example/{number}")
        source = found(B if not number else f"http://chain.example/{number - 1}")
        result_of(spider.store.commit(FrontierBatch(redirects=[Redirect(1, source, target)]), NOW))
        assert spider.url(target.furl).depth == 1 + number


def test_a_url_that_is_told_again_as_it_compares(spider: Spider) -> None:
    spider.add(f"{A}x//y")
    spider.told(A)
    key = url_key(f"{A}x//y")
    gone = UrlAnswer(1, key, Verdict.GONE, 0, 404, "x/y")
    result_of(spider.store.answer([gone], [], NOW))
    assert spider.counts()["waiting"] == 1
    assert [url.path for telling in spider.tell(A) for url in telling.urls] == ["x/y"]
    result_of(spider.store.answer([gone], [], NOW))
    assert spider.counts()["gone"] == 1


def test_a_full_provider_parks_its_host_once_and_its_urls_wait(spider: Spider) -> None:
    urls = [f"{A}{number}" for number in range(5)]
    spider.add(*urls)
    spider.told(A)
    spider.answer(Verdict.FULL, *urls, code=1501)
    host = spider.host(A)
    assert (host.parkings, host.parked_time, host.code) == (1, NOW + 3600, 1501)
    assert spider.counts() == {"known": 5, "waiting": 5, "held": 5, "hosts": 1, "parked": 1}
    assert spider.status().is_done and spider.tell() == []
    assert len(spider.told(now=NOW + 3600)) == 5
    spider.answer(Verdict.FULL, *urls, code=1501, now=NOW + 3600)
    assert spider.host(A).parked_time == NOW + 3 * 3600


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


def test_spiders_share_buckets(database: DirectDatabase) -> None:
    one, two = Spider(database, "one"), Spider(database, "two")
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


def test_a_spider_that_is_silent_is_retired(database: DirectDatabase) -> None:
    one, two = Spider(database, "one"), Spider(database, "two")
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
    again = Spider(database, "one")
    assert again.claim.epoch != one.claim.epoch
    result_of(two.store.end())
    assert len(result_of(again.store.take_buckets(64))) == 64
    assert [spider.name for spider in result_of(again.store.spiders())] == ["one"]


def test_a_spider_of_the_same_name_takes_over_at_once(database: DirectDatabase) -> None:
    one = Spider(database)
    one.add(A)
    one.tell()
    again = Spider(database)
    assert len(again.buckets) == 64
    with pytest.raises(Busy):
        one.tell(A)
    assert again.asked(now=NOW + 30) == [A]


def test_a_clock_that_was_set_back_holds_nothing_up(spider: Spider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.storage.spider.clock_steps.PAGE_HOSTS", 1)
    spider.add(A + "1", A + "2", B, revisit_seconds=5 * DAY, revisit_most_seconds=10 * DAY)
    year = NOW + 365 * DAY
    spider.told(A, now=year)
    spider.read(A + "1", now=year)
    spider.read(B, B + "new", now=year)
    spider.answer(Verdict.LOST, A + "2", now=year)
    spider.told(A, now=year)
    result_of(spider.store.fail_host(HostRef(1, B), 1301, year))

    def bound() -> None:
        after: bytes | None = b""
        while after is not None:
            after = result_of(spider.store.bound_waits(1, after, NOW))

    bound()
    assert spider.asked(now=NOW + 30) == [A]
    assert [url.path for url in result_of(spider.store.told_urls(HostRef(1, A), NOW + 1, 10))] == ["2"]
    assert (spider.url(A + "1").rank, spider.url(B).rank) == (NOW + 10 * DAY, NOW + 10 * DAY)
    assert spider.host(B).parked_time == NOW + 30 * DAY
    assert sorted(spider.told(now=NOW + 30 * DAY)) == [A + "1", B, B + "new"]
    before = spider.database.query("SELECT * FROM spurl ORDER BY urlkey")
    bound()
    assert spider.database.query("SELECT * FROM spurl ORDER BY urlkey") != before  # told later than now
    before = spider.database.query("SELECT * FROM spurl ORDER BY urlkey")
    bound()
    assert spider.database.query("SELECT * FROM spurl ORDER BY urlkey") == before


def test_a_clock_that_was_set_back_holds_up_nothing_behind_what_comes_soon(spider: Spider) -> None:
    """A host whose first URL is due soon, or was told just now, has others of the wrong time (62098r, 61038s)."""
    spider.add(*(f"{A}{number}" for number in range(4)), revisit_seconds=5 * DAY, revisit_most_seconds=10 * DAY)
    year = NOW + 365 * DAY
    spider.told(A, now=NOW)
    spider.read(f"{A}0", now=NOW)
    for number in (1, 2):
        spider.read(f"{A}{number}", now=year)
    spider.answer(Verdict.LOST, f"{A}3", now=NOW)
    assert spider.told(A, now=year) == [f"{A}3", f"{A}0"]
    spider.read(f"{A}0", now=NOW)
    assert spider.host(A).due_time == NOW + 4 * DAY
    assert result_of(spider.store.bound_waits(1, b"", NOW)) is None
    assert sorted(spider.url(f"{A}{number}").rank for number in range(4)) == [
        *(NOW, NOW + 4 * DAY, NOW + 10 * DAY, NOW + 10 * DAY)
    ]
    assert [url.path for url in result_of(spider.store.told_urls(HostRef(1, A), NOW + 1, 10))] == ["3"]


def test_synonyms_are_one_page(spider: Spider) -> None:
    """As a HostResolver names them: one compares, the other is fetched."""
    spider.add(A)
    www = "http://www.b.example/"
    page = ReadPage(1, found(A), 1, "0" * 32, [found_url(B + "x", www + "x"), found_url(B + "x", B + "x")])
    result_of(spider.store.commit(FrontierBatch([page]), NOW))
    assert spider.known(B + "x").keys() == {www + "x"}
    assert spider.told() == [www + "x"]
    page = ReadPage(1, found_url(B + "x", B + "x"), 2, "1" * 32, [])
    result_of(spider.store.commit(FrontierBatch([page]), NOW))
    assert spider.url(B + "x").state is UrlState.CACHED
    assert {host.root for host in spider.database.blocking.interact(biggest_hosts, 1)} == {A, www}
