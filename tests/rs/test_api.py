"""The HTTP API: every reply is held against its document; further roots, lost passwords, approval, expiry."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import pytest_twisted
from openapi_spec_validator import validate

from lcc.config import WatchedConfig
from lcc.model import Provider
from lcc.roles.rs.web.openapi import document
from lcc.storage.providers.passwords import hash_password, verify_password
from lcc.storage.providers.providers import add_provider, get_provider, list_providers, order_removal
from lcc.storage.providers.registrations import approve_registration, list_registrations
from lcc.storage.providers.watched import find_or_make_watched
from tests.support.browser import Browser
from tests.support.databases import Backend, DirectDatabase
from tests.support.servers.web_site import WebSite
from tests.support.waiting import until

from .kit import Office
from .test_guards import ask, check, path_of

sqlite_only = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def stored(backend: Backend, function: Callable[..., Any], *args: Any) -> Any:
    database = DirectDatabase(backend.url, backend.home)
    try:
        return database.now(function, *args)
    finally:
        database.blocking.close()


def place(site: WebSite, given: Any) -> None:
    """Put the file where it has to be."""
    for url in given["urls"]:
        site.files["/" + url.partition("://")[2].partition("/")[2]] = given["secret"].encode()


async def register(browser: Browser, site: WebSite, folder: str = "") -> Any:
    """The whole way; gives what was given out, and the provider's number."""
    given = await ask(browser, site.url + folder)
    place(site, given)
    done = (await check(browser, given)).json()
    assert done["state"] == "done"
    return {**given, "pid": done["pid"]}


@pytest_twisted.ensureDeferred
async def test_the_whole_way(office: Office, site: WebSite, backend: Backend) -> None:
    browser = office.browser()
    given = await ask(browser, site.url, bandwidth=1000, hours="1-2", timezone="UTC", priority=0, mail=False)
    assert (given["kind"], given["state"], given["pid"]) == ("provider", "asked", None)
    looked = (await browser.api(f"/{given['ticket']}")).json()
    assert looked == {name: given[name] for name in given if name not in ("ticket", "secret", "password")}
    assert (await check(browser, given)).json()["code"] == 404
    place(site, given)
    done = (await check(browser, given)).json()
    assert done == {**looked, "state": "done", "pid": done["pid"]}
    # Once more, and the answer that got lost is told again, without another look at the site.
    asked = len(site.asked)
    assert (await check(browser, given)).json() == done and len(site.asked) == asked
    (made,) = stored(backend, list_providers)
    assert made.pid == done["pid"] and verify_password(given["password"], made.password_hash)
    assert (made.bandwidth_bytes, made.hours, made.timezone) == (1000, "1-2", "UTC")


def test_its_document_is_valid() -> None:
    validate(document("1"))


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_its_document_is_served(office: Office) -> None:
    served = (await office.browser().get("/openapi.json")).json()
    served["info"]["version"] = "1"
    assert served == json.loads(json.dumps(document("1")))


FAULTY: list[tuple[Any, set[str]]] = [
    ({}, {"contact", "site"}),
    ({"contact": "a@b", "site": "http://x/", "wish": "1"}, {"wish"}),
    ({"contact": "a@b", "site": "http://x/", "hours": ["1"]}, {"hours"}),
    ({"contact": "a@b", "site": "http://x/", "bandwidth": 1.5}, {"bandwidth"}),
    ({"contact": "a@b", "site": "http://x/", "bandwidth": -1, "priority": 3}, {"bandwidth", "priority"}),
    ({"contact": "a@b", "site": "http://x/", "timezone": "x" * 6000}, {"timezone"}),
    ({"kind": "other"}, {"kind"}),
    ({"kind": "root"}, {"pid", "password", "site"}),
    ({"kind": "root", "pid": "0", "password": "x", "site": "http://x/"}, {"pid"}),
    ({"kind": "password", "pid": 7}, {"site"}),
    ({"kind": "password", "pid": 7, "site": "http://x/", "contact": "a@b"}, {"contact"}),
]


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_faults_are_told_by_field(office: Office) -> None:
    for body, fields in FAULTY:
        reply = await office.browser().api("", body)
        assert reply.status == 400 and set(reply.json()["faults"]) == fields, body


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_bodies_that_are_none(office: Office) -> None:
    browser = office.browser()
    for body in (
        b"",
        b"x",
        b"[]",
        b"1",
        b"\xff",
        b"[" * 15_000,
        b'{"a":' + b"9" * 9000 + b"}",
        b'{"site": "\\ud800"}',
    ):
        reply = await browser.raw("POST", "/api/registrations", body, content_type="application/json")
        assert reply.status == 400, body[:20]
    # No page of another site can send JSON without being asked about it before: only that is taken.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        reply = await browser.raw("POST", "/api/registrations", b"{}", content_type=kind)
        assert reply.status == 415
    assert (await browser.raw("POST", "/api/registrations/1-0/check", b"")).status == 415
    assert (await browser.raw("OPTIONS", "/api/registrations", b"")).status == 405
    assert (await browser.get("/api/registrations")).status == 405
    assert (await browser.get("/api/registrations/1/check")).status == 405
    assert (await browser.get("/api/registrations/1/2")).status == 404


