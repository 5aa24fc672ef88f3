"""What all pages of the web monitor share: who asks, under which name, and what a page is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import Request

from lcc.domain.wording import duration, number, utc
from lcc.errors import entry_for
from lcc.insight.qm_state import busy_places, delay_text, machine_busy
from lcc.insight.task_words import (
    failing_text,
    held_text,
    jobs_text,
    manager_text,
    scheduler_text,
    waiting_text,
    when_text,
    words_of,
)
from lcc.insight.verdict import Level
from lcc.model import retry_time
from lcc.roles.front import FrontPage, SiteFront, printable, usual_fault
from lcc.roles.web.engine import Monitor
from lcc.roles.web.plots import short, size
from lcc.storage.database.place import place_of
from lcc.storage.providers.web_users import WebUser
from lcc.transport.http.pages import HTML, html_templates, read_form
from lcc.transport.http.replies import Explained, HttpError, reply
from lcc.transport.http.security import LIVE_POLICY, FormGuard, set_page_headers
from lcc.transport.http.server import BodyRequest

_log = Logger()

OPEN = ("login", "message")
"""Templates of pages for everybody."""
BIG = 1_000_000
"""Numbers from here on are shortened where they are written large."""


class Front(SiteFront[WebUser]):
    """What all pages need: the engine, the sessions, the templates.

    :param guard: of the forms.
    :param secure: the site is reached by https.
    """

    def __init__(self, monitor: Monitor, guard: FormGuard, secure: bool) -> None:
        settings = monitor.settings
        super().__init__(
            "lcc-web",
            monitor.accounts,
            guard,
            secure,
            LIVE_POLICY,
            settings.hosts,
            settings.url,
            settings.proxy,
            settings.session_max,
        )
        self.monitor = monitor
        self.templates = _templates(monitor)

    def explain(self, failure: Failure) -> Explained:
        explained = usual_fault(failure)
        if explained is None:
            _log.failure("Cannot make a page of the web monitor", failure=failure)
            return 500, {"error": "Internal error; see the log of lcc-web."}, {}
        return explained

    def page(
        self,
        request: Request,
        template: str,
        title: str,
        status: int = 200,
        headers: dict[str, str] | None = None,
        **values: Any,
    ) -> None:
        monitor = self.monitor
        session = self.session(request)
        if session is None and template not in OPEN:
            self.redirect(request, "/login")  # it has ended while the page was made
            return
        set_page_headers(request, self.secure, self.policy)
        text = self.templates.get_template(f"{template}.html").render(
            title=title,
            user=None if session is None else session.user,
            seal=self.guard.seal(request),
            here=request.uri.decode("latin-1"),
            section=(request.prepath[0].decode("latin-1") if request.prepath else ""),
            monitor=monitor,
            troubles=monitor.troubles,
            level=monitor.level,
            now=monitor.now(),
            **values,
        )
        reply(request, status, HTML, text.encode(), headers or {})


class MonitorPage(FrontPage[Front]):
    """A page for logged-in users; others are redirected to the login."""

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self.monitor = front.monitor

    async def seen(self, series: str, ask: Callable[..., Any], *arguments: Any) -> Any:
        """What the tables of this series answer; None: there are none, and who only looks does not make them."""
        return await ask(*arguments) if place_of(self.monitor.config, series).is_there() else None

    def sent(self, request: BodyRequest, read: Callable[[BodyRequest], dict[str, str]] = read_form) -> dict[str, str]:
        """The fields of a form of ours that somebody who operates has sent.

        :raises HttpError: it cannot be taken.
        """
        fields = self.guarded(request, read)
        session = self.front.session(request)
        if session is None or not session.user.operates:
            raise HttpError(403, "Your account is read-only: lcc-admin web-user add --operate grants this right.")
        return fields

    def ordered(self, request: BodyRequest, what: str, target: int | str) -> None:
        """Something was: log who has, and look again soon."""
        session = self.front.session(request)
        name = "?" if session is None else session.user.name
        _log.info("Web monitor: {name!r} ordered: {what} {target}", name=name, what=what, target=target)
        self.monitor.counters.orders += 1
        self.monitor.soon()


class NoPage(MonitorPage):
    """404 for unknown paths."""

    methods = (b"GET", b"HEAD", b"POST")

    def takes(self, request: Any) -> bool:
        return True

    async def get(self, request: BodyRequest) -> None:
        raise HttpError(404, "Page not found.")

    post = get


def _templates(monitor: Monitor) -> Environment:
    environment = html_templates("lcc.roles.web.pages")
    ago: Callable[[float], str] = lambda time: f"{duration(monitor.now() - time)} ago"  # noqa: E731
    environment.filters.update(
        printable=printable,
        job_words=words_of,
        when=when_text,
        short=short,
        retry_time=retry_time,
        size=size,
        utc=lambda time: f"{utc(time)} UTC",
        ago=ago,
        until=lambda time: f"in {duration(time - monitor.now())}" if time > monitor.now() else "now",
        duration=duration,
        number=lambda value: f"{value:,}",
        count=number,
        query=lambda fields: urlencode({name: value for name, value in fields.items() if value not in ("", 0, None)}),
        url=lambda text: quote(text, safe=""),
        big=lambda value: f"{value:,}" if value < BIG else short(value),
        busy=busy_places,
        machine_busy=machine_busy,
        delay=lambda delay: delay_text(delay, monitor.now()),
    )
    environment.globals.update(
        entry_for=entry_for,
        Level=Level,
        manager_text=manager_text,
        scheduler_text=scheduler_text,
        jobs_text=jobs_text,
        failing_text=failing_text,
        held_text=held_text,
        waiting_text=waiting_text,
    )
    return environment
