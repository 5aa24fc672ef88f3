"""The page of a URL: what is cached can be looked at, and fetched again; and who reads the cache."""

from __future__ import annotations

import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.domain.keys import url_key
from lcc.storage.database.tables.order_rows import FETCH_PAGE
from lcc.storage.database.tables.timeline import current_timeline
from lcc.storage.providers.content_users import ContentUser, add_content_user
from lcc.storage.views.readers import Reading, note_readings
from tests.support.queue import notice
from tests.support.servers.content_host import ContentHost

from .kit import CANARY, Watch, press, url_page
from .test_pages import check_page

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def cache(watch: Watch, name: str, mimetype: str, file: int, size: int, charset: str = "") -> str:
    """Cache this file; the path of its preview."""
    watch.queue.send(1, notice(name, mimetype=mimetype), now=10)
    watch.queue.fetch_all()
    key = url_key(1, f"http://site/{name}", mimetype)
    watch.database.now(
        lambda txn: txn.execute(
            "UPDATE lccurl SET fetched_fileid = ?, fetched_machineid = 1, len = ?, charset = ? WHERE urlkey = ?",
            [file, size, charset, key],
        )
    )
    return f"/preview/{key.hex()}"


@pytest_twisted.ensureDeferred
async def test_what_is_cached_can_be_looked_at(watch: Watch) -> None:
    host = ContentHost(watch.config.home)
    try:
        html = f"<html>{CANARY}\n".encode() + b"x" * 70_000
        page = cache(watch, "page", "text/html", host.add(html), len(html))
        latin = cache(watch, "latin", "text/plain", host.add(b"caf\xe9 \x1b[31m"), 10, "iso-8859-1")
        picture = cache(watch, "picture", "image/png", host.add(PNG), len(PNG))
        other = cache(watch, "other", "application/pdf", host.add(b"%PDF"), 4)
        drawing = cache(watch, "drawing", "image/svg+xml", host.add(b"<svg onload='x'/>"), 17)
        watch.says(content="")
        await watch.look()
        browser = await watch.visitor()
        # From the page of the URL to what it has.
        shown = check_page(await browser.get(url_page("http://site/page")))
        assert page in shown.xpath("//main//a/@href") and "http://site/page" in shown.xpath("//main//a/@href")
        shown = check_page(await browser.get(page))
        (text,) = shown.xpath("//pre")
        assert text.text_content().startswith(f"<html>{CANARY}\n") and len(text.text_content()) <= 1 << 16
        assert "Only the beginning is shown" in shown.text_content()
        assert check_page(await browser.get(latin)).findtext(".//pre") == "café \ufffd[31m"
        # A drawing may hold scripts: it is text.
        assert check_page(await browser.get(drawing)).findtext(".//pre") == "<svg onload='x'/>"
        assert "No preview" in check_page(await browser.get(other)).text_content()
        (source,) = check_page(await browser.get(picture)).xpath("//main//img/@src")
        image = await browser.get(source)
        assert (image.status, image.headers["content-type"], image.body) == (200, "image/png", PNG)
        assert image.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert image.headers["x-content-type-options"] == "nosniff"
        for path in (drawing, page, other):
            assert (await browser.get(path.replace("preview", "picture"))).status == 404
        for path in ("/preview", "/preview/", "/preview/x", "/preview/" + "0" * 40, "/preview/%ff", "/picture/00"):
            assert (await browser.get(path)).status == 404, path
        # The file is gone, and then nobody knows where it is.
        watch.database.now(lambda txn: txn.execute("UPDATE lccurl SET fetched_fileid = 77"))
        assert "Reload the page" in check_page(await browser.get(page), 404).text_content()
        watch.database.now(lambda txn: txn.execute("UPDATE lccurl SET fetched_machineid = 9"))
        assert "machine 9" in check_page(await browser.get(page), 503).text_content()
    finally:
        await host.stop()


