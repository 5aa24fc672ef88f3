"""A connection of the simulated network: what protocols have for transports, and what travels between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import (
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
)
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IPushProducer,
    ITCPTransport,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.testing.simulated.paths import Paths
from lcc.testing.simulated.timeline import Owner

_log = Logger()

BUFFER_BYTES = 65536
"""A producer is paused when more than this waits to be sent, as Twisted does it."""
RETRANSMIT_SECONDS = 0.4
_SEGMENT_BYTES = (100, 1460, 8000, 65536)
_TINY_BYTES = (1, 1, 2, 3, 7, 20)
_TINY_BYTES_MAX = 1500
"""A connection that is cut into tiny segments is cut so only this far, or nothing else would be done."""


@implementer(ITCPTransport, IPushProducer)
class End:
    """One end: the transport of a protocol."""

    peer: End
    disconnecting = False

    def __init__(
        self, connection: Connection, process: Owner, host: IPv4Address, far: IPv4Address, connector: Any
    ) -> None:
        self.connection = connection
        self.process = process
        self.timeline = connection.timeline
        self.protocol: Any = None
        self.connected = True
        self.closed = False
        """The socket is closed."""
        self._host, self._far = host, far
        self._connector = connector
        # Sending.
        self._out = bytearray()
        self._under_way_bytes = 0
        self._wire: deque[tuple[float, Any, tuple[Any, ...]]] = deque()
        self._pump_planned = False
        self._fin_sent = False
        self._write_ends = False
        self._write_ended = False
        self._sent_bytes = 0
        self.producer: Any = None
        self._streaming = False
        self._producer_paused = False
        # Receiving.
        self._received: deque[bytes] = deque()
        self.received_bytes = 0
        """What its protocol was given."""
        self.received_time = 0.0
        """When it was given the last of it."""
        self._fin_received = False
        self._read_ended = False
        self._lost: Exception | None = None
        self._paused = False
        self._delivery_planned = False

    def begin(self, protocol: Any) -> None:
        """The process has a protocol for it."""
        if self.closed and self._lost is None:
            return
        self.protocol = protocol
        protocol.makeConnection(self)
        self._plan_delivery()

    # ITCPTransport.

    def write(self, data: bytes) -> None:
        if not self.connected or self.closed or self._write_ended or not data:
            return
        self._out += data
        if self.producer is None or not self._streaming or self._producer_paused:
            pass
        elif len(self._out) > BUFFER_BYTES:
            self._producer_paused = True
            self.producer.pauseProducing()
        self._plan_pump()

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        self.write(b"".join(iovec))

    def loseConnection(self, _reason: Any = None) -> None:
        if self.closed or self.disconnecting:
            return
        self.disconnecting = True
        if self._write_ended:
            self._close(ConnectionDone())
        else:
            self._plan_pump()

    def abortConnection(self) -> None:
        self._received.clear()  # nothing is heard of it any longer, even if it is lost already
        if self.closed:
            return
        self.disconnecting = True
        self._out.clear()
        self.peer_hears_reset()
        self._close(ConnectionAborted(), tell_peer=False)

    def loseWriteConnection(self) -> None:
        self._write_ends = True
        self._plan_pump()

    def getPeer(self) -> IPv4Address:
        return self._far

    def getHost(self) -> IPv4Address:
        return self._host

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is nothing to set."""

    def getTcpNoDelay(self) -> bool:
        return True

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """There is nothing to set."""

    def getTcpKeepAlive(self) -> bool:
        return False

    # IConsumer.

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        if self.producer is not None:
            raise RuntimeError("a producer is registered already")
        if self.closed:
            producer.stopProducing()
            return
        self.producer, self._streaming = producer, streaming
        self._producer_paused = False
        if not streaming:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:
        self.producer = None
        if self.disconnecting or self._write_ends:
            self._plan_pump()

    # IPushProducer.

    def pauseProducing(self) -> None:
        if self._lost is None:
            self._paused = True

    def resumeProducing(self) -> None:
        if self.connected and not self.disconnecting:
            self._paused = False
            self._plan_delivery()

    def stopProducing(self) -> None:
        self.loseConnection()

    # Sending.

    @property
    def waiting_bytes(self) -> int:
        """What the process still holds, because the other end does not take it."""
        return len(self._out)

    def _plan_pump(self) -> None:
        if not self._pump_planned and not self.closed:
            self._pump_planned = True
            self.timeline.call_later(0, self.process, self._pump)

    def _pump(self) -> None:
        self._pump_planned = False
        if self.closed:
            return
        chance, window = self.connection.chance, self.connection.window_bytes
        out = self._out
        while out and self._under_way_bytes < window:
            size = min(len(out), window - self._under_way_bytes, self._segment_bytes(chance))
            data = bytes(out[:size])
            del out[:size]
            self._under_way_bytes += size
            self._sent_bytes += size
            self._send(self.peer._arrived, data)
        if out:
            return
        if self.producer is not None and (not self._streaming or self._producer_paused):
            self._producer_paused = False
            self.producer.resumeProducing()
        elif self.disconnecting:
            self._close(ConnectionDone())
        elif self._write_ends and not self._write_ended:
            self._write_ended = True
            self._send_fin()
            if IHalfCloseableProtocol.providedBy(self.protocol):
                self.protocol.writeConnectionLost()

    def _segment_bytes(self, chance: Random) -> int:
        if self.connection.tiny and self._sent_bytes < _TINY_BYTES_MAX:
            return _TINY_BYTES[int(chance.random() * 6)]
        return _SEGMENT_BYTES[int(chance.random() * 4)]

    def _send(self, arrive: Any, *args: Any) -> None:
        connection = self.connection
        seconds = connection.paths.travel_seconds(self._host.host, self._far.host, connection.chance)
        self._wire.append((self.timeline.now + seconds, arrive, args))
        if len(self._wire) == 1:
            self.timeline.call_later(seconds, None, self._travels)

    def _travels(self) -> None:
        """What was sent first arrives; whatever is lost is sent again, and what was sent later waits behind it."""
        wire = self._wire
        if self.connection.is_over:
            wire.clear()
            return
        if not self.connection.paths.passes(self._host.host, self._far.host):
            self.timeline.call_later(RETRANSMIT_SECONDS, None, self._travels)
            return
        _, arrive, args = wire.popleft()
        arrive(*args)
        if wire:
            self.timeline.call_later(wire[0][0] - self.timeline.now, None, self._travels)

    def _send_fin(self) -> None:
        if not self._fin_sent:
            self._fin_sent = True
            self._send(self.peer._fin_arrived)

    def peer_hears_reset(self) -> None:
        """Send a reset."""
        self._send(self.peer.hear_reset)

    # Receiving.

    def _arrived(self, data: bytes) -> None:
        if self.closed:
            # Nobody is there any more to read it.
            self.peer_hears_reset()
            return
        self._received.append(data)
        if self._is_listening and self.process.alive and not self.process.frozen:
            self._deliver()  # at once: it would be the next event in any case
        else:
            self._plan_delivery()

    def _fin_arrived(self) -> None:
        if not self.closed:
            self._fin_received = True
            self._plan_delivery()

    def hear_reset(self) -> None:
        """A reset has come."""
        if self.closed:
            return
        if self._paused or self.connection.chance.random() < 0.7:
            self._received.clear()
        self._lost = ConnectionLost()
        self.closed = True
        self._out.clear()
        self.connection.over()
        self._paused = False
        self._plan_delivery()

    @property
    def _is_listening(self) -> bool:
        """Whoever plans a delivery now is the first one, and it can be done."""
        return not (self._delivery_planned or self._paused or self.protocol is None or not self.connected)

    def _plan_delivery(self) -> None:
        if not self._is_listening:
            return
        if self._received or self._lost is not None or (self._fin_received and not self._read_ended):
            self._delivery_planned = True
            self.timeline.call_later(0, self.process, self._deliver)

    def _deliver(self) -> None:
        self._delivery_planned = False
        if self._paused or not self.connected:
            return
        if self._received:
            data = self._received.popleft()
            while self._received and len(data) < BUFFER_BYTES and self.connection.chance.random() < 0.5:
                data += self._received.popleft()
            self.peer._under_way_bytes -= len(data)
            if self.peer._out:
                self.peer._plan_pump()
            self.received_bytes += len(data)
            self.received_time = self.timeline.now
            self.timeline.note(f"{self._host.port} {len(data)} {data[:16]!r}")
            try:
                self.protocol.dataReceived(data)
            except Exception:
                _log.failure("A protocol failed in dataReceived")
                self.abortConnection()
        elif self._lost is not None:
            self._connection_lost(self._lost)
        elif self._fin_received and not self._read_ended:
            self._read_ended = True
            if IHalfCloseableProtocol.providedBy(self.protocol):
                self.protocol.readConnectionLost()
            else:
                self._close(ConnectionDone())
        self._plan_delivery()

    # Ending.

    def _close(self, reason: Exception, tell_peer: bool = True) -> None:
        if self.closed:
            return
        self.closed = True
        if tell_peer:
            if self._received:
                self.peer_hears_reset()
            else:
                self._send_fin()
        self._received.clear()
        self._lost = reason
        self._paused = False
        if self.protocol is not None:
            self._plan_delivery()
        self.connection.over()

    def _connection_lost(self, reason: Exception) -> None:
        self.connected = False
        failure = Failure(reason)
        producer, self.producer = self.producer, None
        if producer is not None:
            producer.stopProducing()
        protocol, self.protocol = self.protocol, None
        protocol.connectionLost(failure)
        if self._connector is not None:
            self._connector.connectionLost(failure)

    def reset_here(self) -> None:
        """The process does not want it any longer and has no protocol for it."""
        self.peer_hears_reset()
        self.closed = True
        self.connection.over()

    def owner_died(self, silently: bool) -> None:
        """The process is gone; what it had handed to the kernel is still delivered."""
        if self.closed:
            return
        self._out.clear()
        self.closed = True
        self.connected = False
        if not silently:
            if self._received:
                self.peer_hears_reset()
            else:
                self._send_fin()
        self._received.clear()
        self.connection.over()


class Connection:
    """Two ends.

    :param here, there: the addresses of who connects, and of what it connects to.
    :param forget: called once both ends are closed.
    """

    def __init__(
        self,
        paths: Paths,
        near: Owner,
        here: IPv4Address,
        far: Owner,
        there: IPv4Address,
        connector: Any,
        forget: Callable[[Connection], None],
    ) -> None:
        self.paths = paths
        self.timeline = paths.timeline
        self.is_over = False
        self._forget = forget
        chance = self.chance = self.timeline.random(f"connection {here.port}")
        self.window_bytes = chance.choice((600, 2000, 16_000, 200_000))
        self.tiny = chance.random() < 0.06
        self.near = End(self, near, here, there, connector)
        self.far = End(self, far, there, here, None)
        self.near.peer, self.far.peer = self.far, self.near
        self.ends = (self.near, self.far)

    def accepted(self, factory: Any) -> None:
        """The listening process takes it."""
        if self.far.closed:
            return
        protocol = factory.buildProtocol(self.far.getPeer())
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
            self.is_over = True
            self._forget(self)
