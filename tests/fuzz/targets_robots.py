"""The wires of the work: BOT-Ms, central ones too, and robots, each from both ends; and the listening robot."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import attrs

from lcc.config import BotmConfig
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.typed import Quit, TypedFetch
from lcc.protocols.work import (
    Capacity,
    Checked,
    Delete,
    Deleted,
    Done,
    Drop,
    Fetch,
    Gone,
    Intact,
    MachineHello,
    Mark,
    Names,
    RecordedUpto,
    Running,
    Settled,
    Verify,
    addressed,
)
from lcc.roles.bot.engine import Robot
from lcc.roles.bot.listening import ListeningRobot, TypistFactory
from lcc.roles.botm.dispatcher import ENDING_SECONDS
from lcc.roles.botm.relay import Relay
from lcc.storage.disk.content_folder import ATTEMPTS, AttemptFolder, attempt_path
from lcc.storage.disk.content_paths import nth_attempt
from tests.fuzz.target import Target, check
from tests.support.roles.botm import Bench
from tests.support.roles.relay import Upper, machine_botm
from tests.support.roles.robots import READY, ScriptedFetcher, World, done, fake_botm, fetch_order
from tests.support.transports import Line

_ORDERS = [fetch_order(number, attempt="") for number in range(1, 4)]


def said(*messages: Flat) -> str:
    return "".join(message.to_xml() for message in messages)


def _from_above(role: str) -> list[bytes]:
    """What the upper end of the work says."""
    hello = Hello(role, "top", run="t1", clock_ms=7).open_tag()
    conditional = Fetch("q1-9", 9, f"{9:08x}{9:032x}", 2, "http://a.example/", "http://a.example/", 300, stored="x")
    texts = [
        hello + said(Settled(), Mark("e", 7), Names(50), *_ORDERS, RecordedUpto(0)),
        hello + said(*_ORDERS, Delete(1, 7, 3), Delete(2, 7, 4), RecordedUpto(2), Mark("e", 9)),
        hello + said(conditional, Verify(1, 3, "0" * 32), Intact(2), *_ORDERS[:1]),
        hello + said(*[attrs.evolve(order, files=5) for order in _ORDERS]),
        hello + said(*_ORDERS) + "<ping clock_ms='9'/></lcc:stream>",
        hello + said(Drop(7)) + "".join(addressed(order, 7) for order in _ORDERS),
    ]
    return [text.encode() for text in texts]


class _World(Target):
    """An end on the bench of the robots' tests."""

    share = 5
    world: World

    @classmethod
    def seeds(cls) -> list[bytes]:
        raise NotImplementedError

    def settle(self) -> None:
        self.world.settle()

    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds, 4.0)

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return Line(self.build(), self.settle, room=room, late=late)

    def build(self) -> Any:
        """The protocol of a hostile connection."""
        raise NotImplementedError


class _BotMaster(_World):
    """A BOT-M with its content folder."""

    streams = 60
    engine_timers = 1  # for leases that may run out

    def __init__(self, home: Path) -> None:
        self._runs = 0
        self.world = self.bench = Bench(home)
        self.clock = self.bench.clock
        self.bench.engine.start()

    def honest(self) -> None:
        """An order comes, a robot carries it out, the result goes up."""
        self._runs += 1
        bench = self.bench
        qm, above = bench.qm()
        bot, below = bench.bot(4, f"honest{self._runs}")
        order = fetch_order(1000 + self._runs)
        bench.say(qm, order)
        ended: set[str] = set()
        while fetches := [each for each in bot.of(Fetch) if each.id not in ended]:
            ended |= {fetch.id for fetch in fetches}
            for fetch in fetches:
                if fetch.id == order.id:
                    bench.finish(bot, fetch)
                else:
                    bench.say(bot, done(fetch, 404))
        results = [each for each in qm.of(Done) if each.id == order.id]
        check(len(results) == 1 and results[0].code == 0, f"the results were {results}")
        bench.say(qm, RecordedUpto(max(each.number for each in qm.of(Done))))
        for wire in (below, above):
            for end in wire.ends:
                end.stream.transport.abortConnection()  # type: ignore[union-attr]
            wire.settle()
        bench.pass_time(1)

    def rest(self) -> None:
        self.clock.advance(ENDING_SECONDS)
        self.settle()

    def close(self) -> None:
        self.bench.engine.stop()
        self.bench.settle()


class OrdersAtBotm(_BotMaster):
    """What a queue manager says to a BOT-M."""

    name = "qm-botm: at the BOT-M"
    allowed = ("Ignoring a delete order for machine", "restored from a backup")

    @classmethod
    def seeds(cls) -> list[bytes]:
        return _from_above("qm")

    def build(self) -> Any:
        return self.bench.factory.buildProtocol(None)


