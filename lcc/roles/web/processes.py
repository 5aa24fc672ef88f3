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

from lcc.transport.http_client import HttpClient, HttpFailed

_log = Logger()

TIMEOUT_SECONDS = 5.0
ANSWER_BYTES_MAX = 200_000
TEXT_CHARS = 300
FAULTS_MAX = 10
PATIENCE = 2
"""So often in a row it must not be well, to be said: what is restarted is not."""


@attrs.frozen
class Fault:
    """A condition that is not met, as the role says it."""

    role: str
    text: str
    remedy: str


@attrs.frozen
class Standing:
    """How one process is.

    :ivar address: where it was asked.
    :ivar roles: in it, as far as it ever said.
    :ivar well: it can do its work; None: it was not asked yet.
    :ivar silent: why it does not answer; empty: it does.
    :ivar faults: that it tells of.
    :ivar since: since when it is not well, seconds since 1970; None: it is.
    :ivar bad: how often in a row it was not.
    """

    address: str
    roles: tuple[str, ...] = ()
    well: bool | None = None
    silent: str = ""
    faults: tuple[Fault, ...] = ()
    since: float | None = None
    bad: int = 0

    @property
    def name(self) -> str:
        """Who it is, for people."""
        return f"{', '.join(self.roles)} at {self.address}" if self.roles else self.address

    @property
    def is_trouble(self) -> bool:
        """It is not well, and not only for a moment."""
        return self.bad >= PATIENCE


class Processes:
    """All that are watched.

    :param now: seconds since 1970.
    """

    def __init__(self, addresses: Sequence[str], http: HttpClient, now: Callable[[], float]) -> None:
        self._http = http
        self._now = now
        self._standings = {address: Standing(address) for address in addresses}
        self._asking: dict[str, Deferred[None]] = {}

    @property
    def standings(self) -> tuple[Standing, ...]:
        """How each is."""
        return tuple(self._standings.values())

    def ask(self) -> None:
        """Ask all whose last answer is there."""
        for address in self._standings:
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
        before = self._standings[address]
        try:
            answer = await self._http.get(address, "/readyz")
            roles, faults = _read(answer.status, await answer.read(ANSWER_BYTES_MAX))
        except HttpFailed as error:
            why = str(error).removeprefix(f"{address}: ").rstrip(".")
            standing = attrs.evolve(before, well=False, silent=why[:TEXT_CHARS], faults=())
        else:
            standing = attrs.evolve(before, well=not faults, silent="", roles=roles, faults=faults)
        if standing.well:
            self._standings[address] = attrs.evolve(standing, since=None, bad=0)
        else:
            since = before.since if before.since is not None else self._now()
            self._standings[address] = attrs.evolve(standing, since=since, bad=before.bad + 1)

    def _asked(self, _: object, address: str) -> None:
        del self._asking[address]

    def _failed(self, failure: Failure, address: str) -> None:
        if not failure.check(CancelledError):
            _log.failure("{address} cannot be asked how it is", failure=failure, address=address)


def _read(status: int, body: bytes) -> tuple[tuple[str, ...], tuple[Fault, ...]]:
    """What an answer says.

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
        if bool(faults) is (status == 200) or status not in (200, 503):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise HttpFailed(f"what it answers is no /readyz (status {status})") from None
    return tuple(roles)[:FAULTS_MAX], tuple(faults[:FAULTS_MAX])
