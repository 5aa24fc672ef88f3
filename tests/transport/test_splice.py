"""Two connections, spliced, on real sockets: bytes, back-pressure, half-closes, ends of every kind."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor as _reactor
from twisted.internet.endpoints import TCP4ClientEndpoint, clientFromString, connectProtocol, serverFromString
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol
from zope.interface import implementer

from lcc.transport.splice import UNREAD_BYTES_MAX, Splice, SpliceEnd
from tests.support.tls import RIGHT, Pki
from tests.support.waiting import until

reactor: Any = _reactor


@implementer(IHalfCloseableProtocol)
class Peer(Protocol):
    """One of the two who talk to each other."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.heard_all = False
        self.lost = False

    def connectionMade(self) -> None:
        _shorten(self.transport)

    def dataReceived(self, data: bytes) -> None:
        self.heard += data

    def readConnectionLost(self) -> None:
        self.heard_all = True

    def writeConnectionLost(self) -> None:
        pass

    def connectionLost(self, reason: Any = None) -> None:
        self.heard_all = self.lost = True


def _shorten(transport: Any) -> None:
    """Let the kernel hold little, so that back-pressure is felt."""
    while not hasattr(transport, "socket"):
        transport = transport.transport
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        transport.socket.setsockopt(socket.SOL_SOCKET, option, 16384)


class Relay:
    """Client, relay and server, each pair on a socket.

    :param kinds: of the ports of relay and server: ``tcp`` or ``tls``.
    """

    def __init__(self, folder: Path, kinds: tuple[str, str] = ("tcp", "tcp")) -> None:
        self.pki = Pki(folder) if "tls" in kinds else None
        self.kinds = kinds
        self.ports: list[Any] = []
        self.client, self.server = Peer(), Peer()
        self.splice: Any = None

    def _listening(self, kind: str) -> str:
        if kind == "tcp" or self.pki is None:
            return "tcp:0:interface=127.0.0.1"
        files = self.pki.files("public", RIGHT)
        return f"lcctls:0:interface=127.0.0.1:certificate={files.certificate}:key={files.key}"

    def _connecting(self, kind: str, port: Any) -> Any:
        number = port.getHost().port
        if kind == "tcp" or self.pki is None:
            return TCP4ClientEndpoint(reactor, "127.0.0.1", number)
        return clientFromString(reactor, f"lcctls:127.0.0.1:{number}:ca={self.pki.files('public', RIGHT).ca}")

    async def begin(self, said_all: bool = False) -> None:
        self.ports.append(await self._listen(self.kinds[1], lambda: self.server))
        arrived: list[SpliceEnd] = []

        def arrive() -> SpliceEnd:
            arrived.append(SpliceEnd())
            return arrived[-1]

        self.ports.append(await self._listen(self.kinds[0], arrive))
        await connectProtocol(self._connecting(self.kinds[0], self.ports[1]), self.client)
        there = await connectProtocol(self._connecting(self.kinds[1], self.ports[0]), SpliceEnd())
        await until(lambda: bool(arrived) and arrived[0].transport is not None and self.server.transport is not None)
        for end in (arrived[0], there):
            _shorten(end.transport)
        self.splice = Splice(arrived[0], there)
        self.splice.begin(said_all)

    async def _listen(self, kind: str, make: Callable[[], Any]) -> Any:
        return await serverFromString(reactor, self._listening(kind)).listen(Factory.forProtocol(make))  # type: ignore[arg-type]

    async def end(self) -> None:
        for peer in (self.client, self.server):
            if peer.transport is not None and not peer.lost:
                peer.transport.abortConnection()  # type: ignore[attr-defined]
        if self.splice is not None:
            self.splice.abort()
            await self.splice.done
        for port in self.ports:
            await port.stopListening()
        await until(lambda: self.client.lost and self.server.lost)


