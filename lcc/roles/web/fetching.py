"""What is being fetched now: the BOT-Ms are asked for it at their content ports, as ``lcc-admin top`` does.

The queue manager knows only which orders are out; most of them wait at a BOT-M.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import Config, content_source
from lcc.insight.qm_state import Live
from lcc.transport.http.client import HttpClient, HttpFailed, is_address

_log = Logger()

ANSWER_BYTES_MAX = 16 << 20


@attrs.frozen
class Fetch:
    """A URL that a robot has, as :func:`lcc.roles.botm.status.fetching` tells it.

    :ivar stored_bytes: so far, decoded.
    """

    machine: int
    robot: str = attrs.field(converter=str)
    pid: int = attrs.field(converter=int)
    url: str = attrs.field(converter=str)
    seconds: float = attrs.field(converter=float)
    stored_bytes: int = attrs.field(converter=int)
    attempt: int = attrs.field(converter=int)


@attrs.frozen
class MachineFetches:
    """What one machine fetches (the oldest of it); or why that is not known."""

    fetches: tuple[Fetch, ...] = ()
    trouble: str = ""


class Fetching:
    """The fetches of all machines, as their BOT-Ms told last."""

    def __init__(self, config: Config, http: HttpClient) -> None:
        self._config = config
        self._http = http
        self._known: dict[int, MachineFetches] = {}
        self._asking: dict[int, Deferred[None]] = {}
        self._addresses: dict[int, str] = {}

    @property
    def fetches(self) -> list[Fetch]:
        """Those that run for longest first."""
        return sorted(
            (each for known in self._known.values() for each in known.fetches), key=lambda each: -each.seconds
        )

    @property
    def troubles(self) -> list[tuple[int, str]]:
        """Machines of which it is not known, and why."""
        return sorted((machine, known.trouble) for machine, known in self._known.items() if known.trouble)

    def ask(self, live: Live) -> None:
        """Ask the machines that are connected, and have answered the last time; of others nothing is known."""
        machines = live.state.get("machines", ()) if live.alive else ()
        connected = {each["machine"]: each for each in machines if each["connected"] and each["capacity"]}
        self._known = {number: known for number, known in self._known.items() if number in connected}
        self._addresses = {
            number: self._address(number, each.get("content", "")) for number, each in connected.items()
        }
        for number, address in self._addresses.items():
            if number not in self._asking:
                asking = Deferred.fromCoroutine(self._ask(number, address))
                if not asking.called:
                    self._asking[number] = asking
                asking.addErrback(self._failed, number)
                asking.addBoth(self._asked, number)

    def address_of(self, machine: int) -> str:
        """The content port of a machine; empty: it cannot be reached from here."""
        return self._addresses.get(machine, "")

    def stop(self) -> Deferred[None]:
        """Ask no longer."""
        for asking in list(self._asking.values()):
            asking.cancel()
        return self._http.close()

    def _address(self, machine: int, content: str) -> str:
        """Where its BOT-M answers, for an HTTP client; empty: nowhere that the monitor can reach."""
        own = machine == self._config.botm.machine and self._config.botm.serves != "botms"
        address = content_source(self._config, "") if own else content
        return address if is_address(address) and not address.startswith("https:") else ""

    async def _ask(self, machine: int, address: str) -> None:
        if not address:
            trouble = "the monitor does not ask at its content port; lcc-admin top does"
            self._known[machine] = MachineFetches(trouble=trouble)
            return
        try:
            answer = await self._http.get(address, "/status")
            self._known[machine] = MachineFetches(_read(machine, answer.status, await answer.read(ANSWER_BYTES_MAX)))
        except HttpFailed as error:
            self._known[machine] = MachineFetches(trouble=str(error))

    def _asked(self, _: object, machine: int) -> None:
        self._asking.pop(machine, None)

    def _failed(self, failure: Failure, machine: int) -> None:
        if not failure.check(CancelledError):
            _log.failure("Cannot ask the BOT-M of machine {machine}", failure=failure, machine=machine)


def _read(machine: int, status: int, body: bytes) -> tuple[Fetch, ...]:
    """
    :raises HttpFailed: it is no answer of a BOT-M.
    """
    try:
        if status != 200:
            raise ValueError
        rows: list[dict[str, Any]] = json.loads(body)["fetching"]
        return tuple(
            Fetch(machine, row["robot"], row["pid"], row["url"], row["seconds"], row["bytes"], row["attempt"])
            for row in rows
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise HttpFailed(f"invalid response to /status (status {status})") from None
