"""Asks processes of the LCC how they are: their metrics ports' ``/readyz``, as ``[web] watch`` names them.

Who is not connected to the queue manager (content user API, registration) is known in no other way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.insight.evidence import Fault, ProcessHealth
from lcc.transport.http.client import HttpClient, HttpFailed

_log = Logger()

TIMEOUT_SECONDS = 5.0
ANSWER_BYTES_MAX = 200_000
TEXT_CHARS = 300
FAULTS_MAX = 10


class Processes:
    """The processes that are watched.

    :param now: seconds since 1970.
    """

    def __init__(self, addresses: Sequence[str], http: HttpClient, now: Callable[[], float]) -> None:
        self._http = http
        self._now = now
        self._health = {address: ProcessHealth(address) for address in addresses}
        self._asking: dict[str, Deferred[None]] = {}

    @property
    def health(self) -> tuple[ProcessHealth, ...]:
        """How each is."""
        return tuple(self._health.values())

    def ask(self) -> None:
        """Ask all whose last answer is there."""
        for address in self._health:
            if address not in self._asking:
                asking = self._asking[address] = Deferred.fromCoroutine(self._ask(address))
                asking.addErrback(self._failed, address)
                asking.addBoth(self._asked, address)

    def stop(self) -> Deferred[None]:
        """Ask no longer."""
        for asking in list(self._asking.values()):
            asking.cancel()
        return self._http.close()

    async def _ask(self, address: str) -> None:
        before = self._health[address]
        try:
            answer = await self._http.get(address, "/readyz")
            roles, faults, notes = _read(answer.status, await answer.read(ANSWER_BYTES_MAX))
        except HttpFailed as error:
            why = str(error).removeprefix(f"{address}: ").rstrip(".")
            standing = attrs.evolve(before, well=False, silent=why[:TEXT_CHARS], faults=(), notes=())
        else:
            standing = attrs.evolve(before, well=not faults, silent="", roles=roles, faults=faults, notes=notes)
        if standing.well:
            self._health[address] = attrs.evolve(standing, since=None, bad=0)
        else:
            since = before.since if before.since is not None else self._now()
            self._health[address] = attrs.evolve(standing, since=since, bad=before.bad + 1)

    def _asked(self, _: object, address: str) -> None:
        del self._asking[address]

    def _failed(self, failure: Failure, address: str) -> None:
        if not failure.check(CancelledError):
            _log.failure("Cannot probe {address}", failure=failure, address=address)


def _read(status: int, body: bytes) -> tuple[tuple[str, ...], tuple[Fault, ...], tuple[str, ...]]:
    """What an answer says: roles, what is wrong, how they are.

    :raises HttpFailed: it is none of a metrics port.
    """
    try:
        told = json.loads(body)
        roles = {str(name)[:TEXT_CHARS]: each for name, each in told["roles"].items()}
        faults = [
            Fault(name, str(each.get("fault", ""))[:TEXT_CHARS], str(each.get("remedy", ""))[:TEXT_CHARS])
            for name, role in roles.items()
            for each in role["conditions"]
            if not each["ok"]
        ]
        notes = [
            f"{name}: {str(each['note'])[:TEXT_CHARS]}"
            for name, role in roles.items()
            for each in role["conditions"]
            if each.get("note")
        ]
        if bool(faults) is (status == 200) or status not in (200, 503):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise HttpFailed(f"invalid response to /readyz (status {status})") from None
    return tuple(roles)[:FAULTS_MAX], tuple(faults[:FAULTS_MAX]), tuple(notes[:FAULTS_MAX])
