"""Logging in and out."""

from __future__ import annotations

import math

from lcc.errors import StoreUnavailable
from lcc.roles.web.accounts import LoginRefused
from lcc.roles.web.pages.base import STALE, MonitorPage
from lcc.transport.http_pages import read_form, read_query
from lcc.transport.http_server import BodyRequest


class LoginPage(MonitorPage):
    """``/login``: the form, and what it sends."""

    is_open = True
    methods = (b"GET", b"HEAD", b"POST")

    async def get(self, request: BodyRequest) -> None:
        after = own_path(read_query(request).get("next", ""))
        if self.front.session(request) is not None:
            self.front.redirect(request, after)
        else:
            self._form(request, 200, after, "", "", {})

    async def post(self, request: BodyRequest) -> None:
        fields = read_form(request)
        after, name = own_path(fields.get("next", "")), fields.get("name", "")
        if not self.front.guard.accepts(request, fields.get("form", "")):
            self._form(request, 403, after, name, STALE, {})
            return
        try:
            secret = await self.monitor.accounts.log_in(name, fields.get("password", ""), self.front.address(request))
        except LoginRefused as refused:
            headers = {"retry-after": str(math.ceil(refused.retry_seconds))} if refused.retry_seconds else {}
            self._form(request, 429 if headers else 403, after, name, refused.text, headers)
            return
        except StoreUnavailable:
            text = "Cannot log in: the database is not responding. Try again later."
            self._form(request, 503, after, name, text, {"retry-after": "5"})
            return
        self.front.set_cookie(request, secret, int(self.monitor.settings.session_max))
        self.front.redirect(request, after)

    def _form(
        self, request: BodyRequest, status: int, after: str, name: str, error: str, headers: dict[str, str]
    ) -> None:
        self.front.page(request, "login", "Log in", status, headers, after=after, name=name, error=error)


class LogoutPage(MonitorPage):
    """``/logout``: ends the session."""

    methods = (b"POST",)

    async def post(self, request: BodyRequest) -> None:
        self.sent(request, operates=False)
        self.monitor.accounts.log_out(self.front.secret(request))
        self.front.set_cookie(request, "", 0)
        self.front.redirect(request, "/login")


def own_path(text: str) -> str:
    """A place on this site to go on at; whatever is none is the first page."""
    fits = text.startswith("/") and not text.startswith(("//", "/\\", "/login", "/live"))
    return text if fits and text.isascii() and text.isprintable() and "\\" not in text else "/"
