"""Who may search, and that nobody learns of pages that are not for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.task import deferLater

from lcc.roles.search import readers
from lcc.storage.providers.content_users import remove_content_user
from tests.support.browser import Browser
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend
from tests.support.logs import LoggedErrors

from .kit import PASSWORD, A, B, Searching, article


async def logged_in(search: Searching, name: str, password: str) -> Browser:
    browser = search.browser()
    page = await browser.get("/login?next=%2Fsearch%3Fq%3Dorchard")
    reply = await browser.submit(page, name=name, password=password)
    assert (reply.status, reply.headers["location"]) == (303, "/search?q=orchard"), reply.body
    return browser


@pytest_twisted.ensureDeferred
async def test_scopes_hold_in_everything(
    open_search: Callable[..., Searching], cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = open_search("")
    search.put(f"{A}1", article("Mine", "orchard"))
    search.put(f"{B}2", article("Secret", "orchard secretword"), pid=2)
    await search.indexed()
    stranger = search.browser()
    for path in ("/", "/search?q=orchard", f"/cached/{'0' * 40}"):
        reply = await stranger.get(path)
        assert reply.status == 303 and reply.headers["location"].startswith("/login"), path
    assert (await stranger.get("/search?q=orchard&format=json")).status == 401
    assert (await stranger.get("/search?q=orchard&format=atom")).status == 401
    assert (await stranger.get("/style.css")).status == 200

    # A user of the monitor sees everything.
    search.add_web_user()
    ann = await logged_in(search, "ann", PASSWORD)
    everything = (await ann.get("/search?q=orchard&format=json")).json()
    assert everything["total"] == 2
    keys = {hit["title"]: hit["key"] for hit in everything["hits"]}
    assert "ann" in (await ann.get("/search?q=orchard")).body.decode()

    # A content user sees what its token is for: no hit, count, snippet, facet, suggestion or copy of anything else.
    cuid, token = add_user(cache, {1})
    for reader in (await logged_in(search, "", token), search.browser(authorization=f"Bearer {token}")):
        reply = await reader.get("/search?q=orchard&format=json")
        assert reply.json()["total"] == 1 and [hit["title"] for hit in reply.json()["hits"]] == ["Mine"]
        assert "secret" not in reply.body.decode().lower() and "other.example.net" not in reply.body.decode()
        assert (await reader.get("/search?q=secretwrod&format=json")).json()["suggestion"] is None
        assert (await reader.get("/search?q=secretword&format=atom")).body.count(b"<entry>") == 0
        for kind in ("cached", "copy"):
            assert (await reader.get(f"/{kind}/{keys['Mine']}")).status == 200
            assert (await reader.get(f"/{kind}/{keys['Secret']}")).status == 404
    assert (await ann.get(f"/copy/{keys['Secret']}")).status == 200
    assert (await ann.get("/search?q=secretwrod&format=json")).json()["suggestion"] == "secretword"

    _, rows_only = add_user(cache, content=False)
    assert (await search.browser(authorization=f"Bearer {rows_only}").get("/search?q=a&format=json")).status == 403
    assert (await search.browser(authorization="Bearer 1-x").get("/search?q=a&format=json")).status == 401

    # Whoever may no longer is out within half a minute.
    reader = await logged_in(search, "", token)
    cache.database.now(remove_content_user, cuid)
    assert (await reader.get("/search?q=orchard")).status == 200
    monkeypatch.setattr(readers, "CHECKED_SECONDS", 0.0)
    assert (await reader.get("/search?q=orchard")).status == 303
    reply = await ann.post("/logout", {"form": (await ann.get("/")).page.xpath("//input[@name='form']/@value")[0]})
    assert reply.status == 303 and (await ann.get("/search?q=orchard")).status == 303


@pytest_twisted.ensureDeferred
async def test_its_own_token_is_for_fewer_providers_than_before(
    open_search: Callable[..., Searching], backend: Backend, cache: Cache
) -> None:
    token_file = backend.home / "token"
    more = f'open = true\ntoken_file = "{token_file}"'
    token_file.write_text(add_user(cache, {1, 2})[1])
    search = open_search(more)
    search.put(f"{A}1", article("Mine", "orchard"))
    search.put(f"{B}2", article("Secret", "orchard"), pid=2)
    await search.indexed()
    reply = await search.browser().get("/search?q=orchard&format=json")
    assert reply.json()["total"] == 2
    await search.stop()
    token_file.write_text(add_user(cache, {1})[1])
    search = open_search(more)
    titles: set[str] = set()

    async def is_built() -> bool:
        reply = await search.browser().get("/search?q=orchard&format=json")
        if reply.status == 503:
            return False
        titles.update(hit["title"] for hit in reply.json()["hits"])
        return bool(reply.json()["complete"])

    while not await is_built():
        await deferLater(reactor, 0.02)  # type: ignore[arg-type]
    assert titles == {"Mine"}


@pytest_twisted.ensureDeferred
async def test_wrong_logins(open_search: Callable[..., Searching], cache: Cache, logged_errors: LoggedErrors) -> None:
    search = open_search("failed_logins = 2")
    search.add_web_user()
    _, rows_only = add_user(cache, content=False)
    browser = search.browser()
    page = await browser.get("/login")
    for name, password in (("ann", "wrong"), ("", rows_only)):
        reply = await browser.submit(page, name=name, password=password)
        assert reply.status == 403 and "unknown token" in reply.body.decode().lower()
    reply = await browser.submit(page, name="bob", password="x")
    assert reply.status == 429
