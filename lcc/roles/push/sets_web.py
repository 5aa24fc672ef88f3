"""``/sets`` and ``/status`` of the push server: providers submit sets by HTTP, and ask how they stand."""

from __future__ import annotations

import base64
import binascii
from importlib.metadata import version
from typing import Any

from twisted.python.failure import Failure
from twisted.web.resource import Resource

from lcc.client.conversation import NoVerdict, Refused
from lcc.errors import StreamError, code
from lcc.numbers import INT64_MAX, parse_number
from lcc.protocols.cp_uns import InitAccepted
from lcc.protocols.flat import ID_MAX
from lcc.roles.push.engine import PushServer
from lcc.roles.push.gateway import Account
from lcc.roles.push.openapi import document
from lcc.roles.push.sets import KeyConflict, SetIntake, SetQuestion, verdict_of
from lcc.roles.push.web import Answering, explain, query_fields
from lcc.storage.providers.passwords import TOKEN_PREFIX
from lcc.transport.http.replies import RETRY_SECONDS, Explained, HttpError, JsonDocument, reply_json
from lcc.transport.http.server import UploadRequest, text_header

_KINDS = ("partial", "full")
_YES_NO = ("no", "yes")
KEY_CHARS_MAX = 200
_WAY = "HTTP Basic with the provider's id and password, or Bearer with its token"
_STATUSES = {
    "access-denied": 401,
    "throttled": 429,
    "too-many-connections": 429,
    "try-later": 503,
    "internal": 503,
    "timeout": 408,
    "limit": 413,
    "set-too-large": 413,
    "syntax": 400,
    "encoding": 400,
    "full-set-not-allowed": 403,
    "provider-gone": 403,
}
"""Of what refuses a set; of all else 422."""
STATUS_OF = {code(name): status for name, status in _STATUSES.items()}


def account_of(request: Any, address: str) -> Account:
    """Who asks, unproven.

    :raises HttpError: nobody says so.
    """
    scheme, _, rest = (text_header(request, "authorization") or "").partition(" ")
    given = rest.strip()
    try:
        if scheme.lower() == "basic":
            ident, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
            if colon:
                return Account(_pid(ident), password, address)
        elif scheme.lower() == "bearer" and given.startswith(TOKEN_PREFIX):
            return Account(_pid(given.removeprefix(TOKEN_PREFIX).partition("_")[0]), given, address)
    except (binascii.Error, ValueError):
        pass
    raise HttpError(401, f"the Authorization must be {_WAY}", www_authenticate='Basic realm="LCC"')


def _pid(text: str) -> int:
    """0, which nobody has, for what is no id: the answer must be that of an unknown provider."""
    try:
        return parse_number(text, ID_MAX)
    except ValueError:
        return 0


def question_of(request: Any) -> SetQuestion:
    """What a request asks for.

    :raises HttpError: it cannot be understood.
    """
    fields = {name: values[-1] for name, values in query_fields(request).items()}
    kind, deletions = fields.pop("kind", "partial"), fields.pop("deletions", "no")
    urlprefix, upto = fields.pop("urlprefix", ""), fields.pop("errors_upto", "0")
    if kind not in _KINDS:
        raise HttpError(400, f"kind={kind[:80]}: must be partial or full")
    if deletions not in _YES_NO:
        raise HttpError(400, f"deletions={deletions[:80]}: must be yes or no")
    if fields:
        raise HttpError(400, f"unknown: {min(fields)[:80]}; there are kind, urlprefix, deletions, errors_upto")
    try:
        errors_upto = parse_number(upto, INT64_MAX)
    except ValueError:
        raise HttpError(400, f"errors_upto={upto[:80]}: must be a number, as /status tells it") from None
    key = text_header(request, "idempotency-key") or ""
    if len(key) > KEY_CHARS_MAX or not key.isprintable():
        raise HttpError(400, f"the Idempotency-Key must be at most {KEY_CHARS_MAX} printable characters")
    if text_header(request, "content-encoding") not in (None, "identity"):
        raise HttpError(415, "send the body without Content-Encoding")
    return SetQuestion(kind == "full", urlprefix, deletions == "yes", errors_upto, key)


def explained(failure: Failure) -> Explained:
    """What a failure is to who asked."""
    error = failure.value
    if isinstance(error, HttpError):
        return error.status, {"error": error.text}, error.headers
    if isinstance(error, KeyConflict):
        return error.status, {"accepted": False, "error": str(error)}, {}
    if isinstance(error, (Refused, StreamError, NoVerdict)):
        status = 503 if isinstance(error, NoVerdict) else STATUS_OF.get(error.code, 422)
        headers = {}
        if status in (429, 503):
            headers["retry-after"] = str(RETRY_SECONDS)
        elif status == 401:
            headers["www-authenticate"] = 'Basic realm="LCC"'
        return status, verdict_of(error), headers
    return explain(failure)


class _OfProviders(Answering):
    def __init__(self, server: PushServer, sets: SetIntake) -> None:
        super().__init__(server)
        self._sets = sets

    def render(self, request: Any) -> int:
        return self.answer_with(request, explained)

    def _account(self, request: Any) -> Account:
        if self._server.paused_since is not None:
            raise HttpError(503, "the push server is paused, try again later", retry_after=str(RETRY_SECONDS))
        return account_of(request, self._address(request))


class Sets(_OfProviders):
    """``/sets``: a set of URLs."""

    methods = (b"POST",)

    async def _answer(self, request: UploadRequest) -> None:
        await self._sets.submit(self._account(request), question_of(request), request)


class Status(_OfProviders):
    """``/status``: what a greeting says."""

    async def _answer(self, request: UploadRequest) -> None:
        greeting = await self._sets.status(self._account(request))
        reply_json(request, 200, shown(greeting), {})


def shown(greeting: InitAccepted) -> dict[str, Any]:
    """A greeting as JSON."""
    return {
        "connection": greeting.connseq,
        "last_address": greeting.last_ip or None,
        "mimetypes": list(greeting.mimetypes),
        "files": {"used": greeting.files_used, "free": greeting.files_free},
        "space_bytes": {"used": greeting.space_used_bytes, "free": greeting.space_free_bytes},
        "full_sets_left": greeting.full_sets_left,
        "full_set_wanted": greeting.full_set_reason if greeting.full_set_wanted else None,
        "deletions_held": {"held": greeting.deletions_held, "of": greeting.deletions_of},
        "processing": greeting.processing,
        "errors": {
            "count": greeting.error_count,
            "upto": greeting.errors_upto,
            "urls": [
                {"url": each.url, "code": each.code, "error": each.text, "element": each.attributes}
                for each in greeting.errors
            ],
        },
    }


def resources(server: PushServer, sets: SetIntake) -> dict[bytes, Resource]:
    """What there is of this, by name."""
    return {
        b"sets": Sets(server, sets),
        b"status": Status(server, sets),
        b"openapi.json": JsonDocument(document(version("lcc"))),
    }
