"""The web pages: forms that work without JavaScript, all text escaped; one script, which copies commands."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import get_data
from typing import Any

import attrs
from twisted.web.server import Request

from lcc.domain.fetches.hours import DAY_SLOTS
from lcc.errors import RegistrationRefused
from lcc.model import Progress, Proves, Registration
from lcc.roles.rs.challenge import Challenge, file_urls
from lcc.roles.rs.mails import utc
from lcc.roles.rs.prover import NotProven
from lcc.roles.rs.registrar import Registrar
from lcc.roles.rs.web.failures import explain, explain_refusal
from lcc.roles.rs.web.forms import FORMS, PRIORITY, form_fields, hours_ticked, take_boxes
from lcc.transport.http.pages import HTML, Page, html_templates
from lcc.transport.http.replies import Explained, client_address, reply
from lcc.transport.http.security import SCRIPT_POLICY, FormGuard, set_page_headers
from lcc.transport.http.server import BodyRequest

STALE = "This form has expired or came from another site: please submit it again."
_NO_HTTPS = ("connect-refused", "connect-timeout", "tls-failed")
"""Errors at a server that speaks http only."""
_ABSENT = (404, 410)
"""Statuses of what is not there."""
AGAIN = frozenset(["faults", "denied", "unknown", "not-provable", "full", "throttled"])
"""What is said with the form below it, so that it can be sent again."""


@attrs.frozen
class FormText:
    """The texts of a form."""

    title: str
    intro: str
    button: str


PAGES = {
    b"register": (
        Proves.PROVIDER,
        FormText(
            "Register a site",
            "The operator of the cache can change these values later.",
            "Get a secret and a password",
        ),
    ),
    b"root": (
        Proves.ROOT,
        FormText(
            "Add another site to a provider",
            "For registered providers with another site, or a higher folder of the same site.",
            "Get a secret",
        ),
    ),
    b"password": (
        Proves.PASSWORD,
        FormText(
            "Get a new password",
            "Prove that you control all sites of a provider to get a new password; it replaces the old one.",
            "Get a secret and a password",
        ),
    ),
}


class Templates:
    """Renders the templates of the pages.

    :param timezones: names that are suggested.
    """

    def __init__(self, registrar: Registrar, timezones: tuple[str, ...]) -> None:
        environment = html_templates("lcc.roles.rs.web")
        settings = registrar.settings
        environment.globals.update(
            timezones=timezones,
            operator=settings.operator or "Local Content Cache",
            contact=settings.contact,
            uns=settings.uns or "HOST:9000",
            priority_max=settings.priority_max,
            by_day=registrar.allowed.slots == DAY_SLOTS,
            limits={
                "bandwidth": f"At most {settings.bandwidth_max:,}." if settings.bandwidth_max else "",
                **dict.fromkeys(["contact", "site", "hours", "timezone", "priority", "pid", "password"], ""),
            },
        )
        names = ("start", "form", "given", "registration", "message")
        self._templates = {name: environment.get_template(f"{name}.html") for name in names}

    def make(self, name: str, **values: Any) -> bytes:
        """A page."""
        return self._templates[name].render(**values).encode()


class Pages:
    """What all pages need: the engine, the templates, the guard of forms."""

    def __init__(self, registrar: Registrar, templates: Templates, guard: FormGuard, secure: bool) -> None:
        self.registrar = registrar
        self.templates = templates
        self.guard = guard
        self._secure = secure

    def reply(self, request: Request, status: int, name: str, headers: dict[str, str], **values: Any) -> None:
        """Reply with a page."""
        set_page_headers(request, self._secure, SCRIPT_POLICY)
        reply(request, status, HTML, self.templates.make(name, **values), headers)

    def show(self, request: Request, explained: Explained) -> None:
        """Reply with a failure."""
        status, told, headers = explained
        title = "Invalid request" if status < 500 else "Unavailable"
        self.reply(request, status, "message", headers, title=title, text=told["error"])

    def address(self, request: Request) -> str:
        """Where it comes from."""
        return client_address(request, self.registrar.settings.proxy)


class _Page(Page):
    """A page of the registration server."""

    def __init__(self, pages: Pages) -> None:
        super().__init__(explain, pages.show)
        self.pages = pages


class StartPage(_Page):
    """``/``."""

    async def get(self, request: BodyRequest) -> None:
        self.pages.reply(request, 200, "start", {}, title="Registration")


class NoPage(_Page):
    """404 for unknown paths."""

    def takes(self, request: Any) -> bool:
        return True

    async def get(self, request: BodyRequest) -> None:
        self.pages.show(request, (404, {"error": "Page not found."}, {}))

    post = get
    methods = (b"GET", b"HEAD", b"POST")


class StaticPage(_Page):
    """A file that is always the same.

    :param package: it is in its folder ``static``.
    """

    def __init__(self, pages: Pages, name: str, media_type: str, package: str) -> None:
        super().__init__(pages)
        self._data = get_data(package, f"static/{name}") or b""
        self._type = media_type

    async def get(self, request: BodyRequest) -> None:
        set_page_headers(request, False)
        reply(request, 200, self._type, self._data, {"cache-control": "max-age=3600"})


class FormPage(_Page):
    """``/register``, ``/root`` and ``/password``: step one.

    :param path: which of them.
    """

    methods = (b"GET", b"HEAD", b"POST")

    def __init__(self, pages: Pages, path: bytes) -> None:
        super().__init__(pages)
        self._path = path
        self._kind, self._page = PAGES[path]
        registrar = pages.registrar
        # No choice where there is none.
        choice = registrar.settings.priority_max > 0
        self._fields = tuple(field for field in FORMS[self._kind] if choice or field is not PRIORITY)
        self._ask: Callable[..., Any] = {
            Proves.PROVIDER: registrar.ask_provider,
            Proves.ROOT: registrar.ask_root,
            Proves.PASSWORD: registrar.ask_password,
        }[self._kind]

    async def get(self, request: BodyRequest) -> None:
        self._form(request, 200, {}, {}, {}, "")

    async def post(self, request: BodyRequest) -> None:
        fields = form_fields(request)
        take_boxes(fields)
        if not self.pages.guard.accepts(request, fields.pop("form", "")):
            self._form(request, 403, {}, fields, {}, STALE)
            return
        try:
            challenge = await self._ask(fields, self.pages.address(request))
        except RegistrationRefused as refused:
            if refused.kind not in AGAIN:
                raise
            status, told, headers = explain_refusal(refused)
            error = "" if refused.faults else told["error"]
            self._form(request, status, headers, fields, refused.faults, error)
            return
        self._show_challenge(request, challenge, bool(fields.get("mail")))

    def _form(
        self,
        request: BodyRequest,
        status: int,
        headers: dict[str, str],
        values: dict[str, str],
        faults: dict[str, str],
        error: str,
    ) -> None:
        page = self._page
        self.pages.reply(
            request,
            status,
            "form",
            headers,
            title=page.title,
            intro=page.intro,
            button=page.button,
            action=f"/{self._path.decode()}",
            fields=self._fields,
            values=values,
            ticked=hours_ticked(values.get("hours", "")),
            faults=faults,
            error=error,
            seal=self.pages.guard.seal(request),
            mail=self.pages.registrar.mails and self._kind is Proves.PROVIDER,
        )

    def _show_challenge(self, request: BodyRequest, challenge: Challenge, mail: bool) -> None:
        registration = challenge.registration
        self.pages.reply(
            request,
            200,
            "given",
            {},
            title=f"Registration {registration.number}: a secret for your site",
            registration=registration,
            urls=challenge.urls,
            secret=challenge.secret,
            password=challenge.password,
            ticket=challenge.ticket,
            expires=utc(registration.expires),
            seal=self.pages.guard.seal(request),
            mailed=mail and self.pages.registrar.mails and self._kind is Proves.PROVIDER,
        )


class RegistrationPage(_Page):
    """``/registration/TICKET``: how far one is, and step two."""

    methods = (b"GET", b"HEAD", b"POST")

    def takes(self, request: Any) -> bool:
        return len(request.postpath) == 1

    async def get(self, request: BodyRequest) -> None:
        ticket = _ticket(request)
        self._show(request, 200, await self.pages.registrar.look(ticket), ticket, {}, {})

    async def post(self, request: BodyRequest) -> None:
        ticket = _ticket(request)
        registrar = self.pages.registrar
        registration = await registrar.look(ticket)
        if not self.pages.guard.accepts(request, form_fields(request).get("form", "")):
            failure = {"title": "Please submit it again", "text": STALE}
            self._show(request, 403, registration, ticket, failure, {})
            return
        try:
            registration = await registrar.check(ticket, self.pages.address(request))
        except NotProven as error:
            found = {"text": error.error.text, "url": error.url, "code": error.error.code}
            no_https = error.url.startswith("https:") and error.error.entry.name in _NO_HTTPS
            title = "The file is not there yet" if error.error.code in _ABSENT else "Secret not found"
            self._show(request, 409, registration, ticket, found | {"title": title, "no_https": no_https}, {})
        except RegistrationRefused as refused:
            status, told, headers = explain_refusal(refused)
            failure = {"title": "Failed", "text": told["error"]}
            self._show(request, status, registration, ticket, failure, headers)
        else:
            self._show(request, 200, registration, ticket, {}, {})

    def _show(
        self,
        request: BodyRequest,
        status: int,
        registration: Registration,
        ticket: str,
        failure: dict[str, Any],
        headers: dict[str, str],
    ) -> None:
        """
        :param failure: ``title`` and ``text``; ``url``, ``code`` and ``no_https`` of a proof; empty: there is none.
        """
        titles = {
            Progress.ASKED: f"Registration {registration.number}",
            Progress.PROVEN: f"Registration {registration.number}: waiting for the operator",
            Progress.DONE: f"Registration {registration.number}: done",
        }
        self.pages.reply(
            request,
            status,
            "registration",
            headers,
            title=titles[registration.state],
            registration=registration,
            state=registration.state.value,
            urls=file_urls(registration),
            expires=utc(registration.expires),
            ticket=ticket,
            failure={"url": "", "code": "", "no_https": False} | failure if failure else {},
            seal=self.pages.guard.seal(request),
        )


def _ticket(request: BodyRequest) -> str:
    (ticket,) = request.postpath or [b""]
    return ticket.decode("latin-1")
