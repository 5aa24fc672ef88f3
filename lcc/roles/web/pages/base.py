"""What all pages of the web monitor share: who asks, under which name, and what a page is made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET, Request

from lcc.config import Config
from lcc.domain.wording import duration, number, utc
from lcc.errors import StoreUnavailable, entry_for
from lcc.insight.qm_state import delay_text
from lcc.insight.task_words import (
    held_text,
    jobs_text,
    manager_text,
    scheduler_text,
    waiting_text,
    when_text,
    words_of,
)
from lcc.insight.verdict import Level
from lcc.roles.web.accounts import Session
from lcc.roles.web.engine import Monitor
from lcc.roles.web.plots import short, size
from lcc.transport.http_pages import HTML, Page, html_templates, read_form
from lcc.transport.http_replies import RETRY_SECONDS, Explained, HttpError, client_address, reply
from lcc.transport.http_security import LIVE_POLICY, FormGuard, set_page_headers
from lcc.transport.http_server import BodyRequest, text_header

_log = Logger()

STALE = "This form has expired or came from another site: please submit it again."
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{0,5})?", re.ASCII).fullmatch
_SECRET = re.compile(r"[0-9a-f]{32}", re.ASCII).fullmatch


def explain(failure: Failure) -> Explained:
    """What a failure is to who asked."""
    error = failure.value
    if isinstance(error, HttpError):
        return error.status, {"error": error.text}, error.headers
    if isinstance(error, StoreUnavailable):
        return 503, {"error": f"The database is not responding: {error}"}, {"retry-after": str(RETRY_SECONDS)}
    _log.failure("Cannot make a page of the web monitor", failure=failure)
    return 500, {"error": "Internal error; see the log of lcc-web."}, {}


class Front:
    """What all pages need: the engine, the sessions, the templates.

    :param guard: of the forms.
    :param secure: the site is reached by https.
    """

    def __init__(self, monitor: Monitor, guard: FormGuard, secure: bool) -> None:
        self.monitor = monitor
        self.guard = guard
        self.secure = secure
        self.cookie = "__Host-lcc-web" if secure else "lcc-web"
        self.templates = _templates(monitor)
        self._hosts = known_hosts(monitor.config)
        self._proxy = monitor.settings.proxy

    # Who asks.

    def is_for_us(self, request: Request) -> bool:
        """Whether it was asked for under a name of ours.

        Else a page of somebody whose name was made to lead here could read what is shown (DNS rebinding).
        """
        match = _HOST(text_header(request, "host") or "")
        host = "" if match is None else (match[1] or match[2]).lower()
        if not host:
            return False
        if host in self._hosts:
            return True
        try:
            ip_address(host)  # an address is no name that could be made to lead elsewhere
        except ValueError:
            return False
        return True

    def session(self, request: Request) -> Session | None:
        """Who asks; None: nobody who is logged in."""
        secret = self.secret(request)
        return self.monitor.accounts.session(secret) if secret else None

    def secret(self, request: Request) -> str:
        """Of the session's cookie; empty: there is none that could be one."""
        given = request.getCookie(self.cookie.encode())
        text = "" if given is None else given.decode("latin-1")
        return text if _SECRET(text) else ""

    def set_cookie(self, request: Request, secret: str, seconds: int) -> None:
        """With the reply."""
        request.addCookie(
            self.cookie,
            secret,
            path="/",
            secure=self.secure,
            httpOnly=True,
            sameSite="strict",
            max_age=str(seconds),
        )

    def address(self, request: Request) -> str:
        """Where it comes from; empty: not known."""
        return client_address(request, self._proxy)

    # What is answered.

    def page(
        self,
        request: Request,
        template: str,
        title: str,
        status: int = 200,
        headers: dict[str, str] | None = None,
        **values: Any,
    ) -> None:
        """Reply with a page."""
        monitor = self.monitor
        session = self.session(request)
        set_page_headers(request, self.secure, LIVE_POLICY)
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

    def show(self, request: Request, explained: Explained) -> None:
        """Reply with a failure."""
        status, told, headers = explained
        titles = {404: "Not found", 403: "Not allowed"}
        title = titles.get(status, "Invalid request" if status < 500 else "Unavailable")
        self.page(request, "message", title, status, headers, text=told["error"])

    def redirect(self, request: Request, path: str) -> None:
        """Reply with another place of this site."""
        set_page_headers(request, self.secure, LIVE_POLICY)
        reply(request, 303, HTML, b"", {"location": path})


