"""A BOT-M: what it says goes to the dispatcher, the recorder and the delete manager."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred

from lcc.errors import StreamError
from lcc.protocols.hello import Hello
from lcc.protocols.work import UP, Capacity, Checked, Deleted, Done, Ready, Robots, Running
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.orders.deleter import Deleter
from lcc.roles.qm.orders.dispatcher import Dispatcher
from lcc.roles.qm.orders.machines import Line, Machine
from lcc.roles.qm.orders.recorder import Recorder
from lcc.roles.qm.orders.verifier import Verifier

PAUSED_CHARS = 200
REFUSED_CHARS = 500
"""What is kept of the words of a BOT-M."""


class Working(Protocol):
    """What the connection needs of the engine."""

    dispatcher: Dispatcher
    recorder: Recorder
    deleter: Deleter
    verifier: Verifier

    def clock_seconds(self) -> float:
        """The clock that leases are measured on."""

    def botm_ready(self, machine: Machine) -> None:
        """The BOT-M has said what is still running there."""

    def pump(self) -> None:
        """Something has changed: send what can be sent, record what can be recorded."""


class Botm:
    """One connection of a BOT-M of a machine, be it direct or behind a central one.

    :raises StreamError: its hello names no machine or no run, or the machine is there already.
    """

    def __init__(self, engine: Working, line: Line, hello: Hello) -> None:
        if hello.machine <= 0 or not hello.run:
            raise StreamError("syntax", "a BOT-M must name its machine and its run")
        self._engine = engine
        self._line = line
        self._machine = engine.dispatcher.connected(line, hello)

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        """It says this.

        :raises StreamError: it makes no sense.
        """
        engine, machine = self._engine, self._machine
        try:
            for message in UP.messages(elements):
                kind = type(message)
                if kind is Done:
                    engine.dispatcher.done(machine, message)  # type: ignore[arg-type]  # compared by identity
                elif isinstance(message, Deleted):
                    engine.deleter.deleted(self._line, message.id)
                elif isinstance(message, Checked):
                    engine.verifier.checked(machine, self._line, message)
                elif isinstance(message, Capacity):
                    machine.set_capacity(message.fetches)
                    machine.trouble = message.trouble
                    machine.paused = message.paused[:PAUSED_CHARS]
                    machine.robots_refused = message.refused[:REFUSED_CHARS]
                elif isinstance(message, Robots):
                    machine.robots, machine.robots_count = message.robots, max(0, message.count)
                elif isinstance(message, Running):
                    engine.dispatcher.running(machine, message, engine.clock_seconds())
                elif isinstance(message, Ready):
                    engine.dispatcher.ready(machine)
                    engine.botm_ready(machine)
                    engine.deleter.connected(machine.number, self._line)
        finally:
            engine.pump()
        return engine.recorder.room()

    def stream_failed(self, error: StreamError) -> None:
        """What it says cannot be understood."""

    def lost(self) -> None:
        """It is gone; its orders are still being fetched."""
        self._machine.disconnected(self._line)
        self._engine.deleter.disconnected(self._line)
        self._engine.verifier.disconnected(self._machine, self._line)