class ResultsAtBotm(_BotMaster):
    """What robots say to a BOT-M."""

    name = "botm-bot: at the BOT-M"

    @classmethod
    def seeds(cls) -> list[bytes]:
        hello = Hello("bot", "hostile", capacity=3, run="h1", knows="batches").open_tag()
        good, bad = Done(0, "ORDER", 1, "KEY", 1, 0, 200, "", "http://a.example/", 3, "0" * 32), None
        bad = Done(0, "ORDER", 1, "KEY", 1, 404, 404, "not found")
        texts = [
            hello + said(READY, good, bad),
            hello + said(READY, Capacity(2), bad, Capacity(4)),
            hello + said(READY, attrs.evolve(good, files=f"3:{'0' * 32},-,3:{'0' * 32}")),
            hello + said(READY) + "</lcc:stream>",
            hello,
        ]
        return [text.encode() for text in texts]

    def build(self) -> Any:
        return self.bench.engine.downstream_factory().buildProtocol(None)

    def talk(self, random: Random, line: Line, pieces: Any) -> None:
        """There are orders, and what the peer says is mostly said of one that it has."""
        self._runs += 1
        bench = self.bench
        qm, wire = bench.qm()
        whole = b"".join(pieces)
        begin = whole.find(b"<ready/>") + 8
        if begin > 7:
            line.say([whole[:begin]])
            files = random.choice((0, 0, 3))
            bench.say(qm, attrs.evolve(fetch_order(2000 + self._runs), files=files))
            line.turn()
            order = line.heard.rpartition(b"<fetch ")[2]
            for name, mark in ((b"id", b"ORDER"), (b"key", b"KEY")):
                value = order.partition(b" " + name + b'="')[2].partition(b'"')[0]
                whole = whole.replace(mark, value) if value else whole
            path = order.partition(b' attempt="')[2].partition(b'"')[0].decode()
            if path and random.random() < 0.5:
                for index in range(max(1, files)):
                    (bench.path / nth_attempt(path, index)).write_bytes(b"abc")
            rest = whole[begin:]
            step = random.choice((1, 7, 50, 65536)) if len(rest) < 3000 else 65536
            line.say([rest[at : at + step] for at in range(0, len(rest), step)])
        else:
            line.say(pieces)
        line.lose()
        for end in wire.ends:
            end.stream.transport.abortConnection()  # type: ignore[union-attr]
        wire.settle()


class OrdersAtBot(_World):
    """What a BOT-M says to a robot."""

    name = "botm-bot: at the robot"

    @classmethod
    def seeds(cls) -> list[bytes]:
        hello = Hello("botm", "botm", run="m1", clock_ms=3).open_tag()
        orders = [fetch_order(number, attempt=attempt_path(number, 1)) for number in range(1, 8)]
        timed = [fetch_order(9, attempt=attempt_path(9, 1), start=3), fetch_order(9, pid=1, attempt="x")]
        texts = [
            hello + said(*orders),
            hello + said(*timed, orders[0]) + "<ping clock_ms='8'/>",
            hello + said(*orders[:2]) + "</lcc:stream>",
            hello + said(*[attrs.evolve(order, files=3) for order in orders[:3]]),
        ]
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.world = World()
        self.clock = self.world.clock
        self._number = 100
        (home / ATTEMPTS / "000").mkdir(parents=True)
        self.fetcher = ScriptedFetcher()
        fetchers = {"http": self.fetcher, "https": self.fetcher}
        self.robot = Robot("bot", 4, self.clock, fetchers, AttemptFolder(home).sink, "b1")
        self.factory = self.robot.upstream_factory(int)

    def build(self) -> Any:
        return self.factory.buildProtocol(None)

    def honest(self) -> None:
        self._number += 1
        peer = fake_botm(self.clock)
        wire = self.world.connect(self.build(), peer.build_stream())
        self.settle()
        self.fetcher.all.clear()
        peer.say(fetch_order(self._number, attempt=attempt_path(self._number, 1)))
        self.settle()
        (running,) = self.fetcher.running
        running.succeed(b"abc")
        self.settle()
        check([each.code for each in peer.of(Done)] == [0], f"the results were {peer.heard}")
        for end in wire.ends:
            end.abortConnection()
        wire.settle()
        self.settle()
        self.fetcher.all.clear()


class _Central(_World):
    """A central BOT-M."""

    streams = 50

    def __init__(self, home: Path) -> None:
        self.world = World()
        self.clock = self.world.clock
        self.relay = Relay(BotmConfig(name="central", serves="botms"), self.clock, "run", frozenset(["qm"]))
        self._runs = 0

    def honest(self) -> None:
        """An order goes down, a result up."""
        self._runs += 1
        top = Upper(self.clock)
        above = self.world.connect(self.relay.upstream_factory(int).buildProtocol(None), top.build_stream())
        self.settle()
        botm = machine_botm(self.clock, 3, f"honest{self._runs}")
        branch = self.relay.downstream_factory().buildProtocol(None)
        assert branch is not None
        below = self.world.connect(botm.build_stream(), branch)
        self.settle()
        botm.say(READY)
        self.settle()
        top.tell(3, fetch_order(1))
        self.settle()
        (fetch,) = botm.of(Fetch)
        botm.say(done(fetch))
        self.settle()
        check(any(isinstance(message, Done) for message in top.of(3)), f"above was heard {top.heard}")
        for wire in (below, above):
            for end in wire.ends:
                end.abortConnection()
            wire.settle()
        self.settle()

    def close(self) -> None:
        self.relay.stop()
        self.settle()


