"""What the BOT-M of a machine says: for the dispatcher, the delete manager, the verifier and the leases."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from lcc.errors import StreamError
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.work import UP, Capacity, Checked, Deleted, Done, Robots, Running
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.orders.deleter import Deleter
from lcc.roles.qm.orders.dispatcher import Dispatcher
from lcc.roles.qm.orders.leases import Leases
from lcc.roles.qm.orders.recorder import Recorder
from lcc.roles.qm.orders.verifier import Verifier
from lcc.roles.qm.part import Hub
from lcc.roles.qm.peers.handler import Connection, Handler

PAUSED_CHARS = 200
REFUSED_CHARS = 500
"""What is kept of a BOT-M's texts."""


class BotmHandler(Handler):
    """Handles the messages of a machine's BOT-M.

    :raises StreamError: its hello names no machine or no run, or the machine is connected already.
    """

    def __init__(
        self,
        hub: Hub,
        dispatcher: Dispatcher,
        recorder: Recorder,
        deleter: Deleter,
        verifier: Verifier,
        leases: Leases,
        connection: Connection,
        hello: Hello,
    ) -> None:
        if hello.machine <= 0 or not hello.run:
            raise StreamError("syntax", "a BOT-M must name its machine and its run")
        self._hub = hub
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._deleter = deleter
        self._verifier = verifier
        self._leases = leases
        self._connection = connection
        self._machine = dispatcher.connected(connection, hello)
        leases.connected(hello.machine, hello.names_upto)

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        dispatcher, machine = self._dispatcher, self._machine
        try:
            for message in UP.messages(elements):
                kind = type(message)
                if kind is Done:
                    dispatcher.done(machine, message)  # type: ignore[arg-type]  # compared by identity
                elif isinstance(message, Deleted):
                    self._deleter.deleted(self._connection, message.id)
                elif isinstance(message, Checked):
                    self._verifier.checked(machine, self._connection, message)
                elif isinstance(message, Capacity):
                    machine.set_capacity(message.fetches, message.hanging)
                    machine.trouble = message.trouble
                    machine.paused = message.paused[:PAUSED_CHARS]
                    machine.robots_refused = message.refused[:REFUSED_CHARS]
                elif isinstance(message, Robots):
                    machine.robots, machine.robots_count = message.robots, max(0, message.count)
                elif isinstance(message, Running):
                    dispatcher.running(machine, message, self._hub.clock.seconds())
                elif isinstance(message, Ready):
                    self._ready(message)
        finally:
            self._hub.pump()
        return self._recorder.room()

    def _ready(self, ready: Ready) -> None:
        machine = self._machine
        started = self._hub.clock.seconds() - max(0, ready.up_seconds)
        self._dispatcher.ready(machine, started if ready.unsure else None)
        self._leases.ready(machine)
        machine.tell_progress(*self._hub.progress)
        self._deleter.connected(machine.number, self._connection)

    def lost(self) -> None:
        """The connection is lost; the orders of the machine are still being fetched."""
        self._machine.disconnected(self._connection)
        self._deleter.disconnected(self._connection)
        self._verifier.disconnected(self._machine, self._connection)
