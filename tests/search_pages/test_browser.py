"""The search in a real browser: by keyboard, without scripts, dark, on a phone, for a screen reader; and copies of
hostile pages, which must do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from lcc.domain.keys import url_key
from tests.support.chromium import Chromium, accessibility
from tests.support.pdf import pdf_with_text
from tests.support.roles.content_users import Api
from tests.support.waiting import until

from .kit import PASSWORD, A, Searching, article
from .test_pages import fill

PHONE_WIDTH = 360
WAITED_SECONDS = 0.7
"""A page that does something does it soon."""


def ask(function: Callable[..., object], *args: object) -> Deferred[Any]:
    return deferToThread(function, *args)


@pytest_twisted.ensureDeferred
async def test_searching_by_keyboard_without_scripts(
    open_search: Callable[..., Searching], chromium: Chromium
) -> None:
    search = open_search("")
    search.add_web_user()
    fill(search)
    search.put(f"{A}{'long' * 100}", article("Long" * 50, "orchard " + "w" * 500))
    search.put(f"{A}pdf", pdf_with_text("orchard in print"), mimetype="application/pdf", mtime=1)
    await search.indexed()
    await deferToThread(lambda: chromium.scripts(on=False))
    await ask(chromium.go, f"{search.address}/")
    await ask(chromium.type, "#name", "ann")
    await deferToThread(lambda: chromium.press("Tab", 9))
    await ask(chromium.enter, PASSWORD)
    await ask(chromium.until, "document.activeElement.name === 'q'")  # the field has the focus
    await ask(chromium.enter, "orchard")
    assert (await ask(chromium.url)) == f"{search.address}/search?q=orchard"
    html = await ask(chromium.html)
    assert "<mark>orchard</mark>" in html
    await deferToThread(lambda: chromium.scripts(on=True))
    assert chromium.complaints == []

    key = (await ask(chromium.attribute, "ol.hits li:last-child a[href^='/cached/']", "href")).rpartition("/")[2]
    pdf = url_key(1, f"{A}pdf", "application/pdf").hex()
    words = ("orchard", "orchrad", "-x")
    pages = ["/", *(f"/search?q={word}" for word in words), f"/cached/{key}", f"/cached/{pdf}", "/none", "/login"]
    for dark, width, phone in ((False, 1280, False), (True, PHONE_WIDTH, True)):
        await deferToThread(lambda dark=dark: chromium.dark(dark))
        await deferToThread(lambda width=width, phone=phone: chromium.size(width, 800, phone=phone))
        for path in pages:
            await ask(chromium.go, search.address + path)
            assert await ask(chromium.evaluate, "document.documentElement.scrollWidth") == width, path
            assert await ask(accessibility, chromium) == [], (path, dark)
        paper = await ask(chromium.evaluate, "getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, str(paper)[4:-1].split(","))) < 3 * 128) is dark
    # A screen reader gets a list of headings.
    await ask(chromium.go, f"{search.address}/search?q=orchard")
    roles = await ask(chromium.roles)
    assert roles["search"] == roles["main"] == roles["complementary"] == 1 and roles["mark"] >= 5
    assert roles["heading"] == 1 + 6 + 2


class Listener(Factory[Protocol]):
    """Counts who connects, and hangs up on whoever asks."""

    noisy = False

    def __init__(self) -> None:
        self.connections = 0
        self.asked: list[bytes] = []

    def buildProtocol(self, addr: Any) -> Protocol:
        self.connections += 1
        return HangsUp(self.asked)


class HangsUp(Protocol):
    def __init__(self, asked: list[bytes]) -> None:
        self._asked = asked

    def dataReceived(self, data: bytes) -> None:
        self._asked.append(data)
        assert self.transport is not None
        self.transport.loseConnection()


def hostile(there: str) -> str:
    """A page that tries all that pages can do by themselves."""
    return f"""<!doctype html><html><head><title>Hostile orchard</title>
<meta http-equiv="refresh" content="0; url={there}/refresh">
<meta http-equiv="Content-Security-Policy" content="default-src *">
<base href="{there}/" target="_top">
<link rel="stylesheet" href="{there}/style.css"><link rel="icon" href="{there}/icon.png">
<link rel="preload" as="image" href="{there}/preload"><link rel="prefetch" href="{there}/prefetch">
<link rel="preconnect" href="{there}"><link rel="dns-prefetch" href="{there}">
<link rel="modulepreload" href="{there}/module.js"><link rel="manifest" href="{there}/manifest">
<style>@import url({there}/import.css); body {{ background: url({there}/background) }}
@font-face {{ font-family: f; src: url({there}/font) }}
p {{ font-family: f; cursor: url({there}/cursor), auto }}</style>
<script>top.location = "{there}/top"; fetch("{there}/fetch"); document.title = "ran"; window.ran = 1</script>
<script src="{there}/script.js"></script></head>
<body onload="new Image().src='{there}/onload'" background="{there}/body">
<p>orchard<img src="{there}/img" srcset="{there}/srcset 2x" onerror="location='{there}/onerror'"></p>
<iframe src="{there}/iframe"></iframe><object data="{there}/object"></object><embed src="{there}/embed">
<video src="{there}/video" autoplay poster="{there}/poster"></video><audio src="{there}/audio" autoplay></audio>
<svg><image href="{there}/svg"/><script>fetch("{there}/svg")</script><use href="{there}/use#a"/></svg>
<form action="{there}/form" id="f"><input name="a" autofocus onfocus="this.form.submit()"><button>b</button></form>
<input type="image" src="{there}/inputimage"><table background="{there}/table"></table>
<portal src="{there}/portal"></portal><frameset><frame src="{there}/frame"></frameset>
<a id="link" href="{there}/link" ping="{there}/ping" target="_top">link</a></body></html>"""


@pytest_twisted.ensureDeferred
async def test_copies_of_hostile_pages_do_nothing(
    open_search: Callable[..., Searching], chromium: Chromium, api: Api
) -> None:
    search = open_search()
    listener = Listener()
    port: Any = reactor.listenTCP(0, listener, interface="127.0.0.1")  # type: ignore[attr-defined]
    try:
        there = f"http://127.0.0.1:{port.getHost().port}"
        search.put(f"{A}hostile", hostile(there))
        await search.indexed()
        await ask(chromium.go, f"{search.address}/search?q=orchard")
        await ask(chromium.click, "a[href^='/cached/']")
        key = (await ask(chromium.url)).rpartition("/")[2]
        await deferLater(reactor, WAITED_SECONDS)
        assert (listener.connections, listener.asked) == (0, [])
        assert (await ask(chromium.url)) == f"{search.address}/cached/{key}"
        assert (await ask(chromium.text, "h1")) == "Cached copy"
        # The frame is of no origin: this page sees nothing of it, nor it of this page.
        assert await ask(chromium.evaluate, "document.querySelector('iframe').contentDocument") is None
        # Nor does it when it is opened alone.
        await ask(chromium.go, f"{search.address}/copy/{key}")
        await deferLater(reactor, WAITED_SECONDS)
        assert listener.connections == 0
        assert await ask(chromium.evaluate, "window.ran === undefined && document.title") == "Hostile orchard"
        # Without that the page does do something.
        await ask(chromium.go, f"http://127.0.0.1:{api.port}/content/{key}")
        await until(lambda: listener.asked)
    finally:
        await port.stopListening()