def _bytes(seed: int, count: int = 300_000) -> bytes:
    return bytes((seed + number * number) % 251 for number in range(1000)) * (count // 1000)


@pytest.fixture
def relay(tmp_path: Path) -> Any:
    made = Relay(tmp_path)
    yield made
    pytest_twisted.blockon(_ended(made))


def _ended(relay: Relay) -> Any:
    from twisted.internet.defer import Deferred

    return Deferred.fromCoroutine(relay.end())


@pytest_twisted.ensureDeferred
async def test_both_ways_and_the_ends_of_both(relay: Relay) -> None:
    await relay.begin()
    client, server = relay.client, relay.server
    question, answer = _bytes(1), _bytes(2)
    client.transport.write(question)  # type: ignore[union-attr]
    client.transport.loseWriteConnection()  # type: ignore[union-attr]
    await until(lambda: server.heard_all)
    assert server.heard == question and not server.lost and not client.heard_all
    server.transport.write(answer)  # type: ignore[union-attr]
    server.transport.loseConnection()  # type: ignore[union-attr]
    await until(lambda: client.heard_all)
    assert client.heard == answer
    client.transport.loseConnection()  # type: ignore[union-attr]
    await relay.splice.done
    assert relay.splice.bytes == len(question) + len(answer)


@pytest_twisted.ensureDeferred
async def test_a_client_that_had_said_all_before(relay: Relay) -> None:
    await relay.begin(said_all=True)
    await until(lambda: relay.server.heard_all)
    relay.server.transport.write(b"the answer")  # type: ignore[union-attr]
    await until(lambda: relay.client.heard == b"the answer")


@pytest_twisted.ensureDeferred
async def test_what_a_peer_does_not_read_stops_the_other(relay: Relay) -> None:
    await relay.begin()
    client, server = relay.client, relay.server
    for reader, writer in ((server, client), (client, server)):
        reader.transport.pauseProducing()  # type: ignore[union-attr]
        said = _bytes(3, 3_000_000)
        writer.transport.write(said)  # type: ignore[union-attr]
        before, still = relay.splice.bytes, [0, -1]
        await until(lambda before=before, still=still: _settled(relay.splice.bytes - before, still))
        assert relay.splice.bytes - before < 1_500_000
        reader.transport.resumeProducing()  # type: ignore[union-attr]
        await until(lambda reader=reader, said=said: len(reader.heard) == len(said))
        assert reader.heard == said
        assert relay.splice.alive


def _settled(value: int, seen: list[int]) -> bool:
    """It has not changed for some looks."""
    seen[:] = [value, seen[1] + 1] if value == seen[0] and value else [value, 0]
    return seen[1] > 20


@pytest_twisted.ensureDeferred
async def test_a_peer_that_never_reads_is_found(relay: Relay) -> None:
    """While it is paused nothing else says that anybody is gone: twisted#11168."""
    await relay.begin()
    relay.client.transport.pauseProducing()  # type: ignore[union-attr]
    relay.server.transport.write(_bytes(4, 3_000_000))  # type: ignore[union-attr]
    still = [0, -1]
    await until(lambda: _settled(relay.splice.bytes, still))
    relay.splice.look(2)
    assert not relay.client.lost
    relay.splice.look(2)
    relay.splice.look(2)
    await relay.splice.done
    relay.client.transport.resumeProducing()  # type: ignore[union-attr]
    await until(lambda: relay.client.lost and relay.server.lost)


@pytest_twisted.ensureDeferred
async def test_the_last_answer_reaches_a_client_that_goes_on_sending(relay: Relay) -> None:
    """The server has half-closed while its words still wait to be written: twisted#6461."""
    await relay.begin()
    client, server = relay.client, relay.server
    client.transport.pauseProducing()  # type: ignore[union-attr]
    answer = _bytes(5, 400_000)
    server.transport.write(answer)  # type: ignore[union-attr]
    still = [0, -1]
    await until(lambda: _settled(relay.splice.bytes, still))
    server.transport.loseWriteConnection()  # type: ignore[union-attr]
    client.transport.write(_bytes(6))  # type: ignore[union-attr]
    await until(lambda: len(server.heard) == 300_000)
    client.transport.resumeProducing()  # type: ignore[union-attr]
    await until(lambda: client.heard_all)
    assert client.heard == answer
    server.transport.abortConnection()  # type: ignore[attr-defined, union-attr]
    client.transport.write(_bytes(7))  # type: ignore[union-attr]
    await until(lambda: server.lost)
    assert not client.lost
    client.transport.loseConnection()  # type: ignore[union-attr]
    await relay.splice.done


@pytest_twisted.ensureDeferred
async def test_nobody_listens_for_ever(relay: Relay) -> None:
    await relay.begin()
    relay.server.transport.loseConnection()  # type: ignore[union-attr]
    await until(lambda: relay.client.heard_all)
    piece = bytes(1 << 20)
    relay.splice.ends[0]._thrown_away = UNREAD_BYTES_MAX - 3 * len(piece)
    for _ in range(5):
        relay.client.transport.write(piece)  # type: ignore[union-attr]
    await until(lambda: relay.client.lost)
    await relay.splice.done


@pytest.mark.parametrize("who", ["client", "server"])
@pytest_twisted.ensureDeferred
async def test_what_breaks_breaks_both(relay: Relay, who: str) -> None:
    await relay.begin()
    getattr(relay, who).transport.abortConnection()
    await relay.splice.done
    await until(lambda: relay.client.lost and relay.server.lost)


@pytest.mark.parametrize("kinds", [("tls", "tls"), ("tls", "tcp"), ("tcp", "tls")])
@pytest_twisted.ensureDeferred
async def test_over_tls(tmp_path: Path, kinds: tuple[str, str]) -> None:
    relay = Relay(tmp_path, kinds)
    await relay.begin()
    client, server = relay.client, relay.server
    question, answer = _bytes(8), _bytes(9)
    client.transport.write(question)  # type: ignore[union-attr]
    await until(lambda: len(server.heard) == len(question))
    if kinds[0] == "tcp":
        client.transport.loseWriteConnection()  # type: ignore[union-attr]
    server.transport.write(answer)  # type: ignore[union-attr]
    server.transport.loseConnection()  # type: ignore[union-attr]
    await until(lambda: client.lost or client.heard_all)
    assert server.heard == question and client.heard == answer
    if not client.lost:
        client.transport.loseConnection()  # type: ignore[union-attr]
    await relay.splice.done
    await relay.end()
