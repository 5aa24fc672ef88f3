"""Every page, over real HTTP: what it shows, and that it shows hostile texts as texts."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.domain.urls import normalise
from lcc.model import Delay, Provider
from lcc.storage.database.tables.order_rows import RETRY, add_order
from lcc.storage.providers.providers import add_provider
from lcc.storage.queue.schedule.time_slots import write_delays
from tests.support.browser import Browser, Reply
from tests.support.qm_state import STATE
from tests.support.queue import notice

from .kit import CANARY, Watch, press, url_page

LONG_AGO = 10
HEADERS = ("content-security-policy", "x-frame-options", "x-content-type-options", "referrer-policy")
sqlite_only = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def check_page(reply: Reply, status: int = 200) -> Any:
    """What holds for all pages."""
    assert reply.status == status, reply.body.decode()
    page = reply.page
    for header in HEADERS:
        assert header in reply.headers
    assert reply.headers["cache-control"] == "no-store"
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    # Nothing inline: the policy would not let it be.
    assert not page.xpath("//@style | //style | //script[not(@src)] | //@*[starts-with(name(), 'on')]")
    assert {script.get("src") for script in page.xpath("//script")} <= {"/live.js"}
    assert page.get("lang") == "en" and len(page.xpath("//h1")) == 1
    levels = [int(each.tag[1]) for each in page.xpath("//h1 | //h2 | //h3")]
    assert all(after - before <= 1 for before, after in pairwise(levels)), levels
    for table in page.xpath("//table"):
        assert table.xpath("caption") and not table.xpath(".//th[not(@scope)]")
    for image in page.xpath("//svg[not(@aria-hidden)]"):
        assert image.get("role") == "img" and (image.get("aria-label") or image.get("aria-labelledby"))
    for field in page.xpath("//input[not(@type='hidden')]"):
        assert page.xpath(f"//label[@for='{field.get('id')}']")
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))
    for form in page.xpath("//form[@method='post']"):
        assert form.xpath("input[@name='form']")
    assert "alert(" not in reply.body.decode().replace("alert(&#34;canary", "").replace("alert(%22", "")
    return page


def words(reply: Reply) -> str:
    return " ".join(" ".join(reply.page.itertext()).split())


def fail_one(watch: Watch, path: str = "broken", code: int = 404, detail: str = "", now: int = LONG_AGO) -> None:
    watch.queue.send(1, notice(path), now=now)
    row = next(row for row in watch.queue.rows() if row.notice.curl.endswith(path))
    watch.queue.record(watch.queue.failed(row, code, detail=detail), now=now)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_all_is_well(watch: Watch) -> None:
    await watch.look()
    reply = await (await watch.visitor()).get("/")
    page = check_page(reply)
    assert reply.text("sentence") == "All is well."
    assert page.xpath("//*[@id='verdict']/@class") == ["verdict note"]
    assert "Providers 1" in reply.text("pipeline") and "3 of 32 busy" in reply.text("pipeline")
    assert page.xpath("//p[@id='sentence']/@role") == ["status"]
    assert [page.xpath(f"count(//{mark})") for mark in ("header", "main", "footer", "nav")] == [1, 1, 1, 1]


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_what_is_wrong_since_when_and_what_to_do(watch: Watch) -> None:
    watch.says(ago=600)
    await watch.look()
    browser = await watch.visitor()
    reply = await browser.get("/")
    check_page(reply)
    assert reply.text("sentence").startswith("The queue manager is not running")
    assert "10 minutes ago" in reply.text("troubles") and "systemctl start lcc-role@qm" in reply.text("troubles")
    other = await browser.get("/providers")
    assert "What to do" in words(other)  # leads there from each page
    watch.says(unses=[], machines=[], capacity=0)
    await watch.look()
    reply = await browser.get("/")
    assert "and 1 more problem" in reply.text("sentence")
    assert "No UNS is connected" in reply.text("troubles") and "No BOT-M is connected" in reply.text("troubles")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_plots_and_rates(watch: Watch) -> None:
    for count in (0, 50, 150):
        results = {"stored": count, "unchanged": 0, "failed": count // 10, "wire_bytes": count * 1000}
        watch.says(counts={**STATE["counts"], "results_recorded": count}, results=results)
        await watch.look()
    browser = await watch.visitor()
    reply = await browser.get("/")
    page = check_page(reply)
    assert "20 fetches/s" in reply.text("pipeline") and "20 kB/s" in reply.text("pipeline")
    # It tells of the same moments; the mean depends on which minute they fall into.
    assert re.search(r"Fetches per second : now 20; mean [\d.]+", words(reply))
    for path in page.xpath("//path[@class='line' or @class='area']/@d"):
        assert re.fullmatch(r"(M[\d.]+ [\d.]+(L[\d.]+ [\d.]+)*Z?)+", path)
    assert "Last hour" in words(await browser.get("/?span=day"))
    refreshed = await browser.get("/?refresh=1")
    assert refreshed.page.xpath("//meta[@http-equiv='refresh']/@content") == ["5"]  # no faster
    assert not refreshed.page.xpath("//script")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_machines(watch: Watch) -> None:
    away = STATE["machines"][0] | {"machine": 2, "name": CANARY, "connected": False, "ready": False, "capacity": 0}
    watch.queue.send(1, notice(f"a?{CANARY}"), now=int(watch.environment.now()))
    watch.says(machines=[*STATE["machines"], away], centrals=[{"name": CANARY, "machines": 2}])
    await watch.look()
    reply = await (await watch.visitor()).get("/machines")
    check_page(reply)
    text = words(reply)
    assert f"2 {CANARY} unreachable" in text and "1 botm ready 32 3" in text
    assert "The BOT-M of machine 2 is unreachable" in reply.text("sentence")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_robots_and_how_busy_they_are(watch: Watch) -> None:
    robots = [
        {"name": f"{CANARY}{number}", "capacity": 4, "busy": number, "paused": number == 2} for number in range(4)
    ]
    many = [{"name": f"many{number}", "capacity": 1, "busy": 0, "paused": False} for number in range(40)]
    machine = STATE["machines"][0]
    watch.says(
        machines=[
            machine | {"robots": robots, "robots_count": 4},
            machine | {"machine": 2, "robots": many, "robots_count": 90},
        ]
    )
    await watch.look()
    browser = await watch.visitor()
    first, machines = await browser.get("/"), await browser.get("/machines")
    for reply in (first, machines):
        page = check_page(reply)
        rows = [" ".join("".join(row.itertext()).split()) for row in page.xpath("//tr[contains(@class, 'robot')]")]
        assert rows[:3] == [f"1 {CANARY}{number} robot{', paused' * (number == 2)} 4 {number}" for number in range(3)]
    assert "many4" in words(first) and "many5" not in words(first) and "and 85 more robots" in words(first)
    assert "many39" in words(machines) and "and 50 more robots" in words(machines)


@pytest_twisted.ensureDeferred
async def test_providers_by_pages(watch: Watch) -> None:
    for number in range(120):
        root = f"http://site{number}.example/"
        watch.database.now(add_provider, Provider(0, (root,), f"x{number}", hours="22-6" if number % 2 else ""))
    browser = await watch.visitor()
    seen: list[int] = []
    path = "/providers"
    while path:
        reply = await browser.get(path)
        page = check_page(reply)
        seen += [int(text) for text in page.xpath("//tbody/tr/th/a/text()")]
        path = next(iter(page.xpath("//a[@rel='next']/@href")), "")
    assert seen == list(range(1, 122))
    back = await browser.get("/providers?before=101")
    assert back.page.xpath("//tbody/tr/th/a/text()") == [str(pid) for pid in range(51, 101)]
    assert "Open 22-6" in back.page.xpath("//svg[@class='hours']/@aria-label")
    assert (await browser.get("/providers?after=x")).status == 404


@pytest_twisted.ensureDeferred
async def test_a_provider(watch: Watch) -> None:
    queue = watch.queue
    hostile = Provider(0, (f"http://host/{CANARY}/",), "h", hours="1-3", timezone="Asia/Tokyo", contact=CANARY)
    pid = watch.database.now(add_provider, hostile)
    queue.send(1, notice("a"), notice("b"), now=LONG_AGO)
    fail_one(watch, "broken", 404, CANARY)
    now = int(watch.environment.now())
    watch.database.now(write_delays, [Delay(pid, now + 500.0, "site-error", 1302, 3, since_time=20.5)])
    browser = await watch.visitor()
    reply = await browser.get(f"/provider/{pid}")
    check_page(reply)
    text = words(reply)
    assert f"Contact {CANARY}" in text and "connection refused" in text and "3 in a row" in text
    assert "Asia/Tokyo" in text
    assert "1970-01-01 00:00:20 UTC" in reply.text("failed")  # since when the site is away
    await watch.look()
    first = await browser.get("/")
    assert "1 site unreachable since 1970-01-01 00:00:20 UTC" in words(first)
    mine = await browser.get(f"/provider/{queue.pid}")
    check_page(mine)
    assert "http://site/a" in mine.text("queue") and "404" in mine.text("failed") and CANARY in mine.text("failed")
    assert mine.page.xpath("//a[@rel='next']/@href") == [f"/provider/{pid}"]
    watch.says(host_turns=[{"turns": [pid], "waiting": [queue.pid], "count": 1}])
    mine = await browser.get(f"/provider/{queue.pid}")
    assert f"Waiting for its host: provider {pid} has its turn there." in mine.text("stands")
    assert "Ready" not in mine.text("stands")
    queue.send(2, notice("a", delete=True))
    queue.send(3, notice("c"))
    queue.send(4, notice("c", delete=True))
    mine = await browser.get(f"/provider/{queue.pid}")
    assert "http://site/a" not in mine.text("queue") and "http://site/c" not in mine.text("queue")
    assert len(mine.page.xpath("//*[@id='queue']//table[1]/tbody/tr")) == 1, "nobody waits for what was deleted"
    for path in (
        "/provider/99",
        "/provider/x",
        "/provider/",
        "/provider/1/2",
        "/provider/-1",
        "/provider/" + "9" * 18,
    ):
        check_page(await browser.get(path), 404)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_the_words_of_why(watch: Watch) -> None:
    watch.queue.send(1, notice("a?%3Cb%3E&'x"), now=LONG_AGO)
    browser = await watch.visitor()
    reply = await browser.get(url_page("http://site/a?%3Cb%3E&'x"))
    check_page(reply)
    assert "belongs to provider 1, by its root http://site/" in words(reply)
    assert "text/html: queued, fetch URL http://site/a?%3Cb%3E&'x" in words(reply)
    for url in ("http://site/a;$(id)&b'c", "http://nobody/|id", "http://site/!!"):
        reply = check_page(await browser.get(url_page(url)))
        (command,) = [code.text_content() for code in reply.xpath("//main//code")]
        assert shlex.split(command) == ["lcc-admin", "why", normalise(url)]
    check_page(await browser.get(url_page('http://nobody/<script>alert("canary")</script>')))
    assert "Invalid URL" in words(await browser.get(url_page("javascript:alert(1)")))
    check_page(await browser.get(url_page("http://site/a") + "&pid=99"), 404)
    check_page(await browser.get("/url?url=a&url=b"), 400)
    check_page(await browser.get("/url?url=%ff"), 400)


@pytest_twisted.ensureDeferred
async def test_search(watch: Watch) -> None:
    queue = watch.queue
    queue.send(1, *[notice(f"news/{number}") for number in range(3)], notice("other"), now=LONG_AGO)
    queue.record(queue.fetched(queue.rows()[0]))
    contact = Provider(0, ("http://host/",), "h", contact="Desk@Example.org")
    pid = watch.database.now(add_provider, contact)
    browser = await watch.visitor()
    assert (await browser.get("/search?q=7")).headers["location"] == "/provider/7"
    for text in ("desk@", "http%3A%2F%2Fhost"):
        found = await browser.get(f"/search?q={text}")
        check_page(found)
        assert found.page.xpath("//tbody/tr/th/a/@href") == [f"/provider/{pid}"]
    reply = await browser.get("/search?q=http://site/news/*")
    check_page(reply)
    assert sorted(reply.page.xpath("//tbody/tr/th[@class='full text']/a/text()")) == [
        f"http://site/news/{number}" for number in range(3)
    ]
    assert words(reply).count("cached") == 1
    exact = await browser.get("/search?q=http://site/other")
    assert "Status of http://site/other" in words(exact)
    for text in (CANARY, "http://[/", "x", "", "%00", "a" * 4000, "http://site/" + CANARY):
        shown = await browser.get("/search?q=" + "".join(f"%{byte:02x}" for byte in text.encode()))
        check_page(shown)
    check_page(await browser.get("/search?q=" + "a" * 4001), 400)
    check_page(await browser.get("/search?q=http://site/*&after=zz"), 400)


@pytest_twisted.ensureDeferred
async def test_a_search_looks_at_so_many_rows_and_goes_on(open_watch: Any) -> None:
    watch: Watch = open_watch("rows_max = 100")
    names = [f"{'wanted' if number % 50 == 0 else 'other'}/{number}" for number in range(420)]
    watch.queue.send(1, *map(notice, names), now=LONG_AGO)
    browser = await watch.visitor()
    found: list[str] = []
    path, pages = "/search?q=http://site/wanted*", 0
    while path:
        reply = await browser.get(path)
        check_page(reply)
        found += reply.page.xpath("//tbody/tr/th[@class='full text']/a/text()")
        path, pages = next(iter(reply.page.xpath("//a[@rel='next']/@href")), ""), pages + 1
    assert sorted(found) == sorted(f"http://site/{name}" for name in names if name.startswith("wanted"))
    assert pages >= 4


@pytest_twisted.ensureDeferred
async def test_errors_and_trying_again(watch: Watch) -> None:
    fail_one(watch, "broken", 404, CANARY)
    await watch.look()
    browser = await watch.visitor()
    reply = await browser.get("/errors")
    check_page(reply)
    assert "404" in reply.text("groups") and "1970-01-01 00:00:10 UTC" in reply.text("groups")
    listed = await browser.get("/errors?code=404")
    check_page(listed)
    assert CANARY in words(listed) and "http://site/broken" in words(listed)
    done = await deferToThread(lambda: press(browser, reply, lambda fields: fields.get("code") == "404"))
    assert done.status == 303 and done.headers["location"].startswith("/errors?order=")
    assert watch.database.query("SELECT kind, pid, code FROM orders") == [(RETRY, 0, 404)]
    told = await browser.get(done.headers["location"])
    check_page(told)
    assert "is ordered: the queue manager" in told.text("ordered")
    watch.database.now(lambda txn: txn.execute("DELETE FROM orders"))  # as the queue manager does, when it is done
    told = await browser.get(done.headers["location"])
    assert "is done" in told.text("ordered")


@pytest_twisted.ensureDeferred
async def test_what_is_well_again_is_no_error_any_longer(watch: Watch) -> None:
    queue = watch.queue

    def try_again() -> None:
        watch.database.now(add_order, RETRY, 0, 404)
        queue.carry_out()

    for path in ("a", "b", "c"):
        fail_one(watch, path)
    for _ in range(2):  # tried again, and it fails again: that is one URL
        try_again()
        queue.record(*[queue.failed(row, 404) for row in queue.rows()], now=60)
    await watch.look()
    browser = await watch.visitor()
    assert "404 Not Found 3" in " ".join((await browser.get("/errors")).text("groups").split())
    try_again()
    rows = queue.rows()
    queue.record(queue.fetched(rows[0]), queue.failed(rows[1], 404), queue.fetched(rows[2]), now=70)
    await watch.look()
    assert "404 Not Found 1" in " ".join((await browser.get("/errors")).text("groups").split())
    try_again()
    queue.record(queue.fetched(queue.rows()[0]), now=80)
    await watch.look()
    assert "No errors" in (await browser.get("/errors")).text("groups")


@pytest_twisted.ensureDeferred
async def test_trying_again_at_a_provider(watch: Watch) -> None:
    fail_one(watch)
    browser = await watch.visitor()
    reply = await browser.get("/provider/1")
    done = await deferToThread(lambda: press(browser, reply, lambda fields: fields.get("code") == "0"))
    assert done.headers["location"].startswith("/provider/1?order=")
    assert watch.database.query("SELECT kind, pid, code FROM orders") == [(RETRY, 1, 0)]
    check_page(await browser.get(done.headers["location"]))
    gone = {"form": "", "pid": "99", "code": "0"}
    seal = reply.page.xpath("//input[@name='form']/@value")[0]
    check_page(await browser.post("/retry", gone | {"form": seal}), 404)


@pytest_twisted.ensureDeferred
async def test_numbers_that_are_too_great(watch: Watch) -> None:
    browser = await watch.visitor()
    seal = (await browser.get("/")).page.xpath("//input[@name='form']/@value")[0]
    for great in (str(1 << 31), "9" * 18, "9" * 3900):
        for path in (
            *("/provider/", "/provider/1?order=", "/errors?pid=", "/errors?code=", "/errors?order="),
            *("/providers?after=", "/providers?before=", "/errors?code=404&after=", "/url?url=http://a/&pid="),
            *("/search?q=", "/search?q=http://site/*&pid="),
        ):
            check_page(await browser.get(path + great), 404)
        for field in ("pid", "code"):
            fields = {"form": seal, "pid": "0", "code": "0", field: great}
            check_page(await browser.post("/retry", fields), 404)
        check_page(await browser.get("/?refresh=" + great))
    # Numbers of errors may be greater, but not by so much.
    check_page(await browser.get(f"/errors?code=404&after=1-{1 << 51}"))
    check_page(await browser.get("/errors?code=404&after=1-" + "9" * 3900), 404)
    assert watch.database.query("SELECT COUNT(*) FROM orders") == [(0,)]


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_what_is_not_there(watch: Watch) -> None:
    browser = await watch.visitor()
    for path in ("/nothing", "/providers/1", "/live/x", "/style.css/x", "/%00", "/..%2f"):
        check_page(await browser.get(path), 404)
    check_page(await browser.get("/retry"), 405)
    check_page(await browser.post("/providers", {}), 405)
    assert (await browser.get("/", "HEAD")).body == b""


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_database_that_is_away(watch: Watch) -> None:
    await watch.look()
    browser = await watch.visitor()
    database = watch.monitor.database
    await database.stop()
    await watch.look()
    reply = await browser.get("/")  # it asks no database
    check_page(reply)
    assert "cannot read the database" in reply.text("sentence") and "Providers 1" in reply.text("pipeline")
    asked = await browser.get("/providers")
    check_page(asked, 503)
    assert asked.headers["retry-after"] and "database is not responding" in words(asked)
    database.start()
    await watch.look()
    assert (await browser.get("/")).text("sentence") == "All is well."


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_no_page_asks_for_more_than_it_shows(watch: Watch) -> None:
    """The first pages are made of what is in memory, however many look at them."""
    await watch.look()
    browser: Browser = await watch.visitor()
    asked: list[Any] = []
    database = watch.monitor.database
    original = database.interact
    database.interact = lambda function, *args: (asked.append(function), original(function, *args))[1]  # type: ignore[assignment,method-assign]
    for path in ("/", "/?span=day", "/machines", "/errors"):
        assert (await browser.get(path)).status == 200
    assert asked == []
