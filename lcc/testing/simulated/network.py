"""A network of hosts with stream connections (TCP as processes see it).

What a connection does to those who speak over it is decided by the seed: how the bytes are cut into segments, how
long they travel, how much of them fits on the way.  On purpose it can be cut (a reset, which drops what was under
way), held up, or parted (nothing passes between two hosts for a while).

Closing is as the kernel does it: who closes with something unread, or is sent something afterwards, answers with a
reset, and a reset throws away what the other end has not read.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from lcc.testing.simulated.connection import Connection, Connector, ListeningPort
from lcc.testing.simulated.timeline import Timeline

if TYPE_CHECKING:
    from lcc.testing.simulated.process import Process


class Network:
    """Hosts, their names, what listens, what is connected.

    :ivar names: host name -> its addresses; None: nobody ever answers the question.
    :ivar connections: those that are open, in the order in which they were made.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.names: dict[str, tuple[str, ...] | None] = {}
        self.connections: dict[Connection, None] = {}
        self._chance = timeline.random("network")
        self._listening: dict[tuple[str, int], ListeningPort] = {}
        self._parted: dict[frozenset[str], float] = {}
        self._far: dict[frozenset[str], float] = {}
        self._vanished: set[str] = set()
        self._ports = 40000
        self.slow_until = 0.0
        """Until then, everything takes much longer on its way."""

    # Names.

    def addresses_of(self, name: str) -> tuple[str, ...]:
        """Of a host; an address is its own name."""
        if name.replace(".", "").isdigit():
            return (name,)
        return self.names.get(name) or ()

    def lookup_seconds(self, name: str) -> float | None:
        """How long the question takes; None: for ever."""
        return None if self.names.get(name, ()) is None else self._chance.uniform(0.0001, 0.02)

    # Faults.

    def part(self, one: str, other: str, seconds: float) -> None:
        """Nothing passes between these hosts for so long."""
        self._parted[frozenset((one, other))] = self.timeline.now + seconds

    def set_far(self, one: str, other: str, seconds: float) -> None:
        """All takes so much longer between these hosts, for good: they are in different places."""
        self._far[frozenset((one, other))] = seconds

    def reset_between(self, one: str, other: str) -> None:
        """Somebody on the way cuts all connections between these hosts."""
        for connection in list(self.connections):
            if {end.process.machine.address for end in connection.ends} == {one, other}:
                connection.reset()

    def passes(self, one: str, other: str) -> bool:
        """Whether something sent from one host arrives at the other."""
        if one in self._vanished or other in self._vanished:
            return False
        return self._parted.get(frozenset((one, other)), 0.0) <= self.timeline.now

    def machine_vanished(self, address: str) -> None:
        """A host has no power any longer: nobody hears of the end of its connections."""
        self._vanished.add(address)

    def machine_returned(self, address: str) -> None:
        """It has, again."""
        self._vanished.discard(address)

    def heal(self) -> None:
        """Everything passes again, at its usual speed."""
        self._parted.clear()
        self.slow_until = 0.0

    def process_died(self, process: Process, silently: bool) -> None:
        """The kernel closes what the process had open (or nobody does)."""
        for key in [key for key, port in self._listening.items() if port.process is process]:
            del self._listening[key]
        for connection in list(self.connections):
            for end in connection.ends:
                if end.process is process:
                    end.owner_died(silently)

    def travel_seconds(self, one: str, other: str, chance: Random) -> float:
        """How long something is on its way."""
        if one == other:
            return chance.uniform(0.00002, 0.0004)
        seconds = chance.expovariate(1 / 0.0015) + 0.0002
        if chance.random() < 0.01:
            seconds += chance.uniform(0, 0.25)
        if self.timeline.now < self.slow_until:
            seconds += chance.uniform(0, 1.5)
        if self._far:
            seconds += self._far.get(frozenset((one, other)), 0.0)
        return seconds

    # Connecting.

    def listen(self, process: Process, port: int, factory: Any) -> ListeningPort:
        """A process listens on a port of its machine."""
        listening = ListeningPort(self, process, port, factory)
        listening.startListening()
        return listening

    def connect(self, process: Process, host: str, port: int, factory: Any, timeout: float) -> Connector:
        """A process connects."""
        connector = Connector(self, process, host, port, factory, timeout)
        connector.connect()
        return connector

    def listening_at(self, address: str, port: int) -> ListeningPort | None:
        """What listens there."""
        return self._listening.get((address, port))

    def next_port(self) -> int:
        """A port for the near end of a new connection."""
        self._ports += 1
        return self._ports
