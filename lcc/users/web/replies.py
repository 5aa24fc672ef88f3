"""What every resource of the HTTP interface needs: who asks, errors as JSON, requests that end early."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from lcc.errors import StoreUnavailable
from lcc.transport.http_server import text_header
from lcc.users.access import Access, AccessDenied, access_without_token, check_access
from lcc.users.answers import Reads
from lcc.users.query import QueryError
from lcc.users.tokens import StartAgain, TokenError

_log = Logger()

RETRY_SECONDS = 5
"""What Retry-After says while the database cannot be reached."""


class HttpError(Exception):
    """An answer that is none.

    :param status: of the reply.
    :param text: what was wrong.
    :param headers: further ones.
    """

    def __init__(self, status: int, text: str, **headers: str) -> None:
        self.status = status
        self.text = text
        self.headers = headers
        super().__init__(text)


def reply_json(request: Request, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
    """A short reply."""
    data = json.dumps(body).encode() + b"\n"
    request.setResponseCode(status)
    request.setHeader("content-type", "application/json")
    request.setHeader("content-length", str(len(data)))
    for name, value in headers.items():
        request.setHeader(name.replace("_", "-"), value)
    if request.method != b"HEAD":
        request.write(data)
    request.finish()


def bearer_token(request: Request) -> str | None:
    """The token of the request; None: it has none.

    :raises HttpError: there is an Authorization that holds none.
    """
    value = text_header(request, "authorization")
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise HttpError(401, "the Authorization must be: Bearer TOKEN", www_authenticate='Bearer realm="LCC"')
    return token.strip()


class Asked(Resource):
    """A resource for those who may see something.

    Override :meth:`answer`.  It may raise HttpError, or what a question can end with, until it has written something.
    A request whose client goes away has its answer cancelled.

    :param without_token: what those who have no token may see (:data:`lcc.users.access.WITHOUT_TOKEN`).
    """

    isLeaf = True
    takes_path = False
    """There is something below it."""

    def __init__(self, database: Reads, without_token: str) -> None:
        super().__init__()
        self.database = database
        self._without_token = without_token

    async def answer(self, request: Request, access: Access) -> None:
        """Answer the request, up to its end."""
        raise HttpError(404, "there is nothing here")

    def render(self, request: Any) -> int:
        if request.method not in (b"GET", b"HEAD"):
            reply_json(request, 405, {"error": "only GET and HEAD"}, {"allow": "GET, HEAD"})
        elif request.postpath and not self.takes_path:
            reply_json(request, 404, {"error": "there is nothing below it"}, {})
        else:
            run(request, self._admitted, request)
        return NOT_DONE_YET

    async def _admitted(self, request: Request) -> None:
        token = bearer_token(request)
        if token is None:
            access = access_without_token(self._without_token)
        else:
            access = await self.database.interact(check_access, token, self._without_token)
        await self.answer(request, access)


def run(request: Request, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    """Let a coroutine answer a request."""
    gone = request.notifyFinish()
    working: Deferred[None] = ensureDeferred(function(*args))
    gone.addErrback(lambda _: working.cancel())
    working.addErrback(lambda failure: _failed(request, failure))


def _failed(request: Request, failure: Failure) -> None:
    if failure.check(CancelledError):
        return
    status, body, headers = _explain(failure)
    if request.startedWriting or request.finished:
        # Too late to say so: an answer that ends without its end mark says that it is not complete.
        _log.info("An answer was cut off: {error}", error=body["error"])
        request.unregisterProducer()
        request.loseConnection()
        return
    if request.channel is not None:
        request.unregisterProducer()  # an answer that had begun, without a byte of it written yet
    reply_json(request, status, body, headers)


def _explain(failure: Failure) -> tuple[int, dict[str, Any], dict[str, str]]:
    error = failure.value
    if isinstance(error, HttpError):
        return error.status, {"error": error.text}, error.headers
    if isinstance(error, QueryError):
        return 400, {"error": "the question cannot be answered", "faults": error.faults}, {}
    if isinstance(error, TokenError):
        return 400, {"error": "the question cannot be answered", "faults": [f"since: {error}"]}, {}
    if isinstance(error, StartAgain):
        return 410, {"error": f"start again with since=0 and an empty copy: {error}"}, {}
    if isinstance(error, AccessDenied):
        return 401, {"error": str(error)}, {"www-authenticate": 'Bearer realm="LCC"'}
    if isinstance(error, StoreUnavailable):
        return 503, {"error": "the database cannot be reached, try again later"}, {"retry-after": str(RETRY_SECONDS)}
    _log.failure("A content user's request failed", failure=failure)
    return 500, {"error": "an internal error"}, {}
