"""The frontier of crawls: pages with their links go in, each once."""

from __future__ import annotations

from random import Random

import pytest

from lcc.domain.spider.keys import found_url, url_key
from lcc.errors import StoreUnavailable
from lcc.model.spider.crawls import (
    NEVER,
    FrontierBatch,
    HostRef,
    ReadPage,
    Redirect,
    StoreTrouble,
    StoreWork,
    Trap,
    UrlOrder,
    UrlState,
    Verdict,
)
from lcc.storage.spider.orders import CRAWL_REMOVE
from lcc.storage.spider.rows import URLS
from lcc.storage.spider.stores import store_troubles
from lcc.storage.spider.views import biggest_hosts, way_to
from tests.support.databases import result_of
from tests.support.frontier import NOW, Spider, found

A, B = "http://a.example/", "http://b.example/"
DAY = 86400


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
    spider.watch(HostRef(1, A))
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
        lacking = {letter.encode() * 20: len(lacks) for letter in lacks}
        works = {"links": StoreWork("p2"), "text": StoreWork(place, fault, lacking, [b.encode() * 20 for b in has])}
        result_of(spider.store.commit(FrontierBatch(stores=works), NOW))
        return next(iter(spider.database.blocking.interact(store_troubles)), None)

    name = spider.store._name
    assert save("p1") is None
    assert save(None, "full", lacks="abc") == StoreTrouble(name, "text", "full", 3)
    assert save(None, "full", lacks="cd") == StoreTrouble(name, "text", "full", 4), "each page once"
    assert result_of(spider.store.places()) == {"links": "p2", "text": "p1"}
    first = {b"a" * 20: 3, b"b" * 20: 3, b"c" * 20: 2}
    assert result_of(spider.store.backlog("text", b"", 3)) == first, "the version that it lacks is the last one"
    assert result_of(spider.store.backlog("text", b"c" * 20, 3)) == {b"d" * 20: 2}
    assert result_of(spider.store.backlog("links", b"", 3)) == {}
    assert save("p3", has="abx") == StoreTrouble(name, "text", "", 2)
    assert save("p4", has="cd") is None
    assert result_of(spider.store.places())["text"] == "p4"


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
