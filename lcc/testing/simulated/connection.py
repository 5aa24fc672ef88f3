"""Connections of the simulated network: ports, those who connect, and what holds two ends together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import (
    CannotListenError,
    ConnectionRefusedError,
    TimeoutError,
    UserError,
)
from twisted.internet.interfaces import (
    IConnector,
    IListeningPort,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.testing.simulated.end import RETRANSMIT_SECONDS, End

if TYPE_CHECKING:
    from lcc.testing.simulated.network import Network
    from lcc.testing.simulated.process import Process


@implementer(IListeningPort)
class ListeningPort:
    """A port that a process listens on."""

    def __init__(self, network: Network, process: Process, port: int, factory: Any) -> None:
        self.network = network
        self.process = process
        self.port = port or network.next_port()
        self.factory = factory

    def startListening(self) -> None:
        key = (self.process.machine.address, self.port)
        if key in self.network._listening:
            raise CannotListenError(key[0], self.port, OSError(98, "Address already in use"))
        self.factory.doStart()
        self.network._listening[key] = self

    def stopListening(self) -> Deferred[None]:
        key = (self.process.machine.address, self.port)
        if self.network._listening.get(key) is self:
            del self.network._listening[key]
            self.factory.doStop()
        return succeed(None)

    loseConnection = stopListening

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", self.process.machine.address, self.port)


@implementer(IConnector)
class Connector:
    """An attempt to connect, and what came of it."""

    def __init__(
        self, network: Network, process: Process, host: str, port: int, factory: Any, timeout: float
    ) -> None:
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
        near = self.process.machine.address
        delay = network.travel_seconds(near, self.host, network._chance)
        network.timeline.call_later(2 * delay, None, self._asked)

    def _asked(self) -> None:
        if self.state != "connecting" or not self.process.alive:
            return
        network, near = self.network, self.process.machine.address
        if not network.passes(near, self.host):
            network.timeline.call_later(RETRANSMIT_SECONDS, None, self._asked)
            return
        port = network.listening_at(self.host, self.port)
        if port is None:
            network.timeline.call_later(0, self.process, self._failed, ConnectionRefusedError())
            return
        connection = Connection(network, self, port)
        network.connections[connection] = None
        network.timeline.call_later(0, self.process, self._connected, connection)
        network.timeline.call_later(0, port.process, connection.accepted, port)

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


class Connection:
    """Two ends."""

    def __init__(self, network: Network, connector: Connector, port: ListeningPort) -> None:
        self.network = network
        self.timeline = network.timeline
        near_address = connector.process.machine.address
        number = network.next_port()
        chance = self.chance = network.timeline.random(f"connection {number}")
        near = IPv4Address("TCP", near_address, number)
        far = IPv4Address("TCP", connector.host, port.port)
        self.window_bytes = chance.choice((600, 2000, 16_000, 200_000))
        self.tiny = chance.random() < 0.06
        self.near = End(self, connector.process, near, far, connector)
        self.far = End(self, port.process, far, near, None)
        self.near.peer, self.far.peer = self.far, self.near
        self.ends = (self.near, self.far)

    def accepted(self, port: ListeningPort) -> None:
        """The listening process takes it."""
        if self.far.closed:
            return
        protocol = port.factory.buildProtocol(self.far.getPeer())
        if protocol is None:
            self.far.loseConnection()
        else:
            self.far.begin(protocol)

    def reset(self) -> None:
        """Somebody on the way cuts it: what has not been read is lost."""
        for end in self.ends:
            end.hear_reset()

    def over(self) -> None:
        """Forget it once both ends are closed."""
        if self.near.closed and self.far.closed:
            self.network.connections.pop(self, None)
