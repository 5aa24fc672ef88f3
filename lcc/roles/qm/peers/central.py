"""The connection of a central BOT-M: many machines share it, and each is served as if it were connected by itself."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Flat
from lcc.protocols.work import Drop, Gone, MachineHello, addressed, addressee
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.peers.connections import Guest, Visitor

_log = Logger()

MACHINES_MAX = 10_000
"""Behind one central BOT-M."""


class Hosting(Protocol):
    """What the connection needs of the engine."""

    centrals: set[Central]

    def welcome_machine(self, machine: Behind) -> Guest:
        """The BOT-M of a machine behind a central one has said hello.

        :raises StreamError: it is turned away.
        """


class Behind:
    """A machine behind a central BOT-M: to the rest of the queue manager a connection like any other.

    :ivar hello: what its BOT-M said of itself.
    :ivar guest: what it is good for; None: it is gone, or not let in yet.
    """

    def __init__(self, central: Central, visitor: Visitor, hello: MachineHello) -> None:
        self.hello = hello
        self.guest: Guest | None = None
        self._central = central
        self._visitor = visitor

    def describe(self) -> str:
        """Who this is, for the log."""
        return f"botm {self.hello.name} of machine {self.hello.machine} via {self.hello.via}"

    def say(self, message: Flat) -> None:
        """Send it this."""
        self._visitor.stream.send(addressed(message, self.hello.machine, self.hello.session))

    def peer_clock_ms(self) -> int | None:
        """The clock of the central one, which knows what time passes there."""
        return self._visitor.peer_clock_ms()

    def stream_failed(self, error: StreamError) -> None:
        """What it says makes no sense, or it cannot be let in."""
        _log.warn("Dropping {peer}: {error}", peer=self.describe(), error=str(error))
        if self.guest is not None:
            self.guest.stream_failed(error)
        self.drop()

    def leave(self) -> None:
        """Close its connection: there is no other way than at once."""
        self.drop()

    def drop(self) -> None:
        """Have the central one close its connection; nothing is heard of it any longer."""
        if self._central.forget(self):
            self.say(Drop(self.hello.machine))

    def lost(self) -> None:
        """It is gone."""
        guest, self.guest = self.guest, None
        if guest is not None:
            guest.lost()


class Central:
    """One connection of a central BOT-M."""

    def __init__(self, engine: Hosting, visitor: Visitor) -> None:
        self._engine = engine
        self._visitor = visitor
        self._machines: dict[int, Behind] = {}
        engine.centrals.add(self)

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self._visitor.peer_hello.name if self._visitor.peer_hello is not None else ""

    @property
    def machine_count(self) -> int:
        """Machines behind it."""
        return len(self._machines)

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        """It says this; what the machines say is independent of each other.

        :raises StreamError: it makes no sense, and it is not a machine that says so.
        """
        batches: dict[int, list[Start]] = {}
        for element in elements:
            number = addressee(element.name, element.attributes)
            if not number:
                raise StreamError("syntax", f"<{element.name}> of no machine from a central BOT-M")
            batches.setdefault(number, []).append(element)
        waits: list[Deferred[None]] = []
        for number, batch in batches.items():
            self._machine_says(number, batch, waits)
        if len(waits) > 1:
            return gatherResults(waits).addCallback(lambda _: None)
        return waits[0] if waits else None

    def stream_failed(self, error: StreamError) -> None:
        """What it says cannot be understood."""

    def lost(self) -> None:
        """It is gone, and with it all machines behind it."""
        self._engine.centrals.discard(self)
        machines, self._machines = list(self._machines.values()), {}
        for machine in machines:
            machine.lost()

    def forget(self, machine: Behind) -> bool:
        """Nothing is heard of this machine any longer; False: it was gone already."""
        number = machine.hello.machine
        if self._machines.get(number) is not machine:
            return False
        del self._machines[number]
        machine.lost()
        return True

    def _machine_says(self, number: int, elements: list[Start], waits: list[Deferred[None]]) -> None:
        begin = 0
        for index, element in enumerate(elements):
            if element.name in (MachineHello.TAG, Gone.TAG):
                self._pass_on(number, elements[begin:index], waits)
                begin = index + 1
                self._gone(number)
                if element.name == MachineHello.TAG:
                    self._arrived(number, MachineHello.from_attributes(element.attributes))
        self._pass_on(number, elements[begin:] if begin else elements, waits)

    def _arrived(self, number: int, hello: MachineHello) -> None:
        if len(self._machines) >= MACHINES_MAX:
            raise StreamError("limit", f"more than {MACHINES_MAX} machines behind a central BOT-M")
        machine = self._machines[number] = Behind(self, self._visitor, hello)
        try:
            machine.guest = self._engine.welcome_machine(machine)
        except StreamError as error:
            machine.stream_failed(error)
            return
        _log.info("{peer} has connected", peer=machine.describe())

    def _gone(self, number: int) -> None:
        machine = self._machines.get(number)
        if machine is not None:
            self.forget(machine)
            _log.info("{peer} is gone", peer=machine.describe())

    def _pass_on(self, number: int, elements: list[Start], waits: list[Deferred[None]]) -> None:
        machine = self._machines.get(number)
        if machine is None or machine.guest is None or not elements:
            return  # what a machine says that was dropped just now
        try:
            wait = machine.guest.elements_received(elements)
        except StreamError as error:
            machine.stream_failed(error)
            return
        except Exception:
            self._failed(Failure(), machine)
            return
        if wait is not None:
            waits.append(wait.addErrback(self._failed, machine))

    def _failed(self, failure: Failure, machine: Behind) -> None:
        error = failure.value
        if isinstance(error, StreamError):
            machine.stream_failed(error)
            return
        _log.failure("What {peer} says cannot be worked off", failure=failure, peer=machine.describe())
        machine.drop()
