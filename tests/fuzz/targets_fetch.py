"""What web and FTP servers answer the robot."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from lcc.config import BotConfig
from lcc.fetchers.ftp import FtpFetcher
from lcc.fetchers.http import HttpFetcher
from lcc.model import FetchOrder
from tests.fuzz.target import Target, check
from tests.fuzz.targets_users import HTTP_TOKENS
from tests.hostile.answers import BAD, GOOD
from tests.support.roles.fetchers import Outcome, Sink, collect, stay
from tests.support.transports import Line

SETTINGS = BotConfig(
    connect_timeout=2.0,
    idle_timeout=3.0,
    deadline=20.0,
    header_bytes_max=16_384,
    body_bytes_max=50_000,
    headers_kept_bytes=512,
    keepalive=5.0,
    concurrency=4,
)


class _Fetching(Target):
    """A fetcher over a network in memory."""

    kind: type[HttpFetcher] | type[FtpFetcher]
    url: str
    share = 8

    def __init__(self, home: Path) -> None:
        self.reactor: Any = MemoryReactorClock()
        self.clock = self.reactor
        self.fetcher = self.kind(self.reactor, SETTINGS)
        self._pid = 1

    @classmethod
    def seeds(cls) -> list[bytes]:
        raise NotImplementedError

    def fetch(self) -> list[Outcome]:
        """Begin a fetch for a provider that there was none for."""
        self._pid += 1
        sink = Sink(SETTINGS.body_bytes_max + 1)
        outcomes: list[Outcome] = []
        order = FetchOrder(self._pid, self.url, private=True)
        collect(self.fetcher.fetch(order, sink, stay), sink).addBoth(outcomes.append)
        return outcomes

    def accept(self, room: int | None = None, late: bool = False) -> Line:
        """The server takes the newest connection."""
        host, _port, factory, _timeout, _bind = self.reactor.tcpClients.pop()
        return Line(factory.buildProtocol(IPv4Address("TCP", host, 80)), self.settle, room=room, late=late, host=host)

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        self.outcomes = self.fetch()
        return self.accept(room, late)

    def play(self, random: Random, pieces: Any) -> Line | None:
        line = super().play(random, pieces)
        # A redirect leads to another connection, which nobody answers.
        for _ in range(4):
            if self.outcomes:
                break
            self.clock.advance(SETTINGS.deadline / 3)
        (outcome,) = self.outcomes
        if isinstance(outcome, Failure):
            outcome.raiseException()
        if self.reactor.tcpClients:
            self.clock.advance(SETTINGS.connect_timeout)
        self.reactor.tcpClients.clear()
        return line

    def close(self) -> None:
        closed: list[Any] = []
        self.fetcher.close().addCallback(closed.append)
        self.settle()
        check(closed == [None], "the fetcher does not close")


class WebServers(_Fetching):
    """What web servers answer."""

    name = "http: at the robot"
    kind = HttpFetcher
    url = "http://127.0.0.1/page"
    tokens = HTTP_TOKENS

    @classmethod
    def seeds(cls) -> list[bytes]:
        return [case.sent for case in (*GOOD, *BAD) if case.sent and len(case.sent) < 5000]

    def honest(self) -> None:
        line = self.connect()
        line.say([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"])
        check([each.content for each in self.outcomes] == [b"hello"], f"it got {self.outcomes}")
        line.lose()


_FTP_TOKENS = (
    b"",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"\xff\xf4\xff\xfd",
    b"220 ",
    b"220-",
    b"150 x\r\n",
    b"226 done\r\n",
    b"421 bye\r\n",
    b"425 no\r\n",
    b"530 no\r\n",
    b"550 none\r\n",
    b"999 x\r\n",
    b"229 (|||40000|)\r\n",
    b"229 (|||25|)\r\n",
    b"229 (|||99999999999999999999|)\r\n",
    b"227 (127,0,0,1,200,10)\r\n",
    b"227 (10,0,0,1,999,-1)\r\n",
    b"213 " + b"9" * 400 + b"\r\n",
    b"213 20241399999999\r\n",
    b"x" * 20_000,
    b"220-x\r\n" * 200,
    "\u2028 é".encode(),
)


class FtpServers(_Fetching):
    """What FTP servers answer, on both of their connections."""

    name = "ftp: at the robot"
    kind = FtpFetcher
    url = "ftp://127.0.0.1/a/b"
    tokens = _FTP_TOKENS

    @classmethod
    def seeds(cls) -> list[bytes]:
        begin = b"220 ready\r\n331 password?\r\n230 welcome\r\n200 binary\r\n"
        end = b"150 here it comes\r\n226 done\r\n"
        known = b"213 20240102030405\r\n213 5\r\n"
        return [
            begin + known + b"229 extended (|||40000|)\r\n" + end,
            begin + known + b"500 what?\r\n227 passive (198,51,100,7,200,10)\r\n" + end,
            b"220-hello\r\n220 now\r\n230 come in\r\n200 x\r\n500 ?\r\n500 ?\r\n229 (|||40000|)\r\n" + end,
            begin + known + b"229 (|||40000|)\r\n550 no such file\r\n",
            begin + b"550 none\r\n213 5\r\n229 (|||40000|)\r\n150 x\r\n426 sorry\r\n",
            b"120 wait\r\n220 now\r\n530 no\r\n",
        ]

    def talk(self, random: Random, line: Line, pieces: Any) -> None:
        """A reply to each command; or all that there is, at once."""
        self._data(random)
        if random.random() < 0.25:
            line.say(pieces)
            self._data(random)
            return
        for reply in b"".join(pieces).splitlines(keepends=True):
            heard = line.heard_bytes
            step = random.choice((1, 3, 65536)) if len(reply) < 200 else 65536
            line.say([reply[at : at + step] for at in range(0, len(reply), step)])
            self._data(random)
            if line.gone:
                return
            if line.heard_bytes == heard and random.random() < 0.1:
                self.clock.advance(0.2)

    def _data(self, random: Random) -> None:
        """What comes over a data connection, if there is one."""
        if not self.reactor.tcpClients:
            return
        if random.random() < 0.1:
            _host, _port, factory, _timeout, _bind = self.reactor.tcpClients.pop()
            factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
            return
        data = self.accept()
        data.say([random.choice((b"hello", b"", b"hel", b"x" * 60_000, b"\0\xff"))])
        data.lose(random.choice((ConnectionDone, ConnectionDone, ConnectionLost))())

    def honest(self) -> None:
        line = self.connect()
        for reply in self.seeds()[0].splitlines(keepends=True):
            line.say([reply])
            if self.reactor.tcpClients:
                data = self.accept()
                data.say([b"hello"])
                data.lose(ConnectionDone())
        check([each.content for each in self.outcomes] == [b"hello"], f"it got {self.outcomes}")
        check(not self.outcomes[0].error, self.outcomes[0].error)
        line.lose()