@pytest_twisted.ensureDeferred
async def test_a_further_root(office: Office, site: WebSite, backend: Backend) -> None:
    browser = office.browser()
    first = await register(browser, site, "a/")
    asked = {"kind": "root", "pid": first["pid"], "password": first["password"], "site": f"{site.url}b/"}
    reply = await browser.api("", {**asked, "password": "wrong"})
    assert reply.status == 403
    assert (
        await browser.api("", {**asked, "pid": 999})
    ).body == reply.body  # nobody learns which providers there are
    given = (await browser.api("", asked)).json()
    assert given["password"] is None
    assert (await check(browser, given)).status == 409
    place(site, given)
    assert (await check(browser, given)).json()["pid"] == first["pid"]
    made = stored(backend, get_provider, first["pid"])
    assert made.roots == (f"{site.url}a/", f"{site.url}b/")
    assert verify_password(first["password"], made.password_hash)
    assert "already" in (await browser.api("", asked)).json()["faults"]["site"]


@pytest_twisted.ensureDeferred
async def test_a_lost_password_needs_a_proof_of_every_root(office: Office, site: WebSite, backend: Backend) -> None:
    browser = office.browser()
    first = await register(browser, site, "a/")
    more = (
        await browser.api(
            "", {"kind": "root", "pid": first["pid"], "password": first["password"], "site": f"{site.url}b/"}
        )
    ).json()
    place(site, more)
    await check(browser, more)
    asked = {"kind": "password", "pid": first["pid"], "site": f"{site.url}b/"}
    # Who does not know one of its roots is told none of them.
    stranger = await browser.api("", {**asked, "site": f"{site.url}c/"})
    assert stranger.status == 404 and "/a/" not in stranger.body.decode()
    given = (await browser.api("", asked)).json()
    assert sorted(given["roots"]) == [f"{site.url}a/", f"{site.url}b/"]
    # Only one of them: somebody who has b/ must not get a/.
    site.files[path_of({"urls": [url for url in given["urls"] if "/b/" in url]})] = given["secret"].encode()
    reply = await check(browser, given)
    assert reply.status == 409 and "/a/" in reply.json()["url"]
    assert verify_password(first["password"], stored(backend, get_provider, first["pid"]).password_hash)
    place(site, given)
    assert (await check(browser, given)).json()["state"] == "done"
    made = stored(backend, get_provider, first["pid"])
    assert verify_password(given["password"], made.password_hash)
    assert not verify_password(first["password"], made.password_hash)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_watched_site_is_its_owners_from_the_proof_on(
    office: Office, site: WebSite, backend: Backend
) -> None:
    browser = office.browser()
    pid = stored(backend, find_or_make_watched, f"{site.url}a/", WatchedConfig())
    lost = await browser.api("", {"kind": "password", "pid": pid, "site": f"{site.url}a/"})
    unknown = await browser.api("", {"kind": "password", "pid": 99, "site": f"{site.url}a/"})
    assert (lost.status, lost.body) == (unknown.status, unknown.body.replace(b"99", b"%d" % pid))
    asked = {"kind": "root", "pid": pid, "password": "x", "site": f"{site.url}b/"}
    assert (await browser.api("", asked)).json()["error"] == "unknown provider or wrong password"
    given = await register(browser, site, "a/")
    assert given["pid"] == pid
    made = stored(backend, get_provider, pid)
    assert not made.watched and verify_password(given["password"], made.password_hash)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_roots_that_cannot_be_proven_are_for_the_operator(office: Office, backend: Backend) -> None:
    hashed = hash_password("x", generated=True)
    pid = stored(backend, add_provider, Provider(0, ("http://x/", "ftp://x/"), hashed))
    reply = await office.browser().api("", {"kind": "password", "pid": pid, "site": "http://x/"})
    assert reply.status == 409 and "ftp://x/" in reply.json()["error"]


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_wrong_passwords_are_throttled(open_office: Callable[..., Office], backend: Backend) -> None:
    office = open_office("failed_logins = 3\nproxy = true")
    hashed = hash_password("right", generated=False)
    pid = stored(backend, add_provider, Provider(0, ("http://x/",), hashed))
    asked = {"kind": "root", "pid": pid, "site": "http://y/"}
    statuses = []
    for number in range(4):
        browser = office.browser(X_Forwarded_For=f"192.0.2.{number}")
        statuses.append((await browser.api("", {**asked, "password": f"wrong{number}"})).status)
    assert statuses == [403, 403, 403, 429]
    # The right one does not help any longer, wherever it comes from.
    assert (await office.browser().api("", {**asked, "password": "right"})).status == 429
    other = stored(backend, add_provider, Provider(0, ("http://z/",), hash_password("other", generated=False)))
    assert (await office.browser().api("", {**asked, "pid": other, "password": "other"})).status == 201


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_nobody_can_lock_out_a_provider_that_is_known(
    open_office: Callable[..., Office], backend: Backend
) -> None:
    office = open_office("failed_logins = 3\nproxy = true")
    hashed = hash_password("right", generated=False)
    pid = stored(backend, add_provider, Provider(0, ("http://x/",), hashed))
    at_home = office.browser(X_Forwarded_For="192.0.2.200")

    async def status(browser: Browser, password: str, site: str) -> int:
        asked = {"kind": "root", "pid": pid, "password": password, "site": site}
        return (await browser.api("", asked)).status

    assert await status(at_home, "right", "http://y/") == 201
    for number in range(3):
        assert await status(office.browser(X_Forwarded_For=f"192.0.2.{number}"), "wrong", "http://z/") == 403
    assert await status(office.browser(X_Forwarded_For="192.0.2.9"), "right", "http://z/") == 429
    assert await status(at_home, "right", "http://z/") == 201


