"""What all pages of the search share: who asks, and what a page is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import Request

from lcc.client.blocking import CacheError
from lcc.client.cache import CacheClient
from lcc.domain.wording import utc
from lcc.roles.access import AccessDenied
from lcc.roles.authenticator import Throttled
from lcc.roles.front import FrontPage, SiteFront, printable, usual_fault
from lcc.roles.search.engine import Overloaded, SearchServer
from lcc.roles.search.index import NotOpen
from lcc.roles.search.readers import EVERYBODY, Reader, Readers
from lcc.search.interfaces import IndexDamaged
from lcc.transport.http.pages import HTML, html_templates
from lcc.transport.http.replies import RETRY_SECONDS, Explained, HttpError, reply, show_json
from lcc.transport.http.security import POLICY, FormGuard, set_page_headers
from lcc.transport.http.server import BodyRequest, text_header

_log = Logger()

FRAMING_POLICY = f"{POLICY}; img-src 'self'; frame-src 'self'"
"""And one picture; and copies of pages, in a frame that may do nothing."""
_TYPE_NAMES = {"html": "HTML", "pdf": "PDF", "text": "Text"}
DEFAULT_TITLE = "LCC search"


class Front(SiteFront[Reader]):
    """What all pages need.

    :param client: reads copies of pages.
    :param guard: of the forms.
    :param secure: the site is reached by https.
    :param in_thread: calls a function that takes long.
    """

    def __init__(
        self,
        engine: SearchServer,
        readers: Readers,
        client: CacheClient,
        guard: FormGuard,
        secure: bool,
        in_thread: Callable[..., Deferred[Any]],
    ) -> None:
        settings = engine.settings
        super().__init__(
            "lcc-search",
            readers.accounts,
            guard,
            secure,
            FRAMING_POLICY,
            settings.hosts,
            settings.url,
            settings.proxy,
            settings.session_max,
        )
        self.engine = engine
        self.settings = settings
        self.readers = readers
        self.client = client
        self.in_thread = in_thread
        self.templates = _templates()

    @property
    def name(self) -> str:
        """Of the search, for people."""
        return self.settings.title or DEFAULT_TITLE

    def base(self, request: Request) -> str:
        """The address of the site, as who asks knows it; without a slash at its end."""
        if self.settings.url:
            return self.settings.url.rstrip("/")
        return f"http{'s' if self.secure else ''}://{text_header(request, 'host') or 'localhost'}"

    async def reader(self, request: Request) -> Reader | None:
        """Who asks; None: somebody who has to log in.

        :raises HttpError, AccessDenied: the token of the request is of no use.
        """
        known = await self.readers.by_token(request, self.address(request))
        if known is not None:
            return known
        if self.readers.is_open:
            return EVERYBODY
        session = self.session(request)
        if session is None:
            return None
        reader = await self.readers.still(session.user)
        if reader is None:
            self.accounts.log_out(self.secret(request))
        return reader

    def explain(self, failure: Failure) -> Explained:
        explained = usual_fault(failure)
        if explained is not None:
            return explained
        error, later = failure.value, {"retry-after": str(RETRY_SECONDS)}
        if isinstance(error, Throttled):
            return 429, {"error": str(error)}, {"retry-after": str(error.seconds)}
        if isinstance(error, AccessDenied):
            return 401, {"error": str(error)}, {"www-authenticate": 'Bearer realm="LCC"'}
        if isinstance(error, Overloaded):
            return 503, {"error": str(error)}, later
        if isinstance(error, (NotOpen, IndexDamaged)):
            return 503, {"error": "The index is being built: try again in a while."}, later
        if isinstance(error, OSError):
            _log.warn("Cannot read the index: {error}", error=str(error))
            return 503, {"error": "The index cannot be read now: try again later."}, later
        if isinstance(error, CacheError):
            _log.info("Cannot read a copy of a page: {error}", error=str(error))
            return 503, {"error": "The cache cannot be reached now: try again later."}, later
        _log.failure("Cannot answer a request to the search", failure=failure)
        return 500, {"error": "Internal error; see the log of lcc-search."}, {}

    def page(
        self,
        request: Request,
        template: str,
        title: str,
        status: int = 200,
        headers: dict[str, str] | None = None,
        **values: Any,
    ) -> None:
        session = None if self.readers.is_open else self.session(request)
        set_page_headers(request, self.secure, self.policy)
        known = {"q": "", "order": "", "name": self.name, "title": title}
        text = self.templates.get_template(f"{template}.html").render(
            user=None if session is None else session.user,
            seal="" if self.readers.is_open else self.guard.seal(request),
            **{**known, **values},
        )
        reply(request, status, HTML, text.encode("utf-8", "replace"), headers or {})


class SearchFrontPage(FrontPage[Front]):
    """A page of the search; :meth:`answer` knows who asks."""

    is_open = True
    setting = "[search] hosts"

    async def get(self, request: BodyRequest) -> None:
        reader = await self.front.reader(request)
        if reader is not None:
            await self.answer(request, reader)
        elif self.for_programs(request):
            show_json(request, self.front.explain(Failure(AccessDenied("a token is needed"))))
        else:
            self.not_logged_in(request)

    def for_programs(self, request: Request) -> bool:
        """Whether a program asks, which cannot log in, and reads no pages."""
        return False

    def show_failure(self, request: Request, explained: Explained) -> None:
        if self.for_programs(request):
            show_json(request, explained)
        else:
            super().show_failure(request, explained)

    async def answer(self, request: BodyRequest, reader: Reader) -> None:
        """Answer a request of somebody who may search."""
        raise HttpError(404, "Page not found.")


class NoPage(SearchFrontPage):
    """404 for unknown paths."""

    def takes(self, request: Any) -> bool:
        return True


def shown_address(url: str) -> str:
    """A URL for people, on one line."""
    address = url.partition("://")[2] or url
    return printable(address.removesuffix("/"), 120)


def followed(url: str) -> str:
    """A URL that a browser may be sent to; empty: it is none."""
    return url if url.startswith(("http://", "https://", "ftp://")) else ""


def _templates() -> Environment:
    environment = html_templates("lcc.roles.search.pages")
    environment.filters.update(
        address=shown_address,
        date=lambda time: utc(time)[:10],
        followed=followed,
        number=lambda value: f"{value:,}",
        printable=printable,
        type=lambda name: _TYPE_NAMES.get(name) or printable(name, 60),
        url=lambda text: quote(text, safe=""),
        utc=lambda time: f"{utc(time)} UTC",
    )
    return environment
