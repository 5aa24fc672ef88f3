"""URLs and hosts of a crawl, a page at a time: each once, whatever the size of the pages."""

from __future__ import annotations

import pytest

from lcc.domain.spider.keys import host_key
from lcc.model.spider.crawls import HostRef, UrlOrder, UrlState
from lcc.storage.spider.lists import UrlPlace, crawl_host_list, crawl_urls, host_urls
from tests.support.databases import result_of
from tests.support.frontier import NOW, Spider

A, B = "http://a.example/", "http://b.example/"


@pytest.fixture
def known(spider: Spider) -> Spider:
    """A crawl with URLs in several states, by inlinks, so that some have the same rank."""
    spider.add(A, order=UrlOrder.INLINKS)
    spider.read(A, *[f"{A}{number}" for number in range(12)], *[f"{B}{number}" for number in range(5)])
    spider.read(f"{A}0", f"{A}1", f"{A}2", f"{B}1")
    for number in range(3):
        spider.read(f"http://c{number}.example/")
    spider.add(B, name="another")
    return spider


def all_urls(spider: Spider, state: UrlState | None, limit: int, rows_max: int) -> list[str]:
    urls: list[str] = []
    after = b""
    for _ in range(100):
        page, after = spider.database.now(crawl_urls, 1, state, after, limit, rows_max)
        assert len(page) <= limit
        urls += [url.furl for url in page]
        if not after:
            return urls
    raise AssertionError("it does not end")


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
@pytest.mark.parametrize("rows_max", [1, 3, 1000])
def test_urls_of_all_hosts(known: Spider, limit: int, rows_max: int) -> None:
    everything = {f"{A}{n}" for n in range(12)} | {f"{B}{n}" for n in range(5)} | {A}
    everything |= {f"http://c{n}.example/" for n in range(3)}
    urls = all_urls(known, None, limit, rows_max)
    assert len(urls) == len(everything) and set(urls) == everything
    waiting = all_urls(known, UrlState.WAITING, limit, rows_max)
    assert len(waiting) == 16 and f"{A}0" not in waiting and f"{A}1" in waiting
    assert len(all_urls(known, UrlState.CACHED, limit, rows_max)) == 5
    assert all_urls(known, UrlState.GONE, limit, rows_max) == []


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_urls_of_a_host(known: Spider, limit: int) -> None:
    found: dict[UrlState | None, list[str]] = {}
    for state in (None, UrlState.WAITING, UrlState.CACHED, UrlState.FAILED):
        urls: list[str] = []
        after: UrlPlace | None = UrlPlace()
        while after is not None:
            page, after = known.database.now(host_urls, 1, host_key(A), state, after, limit)
            assert len(page) <= limit
            urls += [url.furl for url in page]
        found[state] = urls
    assert len(found[None]) == 13 and set(found[None]) == {A, *(f"{A}{number}" for number in range(12))}
    assert found[None] == found[UrlState.WAITING] + found[UrlState.CACHED]
    assert set(found[UrlState.WAITING][:2]) == {f"{A}1", f"{A}2"}, "those with most links are told first"
    assert found[UrlState.FAILED] == []


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_hosts(known: Spider, limit: int) -> None:
    result_of(known.store.fail_host(HostRef(1, B), 1301, NOW))
    for parked, roots in ((False, [A, B]), (True, [B])):
        hosts, after = list[str](), None
        for _ in range(20):
            page = known.database.now(crawl_host_list, 1, parked, after, limit)
            if not page:
                break
            hosts += [host.root for host in page]
            after = page[-1].parked_time if parked else page[-1].known, page[-1].key
        assert hosts[: len(roots)] == roots and len(hosts) == len(set(hosts)) == (1 if parked else 5)