@pytest_twisted.ensureDeferred
async def test_the_operator_approves(open_office: Callable[..., Office], site: WebSite, backend: Backend) -> None:
    office = open_office("approval = true")
    browser = office.browser()
    given = await ask(browser, site.url)
    place(site, given)
    waiting = (await check(browser, given)).json()
    assert (waiting["state"], waiting["pid"]) == ("proven", None) and waiting["expires"] > given["expires"]
    assert stored(backend, list_providers) == []
    page = await browser.get(f"/registration/{given['ticket']}")
    assert "operator" in page.page.text_content() and not page.page.forms
    stored(backend, approve_registration, given["number"], office.config.rs, given["expires"] - 1)
    done = (await browser.api(f"/{given['ticket']}")).json()
    assert done["state"] == "done" and done["pid"] == stored(backend, list_providers)[0].pid


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_provider_that_is_removed_meanwhile(office: Office, site: WebSite, backend: Backend) -> None:
    browser = office.browser()
    first = await register(browser, site)
    given = (await browser.api("", {"kind": "password", "pid": first["pid"], "site": site.url})).json()
    stored(backend, order_removal, first["pid"])
    place(site, given)
    reply = await check(browser, given)
    assert (reply.status, reply.json()["kind"]) == (409, "gone")
    page = await browser.get(f"/registration/{given['ticket']}")
    told = await browser.submit(page)
    assert told.status == 409 and "no longer registered" in told.text("failure")


@pytest_twisted.ensureDeferred
async def test_what_has_expired_is_removed(
    open_office: Callable[..., Office], site: WebSite, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lcc.roles.rs import registrar

    monkeypatch.setattr(registrar, "SWEEP_SECONDS", 0.05)
    office = open_office()
    browser = office.browser()
    gone, stays = await ask(browser, site.url), await ask(browser, site.url)
    stored(
        backend,
        lambda txn: txn.execute("UPDATE registrations SET expires = created WHERE number = ?", [gone["number"]]),
    )
    await until(lambda: len(stored(backend, list_registrations, 0)) == 1)
    (left,) = stored(backend, list_registrations, 0)
    assert left.number == stays["number"]
    place(site, gone)
    assert (await check(browser, gone)).status == 404
    assert (await browser.get(f"/registration/{gone['ticket']}")).status == 404
    assert (await browser.api(f"/{stays['ticket']}")).status == 200
