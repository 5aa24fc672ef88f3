"""The UNS as a service: real sockets, files and SQLite; a queue manager on a UNIX socket that comes and goes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import TCP4ClientEndpoint, UNIXServerEndpoint, connectProtocol
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol
from zope.interface import implementer

from lcc.config import parse_config
from lcc.errors import Busy
from lcc.model import Provider
from lcc.protocols.cp_uns_client import init
from lcc.services import uns
from lcc.services.process.environment import real_environment
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.providers.providers import add_provider
from lcc.transport.links import PortService
from tests.support.roles.uns import HASH, PASSWORD, ROOT, FakeQm, absorbed, codes, partial
from tests.support.waiting import until


class _Cp(Protocol):
    """Collects what comes until the other end closes."""

    def __init__(self) -> None:
        self.text = ""
        self.closed: Deferred[str] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.text += data.decode()
        if "</lococa:set_result>" in self.text and self.transport is not None:
            self.transport.loseConnection()

    def connectionLost(self, reason: Any = None) -> None:
        self.closed.callback(self.text)


class _QmFactory(Factory):
    def __init__(self, answers: Callable[[Any], Any] = absorbed) -> None:
        self.answers = answers
        self.peers: list[FakeQm] = []

    def buildProtocol(self, addr: Any) -> Any:
        self.peers.append(FakeQm(reactor, self.answers))  # type: ignore[arg-type]
        return self.peers[-1].build_stream()


async def _publish(port: int, data: str) -> str:
    protocol = _Cp()
    await connectProtocol(TCP4ClientEndpoint(reactor, "127.0.0.1", port), protocol)
    for i in range(0, len(data), 10_000):
        protocol.transport.write(data[i : i + 10_000].encode())  # type: ignore[union-attr]
    return await protocol.closed


SETTINGS = 'home = "h"\n[uns]\nlisten = "tcp:0:interface=127.0.0.1"\nlisten_notifiers = ""\nlisten_gateway = ""\n'


@pytest_twisted.ensureDeferred
async def test_over_real_sockets_and_files(tmp_path: Path) -> None:
    config = parse_config(SETTINGS, tmp_path)
    config.home.mkdir()
    database = BlockingDatabase(config.database.url, config.home, config.database, random=random.Random(1))
    pid = database.write(add_provider, Provider(0, (ROOT,), HASH))
    database.close()
    hello, spool = init(pid, PASSWORD), config.home / "spool"

    manager, before = _QmFactory(), _sockets()
    service = uns.build(config, real_environment(reactor))
    service.startService()
    try:
        (listening,) = [child for child in service if isinstance(child, PortService)]
        port = listening.bound_port.getHost().port

        assert codes(await _publish(port, init(pid, "wrong"))) == [1010]
        # No queue manager yet: answered from the spool.
        answer = await _publish(port, hello + partial("first", "http://elsewhere.example/"))
        assert codes(answer) == [1204] and '<set_accepted received="1"/>' in answer
        assert len(list(spool.glob("*.set"))) == 1

        path = config.home / "qm.sock"
        listener = await UNIXServerEndpoint(reactor, str(path)).listen(manager)
        await until(lambda: not list(spool.glob("*.set")))
        assert manager.peers[-1].sets[0].begin.answered

        pages = [f"page{i}" for i in range(20_000)]
        answer = await _publish(port, hello + partial(*pages, kind="full"))
        assert '<set_accepted received="20000"/>' in answer and '<connect_info seq="2"' in answer
        taken = manager.peers[-1].sets[-1]
        assert taken.begin.full and not taken.begin.answered and taken.begin.connseq == 2
        assert [notice.curl for notice in taken.notices] == [ROOT + page for page in pages]

        # It goes away and comes back.
        await listener.stopListening()
        manager.peers[-1].stream.abort()
        await until(lambda: not _engine(service).forwarder.connected)
        assert "<set_accepted" in await _publish(port, hello + partial("last"))
        listener = await UNIXServerEndpoint(reactor, str(path)).listen(manager)
        await until(lambda: not list(spool.glob("*.set")))
        assert [notice.curl for notice in manager.peers[-1].sets[-1].notices] == [ROOT + "last"]

        again = uns.build(attrs.evolve(config), real_environment(reactor))
        with pytest.raises(Busy):
            again.startService()
        await listener.stopListening()
    finally:
        await (service.stopService() or succeed(None))
        for peer in manager.peers:
            peer.stream.abort()
        await until(lambda: _sockets() <= before)


class _Reader(Protocol):
    """Reads to the end, and closes only then."""

    def __init__(self) -> None:
        self.text = ""
        self.ended: Deferred[str] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.text += data.decode()

    def connectionLost(self, reason: Any = None) -> None:
        self.ended.callback("" if reason.check(ConnectionDone) is None else self.text)


@implementer(IHalfCloseableProtocol)
class _HalfClosing(_Reader):
    """Closes its sending half, and reads on."""

    def readConnectionLost(self) -> None:
        self.transport.loseConnection()  # type: ignore[union-attr]

    def writeConnectionLost(self) -> None:
        pass


async def _opened(port: int, data: str, make: type[_Reader] = _Reader) -> _Reader:
    protocol = make()
    await connectProtocol(TCP4ClientEndpoint(reactor, "127.0.0.1", port), protocol)
    protocol.transport.write(data.encode())  # type: ignore[union-attr]
    return protocol


@pytest_twisted.ensureDeferred
async def test_every_connection_hears_the_end_over_real_sockets(tmp_path: Path) -> None:
    """Half-closed, in the middle or at the end; and when the UNS is stopped."""
    config = parse_config(SETTINGS, tmp_path)
    config.home.mkdir()
    database = BlockingDatabase(config.database.url, config.home, config.database, random=random.Random(1))
    pid = database.write(add_provider, Provider(0, (ROOT,), HASH))
    database.close()
    hello, begun = init(pid, PASSWORD), f'<lococa:set urlprefix="{ROOT}"><url c="a" m="text/html"/>'
    manager, before = _QmFactory(lambda begin: None), _sockets()
    service = uns.build(config, real_environment(reactor))
    service.startService()
    listener = await UNIXServerEndpoint(reactor, str(config.home / "qm.sock")).listen(manager)
    try:
        (listening,) = [child for child in service if isinstance(child, PortService)]
        port = listening.bound_port.getHost().port
        cut = await _opened(port, hello + begun, _HalfClosing)
        whole = await _opened(port, hello + begun + "</lococa:set>", _HalfClosing)
        for protocol in (cut, whole):
            protocol.transport.loseWriteConnection()  # type: ignore[union-attr]
        assert codes(await cut.ended) == [1015]
        await until(lambda: len(manager.peers) == 1 and manager.peers[0].numbers == [1])

        new, arriving, complete = [
            await _opened(port, text) for text in ("", hello + begun, hello + begun + "</lococa:set>")
        ]
        await until(lambda: "<lococa:set_result>" in arriving.text and manager.peers[0].numbers == [1, 2])
        stopped = service.stopService()
        assert codes(await new.ended) == [1012] and "init_rejected>" in new.text
        assert codes(await arriving.ended) == [1012] and "<set_rejected" in arriving.text
        for protocol in (whole, complete):
            assert '<set_accepted received="1"/>' in await protocol.ended
        await stopped
        assert len(list((config.home / "spool").glob("*.set"))) == 2
    finally:
        await listener.stopListening()
        await (service.stopService() or succeed(None))
        for peer in manager.peers:
            peer.stream.abort()
        await until(lambda: _sockets() <= before)


def _engine(service: Any) -> Any:
    return next(child.uns for child in service if hasattr(child, "uns"))


def _sockets() -> set[Any]:
    """The connections of this process."""
    from twisted.internet.tcp import Client, Server
    from twisted.internet.unix import Server as UnixServer

    selectables = [*reactor.getReaders(), *reactor.getWriters()]  # type: ignore[attr-defined]
    return {item for item in selectables if isinstance(item, (Client, Server, UnixServer))}
