"""A queue manager under one clock: the real store on SQLite, fake UNSes and BOT-Ms on the real wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import attrs
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from lcc.config import BotmConfig, QmConfig
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.notices.rules import QueueRules
from lcc.errors import code
from lcc.interfaces import IQueueStore
from lcc.model import CachedUrl, Provider, Source, UrlNotice, source_text
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import INTERNAL_LIMITS, KNOWS_INTERVAL, Hello, Ready, read_hello
from lcc.protocols.uns_qm import FROM_QM, Absorbed, EndSet, NewEpoch, Noted, Set, write_notice
from lcc.protocols.work import (
    DOWN,
    Capacity,
    Delete,
    Deleted,
    Done,
    Fetch,
    Intact,
    Recall,
    RecordedUpto,
    Running,
    Settled,
    Verify,
)
from lcc.protocols.xmlfeed import Start, XmlFeed
from lcc.roles.botm.relay import Relay
from lcc.roles.qm.engine import QmEngine
from lcc.storage.providers.providers import add_provider
from lcc.storage.queue.store import QueueStore
from lcc.testing.inline_database import InlineDatabase
from tests.support import stored

NOW = 1_700_000_000
"""2023-11-14, 22:13:20 UTC."""
TIMESLOTS = TimeSlots(24, 3600, "UTC")
HANDED_BACK = code("handed-back")


class Remote:
    """The other end of a connection to the engine."""

    def __init__(self, world: World, for_uns: bool, hello: Hello, vocabulary: Vocabulary) -> None:
        self.world = world
        self.vocabulary = vocabulary
        self.feed = XmlFeed(INTERNAL_LIMITS)
        self.qm_hello: Hello | None = None
        self.transport = StringTransport()
        self.behind = hello.role == "botm" and world.hops > 0
        self.stream: Any = world.port(for_uns, hello)
        self.stream.makeConnection(self.transport)
        self.closed = False
        world.remotes.append(self)
        self.write(hello.open_tag())

    @property
    def paused(self) -> bool:
        """The queue manager does not read what this end, or the central BOT-M before it, says."""
        central = self.world.centrals[0].transports[1] if self.behind else None
        return self.transport.producerState == "paused" or (central is not None and central.producerState == "paused")

    def write(self, text: str) -> None:
        if not self.closed:
            self.stream.dataReceived(text.encode())
            self.world.settle()

    def say(self, *messages: Flat) -> None:
        self.write("".join(message.to_xml() for message in messages))

    def exchange(self) -> bool:
        """Take what the engine has said."""
        if self.closed:
            return False
        data = self.transport.value()
        self.transport.clear()
        if data:
            for event in self.feed.receive(data):
                if isinstance(event, Start):
                    self._read(event)
        if self.transport.disconnecting and not self.closed:
            self.close()
        return bool(data)

    def _read(self, event: Start) -> None:
        if self.qm_hello is None:
            self.qm_hello = read_hello(event.name, event.attributes)
        elif event.name != "ping":
            self.heard(self.vocabulary.read(event.name, event.attributes))

    def heard(self, message: Flat) -> None:
        """The engine has said this."""

    def close(self, reason: Exception | None = None) -> None:
        """The connection is lost."""
        if not self.closed:
            self.closed = True
            self.world.remotes.remove(self)
            self.stream.connectionLost(Failure(reason or ConnectionLost()))
            self.world.settle()


class FakeUns(Remote):
    """Sends sets, in order of their numbers."""

    def __init__(self, world: World, name: str = "uns", epoch: str = "e1", **hello: Any) -> None:
        self.answers: list[Absorbed] = []
        self.epoch = epoch
        super().__init__(world, True, Hello(role="uns", name=name, epoch=epoch, **hello), FROM_QM)

    def heard(self, message: Flat) -> None:
        if isinstance(message, Noted | NewEpoch):
            return
        assert isinstance(message, Absorbed)
        self.answers.append(message)

    def set_text(self, number: int, pid: int, notices: Iterable[UrlNotice], **options: Any) -> str:
        elements = [write_notice(notice) for notice in notices]
        header = Set(
            self.epoch,
            number,
            pid,
            options.get("connseq", number),
            options.get("full", False),
            options.get("errors_upto", 0),
            options.get("answered", False),
            NOW,
            source=source_text(options.get("source", Source.TOLD)),
        )
        end = EndSet(options.get("count", len(elements)))
        return header.to_xml() + "".join(elements) + end.to_xml()

    def send_set(self, number: int, pid: int, notices: Iterable[UrlNotice], **options: Any) -> None:
        self.write(self.set_text(number, pid, notices, **options))


class FakeBotm(Remote):
    """A BOT-M that fetches nothing by itself.

    :ivar out: orders that came and were not answered.
    :ivar deletes: delete orders that came and were not answered.
    :ivar upto: what the queue manager has acknowledged.
    :ivar asked, intact: what it said of files that may be lost.
    :ivar recalls: the providers whose runs were recalled; :meth:`hand_back` answers.
    """

    settled = 0
    takes_runs = False

    def __init__(
        self,
        world: World,
        machine: int = 1,
        run: str = "r1",
        capacity: int = 4,
        earlier: FakeBotm | None = None,
        ready: bool = True,
        suspect: tuple[int, int] = (0, 0),
        orders_max: int = 0,
        knows: str = KNOWS_INTERVAL,
    ) -> None:
        self.machine = machine
        self.takes_runs = orders_max > 0
        self.recalls: list[int] = []
        self.run = run
        self.out: dict[str, Fetch] = {}
        self.deletes: list[Delete] = []
        self.seen: list[Fetch] = []
        self.upto = 0
        self.number = 0
        self.file = machine * 1000
        self.kept: list[Done] = []
        self.asked: list[Verify] = []
        self.intact: list[int] = []
        if earlier is not None:
            self.out = dict(earlier.out)
            self.number, self.file, self.kept = earlier.number, earlier.file, list(earlier.kept)
        self.running = dict(self.out)
        super().__init__(
            world,
            False,
            Hello(
                role="botm",
                name="b",
                machine=machine,
                run=run,
                capacity=capacity,
                orders_max=orders_max,
                knows=knows if orders_max else "",
                suspect_from=suspect[0],
                suspect_upto=suspect[1],
            ),
            DOWN,
        )
        self.say(*self.kept)
        self.say(*[Running(f.id, f.pid, f.key, f.generation, f.lease_seconds) for f in self.running.values()])
        if ready:
            self.say(Ready())

    def heard(self, message: Flat) -> None:
        if isinstance(message, Fetch):
            assert message.id not in self.out
            self.world.order_given(message, self)
            self.out[message.id] = message
            self.seen.append(message)
        elif isinstance(message, Recall):
            self.recalls.append(message.pid)
        elif isinstance(message, Delete):
            self.deletes.append(message)
        elif isinstance(message, Settled):
            self.settled += 1
        elif isinstance(message, Verify):
            self.asked.append(message)
        elif isinstance(message, Intact):
            self.intact.append(message.upto)
        elif isinstance(message, RecordedUpto):
            assert message.number >= self.upto
            self.upto = message.number
            self.kept = [done for done in self.kept if done.number > self.upto]

    def done(self, fetch: Fetch, code: int = 0, **changes: Any) -> None:
        """The fetch has ended; while the connection is lost the result is kept for the next one."""
        self.out.pop(fetch.id, None)
        self.world.order_ended(fetch)
        self.number += 1
        message = Done(self.number, fetch.id, fetch.pid, fetch.key, fetch.generation, code, url=fetch.url)
        if code == 0:
            self.file += 1
            content = f"{self.file}".zfill(32)
            message = attrs.evolve(
                message, status=200, size_bytes=10, md5=content, mimetype="text/html", wire_bytes=100
            )
            message = attrs.evolve(message, machine=self.machine, file=self.file)
            self.file += max(0, fetch.files - 1)
        message = attrs.evolve(message, **changes)
        self.kept.append(message)
        self.say(message)

    def hand_back(self, pid: int, begun: int = 1) -> list[Fetch]:
        """What is not begun of this provider goes back; gives what is."""
        orders = [fetch for fetch in self.out.values() if fetch.pid == pid]
        for fetch in orders[begun:]:
            self.done(fetch, HANDED_BACK)
        return orders[:begun]

    def forget(self, fetch: Fetch) -> None:
        """It is lost here."""
        self.out.pop(fetch.id)
        self.world.order_ended(fetch)

    def finish_all(self, rounds: int = 10_000) -> int:
        """End every fetch well, those that come then, too."""
        count = 0
        while self.out and count < rounds:
            self.done(next(iter(self.out.values())))
            count += 1
        return count

    def delete_all(self) -> None:
        while self.deletes:
            self.say(Deleted(self.deletes.pop(0).id))

    def set_capacity(self, fetches: int) -> None:
        self.say(Capacity(fetches))


class CentralBotm:
    """A real central BOT-M in front of the queue manager, or of another central one."""

    def __init__(self, world: World, above: CentralBotm | None) -> None:
        name = "central" if above is None else "row"
        upper = frozenset(["qm" if above is None else "botm"])
        self.relay = Relay(BotmConfig(name=name, serves="botms"), world.clock, name, upper)
        self.transports = StringTransport(), StringTransport()
        port = world.engine.factory(False) if above is None else above.relay.downstream_factory()
        self.streams: tuple[Any, Any] = self.relay.upstream_factory(int).buildProtocol(None), port.buildProtocol(None)
        self.closed = False
        for stream, transport in reversed(list(zip(self.streams, self.transports, strict=True))):
            stream.makeConnection(transport)

    def exchange(self) -> bool:
        """Move what was said on its connection upwards."""
        moved = False
        for sender, receiver in ((0, 1), (1, 0)):
            data = self.transports[sender].value()
            if data and not self.closed and self.transports[receiver].producerState == "producing":
                self.transports[sender].clear()
                self.streams[receiver].dataReceived(data)
                moved = True
        if any(transport.disconnecting for transport in self.transports):
            self.close()
        return moved

    def close(self) -> None:
        """Its connection upwards is lost."""
        if not self.closed:
            self.closed = True
            for stream in self.streams:
                stream.connectionLost(Failure(ConnectionLost()))


class World:
    """Everything.

    :param hops: central BOT-Ms between each BOT-M and the queue manager.
    :param url: of the database.
    :param clock: of several worlds.
    :ivar fetching: provider -> its orders that are out, and the BOT-M connection that each went by.
    """

    begin: float = NOW
    timeslots = TIMESLOTS

    def __init__(
        self, folder: Path, hops: int = 0, url: str = "sqlite:lcc.db", clock: Clock | None = None, **settings: Any
    ) -> None:
        self.hops = hops
        self.centrals: list[CentralBotm] = []
        self.settings = QmConfig(**({"delete_grace": 0} | settings))
        self.clock = clock or Clock()
        self.ahead = 0.0
        """What somebody has set the wall clock by."""
        self.random = Random(1)
        self.database = InlineDatabase(folder, self.random, url)
        self.remotes: list[Remote] = []
        self.fetching: dict[int, dict[str, FakeBotm]] = {}
        self.overlaps = 0
        self.stopped = 0
        self.engine: QmEngine = None  # type: ignore[assignment]
        self.start()

    def start(self, store: IQueueStore | None = None) -> None:
        """A new queue manager on the same database; the old one is killed."""
        for remote in list(self.remotes):
            remote.close(ConnectionDone())
        for central in self.centrals:
            central.close()
        if self.engine is not None:
            self.engine.stop()
        if store is None:
            rules = QueueRules.configured(self.settings, self.timeslots)
            store = QueueStore(self.database, rules, self.settings)
        self.engine = QmEngine(
            store, self.settings, self.clock, self.wall_clock, self.random.random, self._stopped, self.timeslots
        )
        self.engine.start()

    def port(self, for_uns: bool, hello: Hello) -> Any:
        """A new connection for who will say this."""
        if hello.role != "botm" or not self.hops:
            return self.engine.factory(for_uns).buildProtocol(None)
        if not self.centrals or any(central.closed for central in self.centrals):
            for central in self.centrals:
                central.close()
            self.centrals = []
            for _ in range(self.hops):
                self.centrals.append(CentralBotm(self, self.centrals[-1] if self.centrals else None))
                self.settle()
        return self.centrals[-1].relay.downstream_factory().buildProtocol(None)

    def wall_clock(self) -> float:
        return self.begin + self.clock.seconds() + self.ahead

    def _stopped(self) -> None:
        self.stopped += 1

    def settle(self) -> None:
        """Until nothing happens any more at this time."""
        while True:
            self.clock.advance(0)
            ends: list[Remote | CentralBotm] = [*self.remotes, *self.centrals]
            if not sum(end.exchange() for end in ends):
                return

    def advance(self, seconds: float) -> None:
        step = 0.5
        while seconds > 0:
            self.clock.advance(min(step, seconds))
            seconds -= step
            for remote in list(self.remotes):
                remote.write("<ping/>")
            self.settle()

    def provider(self, *roots: str, **fields: Any) -> int:
        roots = tuple(dict.fromkeys([*roots, "http://site.example/"]))  # where the tests' pages are
        return self.database.now(
            add_provider, Provider(pid=0, roots=roots, password_hash=f"{self.random.random()}", **fields)
        )

    def cached(self, pid: int | None = None) -> dict[str, CachedUrl]:
        rows = self.database.now(stored.urls, pid, None, 100_000)
        return {row.curl: row for row in rows if row.state == "cached"}

    @property
    def cached_count(self) -> int:
        return self.count("lccurl", "state = 1")

    def count(self, table: str, where: str = "1 = 1") -> int:
        return int(self.database.now(lambda txn: txn.value(f"SELECT COUNT(*) FROM {table} WHERE {where}")))

    def order_given(self, fetch: Fetch, botm: FakeBotm) -> None:
        """More orders may follow those of a provider that are out, but only by the same connection."""
        orders = self.fetching.setdefault(fetch.pid, {})
        if any(other is not botm or not botm.takes_runs for other in orders.values()):
            self.overlaps += 1
        orders[fetch.id] = botm

    def order_ended(self, fetch: Fetch) -> None:
        orders = self.fetching.get(fetch.pid, {})
        orders.pop(fetch.id, None)
        if not orders:
            self.fetching.pop(fetch.pid, None)

    def close(self) -> None:
        for remote in list(self.remotes):
            remote.close(ConnectionDone())
        for central in reversed(self.centrals):
            central.close()
        self.engine.stop()
        assert not self.clock.getDelayedCalls(), self.clock.getDelayedCalls()
        self.database.close()


def page(number: int, **changes: Any) -> UrlNotice:
    return UrlNotice(f"http://site.example/{number}.html", mimetype="text/html", sent="[]")._replace(**changes)


def pages(*numbers: int) -> list[UrlNotice]:
    return [page(number) for number in numbers]


MakeWorld = Callable[..., World]
