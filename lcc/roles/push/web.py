"""The push server's site: ``/indexnow`` and ``/indexnow/report``; callbacks of hubs are
:mod:`lcc.roles.push.callbacks`, sets of providers :mod:`lcc.roles.push.sets_web`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from lcc.domain.push.indexnow import PushRefused, read_body, read_query
from lcc.domain.registration.sites import host_of
from lcc.domain.urls import normalise
from lcc.errors import Busy, StoreUnavailable, UrlError, entry_for
from lcc.model.push.pushes import KeyState, Submission
from lcc.roles.push.engine import PushServer
from lcc.roles.push.engine import Report as PushReport
from lcc.transport.http.replies import RETRY_SECONDS, Explained, client_address, reply_json, run
from lcc.transport.http.server import GuardedSite, UploadRequest
from lcc.transport.ports.limited import LimitedFactory

_log = Logger()

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
FIELDS_MAX = 20
SETS_PATH = b"/sets"
SHORT_BYTES = 65_536
"""A set up to this length is read before it begins."""
_WAITS = {
    KeyState.WAITING: "the key file is yet to be fetched",
    KeyState.APPROVAL: "the key is proven, the site waits for the operator's approval",
    KeyState.APPROVED: "the key is proven, the site is being registered",
}


def explain(failure: Failure) -> Explained:
    """What a failure is to who asked."""
    error = failure.value
    if isinstance(error, PushRefused):
        headers = {"retry-after": str(math.ceil(error.retry_seconds))} if error.retry_seconds else {}
        return error.status, {"error": error.text}, headers
    if isinstance(error, (StoreUnavailable, Busy)):
        text = "the database is unreachable, try again later"
        return 503, {"error": text}, {"retry-after": str(RETRY_SECONDS)}
    _log.failure("Cannot answer a request to the push server", failure=failure)
    return 500, {"error": "internal error"}, {}


def query_fields(request: Any) -> dict[str, list[str]]:
    """What stands behind the question mark.

    :raises PushRefused: they cannot be read.
    """
    query = request.uri.partition(b"?")[2]
    try:
        text = query.decode("ascii")
        return parse_qs(text, keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError:
        raise PushRefused(400, "the query cannot be read: it is percent-encoded UTF-8") from None


class _Nothing(Resource):
    """There is nothing here."""

    isLeaf = True

    def render(self, request: Any) -> int:
        reply_json(request, 404, {"error": "not found"}, HEADERS)
        return NOT_DONE_YET


class Folder(Resource):
    """What is not among its children is not there."""

    def getChild(self, path: bytes, request: Any) -> Resource:
        return _Nothing()

    def render(self, request: Any) -> int:
        return _Nothing().render(request)


class Answering(Folder):
    """A resource that answers; override ``_answer``."""

    methods: tuple[bytes, ...] = (b"GET", b"HEAD")

    def __init__(self, server: PushServer) -> None:
        super().__init__()
        self._server = server

    def render(self, request: Any) -> int:
        return self.answer_with(request, explain)

    def answer_with(self, request: Any, explain: Callable[[Failure], Explained]) -> int:
        """Answer a request.

        :param explain: says what a failure is.
        """
        for name, value in HEADERS.items():
            request.setHeader(name, value)
        if request.method not in self.methods:
            allow = b", ".join(self.methods).decode()
            reply_json(request, 405, {"error": f"only {allow} allowed"}, {"allow": allow})
        else:
            run(request, explain, self._answer, request)
        return NOT_DONE_YET

    def _address(self, request: Any) -> str:
        return client_address(request, self._server.settings.proxy)

    async def _answer(self, request: UploadRequest) -> None:
        raise NotImplementedError


class IndexNow(Answering):
    """``/indexnow``: a URL, or a list of them, has changed."""

    methods = (b"GET", b"POST")

    async def _answer(self, request: UploadRequest) -> None:
        address = self._address(request)
        self._server.check_rate(address)
        submission = self._read(request)
        key = await self._server.push(submission, address)
        accepted = {"accepted": len(submission.urls), "host": host_of(submission.site), "key": key.state.value}
        if key.state is KeyState.PROVEN:
            reply_json(request, 200, accepted, {})
        else:
            reply_json(request, 202, {**accepted, "reason": key.why or _WAITS[key.state]}, {})

    def _read(self, request: UploadRequest) -> Submission:
        any_port = self._server.settings.any_port
        if request.method == b"GET":
            return read_query(query_fields(request), any_port)
        try:
            document = json.loads(request.body())
        except (ValueError, RecursionError) as error:
            raise PushRefused(400, f"the body is no JSON: {error}") from None
        return read_body(document, any_port)


class Report(Answering):
    """``/indexnow/report``: what became of the pushes."""

    async def _answer(self, request: UploadRequest) -> None:
        self._server.check_rate(self._address(request))
        fields = query_fields(request)
        host, key = (fields.get("host") or [""])[0], (fields.get("key") or [""])[0]
        if not host or not key:
            raise PushRefused(400, "host and key are required: /indexnow/report?host=HOST&key=KEY")
        try:
            host = host_of(normalise(f"https://{host.strip()}/"))
        except UrlError as error:
            raise PushRefused(400, f"host: {error.text}") from None
        found = await self._server.report(host, key)
        if not found:
            raise PushRefused(404, f"no push of {host} with this key is known")
        reply_json(request, 200, {"host": host, "keys": [_shown(each) for each in found]}, {})


def _shown(report: PushReport) -> dict[str, Any]:
    key = report.key
    return {
        "location": key.location,
        "folder": key.folder,
        "state": key.state.value,
        "reason": key.why or _WAITS.get(key.state, ""),
        "provider": key.pid or None,
        "proven": key.proven_time or None,
        "pushes": [
            {"time": each.time, "urls": each.count, "state": each.state, "reason": each.text}
            for each in report.pushes
        ],
        # What exactly went wrong may name addresses of the operator's network.
        "errors": [
            {"time": each.time, "url": each.url, "code": each.code, "error": entry_for(each.code).text}
            for each in report.errors
        ],
    }


def build_site(server: PushServer, reactor: Any, others: Mapping[bytes, Resource] | None = None) -> LimitedFactory:
    """The site with all that it has.

    :param others: further resources of its root.
    """
    settings = server.settings
    root, indexnow = Folder(), IndexNow(server)
    root.putChild(b"indexnow", indexnow)
    indexnow.putChild(b"report", Report(server))
    for name, resource in (others or {}).items():
        root.putChild(name, resource)

    class PushRequest(UploadRequest):
        body_bytes_max = settings.body_bytes

        def is_upload(self, method: bytes, path: bytes, length: int | None) -> bool:
            long = length is None or length > SHORT_BYTES
            return long and method == b"POST" and path.partition(b"?")[0] == SETS_PATH

    site = GuardedSite(
        root, requestFactory=PushRequest, timeout=settings.idle_timeout, reactor=reactor, now=server.now
    )
    per_address = 0 if settings.proxy else settings.connections_per_address
    return LimitedFactory(site, settings.connections_max, "senders of pushes", per_address)
