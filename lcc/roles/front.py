"""What the sites that people look at share: who asks, under which name; logging in and out; their style."""

from __future__ import annotations

import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pkgutil import get_data
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlsplit

from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET, Request

from lcc.errors import StoreUnavailable
from lcc.roles.accounts import Accounts, LoginRefused, Session, User
from lcc.transport.http.pages import HTML, Page, read_form, read_query
from lcc.transport.http.replies import RETRY_SECONDS, Explained, HttpError, client_address, reply
from lcc.transport.http.security import FormGuard, set_page_headers
from lcc.transport.http.server import BodyRequest, text_header

U = TypeVar("U", bound=User)

STALE = "This form has expired or came from another site: please submit it again."
STATIC = {"style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
"""Files of all sites, and their types."""
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{0,5})?", re.ASCII).fullmatch
_TEXT = frozenset("\n\t\u061c\u200c\u200d\u200e\u200f")
"""Not printable by themselves, but words of many scripts are misspelt without them."""
_UNSEEN = frozenset("\u00ad\u200b\u2060\ufeff")
"""Say only where a line may end."""
_SECRET = re.compile(r"[0-9a-f]{32}", re.ASCII).fullmatch


class SiteFront(ABC, Generic[U]):
    """Who asks, and how a site replies.

    :param name: of the session's cookie.
    :param guard: of the forms.
    :param secure: the site is reached by https.
    :param policy: Content-Security-Policy of its pages.
    :param hosts: names that it may be asked for under, besides localhost and addresses.
    :param url: its public one; empty: none.
    :param proxy: it is asked through a web server.
    :param session_seconds: how long a login lasts at most.
    """

    def __init__(
        self,
        name: str,
        accounts: Accounts[U],
        guard: FormGuard,
        secure: bool,
        policy: str,
        hosts: Iterable[str],
        url: str,
        proxy: bool,
        session_seconds: float,
    ) -> None:
        self.accounts = accounts
        self.guard = guard
        self.secure = secure
        self.cookie = f"__Host-{name}" if secure else name
        self.policy = policy
        self.session_seconds = session_seconds
        named = urlsplit(url).hostname if url else None
        self._hosts = frozenset({"localhost", *(host.lower() for host in hosts), *([named] if named else [])})
        self._proxy = proxy

    @abstractmethod
    def explain(self, failure: Failure) -> Explained:
        """What a failure is to who asked."""

    @abstractmethod
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

    def session(self, request: Request) -> Session[U] | None:
        """Who asks; None: nobody who is logged in."""
        secret = self.secret(request)
        return self.accounts.session(secret) if secret else None

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

    def show(self, request: Request, explained: Explained) -> None:
        """Reply with a failure."""
        status, told, headers = explained
        titles = {404: "Not found", 403: "Not allowed"}
        title = titles.get(status, "Invalid request" if status < 500 else "Unavailable")
        self.page(request, "message", title, status, headers, text=told["error"])

    def redirect(self, request: Request, path: str) -> None:
        """Reply with another place of this site."""
        set_page_headers(request, self.secure, self.policy)
        reply(request, 303, HTML, b"", {"location": path})


F = TypeVar("F", bound=SiteFront[Any])


