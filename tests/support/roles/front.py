"""The front end's proxy in memory under one clock, with providers and UNSes of sub-LCCs that the test plays."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock

from lcc.config import FeUnsConfig
from lcc.errors import StoreUnavailable
from lcc.model.frontend.places import AtHome, Placement, SubLcc
from lcc.roles.fe_uns.engine import FeUns, Unreachable
from lcc.roles.fe_uns.port import ProviderPort
from lcc.transport.splice import SpliceEnd
from tests.support.sublccs import NOW, sublcc
from tests.support.transports import MemoryTransport


class Client:
    """A provider at the proxy, in memory."""

    def __init__(self, protocol: Any, host: str) -> None:
        self.transport = MemoryTransport(host=host)
        self.transport.protocol = protocol
        self.text = ""
        protocol.makeConnection(self.transport)

    def send(self, data: str, piece: int = 1 << 20) -> None:
        raw = data.encode()
        for i in range(0, len(raw), piece):
            self.transport.protocol.dataReceived(raw[i : i + piece])

    def half_close(self) -> None:
        self.transport.protocol.readConnectionLost()

    def lose(self) -> None:
        self.transport.lose(ConnectionLost())

    @property
    def closed(self) -> bool:
        return self.transport.closed or self.transport.write_closed


class Server:
    """A UNS of a sub-LCC: what it hears, in memory."""

    def __init__(self, sub: SubLcc) -> None:
        self.sub = sub
        self.end = SpliceEnd()
        self.transport = MemoryTransport()
        self.transport.protocol = self.end
        self.end.makeConnection(self.transport)  # type: ignore[arg-type]  # as good as one

    @property
    def heard(self) -> bytes:
        return bytes(self.transport.out)

    def say(self, data: bytes) -> None:
        self.end.dataReceived(data)


class Proxy:
    """The proxy, with sub-LCCs a and b, in memory.

    :ivar placed: rows of PMDB.
    :ivar away: the front end's database is.
    :ivar unreachable: names of sub-LCCs.
    """

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.sublccs = [sublcc(1), sublcc(2)]
        self.placed: dict[int, Placement] = {}
        self.away = False
        self.unreachable: set[str] = set()
        self.servers: list[Server] = []
        self.asking: list[Deferred[None]] | None = None
        """Not None: answers of PMDB wait for these."""
        self.connecting: list[Deferred[None]] | None = None
        """Not None: connections to sub-LCCs wait for these."""
        settings = FeUnsConfig(**settings)  # type: ignore[assignment]
        self.uns = FeUns(settings, self._sublccs, self._placement, self._connect, self.clock, lambda: NOW)  # type: ignore[arg-type]
        self.port = ProviderPort(self.uns)
        self.uns.start()

    def _sublccs(self) -> Deferred[list[SubLcc]]:
        return fail(StoreUnavailable("away")) if self.away else succeed(list(self.sublccs))

    def _placement(self, pid: int) -> Deferred[Placement | None]:
        if self.away:
            return fail(StoreUnavailable("away"))
        if self.asking is None:
            return succeed(self.placed.get(pid))
        self.asking.append(Deferred())
        answer: Deferred[Placement | None] = Deferred(lambda _: None)
        self.asking[-1].addCallback(lambda _: answer.callback(self.placed.get(pid)))
        return answer

    async def _connect(self, sub: SubLcc) -> SpliceEnd:
        if self.connecting is not None:
            self.connecting.append(Deferred())
            await self.connecting[-1]
        if sub.name in self.unreachable:
            raise Unreachable(f"sub-LCC {sub.name}: refused")
        self.servers.append(Server(sub))
        return self.servers[-1].end

    def connect(self, host: str = "192.0.2.7") -> Client:
        protocol = self.port.buildProtocol(IPv4Address("TCP", host, 4711))
        assert protocol is not None
        return Client(protocol, host)

    def answer(self, client: Client, seconds: float = 0.0) -> str:
        """What a client has been told by then."""
        self.clock.pump([0.1] * round(10 * seconds) or [0])
        self.clock.advance(0)
        client.text += client.transport.take().decode()
        return client.text

    def place(self, pid: int, subid: int, state: AtHome = AtHome.HERE) -> None:
        self.placed[pid] = Placement(pid, subid, 1, state)