class MonitorPage(Page):
    """A page for logged-in users; others are redirected to the login."""

    is_open = False
    """For everybody."""

    def __init__(self, front: Front) -> None:
        super().__init__(explain, front.show)
        self.front = front
        self.monitor = front.monitor

    def render(self, request: Any) -> int:
        if not self.front.is_for_us(request):
            text = "Unknown host name: add it to [web] hosts in lcc.toml.\n"
            set_page_headers(request, self.front.secure)
            reply(request, 421, "text/plain; charset=utf-8", text.encode(), {})
            return NOT_DONE_YET
        if not self.is_open and self.front.session(request) is None:
            self.not_logged_in(request)
            return NOT_DONE_YET
        return super().render(request)

    def not_logged_in(self, request: Request) -> None:
        """Reply to somebody who is not."""
        after = quote(request.uri.decode("latin-1"), safe="") if request.method == b"GET" else ""
        self.front.redirect(request, f"/login?next={after}" if after not in ("", "%2F") else "/login")

    def sent(self, request: BodyRequest, operates: bool = True) -> dict[str, str]:
        """The fields of a form of ours that was sent.

        :param operates: only who operates may send it.
        :raises HttpError: it cannot be taken.
        """
        fields = read_form(request)
        if not self.front.guard.accepts(request, fields.pop("form", "")):
            raise HttpError(403, STALE)
        session = self.front.session(request)
        if operates and (session is None or not session.user.operates):
            raise HttpError(403, "Your account is read-only: lcc-admin web-user add --operate grants this right.")
        return fields


class NoPage(MonitorPage):
    """404 for unknown paths."""

    methods = (b"GET", b"HEAD", b"POST")

    def takes(self, request: Any) -> bool:
        return True

    async def get(self, request: BodyRequest) -> None:
        raise HttpError(404, "Page not found.")

    post = get


def known_hosts(config: Config) -> frozenset[str]:
    """Host names that the pages may be asked for under."""
    settings = config.web
    named = urlsplit(settings.url).hostname if settings.url else None
    return frozenset({"localhost", *(host.lower() for host in settings.hosts), *([named] if named else [])})


def printable(text: str, chars: int = 0) -> str:
    """A peer's text for people: what cannot be printed, or would turn the text around, is replaced.

    :param chars: cut to so many; 0: it is not cut.
    """
    cut = text if not chars or len(text) <= chars else f"{text[: chars - 1]}…"
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in cut)


def _templates(monitor: Monitor) -> Environment:
    environment = html_templates("lcc.roles.web.pages")
    ago: Callable[[float], str] = lambda time: f"{duration(monitor.now() - time)} ago"  # noqa: E731
    environment.filters.update(
        printable=printable,
        job_words=words_of,
        when=when_text,
        short=short,
        size=size,
        utc=lambda time: f"{utc(time)} UTC",
        ago=ago,
        until=lambda time: f"in {duration(time - monitor.now())}" if time > monitor.now() else "now",
        duration=duration,
        number=lambda value: f"{value:,}",
        count=number,
        url=lambda text: quote(text, safe=""),
        delay=lambda delay: delay_text(delay, monitor.now()),
    )
    environment.globals.update(
        entry_for=entry_for,
        Level=Level,
        manager_text=manager_text,
        scheduler_text=scheduler_text,
        jobs_text=jobs_text,
        held_text=held_text,
        waiting_text=waiting_text,
    )
    return environment