class FrontPage(Page, Generic[F]):
    """A page for logged-in users; others are redirected to the login.

    :param setting: in the configuration, what names further hosts.
    """

    is_open = False
    """For everybody."""
    setting = "[web] hosts"

    def __init__(self, front: F) -> None:
        super().__init__(front.explain, self.show_failure)
        self.front = front

    def render(self, request: Any) -> int:
        if not self.front.is_for_us(request):
            text = f"Unknown host name: add it to {self.setting} in lcc.toml.\n"
            set_page_headers(request, self.front.secure)
            reply(request, 421, "text/plain; charset=utf-8", text.encode(), {})
            return NOT_DONE_YET
        if not self.is_open and self.front.session(request) is None:
            self.not_logged_in(request)
            return NOT_DONE_YET
        return super().render(request)

    def show_failure(self, request: Request, explained: Explained) -> None:
        """Reply with a failure."""
        self.front.show(request, explained)

    def not_logged_in(self, request: Request) -> None:
        """Reply to somebody who is not."""
        after = quote(request.uri.decode("latin-1"), safe="") if request.method == b"GET" else ""
        self.front.redirect(request, f"/login?next={after}" if after not in ("", "%2F") else "/login")

    def guarded(
        self, request: BodyRequest, read: Callable[[BodyRequest], dict[str, str]] = read_form
    ) -> dict[str, str]:
        """The fields of a form of ours that was sent.

        :raises HttpError: it cannot be taken.
        """
        fields = read(request)
        if not self.front.guard.accepts(request, fields.pop("form", "")):
            raise HttpError(403, STALE)
        return fields


class LoginPage(FrontPage[F]):
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
            address = self.front.address(request)
            secret = await self.front.accounts.log_in(name, fields.get("password", ""), address)
        except LoginRefused as refused:
            headers = {"retry-after": str(math.ceil(refused.retry_seconds))} if refused.retry_seconds else {}
            self._form(request, 429 if headers else 403, after, name, refused.text, headers)
            return
        except StoreUnavailable:
            text = "Cannot log in: the database is not responding. Try again later."
            self._form(request, 503, after, name, text, {"retry-after": "5"})
            return
        self.front.set_cookie(request, secret, int(self.front.session_seconds))
        self.front.redirect(request, after)

    def _form(
        self, request: BodyRequest, status: int, after: str, name: str, error: str, headers: dict[str, str]
    ) -> None:
        self.front.page(request, "login", "Log in", status, headers, after=after, given=name, error=error)


class LogoutPage(FrontPage[F]):
    """``/logout``: ends the session."""

    methods = (b"POST",)

    async def post(self, request: BodyRequest) -> None:
        self.guarded(request)
        self.front.accounts.log_out(self.front.secret(request))
        self.front.set_cookie(request, "", 0)
        self.front.redirect(request, "/login")


class StaticFile(FrontPage[F]):
    """A file that is always the same.

    :param package: it is in its folder ``static``.
    """

    is_open = True

    def __init__(self, front: F, name: str, media_type: str, package: str = "lcc.roles") -> None:
        super().__init__(front)
        self._data = get_data(package, f"static/{name}") or b""
        self._type = media_type

    async def get(self, request: BodyRequest) -> None:
        set_page_headers(request, self.front.secure)
        reply(request, 200, self._type, self._data, {"cache-control": "max-age=3600"})


def own_path(text: str) -> str:
    """A place on this site to go on at; whatever is none is the first page."""
    fits = text.startswith("/") and not text.startswith(("//", "/\\", "/login", "/live"))
    return text if fits and text.isascii() and text.isprintable() and "\\" not in text else "/"


def printable(text: str, chars: int = 0) -> str:
    """A peer's text for people: what cannot be printed, or would turn the text around, is replaced; spaces of all
    scripts, joiners, and marks of direction are text.

    :param chars: cut to so many; 0: it is not cut.
    """
    cut = text if not chars or len(text) <= chars else f"{text[: chars - 1]}…"
    return cut if cut.isprintable() else "".join(map(_printed, cut))


def _printed(character: str) -> str:
    if character.isprintable() or character in _TEXT:
        return character
    if character in _UNSEEN:
        return ""
    return character if unicodedata.category(character) == "Zs" else "\ufffd"


def usual_fault(failure: Failure) -> Explained | None:
    """What a failure of the kinds that all sites have is; None: it is another one."""
    error = failure.value
    if isinstance(error, HttpError):
        return error.status, {"error": error.text}, error.headers
    if isinstance(error, StoreUnavailable):
        return 503, {"error": f"The database is not responding: {error}"}, {"retry-after": str(RETRY_SECONDS)}
    return None
