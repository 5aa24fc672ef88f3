"""What every resource of the HTTP interface needs: who asks, errors as JSON, requests that end early."""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from lcc.errors import StoreUnavailable
from lcc.roles.access import Access, AccessDenied
from lcc.roles.authenticator import Authenticator, Throttled
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.query import QueryError
from lcc.roles.cu.tokens import StartAgain, TokenError
from lcc.transport.http.replies import RETRY_SECONDS, Explained, HttpError, bearer_token, reply_json, run
from lcc.transport.ports.connection_limits import party_of

_log = Logger()


class Asked(Resource):
    """A resource for users that the authenticator admits.

    Override :meth:`answer`.  It may raise HttpError, or what a question can end with, until it has written something.
    A request whose client disconnects has its answer cancelled.

    :param authenticator: who is let in.
    """

    isLeaf = True
    methods: tuple[bytes, ...] = (b"GET", b"HEAD")
    takes_path = False
    """There is something below it."""

    def __init__(self, cache: Cache, authenticator: Authenticator) -> None:
        super().__init__()
        self.cache = cache
        self._authenticator = authenticator

    async def answer(self, request: Request, access: Access) -> None:
        """Answer the request, up to its end."""
        raise HttpError(404, "there is nothing here")

    def render(self, request: Any) -> int:
        if request.method not in self.methods:
            methods = [method.decode() for method in self.methods]
            reply_json(request, 405, {"error": f"only {' and '.join(methods)}"}, {"allow": ", ".join(methods)})
        elif request.postpath and not self.takes_path:
            reply_json(request, 404, {"error": "there is nothing below it"}, {})
        else:
            run(request, _explain, self._admitted, request)
        return NOT_DONE_YET

    def token(self, request: Request) -> str | None:
        """The token of the request; None: it has none.

        :raises HttpError: it cannot be read.
        """
        return bearer_token(request)

    async def _admitted(self, request: Request) -> None:
        party = party_of(request.getClientAddress())
        await self.answer(request, await self._authenticator.admit(self.token(request), party))


def _explain(failure: Failure) -> Explained:
    error = failure.value
    if isinstance(error, HttpError):
        return error.status, {"error": error.text}, error.headers
    if isinstance(error, QueryError):
        return 400, {"error": "invalid query", "faults": error.faults}, {}
    if isinstance(error, TokenError):
        return 400, {"error": "invalid query", "faults": [f"since: {error}"]}, {}
    if isinstance(error, StartAgain):
        return 410, {"error": f"start again with since=0 and an empty copy: {error}"}, {}
    if isinstance(error, Throttled):
        return 429, {"error": str(error)}, {"retry-after": str(error.seconds)}
    if isinstance(error, AccessDenied):
        return 401, {"error": str(error)}, {"www-authenticate": 'Bearer realm="LCC"'}
    if isinstance(error, StoreUnavailable):
        return 503, {"error": "the database cannot be reached, try again later"}, {"retry-after": str(RETRY_SECONDS)}
    _log.failure("Cannot answer a request of a content user", failure=failure)
    return 500, {"error": "an internal error"}, {}
