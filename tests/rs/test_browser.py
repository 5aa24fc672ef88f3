"""Registering in a real browser: the strip of hours, buttons that copy, dark, on a phone, without scripts; and what a
screen reader gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from lcc.storage.providers.providers import get_provider
from tests.support.chromium import Chromium, accessibility, broken_words
from tests.support.databases import Backend, DirectDatabase
from tests.support.servers.web_site import WebSite

from .kit import Office

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)

PHONE_WIDTH = 360
OPERATOR = (
    'operator = "Library of Donaudampfschifffahrtsgesellschaftskapitaensvereinigung"\n'
    'contact = "cache@library.example"\npriority_max = 2'
)
LOOKS = ((False, 1280, False), (True, 1280, False), (False, PHONE_WIDTH, True), (True, PHONE_WIDTH, True))
"""Dark, width, phone."""


def ask(function: Callable[..., object], *args: object) -> Deferred[Any]:
    return deferToThread(function, *args)


def check_looks(browser: Chromium) -> None:
    """The page fits, and can be read by everybody, in all looks."""
    for dark, width, phone in LOOKS:
        browser.dark(dark)
        browser.size(width, 800, phone=phone)
        assert browser.evaluate("document.documentElement.scrollWidth") == width, (browser.url(), width)
        assert accessibility(browser) == [], (browser.url(), dark, width)
        assert broken_words(browser) == [], (browser.url(), width)
        # Commands wrap.
        assert browser.evaluate("[...document.querySelectorAll('pre')].every(e => e.scrollWidth <= e.clientWidth)")


def fill_in(browser: Chromium, address: str, site: str) -> None:
    browser.go(f"{address}/")
    check_looks(browser)
    browser.click("a.primary")
    browser.type("#contact", "me@example.org")
    browser.type("#site", site)
    for hour in (22, 23, 0):
        browser.tick(f"#hour-{hour}")


def files_of(browser: Chromium) -> tuple[str, str]:
    """The secret, and the path of its file."""
    secret = browser.text("#secret")
    name = browser.text("dd code")
    return secret, f"/{name}"


@pytest_twisted.ensureDeferred
async def test_registering(
    open_office: Callable[..., Office], chromium: Chromium, site: WebSite, backend: Backend
) -> None:
    address = f"http://127.0.0.1:{open_office(OPERATOR).port}"
    await ask(fill_in, chromium, address, site.url)
    await ask(check_looks, chromium)
    await ask(chromium.click, "main button[type=submit]")
    await ask(check_looks, chromium)
    secret, path = await ask(files_of, chromium)
    # Each thing that is to be copied has its button, and that copies it.
    count = "document.querySelectorAll('[data-copy]').length"
    assert await ask(chromium.evaluate, count) == 4
    buttons = "[...document.querySelectorAll('.copied button')].map(e => e.textContent)"
    assert await ask(chromium.evaluate, buttons) == [
        *("Copy the secret", "Copy the command", "Copy the password", "Copy the command")
    ]
    await ask(chromium.allow, "clipboardReadWrite", address)
    await ask(chromium.tick, ".copied button")
    await ask(chromium.until, "document.querySelector('.copied [role=status]').textContent === ' Copied'")
    assert await ask(chromium.evaluate, "navigator.clipboard.readText()") == secret
    # The file is not there yet, then it is.
    await ask(chromium.click, "main button[type=submit]")
    assert await ask(chromium.text, "#fault-title") == "The file is not there yet"
    await ask(check_looks, chromium)
    site.files[path] = secret.encode("utf-16")
    await ask(chromium.click, "main button[type=submit]")
    await ask(check_looks, chromium)
    pid = int(await ask(chromium.text, "#pid"))
    database = DirectDatabase(backend.url, backend.home)
    made = database.now(get_provider, pid)
    database.blocking.close()
    assert made is not None and made.hours == "22-1"
    for page in ("/root", "/password", "/nowhere"):
        await ask(chromium.go, address + page)
        await ask(check_looks, chromium)
    assert [each for each in chromium.complaints if "404" not in each and "409" not in each] == []


@pytest_twisted.ensureDeferred
async def test_without_scripts(office: Office, chromium: Chromium, site: WebSite) -> None:
    await ask(lambda: chromium.scripts(on=False))
    address = f"http://127.0.0.1:{office.port}"

    def all_of_it() -> str:
        browser = chromium
        browser.go(f"{address}/register")
        browser.type("#contact", "me@example.org")
        browser.type("#site", site.url)
        browser.tick("#hour-7")
        browser.click("main button[type=submit]")
        given = browser.html()
        browser.click("main button[type=submit]")
        return given

    given = await ask(all_of_it)
    assert "This page is shown once" in given and "copied" not in given and ">Copy" not in given
    assert "The file is not there yet" in await ask(chromium.html)
