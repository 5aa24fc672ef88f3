"""Connections in memory, moved by hand, so that a test decides what arrives when; and the fakes behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import FetchError
from lcc.fetchers.http import FetchCancelled
from lcc.interfaces import IFetcher
from lcc.model import Fetched, FetchOrder
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.work import DOWN, UP, Done, Fetch
from lcc.roles.peer import Peer
from lcc.transport.stream import XmlStream
from tests.support.transports import Wire


class World:
    """One clock and all connections."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.wires: list[Wire] = []

    def connect(self, client: XmlStream, server: XmlStream) -> Wire:
        wire = Wire(client, server)
        self.wires.append(wire)
        return wire

    def turn(self) -> bool:
        """Everything that is on the way arrives once."""
        self.clock.advance(0)
        happened = [wire.settle() for wire in list(self.wires)]
        self.wires = [wire for wire in self.wires if not wire.closed]
        return any(happened)

    def settle(self) -> None:
        self.turn()
        while self.turn():
            pass

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Let time go by, with everything that happens in it."""
        while seconds > 0:
            self.clock.advance(min(step, seconds))
            seconds -= step
            self.settle()


class FakePeer(Peer):
    """A peer that notes what it hears."""

    def __init__(self, clock: Clock, hello: Hello, expected: str, vocabulary: Vocabulary) -> None:
        super().__init__(clock, hello, frozenset([expected]), vocabulary)
        self.heard: list[Flat] = []
        self.lost = False
        self.on_messages: Callable[[list[Flat]], None] = lambda messages: None

    def messages_received(self, messages: list[Flat]) -> None:
        self.heard += messages
        self.on_messages(messages)

    def peer_lost(self, reason: Failure) -> None:
        self.lost = True

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.heard if type(message) is kind]

    def raw(self, text: str) -> None:
        self.stream.send(text)


def fake_qm(clock: Clock) -> FakePeer:
    """A queue manager's end."""
    return FakePeer(clock, Hello("qm", "qm", run="q1"), "botm", UP)


def fake_bot(
    clock: Clock, capacity: int = 4, run: str = "b1", folder: str = "", owner: str = "", knows: str = ""
) -> FakePeer:
    """A robot's end; say Ready to begin."""
    hello = Hello("bot", f"bot-{run}", capacity=capacity, run=run, folder=folder, owner=owner, knows=knows)
    return FakePeer(clock, hello, "botm", DOWN)


def fake_botm(clock: Clock) -> FakePeer:
    """A BOT-M's end, as a robot sees it."""
    return FakePeer(clock, Hello("botm", "botm", run="m1"), "bot", UP)


def fetch_order(
    number: int, pid: int | None = None, lease: int = 300, attempt: str = "", start: int | None = None
) -> Fetch:
    """An order; by default each is of a provider of its own."""
    pid = number if pid is None else pid
    return Fetch(
        id=f"q1-{number}",
        pid=pid,
        key=f"{pid:08x}{number:032x}",
        generation=number,
        url=f"http://site{pid}.example/{number}",
        roots=f"http://site{pid}.example/",
        lease_seconds=lease,
        mimetype="text/html",
        attempt=attempt,
        start_seconds=start,
    )


def done(fetch: Fetch, code: int = 0, size: int = 3, detail: str = "") -> Done:
    """A robot's answer."""
    return Done(0, fetch.id, fetch.pid, fetch.key, fetch.generation, code, 200, detail, fetch.url, size, "0" * 32)


READY = Ready()


class Running:
    """A fetch of the scripted fetcher that has not ended."""

    def __init__(self, order: FetchOrder, sink: Any, follow: Callable[[str, str], str]) -> None:
        self.order = order
        self.sink = sink
        self.follow = follow
        self.cancelled = False
        self.over = False
        self.travelled = 0
        self.result: Deferred[Fetched] = Deferred(self._cancel)

    def _cancel(self, _result: Deferred[Fetched]) -> None:
        self.cancelled = True
        self.over = True
        _result.errback(FetchCancelled(self.travelled))

    def succeed(self, *pieces: bytes, **fields: Any) -> None:
        for piece in pieces:
            self.sink.write(piece)
        self.over = True
        fields.setdefault("status", 200)
        fields.setdefault("url", self.order.url)
        self.result.callback(Fetched(**fields))

    def fail(self, error: Exception | None = None) -> None:
        self.over = True
        self.result.errback(Failure(error or FetchError("connect-refused")))


@implementer(IFetcher)
class ScriptedFetcher:
    """An IFetcher whose fetches end when the test says so."""

    schemes = ("http", "https")

    def __init__(self) -> None:
        self.all: list[Running] = []
        self.at_once_max = 0
        self.closed = False

    @property
    def running(self) -> list[Running]:
        return [fetch for fetch in self.all if not fetch.over]

    def fetch(self, order: FetchOrder, sink: Any, follow: Callable[[str, str], str]) -> Deferred[Fetched]:
        running = Running(order, sink, follow)
        self.all.append(running)
        self.at_once_max = max(self.at_once_max, len(self.running))
        return running.result

    def close(self) -> Deferred[None]:
        self.closed = True
        result: Deferred[None] = Deferred()
        result.callback(None)
        return result
