"""Transports in memory: the peer is the test, a second protocol, or a fuzzer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IHalfCloseableProtocol, IPushProducer, ITCPTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.transport.stream import XmlStream

_TURNS_MAX = 3000
"""How often a peer looks whether it may send on."""


class MemoryEnd:
    """What all transports in memory have: a producer, reading that can be paused, and addresses.

    :ivar paused: the protocol does not read.
    """

    def __init__(self, host: str = "192.0.2.7") -> None:
        self.host = host
        self.paused = False
        self.producer: Any = None
        self.streaming = True

    def write(self, data: bytes) -> None:
        raise NotImplementedError

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer, self.streaming = producer, streaming

    def unregisterProducer(self) -> None:
        self.producer = None

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", self.host, 4711)

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "192.0.2.1", 9000)


class MemoryTransport(MemoryEnd):
    """One end of a connection: what was written lies in ``out`` until somebody takes it."""

    disconnecting = False

    def __init__(self, capacity: int = 1 << 40, host: str = "192.0.2.7") -> None:
        super().__init__(host)
        self.protocol: Any = None
        self.out = bytearray()
        self.capacity = capacity
        self.write_closed = False
        self.closed = False
        self.blocked = False

    def write(self, data: bytes) -> None:
        if self.closed or self.write_closed:
            return
        self.out += data
        if len(self.out) > self.capacity and not self.blocked and self.producer is not None:
            self.blocked = True
            self.producer.pauseProducing()

    def take(self) -> bytes:
        data = bytes(self.out)
        self.out.clear()
        if self.blocked:
            self.blocked = False
            if self.producer is not None and not self.closed:
                self.producer.resumeProducing()
        return data

    def loseWriteConnection(self) -> None:
        self.write_closed = True
        self.disconnecting = True

    def loseConnection(self) -> None:
        self.write_closed = True
        self.lose(ConnectionDone())

    def abortConnection(self) -> None:
        self.lose(ConnectionLost())

    def lose(self, reason: Exception) -> None:
        if not self.closed:
            self.closed = True
            self.protocol.connectionLost(Failure(reason))


class End(MemoryEnd):
    """One end of a connection: the transport of one stream."""

    def __init__(self, stream: XmlStream) -> None:
        super().__init__()
        self.stream = stream
        self.other: End = None  # type: ignore[assignment]
        self.out = bytearray()
        self.closing: Exception | None = None
        """We close: after everything is written, or at once for an abort."""
        self.sent_end = False
        self.closed = False
        self.dead = False
        self.hung = False
        """The process stands still: it reads, writes and closes nothing."""

    def write(self, data: bytes) -> None:
        if self.closing is None and not (self.hung or self.dead):
            self.out += data

    def loseConnection(self) -> None:
        self.closing = self.closing or ConnectionDone()

    def loseWriteConnection(self) -> None:
        self.sent_end = True

    def abortConnection(self) -> None:
        self.out.clear()
        self.closing = ConnectionAborted()

    def lose(self, reason: Exception) -> None:
        if not self.closed:
            self.closed = True
            if not self.dead:
                self.stream.connectionLost(Failure(reason))


class Wire:
    """A connection between two streams; nothing moves but by :meth:`move` and :meth:`close_ends`."""

    def __init__(self, client: XmlStream, server: XmlStream) -> None:
        self.client, self.server = End(client), End(server)
        self.client.other, self.server.other = self.server, self.client
        self._told = {id(self.client): False, id(self.server): False}
        for end in (self.server, self.client):
            end.stream.makeConnection(end)

    @property
    def ends(self) -> tuple[End, End]:
        return self.client, self.server

    @property
    def closed(self) -> bool:
        return all(end.closed or end.dead for end in self.ends)

    def move(self, sender: End, limit: int | None = None) -> bool:
        """Deliver bytes that an end has written; True: something moved."""
        receiver = sender.other
        if not sender.out or receiver.paused or receiver.hung or receiver.closed or receiver.dead:
            return False
        data = bytes(sender.out[: limit or len(sender.out)])
        del sender.out[: len(data)]
        receiver.stream.dataReceived(data)
        return True

    def close_ends(self) -> bool:
        """Carry out what was closed; True: something happened."""
        happened = False
        for end in self.ends:
            other = end.other
            # What this end does the other one hears at a later call.
            if end.closed and isinstance(end.closing, ConnectionAborted) and not (other.closed or other.hung):
                other.lose(ConnectionLost())
                happened = True
            ended = (end.sent_end or end.closed or end.dead) and not end.out
            if ended and not self._told[id(end)] and not (other.closed or other.dead or other.hung):
                self._told[id(end)] = True
                other.stream.readConnectionLost()
                happened = True
            if end.closing is not None and not (end.closed or end.out or end.hung):
                end.lose(end.closing)
                happened = True
            if end.dead and other.closed:
                end.closed = True
        return happened

    def kill(self, end: End) -> None:
        """The process at this end is gone; what it wrote may still arrive."""
        end.dead = True

    def settle(self) -> bool:
        happened = False
        while self.move(self.client) or self.move(self.server) or self.close_ends():
            happened = True
        return happened


@implementer(ITCPTransport, IPushProducer, IConsumer)
class Line(MemoryEnd):
    """A connection in memory, made as a TCP connection behaves.

    What the end closes it hears of later, never in the call itself; a registered producer holds the closing up.

    :param settle: lets everything happen that is due now.
    :param late: data arrives until the connection is gone, as it does over TLS; else not after it was closed here.
    :param room: bytes that are held for a peer that does not read before the producer is paused; None: the peer reads
        everything at once.
    :ivar heard: what the peer has read, the last of it.
    :ivar unread_max: the most that was ever held for it.
    """

    connected = True

    def __init__(
        self,
        protocol: Any,
        settle: Callable[[], object],
        *,
        room: int | None = None,
        late: bool = False,
        host: str = "192.0.2.66",
    ) -> None:
        super().__init__(host)
        self.protocol = protocol
        self.heard = b""
        self.heard_bytes = 0
        self.unread_max = 0
        self.gone = False
        self._settle = settle
        self._room = room
        self._late = late
        self._out = bytearray()
        self._full = False
        self._closing: Exception | None = None
        self._half_closed = False
        protocol.makeConnection(self)
        self.turn()

    # The peer.

    def say(self, pieces: Iterable[bytes]) -> bool:
        """Send these; False: the end did not take all of them."""
        for piece in pieces:
            turns = 0
            while self.paused and not self.gone:
                self.turn()
                turns += 1
                if turns > _TURNS_MAX:
                    return False
            if self.gone or (self._closing is not None and not self._late):
                return False
            self.protocol.dataReceived(piece)
            self.turn()
        return not self.gone

    def half_close(self) -> None:
        """Nothing more is said."""
        if self.gone or self._closing is not None:
            return
        if IHalfCloseableProtocol.providedBy(self.protocol):
            self.protocol.readConnectionLost()
            self.turn()
        else:
            self.lose(ConnectionDone())

    def lose(self, reason: Exception | None = None) -> None:
        """The connection is lost."""
        if not self.gone:
            self.gone = True
            self.protocol.connectionLost(Failure(reason or ConnectionLost()))
        self._settle()

    def turn(self) -> None:
        """Everything happens that is due, and what was closed is closed."""
        self._settle()
        if self._room is None and self._full:
            self._full = False
            if self.producer is not None and not self.gone:
                self.producer.resumeProducing()
        while self.producer is not None and not self.streaming and not self.gone and self._closing is None:
            before = self.heard_bytes
            self.producer.resumeProducing()
            if self.heard_bytes == before:
                break
        if self._closing is None or self.gone:
            return
        if isinstance(self._closing, ConnectionDone) and (self._out or self.producer is not None):
            return
        self.lose(self._closing)

    def read(self) -> None:
        """From now on the peer reads."""
        self._room = None
        self._hear()
        if self._full:
            self._full = False
            if self.producer is not None and not self.gone:
                self.producer.resumeProducing()
        self.turn()

    # The end's side: ITCPTransport, as far as anybody here asks for it.

    def write(self, data: bytes) -> None:
        if self.gone or self._half_closed or isinstance(self._closing, ConnectionAborted):
            return
        self._out += data
        self.unread_max = max(self.unread_max, len(self._out))
        if self._room is None:
            self._hear()
        elif len(self._out) > self._room and not self._full and self.producer is not None:
            self._full = True
            self.producer.pauseProducing()

    def _hear(self) -> None:
        self.heard_bytes += len(self._out)
        self.heard = (self.heard + bytes(self._out))[-65536:]
        self._out.clear()

    def loseConnection(self) -> None:
        self._closing = self._closing or ConnectionDone()

    def loseWriteConnection(self) -> None:
        self._half_closed = True

    def abortConnection(self) -> None:
        self._out.clear()
        self._closing = ConnectionAborted()

    @property
    def disconnecting(self) -> bool:
        return self._closing is not None

    def stopProducing(self) -> None:
        self.loseConnection()

    def getTcpNoDelay(self) -> bool:
        return True

    def setTcpNoDelay(self, enabled: bool) -> None:
        pass

    def getTcpKeepAlive(self) -> bool:
        return False

    def setTcpKeepAlive(self, enabled: bool) -> None:
        pass
