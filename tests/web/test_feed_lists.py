"""Resources, feeds that a page names, and lists of feeds (OPML) in the monitor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from lcc.roles.web import discovery
from lcc.roles.web.discovery import Discovery, NotDiscovered
from lcc.roles.web.pages.feed_lists import OPML_BYTES_MAX
from lcc.storage.tasks.views import resources
from lcc.workers.launch import python_process
from tests.support.browser import Browser, Reply
from tests.support.tasks import Tasks

from .kit import CANARY, Watch
from .test_pages import check_page, sqlite_only, words
from .test_tasks import TURNED, filled, now_of, pressed, scheduled

__all__ = ["scheduled"]  # a fixture

PAGE = f"""<title>p</title><link rel=alternate type=application/atom+xml href=/atom.xml title="{TURNED}<b>">
<link rel=alternate type=application/rss+xml href="http://other/feed">"""


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_resources(watch: Watch, scheduled: Tasks) -> None:
    watch.add_user("guest", operates=False)
    browser = await watch.visitor()
    page = await browser.get("/resources")
    check_page(page)
    assert "No resource has an interval" in words(page)
    given = await filled(browser, "/resources", name=" tracker ", interval="90")
    check_page(given)
    assert "Order 1 is given" in words(given)
    await filled(browser, "/resources", name=CANARY[:60], interval="5")
    scheduled.carry_out(now_of(watch))
    assert [each.interval_seconds for each in scheduled.database.blocking.interact(resources)] == [5, 90]
    shown = await browser.get("/resources?order=1")
    check_page(shown)
    assert "Order 1 is carried out" in words(shown) and "90 seconds" in words(shown)
    assert "<script>alert" not in shown.body.decode()
    assert "/resources" in (await browser.get("/tasks")).page.xpath("//main//a/@href")

    def remove() -> Reply:
        forms = [{name: value or "" for name, value in form.form_values()} for form in shown.page.forms]
        [form] = [form for form in forms if form.get("do") == "remove" and form["name"] == "tracker"]
        return browser.visitor.post("/resources", form)

    assert (await deferToThread(remove)).status == 303
    scheduled.carry_out(now_of(watch))
    assert len(scheduled.database.blocking.interact(resources)) == 1
    for bad in ({"name": "", "interval": "1"}, {"name": "a", "interval": "-1"}, {"name": "a\0", "interval": "1"}):
        check_page(await filled(browser, "/resources", **bad), 400)
    guest = await watch.visitor("guest")
    seen = await guest.get("/resources")
    assert {form.action for form in seen.page.forms if form.method == "POST"} == {"/logout"}
    sealed = seen.page.xpath("//input[@name='form']/@value")[0]
    sent = {"form": sealed, "do": "set", "name": "b", "interval": "1"}
    assert (await deferToThread(guest.visitor.post, "/resources", sent)).status == 403


async def send_list(browser: Browser, opml: bytes, seal: str | None = None, **fields: str) -> Reply:
    """Choose a file in the form, and send it as a browser does."""
    page = await browser.get("/feeds-import")
    check_page(page)
    [form] = [each for each in page.page.forms if each.action == "/feeds-import"]
    assert form.get("enctype") == "multipart/form-data"
    values = {"form": dict(form.form_values())["form"] if seal is None else seal, **fields}
    parts = [f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{values[name]}\r\n' for name in values]
    head = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.opml"\r\nContent-Type: text/xml\r\n\r\n'
    body = "".join(parts).encode() + head.encode() + opml + b"\r\n--x--\r\n"
    kind = "multipart/form-data; boundary=x"
    return await deferToThread(browser.visitor.raw, "POST", "/feeds-import", body, content_type=kind)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_lists_of_feeds(watch: Watch, scheduled: Tasks) -> None:
    browser = await watch.visitor()
    urls = [f"http://site{n}/f\u00e9ed" for n in range(300)]
    outlines = "".join(f'<outline text="t" xmlUrl="{url}"/>' for url in [*urls, urls[0], "mailto:x"])
    opml = f'<?xml version="1.0" encoding="iso-8859-1"?><opml><body>{outlines}</body></opml>'.encode("latin-1")
    done = await send_list(browser, opml, full_content="yes")
    check_page(done)
    assert "300 feeds added." in done.text("imported") and "mailto:" in words(done)
    for _ in range(3):
        scheduled.carry_out(now_of(watch))
    task = scheduled.task(1)
    assert task.spec.args == ("http://site0/f%C3%A9ed", "--full-content") and task.auto
    again = await send_list(browser, opml)
    assert "0 feeds added, 300 were there already" in again.text("imported")
    listed = await browser.get("/feeds.opml")
    assert listed.status == 200 and listed.headers["content-type"].startswith("text/x-opml")
    assert "attachment" in listed.headers["content-disposition"] and listed.body.count(b"xmlUrl=") == 300
    links = (await browser.get("/feeds")).page.xpath("//main//a/@href")
    assert {"/feeds.opml", "/feeds-import"} <= set(links)
    # What it exports it imports.
    assert "300 were there already" in (await send_list(browser, listed.body)).text("imported")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_lists_that_are_none(watch: Watch, scheduled: Tasks) -> None:
    watch.add_user("guest", operates=False)
    browser, guest = await watch.visitor(), await watch.visitor("guest")
    bomb = b'<!DOCTYPE opml [<!ENTITY a "a">]><opml><outline xmlUrl="http://a/&a;"/></opml>'
    refused = await send_list(browser, bomb)
    check_page(refused, 400)
    assert "document type" in words(refused) and "OPML" in words(refused)
    for opml in (b"", b"<html/>", b"\0" * 1000):
        check_page(await send_list(browser, opml), 400)
    check_page(await send_list(browser, b"<opml/>", seal="0" * 32), 403)
    # Longer than other forms, but not by any length; and only of who has logged in.
    long = b"<opml><!--" + b"x" * 200_000 + b"--></opml>"
    assert (await send_list(browser, long)).status == 200
    for path, visitor, size, status in (
        ("/feeds-import", browser, OPML_BYTES_MAX, 413),
        ("/feeds", browser, 200_000, 413),
        ("/feeds-import", watch.browser(), 200_000, 413),
    ):
        kind = "multipart/form-data; boundary=x"
        sent = await deferToThread(visitor.visitor.raw, "POST", path, b"x" * (size + 1), content_type=kind)
        assert sent.status == status, path
    page = await guest.get("/feeds-import")
    check_page(page)
    assert {form.action for form in page.page.forms if form.method == "POST"} == {"/logout"}
    kind = "multipart/form-data; boundary=x"
    for body, status in ((b"", 400), (b"--x\r\n\r\n\r\n--x--", 400), (b"--x\r\n" * 200, 400)):
        sent = await deferToThread(guest.visitor.raw, "POST", "/feeds-import", body, content_type=kind)
        assert sent.status in (status, 403)
    assert scheduled.database.query("SELECT COUNT(*) FROM taskorders") == [(0,)]


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        data = PAGE.encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_the_feeds_of_a_page_are_found(watch: Watch, scheduled: Tasks, site: str) -> None:
    browser = await watch.visitor()

    async def found(url: str) -> Reply:
        page = await browser.get("/feeds")
        [form] = [form for form in page.page.forms if form.action == "/feed-discover"]
        fields = {name: value or "" for name, value in form.form_values()} | {"page": url}
        return await deferToThread(browser.visitor.post, "/feed-discover", fields)

    # As a robot: nothing private.
    refused = await found(site)
    check_page(refused)
    assert "1305 address-forbidden" in words(refused)
    check_page(await found("javascript:x"), 400)
    command = python_process("lcc.admin.cli", "feed", "discover", "--allow-private", "--json", "--")
    watch.monitor.discovery = Discovery(reactor, command)
    seen = await found(site)
    check_page(seen)
    assert (
        f"{site}atom.xml" in words(seen) and "\ufffdgpj.exe<b>" in words(seen) and "\u202e" not in seen.body.decode()
    )

    def add() -> Reply:
        forms = [{name: value or "" for name, value in form.form_values()} for form in seen.page.forms]
        [form] = [form for form in forms if form.get("url") == "http://other/feed"]
        return browser.visitor.post("/feeds", form)

    assert (await deferToThread(add)).status == 303
    scheduled.carry_out(now_of(watch))
    assert scheduled.task(1).spec.args == ("http://other/feed",)
    assert "/feed/1" in (await found(site)).page.xpath("//main//td/a/@href")
    await pressed(browser, "/feed/1", "poll")
    assert scheduled.database.query("SELECT kind FROM taskorders WHERE kind = 'task-poll'") == [("task-poll",)]


@pytest_twisted.ensureDeferred
async def test_a_page_that_takes_all_time_or_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def process(text: str) -> Discovery:
        return Discovery(reactor, ([sys.executable, "-c", text], {}))

    monkeypatch.setattr(discovery, "SECONDS_MAX", 0.3)
    with pytest.raises(NotDiscovered, match="within 0 seconds"):
        await process("import time; time.sleep(60)").feeds_of("u")
    monkeypatch.setattr(discovery, "SECONDS_MAX", 30)
    with pytest.raises(NotDiscovered, match="MemoryError"):
        await process("import time; time.sleep(0.5); b'x' * (2 << 30)").feeds_of("u")
    with pytest.raises(NotDiscovered, match="was killed"):
        await process("print('{}\\n' * 500000)").feeds_of("u")
    busy = process("import time; time.sleep(60)")
    waiting = [Deferred.fromCoroutine(busy.feeds_of("u")) for _ in range(discovery.AT_ONCE_MAX)]
    with pytest.raises(NotDiscovered, match="try again in a minute"):
        await busy.feeds_of("u")
    busy.stop()
    for each in waiting:
        with pytest.raises(NotDiscovered):
            await each