class OrdersAtCentral(_Central):
    """What comes from above to a central BOT-M."""

    name = "work: from above, at a central BOT-M"

    @classmethod
    def seeds(cls) -> list[bytes]:
        return _from_above("qm")

    def build(self) -> Any:
        return self.relay.upstream_factory(int).buildProtocol(None)

    def talk(self, random: Random, line: Line, pieces: Any) -> None:
        """A machine is behind it."""
        line.say(pieces[:1])
        branch = self.relay.downstream_factory().buildProtocol(None)
        if branch is None:  # not before the hello from above
            line.say(pieces[1:])
            return
        botm = machine_botm(self.clock, 7)
        below = self.world.connect(botm.build_stream(), branch)
        self.settle()
        botm.say(READY)
        self.settle()
        line.say(pieces[1:])
        for end in below.ends:
            end.abortConnection()
        below.settle()


class ResultsAtCentral(_Central):
    """What BOT-Ms say to a central one."""

    name = "work: from below, at a central BOT-M"

    @classmethod
    def seeds(cls) -> list[bytes]:
        hello = Hello(
            "botm", "m", machine=7, run="r7", capacity=4, content="http://192.0.2.2:9", session="r7.1"
        ).open_tag()
        central = Hello("botm", "c", machine=0, run="c7").open_tag()
        results = [done(_ORDERS[0]), Deleted(4), Checked(3, True), Capacity(5)]
        machine = MachineHello("botm", "m", machine=5, run="m5", capacity=2, session="m5.1", via="c")
        texts = [
            hello + said(Running("q1-1", 1, _ORDERS[0].key, 1, 300), Ready(), *results),
            central + said(machine) + "".join(addressed(each, 5) for each in (Ready(), *results)) + said(Gone(5)),
            hello + said(Ready()) + "<ping clock_ms='1'/></lcc:stream>",
        ]
        return [text.encode() for text in texts]

    def build(self) -> Any:
        return self.relay.downstream_factory().buildProtocol(None)

    def play(self, random: Random, pieces: Any) -> Line | None:
        """There is somebody above."""
        self._top = Upper(self.clock)
        above = self.world.connect(self.relay.upstream_factory(int).buildProtocol(None), self._top.build_stream())
        self.settle()
        line = super().play(random, pieces)
        for end in above.ends:
            end.abortConnection()
        above.settle()
        self.settle()
        return line

    def talk(self, random: Random, line: Line, pieces: Any) -> None:
        line.say(pieces[:1])
        self._top.tell(7, *_ORDERS)
        self.settle()
        line.say(pieces[1:])


class Typed(_World):
    """What somebody types into a listening robot."""

    name = "listening robot"
    patience_seconds = 4000.0

    @classmethod
    def seeds(cls) -> list[bytes]:
        whole = TypedFetch(
            "http://a.example/x",
            "kept",
            "text/html",
            "http://a.example/",
            private=True,
            etag='"e"',
            modified="2024-01-02T03:04:05Z",
            size_bytes=3,
        )
        texts = [
            said(TypedFetch("http://a.example/")) + "\n" + said(whole) + "\n" + said(Quit()),
            "<fetch url='http://a.example/'/>\r\n" * 5,
            "<quit/>",
            "hello?\n",
        ]
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.world = World()
        self.clock = self.world.clock
        self.fetcher = ScriptedFetcher()
        (home / ATTEMPTS / "000").mkdir(parents=True)
        self._sinks = AttemptFolder(home)
        self.robot = ListeningRobot(self.clock, {"http": self.fetcher}, self._sink)
        self.factory = TypistFactory(self.robot)
        self._number = 0

    def _sink(self, name: str) -> Any:
        self._number += 1
        return self._sinks.sink(attempt_path(self._number, 1))

    def settle(self) -> None:
        super().settle()
        for running in self.fetcher.running:
            running.succeed(b"abc", headers='["a","b"]', mimetype="text/html")
        self.fetcher.all.clear()
        super().settle()

    def pass_time(self, seconds: float) -> None:
        Target.pass_time(self, seconds)

    def build(self) -> Any:
        return self.factory.buildProtocol(None)

    def honest(self) -> None:
        line = self.connect()
        line.say([said(TypedFetch("http://a.example/")).encode()])
        line.turn()
        check(b'<done code="0"' in line.heard, f"it heard {line.heard!r}")
        line.say([said(Quit()).encode()])
        line.lose()
        check(not self.robot.persons, "somebody is left")

    def close(self) -> None:
        self.robot.close()
