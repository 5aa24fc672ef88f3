"""The connection of a central BOT-M: many machines share it, each served as if it had one of its own."""

from __future__ import annotations

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Flat
from lcc.protocols.work import Drop, Gone, MachineHello, addressed, addressee
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.peers.connections import DirectConnection
from lcc.roles.qm.peers.handler import Handler
from lcc.roles.qm.peers.handshake import Handshake

_log = Logger()

MACHINES_MAX = 10_000
"""Behind one central BOT-M."""


class RelayedConnection:
    """A machine's part of that connection (a :class:`lcc.roles.qm.peers.handler.Connection`).

    :ivar hello: what the BOT-M of the machine has said of itself.
    """

    def __init__(self, central: CentralHandler, shared: DirectConnection, hello: MachineHello) -> None:
        self.hello = hello
        self.handler: Handler | None = None
        self._central = central
        self._shared = shared

    def describe(self) -> str:
        """Who this is, for the log."""
        return f"botm {self.hello.name} of machine {self.hello.machine} via {self.hello.via}"

    def say(self, message: Flat) -> None:
        """Send a message."""
        self._shared.stream.send(addressed(message, self.hello.machine, self.hello.session))

    def peer_clock_ms(self) -> int | None:
        """The clock of the central BOT-M, which knows what time passes there."""
        return self._shared.peer_clock_ms()

    def stream_failed(self, error: StreamError) -> None:
        """What the machine says makes no sense, or it is refused: drop it."""
        _log.warn("Dropping {peer}: {error}", peer=self.describe(), error=str(error))
        if self.handler is not None:
            self.handler.stream_failed(error)
        self.drop()

    def leave(self) -> None:
        """Close the machine's connection; there is no other way than at once."""
        self.drop()

    def drop(self) -> None:
        """Have the central BOT-M close the machine's connection; nothing more is heard of it."""
        if self._central.forget(self):
            self.say(Drop(self.hello.machine))

    def lost(self) -> None:
        """The machine's connection is lost."""
        handler, self.handler = self.handler, None
        if handler is not None:
            handler.lost()


class CentralHandler(Handler):
    """Handles the messages of a central BOT-M: deals them out to its machines."""

    def __init__(self, connection: DirectConnection, handshake: Handshake) -> None:
        self._connection = connection
        self._handshake = handshake
        self._machines: dict[int, RelayedConnection] = {}

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self._connection.peer_hello.name if self._connection.peer_hello is not None else ""

    @property
    def machine_count(self) -> int:
        """Machines behind it."""
        return len(self._machines)

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
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

    def lost(self) -> None:
        """The connection is lost, and with it all machines behind it."""
        machines, self._machines = list(self._machines.values()), {}
        for machine in machines:
            machine.lost()

    def forget(self, machine: RelayedConnection) -> bool:
        """Nothing more is heard of this machine; False: it was gone already."""
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
                self._deliver(number, elements[begin:index], waits)
                begin = index + 1
                self._gone(number)
                if element.name == MachineHello.TAG:
                    self._arrived(number, MachineHello.from_attributes(element.attributes))
        self._deliver(number, elements[begin:] if begin else elements, waits)

    def _arrived(self, number: int, hello: MachineHello) -> None:
        if len(self._machines) >= MACHINES_MAX:
            raise StreamError("limit", f"more than {MACHINES_MAX} machines behind a central BOT-M")
        machine = self._machines[number] = RelayedConnection(self, self._connection, hello)
        try:
            self._handshake.hello(machine, hello)
        except StreamError as error:
            machine.stream_failed(error)

    def _gone(self, number: int) -> None:
        machine = self._machines.get(number)
        if machine is not None:
            self.forget(machine)
            _log.info("{peer} has disconnected", peer=machine.describe())

    def _deliver(self, number: int, elements: list[Start], waits: list[Deferred[None]]) -> None:
        machine = self._machines.get(number)
        if machine is None or machine.handler is None or not elements:
            return  # of a machine that was dropped just now
        try:
            wait = machine.handler.elements_received(elements)
        except StreamError as error:
            machine.stream_failed(error)
            return
        except Exception:
            self._failed(Failure(), machine)
            return
        if wait is not None:
            waits.append(wait.addErrback(self._failed, machine))

    def _failed(self, failure: Failure, machine: RelayedConnection) -> None:
        error = failure.value
        if isinstance(error, StreamError):
            machine.stream_failed(error)
            return
        _log.failure("Cannot process a message from {peer}", failure=failure, peer=machine.describe())
        machine.drop()