@pytest_twisted.ensureDeferred
async def test_a_page_can_be_fetched_now(watch: Watch) -> None:
    watch.queue.send(1, notice("a"), notice("b"), now=10)
    watch.queue.record(*[watch.queue.failed(row, 404) for row in watch.queue.rows()])
    browser = await watch.visitor()
    shown = await browser.get(url_page("http://site/a"))
    told = await deferToThread(press, browser, shown, lambda fields: "url" in fields)
    assert told.status == 303
    ((number, kind, pid, key),) = watch.database.query("SELECT id, kind, pid, text FROM orders")
    assert (kind, pid, key) == (FETCH_PAGE, 1, url_key(1, "http://site/a", "").hex())
    shown = await browser.get(told.headers["location"])
    assert f"Fetch {number} is ordered" in check_page(shown).text_content()
    watch.queue.carry_out(50)
    shown = await browser.get(told.headers["location"])
    assert "The page is queued" in shown.page.text_content()
    assert [row.notice.curl for row in watch.queue.rows()] == ["http://site/a"]
    # Once it is fetched, it is no longer called queued.
    watch.queue.fetch_all(now=60)
    shown = await browser.get(told.headers["location"])
    text = check_page(shown).text_content()
    assert f"Fetch {number} has ended" in text and "The page is queued" not in text
    # Nothing is ordered of which the provider knows nothing.
    seal = shown.page.xpath("//input[@name='form']/@value")[0]
    refused = await browser.post("/url", {"form": seal, "pid": "1", "url": "http://site/unknown"})
    assert "has not submitted this URL" in check_page(refused, 404).text_content()
    assert len(watch.database.query("SELECT id FROM orders")) <= 1


@pytest_twisted.ensureDeferred
async def test_who_only_looks_on_fetches_nothing(watch: Watch) -> None:
    watch.queue.send(1, notice("a"), now=10)
    watch.add_user("guest", operates=False)
    browser = await watch.visitor("guest")
    shown = await browser.get(url_page("http://site/a"))
    assert "Fetch now" not in shown.page.text_content()
    seal = shown.page.xpath("//input[@name='form']/@value")[0]
    fields = {"form": seal, "pid": "1", "url": "http://site/a"}
    assert (await browser.post("/url", fields)).status == 403
    watch.add_user("bob")
    operator = await watch.visitor("bob")
    assert (await operator.post("/url", fields)).status == 403  # the form of another
    seal = (await operator.get("/")).page.xpath("//input[@name='form']/@value")[0]
    for wrong, status in (({"pid": "9"}, 404), ({"pid": "0"}, 404), ({"url": "no url"}, 400)):
        assert (await operator.post("/url", fields | {"form": seal} | wrong)).status == status, wrong
    assert watch.database.query("SELECT * FROM orders") == []


@pytest_twisted.ensureDeferred
async def test_who_reads_and_how_far_behind(watch: Watch) -> None:
    now = int(watch.environment.now())
    browser = await watch.visitor()
    assert "Nobody has read" in check_page(await browser.get("/readers")).text_content()
    watch.queue.send(1, *[notice(name) for name in "abc"], now=now)
    watch.queue.fetch_all(now=now)
    timeline = watch.database.now(current_timeline)
    names = ("late", "current", "lost", "never", f"strange {CANARY}")
    users = [
        watch.database.now(
            add_content_user,
            ContentUser(0, name, f"h{name}", frozenset([1]) if name == "late" else None, name != "lost"),
        )
        for name in names
    ]
    readings = dict(
        zip(users, (Reading(now - 90, timeline, 1), Reading(now, timeline, 3), Reading(now, "x", 1)), strict=False)
    )
    watch.database.now(note_readings, readings | {0: Reading(now - 7200)})
    shown = check_page(await browser.get("/readers"))
    rows = {
        " ".join(row.xpath("string(th)").split()): [" ".join(cell.text_content().split()) for cell in row.xpath("td")]
        for row in shown.xpath("//tbody/tr")
    }
    assert rows["without a token"] == ["", "", "2 hours ago", ""]
    (_, scope, last, behind) = rows["late"]
    assert scope == "1" and last.endswith("seconds ago") and behind.startswith("2 changes, ")
    assert rows["current"][1] == "all providers" and rows["current"][3] == "up to date"
    assert rows["lost"][1] == "all providers, rows only" and rows["lost"][3] == "must start from the beginning"
    assert rows["never"][2:] == ["never", ""] and f"strange {CANARY}" in rows
    # The overview leads there.
    watch.says()
    await watch.look()
    shown = check_page(await browser.get("/"))
    (link,) = shown.xpath("//main//a[@href='/readers']")
    assert link.text_content() == "5"
