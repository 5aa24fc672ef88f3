"""What is sent by mail where there is a mail server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.policy import SMTP
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred

from tests.support.databases import Backend
from tests.support.servers.mail import MailServer, Taken
from tests.support.servers.web_site import WebSite
from tests.support.waiting import until

from .kit import Office
from .test_api import place, register
from .test_guards import ask, check

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def mail() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.stop()


@pytest.fixture
def office(open_office: Callable[..., Office], mail: MailServer) -> Office:
    return open_office(
        'url = "http://register.example/"',
        beyond=f'[mail]\nhost = "127.0.0.1"\nport = {mail.port}\nsecurity = "none"\nsender = "lcc@example.net"\n',
    )


def text_of(taken: Taken) -> str:
    message: Any = message_from_bytes(taken.message, policy=SMTP)
    return str(message.get_content())


@pytest_twisted.ensureDeferred
async def test_what_is_given_out_comes_by_mail_if_asked_for(office: Office, mail: MailServer, site: WebSite) -> None:
    browser = office.browser()
    form = await browser.get("/register")
    page = await browser.submit(form, contact="me@example.org", site=site.url, mail="yes")
    assert "me@example.org" in page.page.text_content()
    await until(lambda: len(mail.taken) == 1)
    (taken,) = mail.taken
    assert taken.recipients == ["me@example.org"]
    text = text_of(taken)
    for element in ("secret", "password"):
        assert page.text(element) in text
    (path,) = {each for each in page.page.xpath("//main//a/@href") if each.startswith("/registration/")}
    assert f"http://register.example{path}" in text
    await browser.submit(form, contact="me@example.org", site=site.url)
    given = await ask(browser, site.url, mail=True)
    await until(lambda: len(mail.taken) == 2)
    assert given["secret"] in text_of(mail.taken[1])


@pytest_twisted.ensureDeferred
async def test_what_has_come_of_it_is_told(office: Office, mail: MailServer, site: WebSite, backend: Backend) -> None:
    browser = office.browser()
    first = await register(browser, site)
    await until(lambda: len(mail.taken) == 1)
    assert f"provider {first['pid']}" in text_of(mail.taken[0]) and mail.taken[0].recipients == ["a@b"]
    assert first["password"] not in text_of(mail.taken[0])
    # The provider hears of a new password, which is shown to who has asked for it only.
    asked = {"kind": "password", "pid": first["pid"], "site": site.url, "mail": True}
    given = (await browser.api("", asked)).json()
    place(site, given)
    await check(browser, given)
    await until(lambda: len(mail.taken) == 2)
    text = text_of(mail.taken[1])
    assert "was replaced" in text and given["password"] not in text and given["secret"] not in text


@pytest_twisted.ensureDeferred
async def test_a_mail_server_that_is_away_stops_nobody(office: Office, mail: MailServer, site: WebSite) -> None:
    mail.stop()
    given = await ask(office.browser(), site.url, mail=True)
    place(site, given)
    assert (await check(office.browser(), given)).json()["state"] == "done"


@pytest_twisted.ensureDeferred
async def test_nobody_gets_many_mails_that_strangers_ask_for(
    open_office: Callable[..., Office], mail: MailServer
) -> None:
    office = open_office("asks_max = 2\nproxy = true")
    for number in range(4):
        browser = office.browser(X_Forwarded_For=f"192.0.2.{number}")
        asked = {
            "contact": "Me@Example.org" if number % 2 else "me@example.org",
            "site": f"http://{number}.example/",
            "mail": True,
        }
        reply = await browser.api("", asked)
        assert reply.status == (201 if number < 2 else 429), number
    # Without a mail nobody is kept from asking.
    await ask(browser, "http://5.example/", contact="me@example.org")
    assert len(mail.taken) <= 2


@pytest_twisted.ensureDeferred
async def test_who_goes_away_does_not_keep_a_provider_from_hearing_of_it(
    office: Office, mail: MailServer, site: WebSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = office.browser()
    first = await register(browser, site)
    await until(lambda: len(mail.taken) == 1)
    given = (await browser.api("", {"kind": "password", "pid": first["pid"], "site": site.url})).json()
    place(site, given)
    registrar: Any = office.services.commands.engine
    prove, gone = registrar.store.prove, Deferred[None]()
    found: list[Any] = []

    def slowly(*args: Any) -> Deferred[Any]:
        found.append(args)
        return prove(*args).addCallback(lambda done: gone.addCallback(lambda _: done))  # type: ignore[no-any-return]

    monkeypatch.setattr(registrar.store, "prove", slowly)
    checking: Deferred[Any] = Deferred.fromCoroutine(registrar.check(given["ticket"]))
    await until(lambda: bool(found))
    checking.cancel()  # as when the connection is lost
    with pytest.raises(CancelledError):
        await checking
    gone.callback(None)
    await until(lambda: len(mail.taken) == 2)
    assert "was replaced" in text_of(mail.taken[1])
