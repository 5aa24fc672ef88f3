"""The registration server as a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet import reactor

from lcc.config import parse_config
from lcc.errors import Busy, ConfigError
from lcc.services import all_roles, rs
from lcc.services.process.environment import real_environment
from tests.support.databases import Backend
from tests.support.logs import LoggedErrors
from tests.support.servers.web_site import WebSite

from .kit import Office
from .test_api import place
from .test_guards import ask, check

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def names(services: Any) -> set[str]:
    return {type(each).__module__ for each in services}


def test_it_is_off_unless_it_is_said_where_to_listen(backend: Backend) -> None:
    config = parse_config('home = "."', backend.home)
    with pytest.raises(ConfigError, match=r"rs\.listen"):
        rs.build(config, real_environment(reactor))
    roles = [all_roles.build(each, real_environment(reactor)) for each in (config, with_listen(backend))]
    assert [len(list(each)) for each in roles] == [len(list(roles[0])), len(list(roles[0])) + 1]


def with_listen(backend: Backend) -> Any:
    return parse_config('home = "."\n[rs]\nlisten = "tcp:0:interface=127.0.0.1"', backend.home)


@pytest_twisted.ensureDeferred
async def test_a_second_one_in_a_home_is_refused(open_office: Callable[..., Office], backend: Backend) -> None:
    open_office()
    second = rs.build(with_listen(backend), real_environment(reactor))
    with pytest.raises(Busy):
        second.startService()
    await second.stopService()


@pytest_twisted.ensureDeferred
async def test_a_database_that_is_away(
    open_office: Callable[..., Office], site: WebSite, backend: Backend, logged_errors: LoggedErrors
) -> None:
    office = open_office()
    given = await ask(office.browser(), site.url)
    database = next(each.database for each in office.services if hasattr(each, "database"))
    await database.stop()
    registrar = office.services.commands.engine
    patient, registrar.settings = registrar.settings, attrs.evolve(registrar.settings, database_timeout=0.5)
    reply = await office.browser().api("", {"contact": "a@b", "site": site.url})
    assert reply.status == 503 and int(reply.headers["retry-after"]) > 0
    page = await office.browser().get(f"/registration/{given['ticket']}")
    assert page.status == 503 and "try again later" in page.page.text_content()
    database.start()
    registrar.settings = patient
    assert (await office.browser().api(f"/{given['ticket']}")).status == 200


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[rs]\nurl = "register.example.org"', "rs.url"),
        ('[rs]\nurl = "https://x/y"', "rs.url"),
        ("[rs]\npriority_max = 3", "rs.priority_max"),
        ("[rs]\nlisten = 9500", "rs.listen"),
        ('[rs]\nlisten = "9500"', "rs.listen"),
        ('[mail]\nhost = "mail.example.org"', "mail.sender"),
        ('[mail]\nsecurity = "ssl"', "mail.security"),
        ('[mail]\nuser = "x"', "mail.password_file"),
    ],
)
def test_faults_of_the_configuration(backend: Backend, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse_config(text, backend.home)


@pytest_twisted.ensureDeferred
async def test_what_the_console_shows_and_takes(office: Office, site: WebSite) -> None:
    commands = office.services.commands
    browser = office.browser()
    given = await ask(browser, site.url)
    await check(browser, given)
    assert dict(commands.est())["since start"] == "asked for 1, proven 0, not proven 1, expired 0"
    commands.pause()
    assert "PAUSED" in dict(commands.est())["registration"]
    for reply in (await browser.api("", {"contact": "a@b", "site": site.url}), await check(browser, given)):
        assert reply.status == 503 and reply.headers["retry-after"] == "60"
    commands.resume()
    place(site, given)
    assert (await check(browser, given)).json()["state"] == "done"
