"""The web monitor in a real browser: logging in, following, trying again, dark, on a phone, without scripts; and what
a screen reader gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from lcc.model import Provider
from lcc.storage.database.tables.order_rows import RETRY
from lcc.storage.providers.providers import add_provider
from tests.support.chromium import Chromium, accessibility, broken_words
from tests.support.qm_state import STATE
from tests.support.queue import notice

from .kit import CANARY, PASSWORD, Watch

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)

PAGES = (
    *("/", "/?span=day", "/providers", "/providers?only=queued&order=lag", "/provider/1", "/errors"),
    *("/errors?code=404", "/errors?code=503", "/machines", "/search", "/search?q=site", "/search?q=http://host/*"),
    *("/url?url=http://site/a", "/readers", "/registrations", "/feeds", "/feeds-import", "/crawls", "/push"),
    *("/tasks", "/task-add", "/jobs", "/resources", "/statistics", "/nowhere"),
)
PHONE_WIDTH, TABLET_WIDTH = 360, 768
SIDEWAYS = """Array.from(document.querySelectorAll('.scroll')).filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.getAttribute('aria-label'))"""
"""Tables that one has to scroll sideways."""
HEADER_ROW = 75
"""Two rows of the header are higher."""


def fill(watch: Watch) -> None:
    """Something of each kind, with hostile texts in it."""
    root = f"http://host/{CANARY}/" + "long" * 100
    watch.database.now(add_provider, Provider(0, (root,), "h", hours="22-6", contact=CANARY))
    watch.queue.send(
        1,
        notice("a"),
        notice("broken"),
        *[notice("x" * 500 + str(number)) for number in range(3)],
        now=int(watch.environment.now()),
    )
    watch.queue.record(watch.queue.failed(watch.queue.rows()[1], 404, detail=CANARY))
    robots = [{"name": CANARY, "capacity": 4, "busy": 2, "paused": paused} for paused in (False, True)]
    here = STATE["machines"][0] | {"robots": robots, "robots_count": 200}
    away = STATE["machines"][0] | {"machine": 2, "name": CANARY, "connected": False}
    watch.says(machines=[here, away], machines_connected=1)


def check_looks(browser: Chromium, address: str, pages: Sequence[str]) -> None:
    """These pages fit, break no words, and can be read by everybody; on a screen, and in the dark on a phone.  On a
    tablet they fit."""
    for dark, width, phone in ((False, 1280, False), (False, TABLET_WIDTH, True), (True, PHONE_WIDTH, True)):
        browser.dark(dark)
        browser.size(width, 800, phone=phone)
        for path in pages:
            browser.go(address + path)
            assert browser.evaluate("document.documentElement.scrollWidth") == width, path
            assert browser.evaluate(SIDEWAYS) == [], (path, width)
            assert browser.evaluate("document.querySelector('header').offsetHeight") < HEADER_ROW, path
            if width != TABLET_WIDTH:
                assert accessibility(browser) == [], (path, dark)
                assert broken_words(browser) == [], path
        paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, str(paper)[4:-1].split(","))) < 3 * 128) is dark


def log_in(browser: Chromium, address: str) -> None:
    browser.go(address)
    browser.type("#name", "ann")
    browser.type("#password", PASSWORD)
    browser.click("main button")


@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_in_a_real_browser(open_watch: Callable[..., Watch], chromium: Chromium) -> None:
    watch = open_watch()
    fill(watch)
    await watch.look()
    address = f"http://127.0.0.1:{watch.port}"

    def ask(function: Callable[..., object], *args: object) -> Deferred[object]:
        return deferToThread(function, *args)

    await ask(lambda: chromium.size(1280, 800))
    # Who is not logged in is asked to, and gets on to where he wanted to go.
    await ask(log_in, chromium, f"{address}/machines")
    assert await deferToThread(chromium.url) == f"{address}/machines"

    # It follows: the sentence changes without anything being loaded anew.
    await ask(chromium.go, f"{address}/")
    await ask(chromium.until, "document.querySelector('#live').textContent === 'Live'")
    await ask(chromium.evaluate, "window.unloaded = 'no'; document.querySelector('#q').focus(); true")
    assert "machine 2 is unreachable" in await deferToThread(chromium.text, "#sentence")
    watch.says(machines=STATE["machines"])
    await watch.look()
    await ask(chromium.until, "document.querySelector('#sentence').textContent === 'All is well.'")
    assert await deferToThread(chromium.evaluate, "document.querySelector('#verdict').className") == "verdict note"
    assert await deferToThread(chromium.evaluate, "window.unloaded + document.activeElement.id") == "noq"

    # Trying again.
    await ask(chromium.go, f"{address}/errors")
    await ask(chromium.click, "button[aria-label='Retry URLs with error 404']")
    assert "is ordered" in str(await deferToThread(chromium.text, "#ordered"))
    assert watch.database.query("SELECT kind, pid, code FROM orders") == [(RETRY, 0, 404)]
    watch.database.now(lambda txn: txn.execute("DELETE FROM orders"))
    await watch.look()
    await ask(chromium.until, "document.querySelector('#ordered').textContent.includes('is done')")

    # Nothing of a stranger's has run, and nothing was refused by the policy.
    assert chromium.complaints == []
    await ask(check_looks, chromium, address, PAGES)
    assert all("404" in each and "/nowhere" in each for each in chromium.complaints), chromium.complaints
    # On a phone a table looks like cards, and is still a table.
    await ask(chromium.go, f"{address}/errors")
    roles = await deferToThread(chromium.roles)
    assert (roles["table"], roles["row"], roles["columnheader"], roles["rowheader"]) == (1, 2, 6, 1)
    assert roles["cell"] == 5
    # That look does see something.
    await ask(chromium.evaluate, "document.documentElement.removeAttribute('lang'); true")
    assert "html-has-lang" in str(await deferToThread(accessibility, chromium))

    # The session ends: the page goes to the login by itself.
    await ask(chromium.go, f"{address}/")
    await ask(chromium.until, "document.querySelector('#live').textContent === 'Live'")
    watch.add_user("ann", password="another")
    await watch.look()
    await ask(chromium.until, "location.pathname === '/login'")


@pytest_twisted.ensureDeferred
async def test_without_scripts(open_watch: Callable[..., Watch], chromium: Chromium) -> None:
    watch = open_watch()
    fill(watch)
    await watch.look()
    address = f"http://127.0.0.1:{watch.port}"
    await deferToThread(lambda: chromium.scripts(on=False))
    await deferToThread(log_in, chromium, f"{address}/")
    html = await deferToThread(chromium.html)
    assert "reload every 30 seconds" in html and 'id="live" class="live"></span>' in html
    await deferToThread(chromium.click, "main noscript a, p.told a")
    assert (await deferToThread(chromium.url)) == f"{address}/?span=hour&refresh=30"
    assert '<meta http-equiv="refresh" content="30">' in await deferToThread(chromium.html)
    await deferToThread(chromium.go, f"{address}/errors")
    await deferToThread(chromium.click, "button[aria-label='Retry URLs with error 404']")
    assert "is ordered" in await deferToThread(chromium.html)
    await deferToThread(chromium.click, ".who button")
    assert (await deferToThread(chromium.url)) == f"{address}/login"
    assert chromium.complaints == []
