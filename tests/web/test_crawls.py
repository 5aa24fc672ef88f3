"""The pages of crawls: what they show, and what they order of the spiders."""

from __future__ import annotations

import html
import re

import pytest_twisted

from lcc.domain.spider.keys import found_url
from lcc.domain.spider.rules import FrontierRules
from lcc.model.spider.crawls import CrawlSettings, FrontierBatch, HostRef, ReadPage, SpiderOrder, StoreWork, Trap
from lcc.roles.web.pages.crawls import Rates
from lcc.storage.database.migrations import SPIDER
from lcc.storage.database.place import place_of
from lcc.storage.spider.orders import CRAWL_ADD, ORDERS, add_body, open_orders
from lcc.storage.spider.store import FrontierStore
from lcc.storage.spider.views import crawl_status
from tests.support.databases import DirectDatabase, result_of

from .kit import Watch
from .test_pages import check_page, words
from .test_tasks import pressed

ROOT = "http://www.example.org/"
EVIL = '<script>alert("canary")</script>'


def crawled(watch: Watch) -> tuple[DirectDatabase, FrontierStore]:
    """A crawl that has read a page."""
    database = DirectDatabase(*place_of(watch.config, SPIDER))
    frontier = FrontierStore(database, FrontierRules())  # type: ignore[arg-type]  # called directly
    now = int(watch.monitor.now())
    result_of(frontier.claim("spider"))
    result_of(frontier.take_buckets(64))
    settings = CrawlSettings(restrict_to=f"{ROOT}{EVIL}")
    order = SpiderOrder(
        database.now(ORDERS.give, CRAWL_ADD, f"docs {EVIL}", add_body(settings, [ROOT]), now),
        *(CRAWL_ADD, f"docs {EVIL}", add_body(settings, [ROOT])),
    )
    start = found_url(ROOT, ROOT)
    result_of(frontier.carry_out(order, [start], now))
    links = [found_url(f"{ROOT}{number}", f"{ROOT}{number}") for number in range(5)]
    page = ReadPage(1, start, 1, "00" * 16, links)
    batch = FrontierBatch([page], dropped={(1, "robots"): 3, (1, "traps"): 4}, traps={Trap(1, ROOT, b"key"): 7})
    result_of(frontier.commit(batch, now))
    return database, frontier


@pytest_twisted.ensureDeferred
async def test_a_crawl_is_shown_paused_and_resumed(watch: Watch) -> None:
    database, frontier = crawled(watch)
    browser = await watch.visitor()
    page = await browser.get("/crawls")
    check_page(page)
    assert "6 5 0 1" in words(page), words(page)
    assert "Store" not in words(page)
    broken = {"warc": StoreWork(None, f"No space {EVIL}", {b"k" * 20: 1})}
    result_of(frontier.commit(FrontierBatch(stores=broken), int(watch.monitor.now())))
    page = await browser.get("/crawls")
    check_page(page)
    assert "Store warc of spider lacks 1 page: No space" in words(page)
    assert EVIL not in page.body.decode()
    page = await browser.get("/crawl/1")
    check_page(page)
    text = words(page)
    assert "6 known: 5 waiting, 0 told, 1 cached" in text and "robots 3" in text and "www.example.org" in text
    assert "Traps 4 links into traps dropped" in text
    assert EVIL not in page.body.decode()
    page = await pressed(browser, "/crawl/1", "pause")
    assert "is given: a spider carries it out" in words(page)
    [order] = database.now(open_orders, 9)
    result_of(frontier.carry_out(order, [], int(watch.monitor.now())))
    status = database.now(crawl_status, f"docs {EVIL}")
    assert status is not None and status.crawl.state.value == "paused"
    result_of(frontier.fail_host(HostRef(1, ROOT), 1301, int(watch.monitor.now())))
    text = words(await browser.get("/crawl/1"))
    assert "paused" in text and "Resume" in text and "1301 cannot resolve the host name" in text
    assert (await browser.get("/crawl/2")).status == 404
    database.blocking.close()


@pytest_twisted.ensureDeferred
async def test_what_is_counted_is_linked_and_listed(watch: Watch) -> None:
    database, frontier = crawled(watch)
    result_of(frontier.fail_host(HostRef(1, ROOT), 1301, int(watch.monitor.now())))
    database.blocking.close()
    browser = await watch.visitor()
    for start in ("/crawls", "/crawl/1"):
        page = await browser.get(start)
        links = re.findall(r'href="(/crawl-(?:urls|hosts)[^"]*)"', page.body.decode())
        assert len(set(links)) >= 4, links
        for link in links:
            listed = await browser.get(html.unescape(link))
            check_page(listed)
            assert EVIL not in listed.body.decode()
            count = re.search(rf'href="{re.escape(link)}">([0-9,]+)<', page.body.decode())
            assert count is not None
            rows = re.findall('<th scope="row"', listed.body.decode())
            assert len(rows) == int(count[1]), (link, words(listed))
    text = words(await browser.get("/crawl-urls?crawl=1&state=waiting"))
    assert f"{ROOT}4" in text and f"{ROOT} " not in text
    assert "tried again in" in words(await browser.get("/crawl-hosts?crawl=1&only=parked"))
    for address, status in (
        ("crawl-urls?crawl=2", 404),
        ("crawl-urls", 404),
        ("crawl-urls?crawl=1&state=lost", 400),
        ("crawl-urls?crawl=1&root=x", 400),
        ("crawl-urls?crawl=1&after=x_1_00", 400),
        ("crawl-urls?crawl=1&after=9_-1_00", 200),
        ("crawl-hosts?crawl=1&after=x", 400),
        ("crawl-hosts?crawl=2", 404),
        (f"crawl-urls?crawl=1&root={ROOT}nobody", 200),
        ("crawl-urls?crawl=1&root=http://nobody.example/", 200),
    ):
        assert (await browser.get(f"/{address}")).status == status, address


def test_rates() -> None:
    from lcc.model.spider.crawls import Crawl, CrawlState, CrawlStatus

    crawl = Crawl(1, "a", CrawlSettings(), CrawlState.ACTIVE, 0, frozenset(), 1)
    rates = Rates()
    assert rates.of([CrawlStatus(crawl, {"pages": 10})], 100.0) == {}
    assert rates.of([CrawlStatus(crawl, {"pages": 20})], 102.0) == {}
    assert rates.of([CrawlStatus(crawl, {"pages": 30})], 110.0) == {1: 120.0}
    assert rates.of([CrawlStatus(crawl, {"pages": 0})], 120.0) == {1: 0.0}, "another crawl, or counts that were lost"
