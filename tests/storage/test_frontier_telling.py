"""The frontier of crawls: URLs to be told come out, each once, and what became of them goes in."""

from __future__ import annotations

import pytest

from lcc.domain.spider.keys import url_key
from lcc.domain.spider.rules import START_CASH, FrontierRules
from lcc.errors import code
from lcc.model.spider.crawls import (
    HostRef,
    ReadyHost,
    UrlAnswer,
    UrlOrder,
    UrlState,
    Verdict,
    bucket_of,
)
from lcc.storage.spider.views import parked_hosts
from tests.support.databases import result_of
from tests.support.frontier import ALL, NOW, Spider, found

A, B = "http://a.example/", "http://b.example/"
DAY = 86400


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
        (B, 1, bucket_of("b.example")),
    ]
    assert result_of(spider.store.read_urls(1, rows[-1].key, 2)) == []
    result_of(spider.store.forget_providers(1, [bucket_of("b.example")], NOW))
    assert spider.host(A).pid == 7
    newest = result_of(spider.store.forget_providers(1, ALL, NOW))
    assert spider.host(A).pid == 0
    spider.answer(Verdict.LOST, A, B, links[0])  # the last one is told, and lost as well
    assert spider.counts()["waiting"] == 3 and spider.url(links[1]).state is UrlState.CACHED
    # Who has seen the provider before is too late.
    assert result_of(spider.store.tell({HostRef(1, A): (("http://a.example/", 7),)}, NOW)) == []
    sets = spider.tell()
    told = [url for each in sets for url in each.urls]
    assert len(told) == 3 and not any(url.recheck for url in told)
    assert newest == min(each.number for each in sets) - 1


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
