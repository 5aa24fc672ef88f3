"""Two connections, spliced: what comes on one goes out on the other, in both directions.

*Back-pressure.*  Each end is the producer of the other one's transport: what a peer does not read stops the other
peer, and nothing is kept but what transports hold.

*Ends.*  That a peer has said all is passed on (half-close), behind all that came before.  A connection that breaks
breaks the other one; one that is closed closes the other behind its last words, and a peer that goes on talking is
read for a while, so that it gets to read them.  Over TLS nothing can be half-closed: a client is told goodbye once
the server has said all, as the server itself would; a server is not told that a client has, for then it could not
answer.

*Traps of Twisted.*  A transport with a producer that is paused forgets to close when its buffer has run empty, so the
producer is taken from it first (twisted#6461).  A transport that is not read from hears of no disconnection
(twisted#11168): whoever has the splice calls :meth:`Splice.look` now and then, which cuts it if nothing moves.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol, INegotiated, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.transport.direct import direct_transport, write_at_once

UNREAD_BYTES_MAX = 64 << 20
"""What is read and thrown away of a peer that nobody listens to any more."""


@implementer(IPushProducer, IHalfCloseableProtocol)
class SpliceEnd(Protocol):
    """One of the two connections; what its peer says before the splice begins is kept.

    :ivar gone: the connection is lost.
    """

    def __init__(self) -> None:
        self.gone = False
        self._splice: Splice | None = None
        self._other: SpliceEnd = self
        self._is_client = False
        self._heard_all = False
        """The peer sends nothing more."""
        self._said_all = False
        """Nothing more is written to the peer."""
        self._thrown_away = 0
        self._direct: Any = None
        self._early: list[bytes] = []

    @property
    def is_fresh(self) -> bool:
        """The peer is there, and has said nothing yet."""
        return not (self.gone or self._heard_all or self._early)

    def connectionMade(self) -> None:
        # Not paused until the splice begins: a handshake of TLS could not go on.
        transport: Any = self.transport
        if hasattr(transport, "setTcpNoDelay"):
            try:
                transport.setTcpNoDelay(True)
            except (OSError, AttributeError):
                pass  # a UNIX socket
        self._direct = direct_transport(transport)

    def send(self, data: bytes) -> None:
        """Write to the peer, before the splice begins."""
        write_at_once(self.transport, self._direct, data)

    def join(self, splice: Splice, other: SpliceEnd, is_client: bool) -> None:
        """Be an end of this splice."""
        self._splice, self._other, self._is_client = splice, other, is_client

    def begin(self) -> None:
        """Read from the peer, for the other one."""
        transport: Any = self.transport
        theirs: Any = self._other.transport
        theirs.registerProducer(self, True)
        early, self._early = self._early, []
        for data in early:
            self.dataReceived(data)
        transport.resumeProducing()

    def dataReceived(self, data: bytes) -> None:
        splice, other = self._splice, self._other
        if splice is None:
            self._early.append(data)
            return
        splice.bytes += len(data)
        if not (other._said_all or other.gone):
            write_at_once(other.transport, other._direct, data)
            return
        self._thrown_away += len(data)
        if self._thrown_away > UNREAD_BYTES_MAX:
            self.abort()

    def readConnectionLost(self) -> None:
        """The peer sends nothing more."""
        if self._heard_all:
            return
        self._heard_all = True
        self._other._say_all()
        if self._said_all:
            self._close()

    def writeConnectionLost(self) -> None:
        """Our half is closed; the peer is read on."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        broke = not self._heard_all and not reason.check(ConnectionDone)
        self.gone = self._heard_all = True
        other = self._other
        if self._splice is None:
            return
        if broke:
            other.abort()
        else:
            other._say_all()
            other._read_on()
        if other.gone:
            self._splice.over()

    def abort(self) -> None:
        """Cut the connection."""
        transport: Any = self.transport
        if not self.gone:
            transport.abortConnection()

    def _say_all(self) -> None:
        """Nothing more comes from the other peer: tell this one so, behind all that is written."""
        if self.gone or self._said_all:
            return
        is_tls = INegotiated.providedBy(self.transport)
        if is_tls and not (self._is_client or self._other.gone):
            return
        self._said_all = True
        transport: Any = self.transport
        if is_tls or self._heard_all or not hasattr(transport, "loseWriteConnection"):
            self._close()
        else:
            transport.unregisterProducer()
            transport.loseWriteConnection()

    def _close(self) -> None:
        transport: Any = self.transport
        transport.unregisterProducer()
        transport.loseConnection()

    def _read_on(self) -> None:
        """Nobody is there any more for whom this end could be paused."""
        transport: Any = self.transport
        if not (self.gone or self._heard_all):
            transport.resumeProducing()

    # The producer of the other one's transport.

    def pauseProducing(self) -> None:
        transport: Any = self.transport
        if not self.gone:
            transport.pauseProducing()

    def resumeProducing(self) -> None:
        if self._splice is not None:
            self._splice.alive = True  # the other peer reads
        self._read_on()

    def stopProducing(self) -> None:
        """The other connection is lost, which is heard there."""


class Splice:
    """
    :param client: the end whose peer has connected.
    :ivar bytes: that have come, in both directions.
    :ivar alive: since the last look a peer has read what waited for it.
    :ivar done: fires once both connections are lost.
    """

    __slots__ = ("_quiet_looks", "_seen_bytes", "alive", "bytes", "done", "ends")

    def __init__(self, client: SpliceEnd, server: SpliceEnd) -> None:
        self.ends = client, server
        self.bytes = self._seen_bytes = self._quiet_looks = 0
        self.alive = False
        self.done: Deferred[None] = Deferred()
        client.join(self, server, is_client=True)
        server.join(self, client, is_client=False)

    def begin(self, client_said_all: bool = False) -> None:
        """Let it flow.

        :param client_said_all: the client sends nothing more.
        """
        client, server = self.ends
        client.begin()
        server.begin()
        if client_said_all:
            client.readConnectionLost()

    def look(self, quiet_max: int) -> None:
        """Cut both connections if nothing has moved at so many looks in succession."""
        if self.alive or self.bytes != self._seen_bytes:
            self.alive, self._seen_bytes, self._quiet_looks = False, self.bytes, 0
            return
        self._quiet_looks += 1
        if self._quiet_looks >= quiet_max:
            self.abort()

    def abort(self) -> None:
        """Cut both connections."""
        for end in self.ends:
            end.abort()

    def over(self) -> None:
        """Both connections are lost."""
        if not self.done.called:
            self.done.callback(None)
