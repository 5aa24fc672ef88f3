"""What failures are to who asked."""

from __future__ import annotations

import math
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import RegistrationRefused, StoreUnavailable
from lcc.roles.rs.prover import NotProven
from lcc.transport.http.replies import RETRY_SECONDS, Explained, HttpError

_log = Logger()

STATUSES = {
    "faults": 400,
    "denied": 403,
    "unknown": 404,
    "not-proven": 409,
    "not-provable": 409,
    "changed": 409,
    "gone": 409,
    "full": 409,
    "throttled": 429,
    "busy": 503,
}
"""Kinds of RegistrationRefused, and the status of each; one that passes is 503 where nothing else is said."""


def explain(failure: Failure) -> Explained:
    """Status, JSON object and header fields.

    The object has ``kind`` (a stable name) and ``error`` (in words); ``faults`` by field, or ``url``, ``code`` and
    ``name`` of a proof that failed.
    """
    error = failure.value
    if isinstance(error, NotProven):
        entry = error.error.entry
        told: dict[str, Any] = {"kind": "not-proven", "error": str(error), "url": error.url}
        return 409, told | {"code": error.error.code, "name": entry.name, "text": error.error.text}, {}
    if isinstance(error, RegistrationRefused):
        return explain_refusal(error)
    if isinstance(error, HttpError):
        return error.status, {"kind": "request", "error": error.text}, error.headers
    if isinstance(error, StoreUnavailable):
        text = "the database is unreachable, try again later"
        return 503, {"kind": "busy", "error": text}, {"retry-after": str(RETRY_SECONDS)}
    _log.failure("Cannot answer a request to the registration server", failure=failure)
    return 500, {"kind": "internal", "error": "internal error"}, {}


def explain_refusal(error: RegistrationRefused) -> Explained:
    """The same of a refusal."""
    status = STATUSES.get(error.kind, 409)
    headers = {}
    if error.retry_seconds:
        status = 503 if status == 409 else status
        headers["retry-after"] = str(math.ceil(error.retry_seconds))
    told: dict[str, Any] = {"kind": error.kind, "error": error.text}
    return status, told | ({"faults": error.faults} if error.faults else {}), headers
