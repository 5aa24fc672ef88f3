"""The transport of an end that is under test: the fuzzer is its peer, and its network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IHalfCloseableProtocol, IPushProducer, ITCPTransport
from twisted.python.failure import Failure
from zope.interface import implementer

_TURNS_MAX = 3000
"""How often a peer looks whether it may send on."""


@implementer(ITCPTransport, IPushProducer, IConsumer)
class Line:
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
        self.protocol = protocol
        self.heard = b""
        self.heard_bytes = 0
        self.unread_max = 0
        self.gone = False
        self.paused = False
        self.producer: Any = None
        self.streaming = True
        self._settle = settle
        self._room = room
        self._late = late
        self._host = host
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

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

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

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer, self.streaming = producer, streaming

    def unregisterProducer(self) -> None:
        self.producer = None

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False

    def stopProducing(self) -> None:
        self.loseConnection()

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", self._host, 4711)

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "192.0.2.1", 9000)

    def getTcpNoDelay(self) -> bool:
        return True

    def setTcpNoDelay(self, enabled: bool) -> None:
        pass

    def getTcpKeepAlive(self) -> bool:
        return False

    def setTcpKeepAlive(self, enabled: bool) -> None:
        pass
