"""What is counted is listed: each number is a link to what it counts, sorted and filtered."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from lcc.insight.qm_state import busy_places, delay_text, machine_busy
from lcc.model import FETCH_NOW, Delay, Provider
from lcc.model.providers import ERROR_BITS
from lcc.roles.web.pages import errors as errors_pages
from lcc.roles.web.pages import providers as providers_pages
from lcc.roles.web.pages.overview import PARTS_MIN, plots
from lcc.storage.providers.providers import add_provider
from lcc.storage.queue.schedule.time_slots import write_delays
from tests.support.browser import Browser
from tests.support.qm_state import STATE
from tests.support.queue import notice
from tests.support.waiting import until

from .kit import CANARY, Watch
from .test_pages import check_page, sqlite_only, words

SITES = 5


async def fill(watch: Watch) -> int:
    """Sites that are away, or wait for their hours; URLs that wait, and that failed for good.  Gives the time."""
    now = int(watch.environment.now())
    queue = watch.queue
    pids = [
        watch.database.now(add_provider, Provider(0, (f"http://site{number}.example/",), f"x{number}", priority=2))
        for number in range(SITES)
    ]
    delays = [Delay(pids[0], now + 900.0, "hours"), Delay(pids[1], now + 9000.0, "hours")]
    delays += [Delay(pid, now + 600.0, "site-error", 1302, 3, since_time=now - 60.0) for pid in pids[2:]]
    watch.database.now(write_delays, delays)
    queue.send(1, *[notice(f"{number}") for number in range(8)], now=now - 7200)
    rows = queue.rows()
    queue.record(*[queue.failed(row, 503, "busy") for row in rows[:5]], now=now)
    queue.record(*[queue.failed(row, 404) for row in rows[5:7]], now=now)
    await watch.look()
    return now


async def rows_of(browser: Browser, path: str, xpath: str = "//main//tbody/tr/th//a/text()") -> list[str]:
    """The first cells of all rows, over all of its pages."""
    found: list[str] = []
    while path:
        page = check_page(await browser.get(path))
        found += page.xpath(xpath)
        path = next(iter(page.xpath("//main//a[@rel='next']/@href")), "")
    return found


@pytest_twisted.ensureDeferred
async def test_each_number_of_the_errors_leads_to_so_many(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_pages, "PAGE_ERRORS", 3)
    monkeypatch.setattr(errors_pages, "PAGE_SITES", 2)
    await fill(watch)
    browser = await watch.visitor()
    overview = (await browser.get("/errors")).page
    numbers = {a.get("href"): int(a.text) for a in overview.xpath("//tbody//td[@class='n']/a")}
    assert numbers == {
        "/providers?only=unreachable&code=1302": 3,
        "/errors?code=503#h-waiting": 5,
        "/errors?code=404#h-final": 2,
    }
    for path, number in numbers.items():
        assert len(await rows_of(browser, path.partition("#")[0])) == number, path
    # As after a restore: its numbers are of another epoch.
    watch.database.now(lambda txn: txn.execute("UPDATE urlerrs SET number = number + ?", [7 << ERROR_BITS]))
    monkeypatch.setattr(errors_pages, "PAGE_ERRORS", 1)
    assert len(await rows_of(browser, "/errors?code=404")) == 2
    monkeypatch.setattr(errors_pages, "PAGE_ERRORS", 3)
    waiting = await browser.get("/errors?code=503")
    assert re.search(r"http://site/\d 1 \d+ seconds? ago in \d+ (seconds|minutes) busy", words(waiting))
    assert [row.text for row in waiting.page.xpath("//h2")] == ["URLs that wait for a retry"]
    away = await browser.get("/errors?code=1302")
    assert away.page.xpath("//a[text()='All 3 unreachable sites']/@href") == ["/providers?only=unreachable&code=1302"]
    assert len(await rows_of(browser, "/errors?pid=1")) == 7
    assert "No errors (any more)" in words(await browser.get("/errors?code=500"))


@pytest_twisted.ensureDeferred
async def test_providers_are_filtered_and_sorted(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers_pages, "PAGE_PROVIDERS", 2)
    now = await fill(watch)
    browser = await watch.visitor()

    async def listed(query: str) -> list[int]:
        return [int(text) for text in await rows_of(browser, f"/providers?{query}")]

    everyone = list(range(1, SITES + 2))
    assert await listed("only=unreachable") == await listed("only=unreachable&code=1302") == [4, 5, 6]
    assert await listed("only=site-error") == [4, 5, 6] and await listed("only=unreachable&code=1301") == []
    assert await listed("only=hours") == [2, 3] and await listed("only=delayed") == [2, 3, 4, 5, 6]
    assert await listed("only=queued") == await listed("only=errors") == await listed("priority=1&order=lag") == [1]
    assert await listed("priority=2&order=errors") == everyone[1:]
    assert await listed("only=wanted") == await listed("only=held") == await listed("only=removing") == []
    columns = ("psetid", "slot", "pid", "pri", "connseq", "fullset", "firstseq", "lastseq", "nurls", "time")
    row = (9, FETCH_NOW, SITES + 1, 2, 1, 0, 0, 0, 1, now - 30)
    watch.database.now(lambda txn: txn.insert("qpsdb", columns, [row]))
    assert await listed("order=lag") == [1, 6, 2, 3, 4, 5]
    assert await listed("order=errors") == await listed("order=files") == everyone
    assert await listed("order=queued") == everyone
    assert await listed("order=state") == [4, 5, 6, 2, 3, 1]
    shown = await browser.get("/providers?only=unreachable&code=1302")
    assert "3 providers, error 1302 (connection refused)" in words(shown)
    assert "2 hours" in words(await browser.get("/providers"))  # the lag of the first one
    back = await browser.get("/providers?only=unreachable&skip=2")
    assert back.page.xpath("//a[@rel='prev']/@href") == ["/providers?only=unreachable"]
    for wrong in ("only=x", "order=x", "priority=x", "skip=x", "only=pid"):
        check_page(await browser.get(f"/providers?{wrong}"), 404)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_every_link_of_the_overview_leads_somewhere(watch: Watch) -> None:
    await fill(watch)
    browser = await watch.visitor()
    page = check_page(await browser.get("/"))
    links = {href.partition("#")[0] for href in page.xpath("//main//a/@href")} - {""}
    assert {"/providers?only=unreachable", "/providers?only=hours", "/providers?only=queued&priority=1"} <= links
    for path in links:
        check_page(await browser.get(path))
    (away,) = page.xpath("//*[@id='troubles']//strong/a")
    assert away.text == "3 sites unreachable" and len(await rows_of(browser, away.get("href"))) == 3
    (hours,) = page.xpath("//*[@id='waits']//a[@href='/providers?only=hours']")
    assert hours.text == "2 providers"


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_figures_of_one_page_agree(watch: Watch) -> None:
    """What the queue manager counts in passing (cancelled rows, too) is not shown beside what is in the tables."""
    await fill(watch)
    for count in (100, 200):
        results = {"stored": count * 6, "unchanged": count * 2, "failed": count * 2, "wire_bytes": 0}
        watch.says(queue_rows=5336, counts={**STATE["counts"], "results_recorded": count * 10}, results=results)
        await watch.look()
    reply = await (await watch.visitor()).get("/")
    page = check_page(reply)
    (queue,) = page.xpath("//li[contains(@class, 'stage')][h3='Queue']//p[@class='big']/a/text()")
    by_priority = page.xpath("//*[@id='queue']//table[1]/tbody/tr/td[1]/a/text()")
    assert int(queue) == sum(map(int, by_priority)) == 6
    units = page.xpath("//li[contains(@class, 'stage')]/p[@class='big']/span/text()")
    assert " URLs" in units and " files" in units
    assert "URLs in the queue : now 6;" in words(reply) and "5,336" not in words(reply)
    assert reply.text("sentence").startswith("20% of fetches fail: 400 of 2,000 in the last ten minutes")
    assert page.xpath("//*[@id='verdict']/@class") == ["verdict warning"]
    (robots,) = page.xpath("//li[contains(@class, 'warning')][h3='Robots']")
    assert "20.0% failed" in " ".join(robots.text_content().split())


class Botm(Resource):
    """The content port of a BOT-M: its answers to ``/status``."""

    isLeaf = True

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer

    def render_GET(self, request: Request) -> bytes:
        assert request.path == b"/status"
        return self.answer


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_what_is_being_fetched_is_what_the_botms_say(watch: Watch) -> None:
    row = {"pid": 1, "url": f"http://site/a?{CANARY}", "robot": CANARY, "seconds": 2.5, "bytes": 20_480, "attempt": 2}
    other = row | {"url": "http://site/b", "seconds": 70.0, "attempt": 1}
    botm, strange = Botm(json.dumps({"fetching": [row, other]}).encode()), Botm(b"[]")
    clock: Any = reactor
    ports = [clock.listenTCP(0, Site(each), interface="127.0.0.1") for each in (botm, strange)]
    try:
        machines = [
            STATE["machines"][0] | {"machine": number, "content": f"http://127.0.0.1:{port.getHost().port}"}
            for number, port in enumerate(ports, 2)
        ]
        machines.append(machines[0] | {"machine": 4, "content": "https://127.0.0.1:1"})
        watch.says(machines=[machines[0] | {"orders": 90}, *machines[1:]], machines_connected=3)
        await watch.look()
        fetching = watch.monitor.fetching
        await until(lambda: bool(fetching.fetches) and len(fetching.troubles) == 2)
        browser = await watch.visitor()
        reply = await browser.get("/machines")
        check_page(reply)
        text = words(reply)
        assert f"http://site/b 1 2 {CANARY} 70.0 20.5 kB http://site/a?{CANARY} attempt 2 1 2 {CANARY} 2.5" in text
        assert "Machine 3: invalid response to /status (status 200)" in text
        assert "Machine 4: the monitor does not ask at its content port" in text
        assert "2 URLs are being fetched" in words(await browser.get("/provider/1"))
        # 90 orders are out, and wait there: no more is busy than there are places.
        assert "9 of 32 busy" in text
        watch.says(
            machines=[each | {"capacity": 0, "robots": [], "robots_count": 0} for each in machines], capacity=0
        )
        await watch.look()
        text = words(await browser.get("/machines"))
        assert "Nothing." in text and "http://site/" not in text and "0 of 0 busy" in text
    finally:
        for port in ports:
            await port.stopListening()


def test_no_more_places_are_busy_than_there_are() -> None:
    machine = STATE["machines"][0]
    assert machine_busy(machine | {"orders": 90}) == 3
    assert machine_busy(machine | {"orders": 90, "robots_count": 2}) == 32
    assert machine_busy(machine | {"connected": False}) == 0
    assert busy_places({"machines": [machine, machine]}) == 6 and busy_places({}) == 0


def test_words_of_delays() -> None:
    noon = 1_700_049_600.0  # 2023-11-15 12:00
    said = [
        (Delay(1, noon + 14_400, "hours"), "waiting for its hours, opens 16:00 (in 4 hours)"),
        (Delay(1, noon + 57_600, "hours"), "waiting for its hours, opens 2023-11-16 04:00 (in 16 hours)"),
        (Delay(1, noon + 120, "bandwidth"), "waiting for its bandwidth, next fetch in 2 minutes"),
        (Delay(0, noon + 9, "bandwidth"), "the whole LCC: waiting for its bandwidth, next fetch in 9 seconds"),
        (
            Delay(1, noon + 120, "site-error", 1302, 3, since_time=noon - 1800),
            "down since 11:30 (1302 connection refused, 3 in a row), next try in 2 minutes",
        ),
        (
            Delay(1, noon + 60, "retry-after", 503),
            "told to wait by its site (503 Service Unavailable), next try in 60 seconds",
        ),
    ]
    for delay, text in said:
        assert delay_text(delay, noon) == text


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_titles_name_the_site_and_empty_columns_are_not_shown(watch: Watch) -> None:
    await fill(watch)
    browser = await watch.visitor()
    page = check_page(await browser.get("/provider/2"))
    assert page.xpath("//h1/text()") == ["Provider 2 · site0.example"]
    watch.database.now(lambda txn: txn.execute("UPDATE urlerrs SET message = ''"))
    (final,) = check_page(await browser.get("/errors?code=404")).xpath("//table")
    assert "Details" not in final.xpath(".//thead//th/text()") and "Error" not in final.xpath(".//thead//th/text()")
    listed = check_page(await browser.get("/providers")).xpath("//table//thead//th/text()")
    assert "Lag" in listed and "Status" in listed
    listed = check_page(await browser.get("/providers?only=unreachable")).xpath("//table//thead//th/text()")
    assert "Lag" not in listed and "Status" in listed
    heads = check_page(await browser.get("/provider/1")).xpath("//*[@id='failed']//table[1]/thead//th/text()")
    assert "Waiting URLs" in heads and "Unreachable sites" not in heads
    shown = check_page(await browser.get("/url?url=http://site/1"))
    assert "http://site/1" in shown.xpath("//main/p/a/@href")
    assert check_page(await browser.get("/search")).xpath("//input[@id='find']")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_plots_begin_where_the_data_does(watch: Watch) -> None:
    for count in range(3):
        watch.says(counts={**STATE["counts"], "results_recorded": count})
        await watch.look()
    (plot, *_) = plots(watch.monitor, 86_400)
    first, _, last = ((int(time[:2]) * 60 + int(time[3:])) for time in plot.times)
    assert (last - first) % 1440 == PARTS_MIN * 8  # not the whole day
