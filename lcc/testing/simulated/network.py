"""A network of hosts with stream connections (TCP as processes see it).

What a connection does to those who speak over it is decided by the seed: how the bytes are cut into segments, how
long they travel, how much of them fits on the way.  On purpose it can be cut (a reset, which drops what was under
way), held up, or parted (nothing passes between two hosts for a while).

Closing is as the kernel does it: who closes with something unread, or is sent something afterwards, answers with a
reset, and a reset throws away what the other end has not read.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError, ConnectionRefusedError, TimeoutError, UserError
from twisted.internet.interfaces import IConnector, IListeningPort
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.testing.simulated.connection import RETRANSMIT_SECONDS, Connection, End
from lcc.testing.simulated.paths import Paths
from lcc.testing.simulated.timeline import Owner, Timeline


class Network(Paths):
    """Hosts, their names, what listens, what is connected.

    :ivar names: host name -> its addresses; None: nobody ever answers the question.
    :ivar connections: those that are open, in the order in which they were made.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self.names: dict[str, tuple[str, ...] | None] = {}
        self.connections: dict[Connection, None] = {}
        self._chance = timeline.random("network")
        self._listening: dict[tuple[str, int], ListeningPort] = {}
        self._ports = 40000

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

    def reset_between(self, one: str, other: str) -> None:
        """Somebody on the way cuts all connections between these hosts."""
        for connection in list(self.connections):
            if {end.process.address for end in connection.ends} == {one, other}:
                connection.reset()

    def process_died(self, process: Owner, silently: bool) -> None:
        """The kernel closes what the process had open (or nobody does)."""
        for key in [key for key, port in self._listening.items() if port.process is process]:
            del self._listening[key]
        for connection in list(self.connections):
            for end in connection.ends:
                if end.process is process:
                    end.owner_died(silently)

    # Connecting.

    def listen(self, process: Owner, port: int, factory: Any) -> ListeningPort:
        """A process listens on a port of its machine."""
        listening = ListeningPort(self, process, port, factory)
        listening.startListening()
        return listening

    def connect(self, process: Owner, host: str, port: int, factory: Any, timeout: float) -> Connector:
        """A process connects."""
        connector = Connector(self, process, host, port, factory, timeout)
        connector.connect()
        return connector

    def listening_at(self, address: str, port: int) -> ListeningPort | None:
        """What listens there."""
        return self._listening.get((address, port))

    def _forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)

    def next_port(self) -> int:
        """A port for the near end of a new connection."""
        self._ports += 1
        return self._ports


@implementer(IListeningPort)
class ListeningPort:
    """A port that a process listens on."""

    def __init__(self, network: Network, process: Owner, port: int, factory: Any) -> None:
        self.network = network
        self.process = process
        self.port = port or network.next_port()
        self.factory = factory

    def startListening(self) -> None:
        key = (self.process.address, self.port)
        if key in self.network._listening:
            raise CannotListenError(key[0], self.port, OSError(98, "Address already in use"))
        self.factory.doStart()
        self.network._listening[key] = self

    def stopListening(self) -> Deferred[None]:
        key = (self.process.address, self.port)
        if self.network._listening.get(key) is self:
            del self.network._listening[key]
            self.factory.doStop()
        return succeed(None)

    loseConnection = stopListening

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", self.process.address, self.port)


@implementer(IConnector)
class Connector:
    """An attempt to connect, and what came of it."""

    def __init__(self, network: Network, process: Owner, host: str, port: int, factory: Any, timeout: float) -> None:
        self.network = network
        self.process = process
        self.host = host
        self.port = port
        self.factory = factory
        self._timeout = timeout
        self._end: End | None = None
        self.state = "disconnected"
        self._timer: Any = None

    def connect(self) -> None:
        self.state = "connecting"
        self.factory.doStart()
        self.factory.startedConnecting(self)
        timeline = self.network.timeline
        if self.state == "connecting":
            self._timer = timeline.call_later(self._timeout or 60.0, self.process, self._failed, TimeoutError())
            self._ask()

    def _ask(self) -> None:
        network = self.network
        near = self.process.address
        delay = network.travel_seconds(near, self.host, network._chance)
        network.timeline.call_later(2 * delay, None, self._asked)

    def _asked(self) -> None:
        if self.state != "connecting" or not self.process.alive:
            return
        network, near = self.network, self.process.address
        if not network.passes(near, self.host):
            network.timeline.call_later(RETRANSMIT_SECONDS, None, self._asked)
            return
        port = network.listening_at(self.host, self.port)
        if port is None:
            network.timeline.call_later(0, self.process, self._failed, ConnectionRefusedError())
            return
        number = network.next_port()
        here, there = IPv4Address("TCP", near, number), IPv4Address("TCP", self.host, port.port)
        connection = Connection(network, self.process, here, port.process, there, self, network._forget)
        network.connections[connection] = None
        network.timeline.call_later(0, self.process, self._connected, connection)
        network.timeline.call_later(0, port.process, connection.accepted, port.factory)

    def _connected(self, connection: Connection) -> None:
        if self.state != "connecting":
            connection.near.reset_here()
            return
        self._stop_timer()
        self.state = "connected"
        self._end = connection.near
        protocol = self.factory.buildProtocol(connection.near.getPeer())
        if protocol is None:
            connection.near.loseConnection()
        else:
            connection.near.begin(protocol)

    def _failed(self, reason: Exception) -> None:
        if self.state != "connecting":
            return
        self._stop_timer()
        self.state = "disconnected"
        self.factory.clientConnectionFailed(self, Failure(reason))
        self.factory.doStop()

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def connectionLost(self, reason: Failure) -> None:
        """The connection has ended."""
        self.state = "disconnected"
        self.factory.clientConnectionLost(self, reason)
        self.factory.doStop()

    def stopConnecting(self) -> None:
        self._failed(UserError())

    def disconnect(self) -> None:
        if self.state == "connecting":
            self.stopConnecting()
        elif self._end is not None:
            self._end.loseConnection()

    def getDestination(self) -> IPv4Address:
        return IPv4Address("TCP", self.host, self.port)
