"""The same as an HTTP API: JSON in, JSON out.  Only ``application/json`` is taken, which no form of another site can
send."""

from __future__ import annotations

from typing import Any

from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from lcc.errors import RegistrationRefused
from lcc.model import Proves, Registration
from lcc.roles.rs.challenge import Challenge, file_urls
from lcc.roles.rs.registrar import Registrar
from lcc.roles.rs.web.failures import explain
from lcc.roles.rs.web.forms import FORMS, check_names, json_fields
from lcc.transport.http.replies import client_address, reply_json, run
from lcc.transport.http.server import BodyRequest

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def registration_object(registration: Registration) -> dict[str, Any]:
    """What who asked may know of a registration."""
    return {
        "number": registration.number,
        "kind": registration.kind.value,
        "state": registration.state.value,
        "file": registration.file,
        "urls": file_urls(registration),
        "roots": list(registration.folders),
        "pid": registration.pid or None,
        "expires": registration.expires,
    }


def challenge_object(challenge: Challenge) -> dict[str, Any]:
    """What step one gives out."""
    shown = registration_object(challenge.registration)
    return shown | {"ticket": challenge.ticket, "secret": challenge.secret, "password": challenge.password or None}


class Api(Resource):
    """``/api/registrations`` and what is below it."""

    isLeaf = True

    def __init__(self, registrar: Registrar) -> None:
        super().__init__()
        self._registrar = registrar
        self._ask = {
            Proves.PROVIDER: registrar.ask_provider,
            Proves.ROOT: registrar.ask_root,
            Proves.PASSWORD: registrar.ask_password,
        }

    def render(self, request: Any) -> int:
        for name, value in HEADERS.items():
            request.setHeader(name, value)
        match request.postpath:
            case []:
                methods, answer = "POST", self._open
            case [ticket] if ticket:
                methods, answer = "GET, HEAD", self._look
            case [ticket, b"check"]:
                methods, answer = "POST", self._check
            case _:
                reply_json(request, 404, {"kind": "request", "error": "not found"}, {})
                return NOT_DONE_YET
        if request.method.decode("latin-1") in methods.split(", "):
            run(request, explain, answer, request)
        else:
            told = {"kind": "request", "error": f"only {methods} allowed"}
            reply_json(request, 405, told, {"allow": methods})
        return NOT_DONE_YET

    async def _open(self, request: BodyRequest) -> None:
        fields = json_fields(request)
        name = fields.pop("kind", Proves.PROVIDER.value)
        kinds = [kind for kind in Proves if kind.value == name]
        if not kinds:
            names = ", ".join(kind.value for kind in Proves)
            raise RegistrationRefused("faults", "invalid request", {"kind": f"must be one of {names}"})
        check_names(fields, "mail", *(field.name for field in FORMS[kinds[0]]))
        challenge = await self._ask[kinds[0]](fields, self._address(request))
        reply_json(request, 201, challenge_object(challenge), {})

    async def _look(self, request: BodyRequest) -> None:
        registration = await self._registrar.look(_ticket(request))
        reply_json(request, 200, registration_object(registration), {})

    async def _check(self, request: BodyRequest) -> None:
        json_fields(request)
        registration = await self._registrar.check(_ticket(request), self._address(request))
        reply_json(request, 200, registration_object(registration), {})

    def _address(self, request: BodyRequest) -> str:
        return client_address(request, self._registrar.settings.proxy)


def _ticket(request: BodyRequest) -> str:
    ticket, *_ = request.postpath or [b""]
    return ticket.decode("latin-1")
