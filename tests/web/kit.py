"""A web monitor with a real port, over a database as the queue manager's store fills it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from lcc.config import parse_config
from lcc.roles.web.engine import Monitor
from lcc.services import web
from lcc.services.process.environment import real_environment
from lcc.storage.providers.passwords import hash_password
from lcc.storage.providers.web_users import WebUser, set_web_user
from lcc.storage.queue.maintenance.saved_state import save_state
from lcc.transport.links import PortService
from tests.support.browser import Browser, Reply
from tests.support.databases import Backend, DirectDatabase
from tests.support.qm_state import STATE
from tests.support.queue import Queue

CANARY = '<script>alert("canary")</script>\'&<b>'
"""What must never be seen as it is in a page."""
PASSWORD = "correct horse"


class Watch:
    """A web monitor that looks when it is told to.

    :param more: further lines of its section of the configuration.
    :ivar queue: fills the tables.
    """

    def __init__(self, backend: Backend, more: str = "", interval: float = 300) -> None:
        text = f"""
            home = "."
            timezone = "UTC"
            [database]
            url = "{backend.url}"
            [web]
            listen = "tcp:0:interface=127.0.0.1"
            sample_interval = {interval}
            {more}
        """
        self.database = DirectDatabase(backend.url, backend.home)
        self.queue = Queue(self.database)
        self.config = parse_config(text, backend.home)
        self.environment = real_environment(reactor)
        self.services = web.build(self.config, self.environment)
        self.state = json.loads(json.dumps(STATE))
        self.clock = 100.0

    @property
    def monitor(self) -> Monitor:
        engine: Monitor = self.services.commands.engine
        return engine

    @property
    def port(self) -> int:
        (port,) = (each.bound_port.getHost().port for each in self.services if isinstance(each, PortService))
        return int(port)

    def start(self) -> None:
        self.services.startService()

    def stop(self) -> Deferred[Any]:
        return self.services.stopService()

    def add_user(self, name: str = "ann", *, operates: bool = True, password: str = PASSWORD) -> None:
        user = WebUser(name, hash_password(password, generated=True), operates, 1)
        self.database.now(set_web_user, user)

    def says(self, seconds: float = 5.0, ago: float = 0.0, **changes: Any) -> None:
        """The queue manager says something, some seconds after what it said before."""
        self.clock += seconds
        self.state |= {"time": int(self.environment.now() - ago), "clock": self.clock, **changes}
        self.database.now(save_state, 1, json.dumps(self.state))

    async def look(self) -> None:
        """Read it all, now."""
        self.monitor._summary_due = 0.0
        await self.monitor.look()

    def browser(self, **headers: str) -> Browser:
        return Browser(self.port, headers)

    async def visitor(self, name: str = "ann", **headers: str) -> Browser:
        """A browser in which somebody has logged in."""
        browser = self.browser(**headers)
        page = await browser.get("/login")
        reply = await deferToThread(lambda: log_in(browser, page, name))
        assert reply.status == 303, reply.body
        return browser


def log_in(browser: Browser, page: Reply, name: str, password: str = PASSWORD, after: str = "/") -> Reply:
    return browser.visitor.submit(page, name=name, password=password, next=after)


def url_page(url: str) -> str:
    return f"/url?url={quote(url, safe='')}"


def press(browser: Browser, reply: Reply, chosen: Callable[[dict[str, str]], bool]) -> Reply:
    """Send the form of a page whose fields this says yes to, as a browser does."""
    forms = [(form, {name: value or "" for name, value in form.form_values()}) for form in reply.page.forms]
    (found,) = [(form, fields) for form, fields in forms if chosen(fields)]
    return browser.visitor.post(found[0].action, found[1])
