"""Direct connections of UNSes and BOT-Ms."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import NOTICE_SPELLINGS
from lcc.protocols.work import UP
from lcc.protocols.xmlfeed import Start
from lcc.roles.peer import Peer
from lcc.roles.qm.peers.handler import Handler
from lcc.roles.qm.peers.handshake import Handshake
from lcc.transport.stream import XmlStream

UNS_AND_BOTM = frozenset(["uns", "botm"])
BOTM_ONLY = frozenset(["botm"])

_log = Logger()


class DirectConnection(Peer):
    """One of them (a :class:`lcc.roles.qm.peers.handler.Connection`)."""

    def __init__(
        self,
        handshake: Handshake,
        connections: dict[DirectConnection, None],
        clock: IReactorTime,
        hello: Hello,
        expected: frozenset[str],
    ) -> None:
        super().__init__(clock, hello, expected, Vocabulary())
        self.handler: Handler | None = None
        self._handshake = handshake
        self._connections = connections

    def peer_ready(self, hello: Hello) -> None:
        self._connections[self] = None
        self._handshake.hello(self, hello)
        if hello.role == "uns":
            self.feed.spellings = NOTICE_SPELLINGS
        elif hello.machine:
            self.feed.spellings = UP.spellings

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        assert self.handler is not None
        return self.handler.elements_received(elements)

    def stream_failed(self, error: StreamError) -> None:
        if self.handler is not None:
            self.handler.stream_failed(error)
        super().stream_failed(error)

    def peer_lost(self, reason: Failure) -> None:
        self._handler_lost()
        self._connections.pop(self, None)
        if self.peer_hello is not None:
            _log.info("{peer} has disconnected", peer=self.describe())

    def leave(self) -> None:
        """Close the connection once everything is sent; nothing more is heard of the peer."""
        self.stream.finish()

    def drop(self) -> None:
        """Close the connection at once; nothing more is heard of the peer."""
        self._handler_lost()
        self.stream.abort()

    def _handler_lost(self) -> None:
        handler, self.handler = self.handler, None
        if handler is not None:
            handler.lost()


class ConnectionFactory(Factory):
    """Makes a :class:`DirectConnection` for each peer.

    :param connections: those that have said hello, in that order; each enters itself.
    :param expected: the roles that may connect here.
    """

    noisy = False

    def __init__(
        self,
        handshake: Handshake,
        connections: dict[DirectConnection, None],
        clock: IReactorTime,
        hello: Hello,
        expected: frozenset[str],
    ) -> None:
        self._handshake = handshake
        self._connections = connections
        self._clock = clock
        self._hello = hello
        self._expected = expected

    def buildProtocol(self, addr: IAddress | None) -> XmlStream:
        connection = DirectConnection(self._handshake, self._connections, self._clock, self._hello, self._expected)
        return connection.build_stream()
