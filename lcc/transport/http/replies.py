"""Short replies over HTTP, coroutines that answer requests, and who asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from ipaddress import ip_address
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from lcc.transport.http.server import text_header

_log = Logger()

RETRY_SECONDS = 5
"""What Retry-After says while the database cannot be reached."""


class HttpError(Exception):
    """A reply other than the one that was asked for.

    :param status: of the reply.
    :param text: what was wrong.
    :param headers: further ones.
    """

    def __init__(self, status: int, text: str, **headers: str) -> None:
        self.status = status
        self.text = text
        self.headers = headers
        super().__init__(text)


def reply(request: Request, status: int, media_type: str, data: bytes, headers: Mapping[str, str]) -> None:
    """A short reply."""
    request.setResponseCode(status)
    request.setHeader("content-type", media_type)
    request.setHeader("content-length", str(len(data)))
    for name, value in headers.items():
        request.setHeader(name.replace("_", "-"), value)
    if request.method != b"HEAD":
        request.write(data)
    request.finish()


def reply_json(request: Request, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """A short reply as JSON."""
    reply(request, status, "application/json", json.dumps(body).encode() + b"\n", headers)


class JsonDocument(Resource):
    """A static JSON document, such as an OpenAPI description."""

    isLeaf = True

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__()
        self._document = document

    @cached_property
    def _body(self) -> bytes:
        """Made when somebody asks for it: most processes that have one are never asked."""
        return json.dumps(self._document, indent=1).encode() + b"\n"

    def render(self, request: Any) -> int:
        request.setHeader("x-content-type-options", "nosniff")
        if request.method in (b"GET", b"HEAD"):
            reply(request, 200, "application/json", self._body, {})
        else:
            reply_json(request, 405, {"error": "only GET and HEAD"}, {"allow": "GET, HEAD"})
        return NOT_DONE_YET


Explained = tuple[int, dict[str, Any], dict[str, str]]
"""What a failure is to who asked: a status; a JSON object whose ``error`` says it in words; further header fields."""


def show_json(request: Request, explained: Explained) -> None:
    """Reply with a failure as JSON."""
    reply_json(request, *explained)


def run(
    request: Request,
    explain: Callable[[Failure], Explained],
    function: Callable[..., Coroutine[Any, Any, None]],
    *args: Any,
    show: Callable[[Request, Explained], None] = show_json,
) -> None:
    """Let a coroutine answer a request; it is cancelled when the client disconnects.

    :param explain: says what a failure is.
    :param show: replies with that.
    """
    gone = request.notifyFinish()
    working: Deferred[None] = ensureDeferred(function(*args))
    gone.addErrback(lambda _: working.cancel())

    def failed(failure: Failure) -> None:
        if failure.check(CancelledError):
            return
        explained = explain(failure)
        if request.startedWriting or request.finished:
            # Too late to say so: an answer that ends without its end mark says that it is not complete.
            _log.info("Answer cut off: {error}", error=explained[1]["error"])
            request.unregisterProducer()
            request.loseConnection()
            return
        if request.channel is not None:
            request.unregisterProducer()  # an answer that had begun, without a byte of it written yet
        show(request, explained)

    working.addErrback(failed)


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


def client_address(request: Request, proxy: bool) -> str:
    """Where a request comes from; empty: from a UNIX socket.

    :param proxy: through a web server, which puts the address of its client at the end of X-Forwarded-For.
    """
    if proxy:
        last = (text_header(request, "x-forwarded-for") or "").rpartition(",")[2].strip()
        try:
            return str(ip_address(last))
        except ValueError:
            pass
    address = request.getClientAddress()
    return address.host if isinstance(address, (IPv4Address, IPv6Address)) else ""
