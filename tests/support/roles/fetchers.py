"""Servers that do as they are told, in memory and on loopback, and what collects the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from twisted.internet import reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.http import HttpFetcher
from lcc.interfaces import IContentSink
from lcc.model import Fetched, FetchOrder
from tests.hostile.answers import CLOSE, CUT, RESET

SMALL = BotConfig(
    connect_timeout=2.0,
    idle_timeout=0.3,
    deadline=2.0,
    header_bytes_max=2048,
    body_bytes_max=10_000,
    headers_kept_bytes=512,
    keepalive=5.0,
)
"""Settings under which every hostile server is soon found out."""


@implementer(IContentSink)
class Sink:
    """Keeps the content; can run out of space."""

    def __init__(self, room: int | None = None) -> None:
        self.content = b""
        self.room = room

    def write(self, data: bytes) -> None:
        if self.room is not None and len(self.content) + len(data) > self.room:
            raise OSError(28, "No space left on device")
        self.content += data


@attrs.frozen
class Outcome:
    """How a fetch ended: content, or the name of the error."""

    content: bytes
    error: str
    fetched: Fetched | None = None
    failure: FetchError | None = None


def collect(result: Deferred[Fetched], sink: Sink) -> Deferred[Outcome]:
    """The outcome of a fetch; what is neither a FetchError nor cancelled stays a failure."""

    def failed(reason: Failure) -> Outcome:
        if reason.check(CancelledError):
            return Outcome(sink.content, "cancelled")
        reason.trap(FetchError)
        error: Any = reason.value
        return Outcome(sink.content, error.entry.name, None, error)

    outcome: Deferred[Outcome] = result.addCallbacks(lambda fetched: Outcome(sink.content, "", fetched), failed)
    return outcome


def stay(url: str, location: str) -> str:
    """A ``follow`` that takes every location for a path on the same site, or an absolute URL."""
    return location if "://" in location else "/".join(url.split("/")[:3]) + location


async def close_clean(fetcher: Any) -> None:
    """Close a fetcher of the real reactor; no timer of ours may be left there."""
    await fetcher.close()
    clock: Any = reactor
    assert not [call for call in clock.getDelayedCalls() if "lcc" in str(call)]


class MemoryWeb:
    """A fetcher over a reactor in memory; the test plays the network."""

    def __init__(self, settings: BotConfig = SMALL, resolver: Any = None) -> None:
        self.reactor: Any = MemoryReactorClock()
        self.fetcher = HttpFetcher(self.reactor, settings, resolver)
        self.peers: list[Peer] = []

    def fetch(
        self,
        url: str = "http://127.0.0.1/page",
        sink: Sink | None = None,
        follow: Callable[[str, str], str] = stay,
        pid: int = 1,
        private: bool = True,
    ) -> list[Outcome]:
        """Start a fetch; the list gets its outcome."""
        sink = sink or Sink()
        outcomes: list[Outcome] = []
        order = FetchOrder(pid, url, private=private)
        collect(self.fetcher.fetch(order, sink, follow), sink).addCallback(outcomes.append)
        return outcomes

    def accept(self, address: str | None = None) -> Peer:
        """Let the newest attempt to connect succeed."""
        host, port, factory, _, _ = self.reactor.tcpClients[-1]
        peer = Peer(factory.buildProtocol(None), IPv4Address("TCP", address or host, port))
        self.peers.append(peer)
        return peer

    def finish(self) -> None:
        """Close the fetcher; nothing must be left."""
        closed: list[None] = []
        self.fetcher.close().addCallback(closed.append)
        for peer in self.peers:
            peer.settle()
        assert closed == [None]
        assert self.reactor.getDelayedCalls() == []


class Peer:
    """The server's end of a connection in memory."""

    def __init__(self, protocol: Any, address: Any) -> None:
        self.protocol = protocol
        self.transport = StringTransport(peerAddress=address)
        self.lost = False
        protocol.makeConnection(self.transport)

    def request(self) -> bytes:
        """What the robot has sent since last asked."""
        data: bytes = self.transport.value()
        self.transport.clear()
        return data

    def send(self, *pieces: bytes) -> None:
        """Send these pieces, until the robot hangs up."""
        for piece in pieces:
            self.settle()
            if not self.lost:
                self.protocol.dataReceived(piece)
        self.settle()

    def end(self, clean: bool = True) -> None:
        """Close, or reset."""
        if not self.lost:
            self.lost = True
            self.protocol.connectionLost(Failure(ConnectionDone() if clean else ConnectionLost()))

    def settle(self) -> None:
        """If the robot closed the connection, it hears so."""
        if self.transport.disconnecting or self.transport.disconnected:
            self.end()


class ScriptedServer(Factory):
    """Answers each request with the next script.

    :param scripts: each a sequence of pieces to send and, last, what to do then.  The last script is used again.
    :ivar connections: how many were accepted.
    :ivar requests: all that was received.
    """

    noisy = False

    def __init__(self, *scripts: Sequence[bytes | str]) -> None:
        self.scripts = list(scripts)
        self.connections = 0
        self.requests: list[bytes] = []
        self.open: set[_Scripted] = set()

    def buildProtocol(self, addr: Any) -> Protocol:
        self.connections += 1
        return _Scripted(self)

    def next_script(self) -> Sequence[bytes | str]:
        return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]


class _Scripted(Protocol):
    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._received = b""

    def connectionMade(self) -> None:
        self._server.open.add(self)

    def connectionLost(self, reason: Any = None) -> None:
        self._server.open.discard(self)

    def dataReceived(self, data: bytes) -> None:
        transport: Any = self.transport
        self._received += data
        while b"\r\n\r\n" in self._received:
            request, _, self._received = self._received.partition(b"\r\n\r\n")
            self._server.requests.append(request)
            for step in self._server.next_script():
                if isinstance(step, bytes):
                    transport.write(step)
                elif step == CLOSE:
                    transport.loseConnection()
                elif step == CUT:
                    transport.reactor.callLater(0.05, transport.transport.loseConnection)
                elif step == RESET:
                    # Let what was written go out first: an abort would drop it.
                    transport.reactor.callLater(0.05, transport.abortConnection)
