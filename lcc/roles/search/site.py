"""The site of a search server: ``GET /search?q=QUERY`` gives JSON.

With ``order=date`` the youngest come first; ``limit`` says how many hits there are in one answer, and ``after`` is
what the answer before called ``next``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from lcc.errors import StoreUnavailable
from lcc.numbers import parse_number
from lcc.roles.access import AccessDenied
from lcc.roles.authenticator import Authenticator, Throttled
from lcc.roles.search.engine import Overloaded, SearchServer
from lcc.roles.search.index import NotOpen
from lcc.search.interfaces import BadPlace, IndexDamaged
from lcc.search.json_answer import results_json
from lcc.search.query import QueryError, parse_query
from lcc.search.values import Query, Scopes
from lcc.transport.connection_limits import party_of
from lcc.transport.http_replies import RETRY_SECONDS, Explained, HttpError, reply_json, run
from lcc.transport.http_server import GuardedSite, text_header
from lcc.transport.limited import LimitedFactory

_log = Logger()

LIMIT, LIMIT_MAX = 10, 100
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Search(Resource):
    """``GET /search``.

    :param authenticator: checks tokens of content users; None: everybody may search all pages.
    """

    isLeaf = True

    def __init__(self, engine: SearchServer, authenticator: Authenticator | None) -> None:
        super().__init__()
        self._engine = engine
        self._authenticator = authenticator

    def render(self, request: Any) -> int:
        for name, value in _HEADERS.items():
            request.setHeader(name, value)
        if request.method not in (b"GET", b"HEAD"):
            reply_json(request, 405, {"error": "only GET and HEAD"}, {"allow": "GET, HEAD"})
        elif request.postpath:
            reply_json(request, 404, {"error": "there is nothing below it"}, {})
        else:
            run(request, explain, self._answer, request)
        return NOT_DONE_YET

    async def _answer(self, request: Request) -> None:
        scopes = await self._scopes(request)
        name = argument(request, "format") or "json"
        if name != "json":
            raise HttpError(400, f"format: {name[:40]!r} is not json")
        query, limit = asked(request, self._engine)
        results = await self._engine.search(query, scopes, limit, argument(request, "after"))
        reply_json(request, 200, results_json(query, results, self._engine.index.state.complete), {})

    async def _scopes(self, request: Request) -> Scopes:
        """Providers whose pages whoever asks may see.

        :raises HttpError, AccessDenied: none.
        """
        if self._authenticator is None:
            return None
        value = text_header(request, "authorization")
        scheme, _, token = (value or "").partition(" ")
        if value is not None and (scheme.lower() != "bearer" or not token.strip()):
            raise HttpError(401, "the Authorization must be: Bearer TOKEN", www_authenticate='Bearer realm="LCC"')
        party = party_of(request.getClientAddress())
        access = await self._authenticator.admit(None if value is None else token.strip(), party)
        if not access.content:
            raise HttpError(403, "this token is for rows only")
        return access.providers


def argument(request: Request, name: str) -> str:
    """A field of the query of a URL; empty: it is not there.

    :raises HttpError: it is there several times.
    """
    values = (request.args or {}).get(name.encode(), [])
    if len(values) > 1:
        raise HttpError(400, f"{name} is there {len(values)} times")
    return values[0].decode("utf-8", "replace") if values else ""


def asked(request: Request, engine: SearchServer) -> tuple[Query, int]:
    """The query of a request, and how many hits are wanted.

    :raises QueryError: it is none.
    :raises HttpError: the rest of it cannot be read.
    """
    try:
        limit = parse_number(argument(request, "limit") or str(LIMIT), LIMIT_MAX, 1)
    except ValueError:
        raise HttpError(400, f"limit: a number from 1 to {LIMIT_MAX}") from None
    try:
        return parse_query(argument(request, "q"), argument(request, "order"), engine.now()), limit
    except QueryError:
        engine.counters.refused += 1
        raise


def explain(failure: Failure) -> Explained:
    """What a failure is to who asked."""
    error = failure.value
    later = {"retry-after": str(RETRY_SECONDS)}
    if isinstance(error, HttpError):
        return error.status, {"error": error.text}, error.headers
    if isinstance(error, QueryError):
        return 400, {"error": error.text, "at": error.at}, {}
    if isinstance(error, BadPlace):
        return 400, {"error": str(error)}, {}
    if isinstance(error, (Overloaded, NotOpen)):
        return 503, {"error": str(error)}, later
    if isinstance(error, IndexDamaged):
        return 503, {"error": "the index is damaged and is being built anew, try again later"}, later
    if isinstance(error, Throttled):
        return 429, {"error": str(error)}, {"retry-after": str(error.seconds)}
    if isinstance(error, AccessDenied):
        return 401, {"error": str(error)}, {"www-authenticate": 'Bearer realm="LCC"'}
    if isinstance(error, StoreUnavailable):
        return 503, {"error": "the database cannot be reached, try again later"}, later
    _log.failure("Cannot answer a search", failure=failure)
    return 500, {"error": "an internal error"}, {}


class _Nothing(Resource):
    isLeaf = True

    def render(self, request: Any) -> int:
        reply_json(request, 404, {"error": "there is /search"}, {})
        return NOT_DONE_YET


class _Root(Resource):
    def getChild(self, path: bytes, request: Any) -> Resource:
        return _Nothing()


def build_site(
    engine: SearchServer, authenticator: Authenticator | None, reactor: Any, now: Callable[[], float]
) -> LimitedFactory:
    """The site as a whole."""
    settings = engine.settings
    root = _Root()
    root.putChild(b"search", Search(engine, authenticator))
    site = GuardedSite(root, timeout=settings.idle_timeout, reactor=reactor, now=now)
    return LimitedFactory(
        site, settings.connections_max, "connections to the search", settings.connections_per_address
    )
