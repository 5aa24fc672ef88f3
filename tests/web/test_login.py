"""Who gets in, what a session is, and what keeps other sites out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.errors import ConfigError
from lcc.roles.accounts import DENIED_SECONDS
from lcc.roles.front import own_path
from lcc.storage.providers.passwords import hash_password
from lcc.storage.providers.registrations import registrations_page
from lcc.storage.providers.web_users import WebUser, remove_web_user, set_web_user
from tests.support.databases import Backend

from .kit import PASSWORD, Watch, log_in

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)

PAGES = ("/", "/providers", "/provider/1", "/errors", "/machines", "/search", "/url?url=http://site/", "/nothing")


@pytest_twisted.ensureDeferred
async def test_nobody_sees_anything_without_logging_in(watch: Watch) -> None:
    browser = watch.browser()
    for path in PAGES:
        reply = await browser.get(path)
        assert reply.status == 303 and reply.headers["location"].startswith("/login") and not reply.body, path
    assert (await browser.get("/live")).status == 401
    for path in ("/retry", "/logout"):
        assert (await browser.post(path, {"code": "0", "pid": "0"})).status == 303
    assert watch.database.query("SELECT COUNT(*) FROM orders") == [(0,)]
    assert (await browser.get("/nothing", "HEAD")).status == 303


@pytest_twisted.ensureDeferred
async def test_in_and_out(watch: Watch) -> None:
    browser = watch.browser()
    page = await browser.get("/login?next=%2Fproviders%3Fafter%3D5")
    reply = await deferToThread(
        lambda: log_in(browser, page, "ann", after=page.page.xpath("//input[@name='next']/@value")[0])
    )
    assert (reply.status, reply.headers["location"]) == (303, "/providers?after=5")
    cookie = browser.cookies["lcc-web"]
    assert cookie["httponly"] and cookie["samesite"].lower() == "strict" and cookie["path"] == "/"
    assert len(cookie.value) == 32
    page = await browser.get("/")
    assert page.status == 200 and (await browser.get("/login")).headers["location"] == "/"
    seal = page.page.xpath("//input[@name='form']/@value")[0]
    secret = cookie.value
    assert (await browser.post("/logout", {"form": seal})).headers["location"] == "/login"
    browser.cookies["lcc-web"] = secret
    assert (await browser.get("/")).status == 303


@pytest_twisted.ensureDeferred
async def test_wrong_names_and_passwords_are_answered_alike_and_throttled(
    open_watch: Callable[..., Watch],
) -> None:
    watch = open_watch("failed_logins = 3")
    watch.database.now(set_web_user, WebUser("slow", hash_password("chosen", generated=False), False, 1))
    browser = watch.browser()
    page = await browser.get("/login")
    begun = watch.monitor.clock.seconds()
    answers = set()
    for name in ("ann", "slow", "nobody"):
        reply = await deferToThread(lambda name=name: log_in(browser, page, name, "wrong"))
        assert reply.status == 403
        answers.add(reply.text("main").partition("Name")[0])
    assert len(answers) == 1 and "Unknown user or wrong password" in answers.pop()
    assert watch.monitor.clock.seconds() - begun >= 3 * DENIED_SECONDS
    reply = await deferToThread(lambda: log_in(browser, page, "ann", PASSWORD))  # the right one, too late
    assert reply.status == 429 and reply.headers["retry-after"]
    assert "lcc-web" not in browser.cookies


@pytest_twisted.ensureDeferred
async def test_a_chosen_password(watch: Watch) -> None:
    watch.database.now(set_web_user, WebUser("slow", hash_password(PASSWORD, generated=False), False, 1))
    assert (await (await watch.visitor("slow")).get("/")).status == 200


@pytest_twisted.ensureDeferred
async def test_who_looks_on_has_nothing_done(watch: Watch) -> None:
    watch.add_user("guest", operates=False)
    browser = await watch.visitor("guest")
    for path in ("/errors", "/provider/1"):
        page = await browser.get(path)
        assert not page.page.xpath("//form[@action='/retry']")
    seal = page.page.xpath("//input[@name='form']/@value")[0]
    reply = await browser.post("/retry", {"form": seal, "pid": "0", "code": "0"})
    assert reply.status == 403 and "Your account is read-only" in reply.body.decode()
    assert watch.database.query("SELECT COUNT(*) FROM orders") == [(0,)]


@pytest_twisted.ensureDeferred
async def test_forms_that_another_site_sends(watch: Watch) -> None:
    browser = await watch.visitor()
    page = await browser.get("/errors")
    seal = page.page.xpath("//input[@name='form']/@value")[0]
    fields = {"pid": "0", "code": "0"}
    for form in ({}, {"form": ""}, {"form": "0" * 64}, {"form": seal[:-1]}):
        assert (await browser.post("/retry", fields | form)).status == 403
        assert (await browser.post("/logout", form)).status == 403
    for site in ("cross-site", "same-site"):
        assert (await browser.post("/retry", fields | {"form": seal}, **{"sec-fetch-site": site})).status == 403
    other = watch.browser()  # the seal of somebody else's page, with the session of ann
    other.cookies["lcc-web"] = browser.cookies["lcc-web"].value
    assert (await other.post("/retry", fields | {"form": seal})).status == 403
    assert (await browser.raw("POST", "/retry", b'{"code": 0}', content_type="application/json")).status == 415
    assert watch.database.query("SELECT COUNT(*) FROM orders") == [(0,)]
    login = watch.browser()
    reply = await login.post("/login", {"name": "ann", "password": PASSWORD})
    assert reply.status == 403 and "lcc-web" not in login.cookies


@pytest_twisted.ensureDeferred
async def test_names_that_lead_here_but_are_not_ours(open_watch: Callable[..., Watch]) -> None:
    watch = open_watch('hosts = ["monitor.example.org"]')
    browser = await watch.visitor()
    strangers = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil:80", "[::1]x")
    for host in (*strangers, "", "a b", "[::1", "[", "@", "x@localhost", "localhost/"):
        for path in ("/", "/login", "/style.css", "/live"):
            reply = await browser.raw("GET", path, b"", host=host)
            assert reply.status in (400, 421), (host, path)
    for host in ("localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:9600", "monitor.example.org", "10.1.2.3"):
        assert (await browser.raw("GET", "/", b"", host=host)).status == 200, host


@pytest.mark.parametrize(
    ("text", "path"),
    [
        *((path, path) for path in ("/", "/providers?after=5", "/url?url=http%3A%2F%2Fx")),
        *((path, "/") for path in ("", "x", "//evil.example", "/\\evil", "https://evil.example", "/a\r\nb", "/ä")),
        *((path, "/") for path in ("/login?next=/login", "/live", "/x\\y")),
    ],
)
def test_where_to_go_on(text: str, path: str, backend: Backend) -> None:
    assert own_path(text) == path


@pytest_twisted.ensureDeferred
async def test_sessions_end_with_their_user(watch: Watch) -> None:
    for change in (
        lambda: watch.database.now(remove_web_user, "ann"),
        lambda: watch.add_user("ann", operates=False),
        lambda: watch.add_user("ann", password="another"),
    ):
        watch.add_user("ann")
        browser = await watch.visitor("ann")
        await watch.look()
        assert (await browser.get("/")).status == 200
        change()
        await watch.look()
        assert (await browser.get("/")).status == 303


@pytest_twisted.ensureDeferred
async def test_sessions_are_bounded_in_number_and_time(open_watch: Callable[..., Watch]) -> None:
    watch = open_watch("sessions_max = 2\nsession_idle = 100\nsession_max = 1000")
    first, second, third = [await watch.visitor() for _ in range(3)]
    assert [(await each.get("/")).status for each in (first, second, third)] == [303, 200, 200]
    accounts = watch.monitor.accounts
    for session in accounts._sessions.values():
        session.seen -= 101
    assert (await second.get("/")).status == 303
    for session in accounts._sessions.values():
        session.seen += 101
        session.began -= 1001
    assert (await third.get("/")).status == 303
    assert accounts.count == 0


@pytest_twisted.ensureDeferred
async def test_nobody_logs_others_out(open_watch: Callable[..., Watch]) -> None:
    """However often somebody logs in: only their own sessions end."""
    watch = open_watch("sessions_max = 6\nsessions_per_user = 4")
    for name in ("guest", "bob"):
        watch.add_user(name, operates=False)
    ann, bob = await watch.visitor(), await watch.visitor("bob")
    guests = [await watch.visitor("guest") for _ in range(12)]
    assert [(await each.get("/")).status for each in (ann, bob)] == [200, 200]
    assert [(await each.get("/")).status for each in guests] == [303] * 8 + [200] * 4
    # Beyond the limit of all, who has the most gives way.
    more = [await watch.visitor() for _ in range(2)]
    assert [(await each.get("/")).status for each in (ann, bob, *more)] == [200] * 4
    assert sum([(await each.get("/")).status == 200 for each in guests]) == 2


@pytest_twisted.ensureDeferred
async def test_a_session_is_idle_from_when_it_was_seen_last(open_watch: Callable[..., Watch]) -> None:
    watch = open_watch("session_idle = 100")
    visitor = await watch.visitor()
    accounts = watch.monitor.accounts
    (session,) = accounts._sessions.values()
    for _ in range(3):  # each time after most of the idle time
        session.began -= 60
        session.seen -= 60
        assert (await visitor.get("/")).status == 200
    session.seen -= 101
    assert (await visitor.get("/")).status == 303


@pytest_twisted.ensureDeferred
async def test_over_https_cookies_are_for_that_alone(open_watch: Callable[..., Watch]) -> None:
    watch = open_watch('url = "https://monitor.example.org/"')
    browser = watch.browser(host="monitor.example.org")
    page = await browser.get("/login")
    assert "max-age" in page.headers["strict-transport-security"]
    reply = await deferToThread(lambda: log_in(browser, page, "ann"))
    assert reply.status == 303
    for name in ("__Host-lcc-web", "__Host-lcc-form"):
        cookie: Any = browser.cookies[name]
        assert cookie["secure"] and cookie["httponly"] and not cookie["domain"] and cookie["path"] == "/"


def test_where_passwords_would_travel_as_they_are(backend: Backend, tmp_path: Any) -> None:
    from twisted.internet import reactor

    from lcc.config import parse_config
    from lcc.services import all_roles, web
    from lcc.services.process.environment import real_environment

    def build(listen: str, more: str = "") -> Any:
        return web.build(
            parse_config(f'home = "."\n[web]\nlisten = "{listen}"\n{more}', tmp_path), real_environment(reactor)
        )

    with pytest.raises(ConfigError, match=r"web\.listen.*passwords"):
        build("tcp:9600")
    build("tcp:9600", "[tls]\ninsecure = true")
    build("unix:{home}/web.sock")
    with pytest.raises(ConfigError, match=r"web\.listen: must be set to an endpoint"):
        build("")
    roles = [
        len(list(all_roles.build(parse_config(text, tmp_path), real_environment(reactor))))
        for text in ('home = "."', 'home = "."\n[web]\nlisten = "unix:web.sock"')
    ]
    assert roles[1] == roles[0] + 1


@pytest_twisted.ensureDeferred
async def test_a_session_that_ends_while_a_page_is_made(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = await watch.visitor()
    ask = watch.monitor.database.interact

    def interact(function: Callable[..., Any], *arguments: Any) -> Any:
        if function is registrations_page:
            watch.monitor.accounts.stop()
        return ask(function, *arguments)

    monkeypatch.setattr(watch.monitor.database, "interact", interact)
    reply = await browser.get("/registrations")
    assert (reply.status, reply.headers["location"]) == (303, "/login")
