"""The BOT-M between a queue manager and robots that the test plays, on the real wires."""

from pathlib import Path
from typing import Any

import pytest

from lcc.config import BotmConfig
from lcc.errors import CODES
from lcc.protocols.work import (
    Capacity,
    Delete,
    Deleted,
    Done,
    Fetch,
    Ready,
    RecordedUpto,
    Running,
)
from lcc.roles.botm.engine import PAUSE_FIRST_SECONDS, BotMaster
from lcc.roles.peer import IDLE_SECONDS
from lcc.storage.content import ContentFolder, Disk, content_path
from lcc.storage.durable import DurableCounter

from .wire import READY, FakePeer, Wire, World, done, fake_bot, fake_qm, fetch_order


class Bench(World):
    """A BOT-M with its folder."""

    def __init__(self, path: Path, disk: Disk | None = None, **settings: Any) -> None:
        super().__init__()
        self.path = path
        self.settings = BotmConfig(machine=7, **settings)
        self.content = ContentFolder(path, lambda file: DurableCounter(file, 100), disk or Disk())
        self.content.open()
        self.hellos = 0
        self.engine = BotMaster(self.settings, self.clock, self.content, "m1")
        self.factory = self.engine.link_factory(self._good_hello)

    def _good_hello(self) -> None:
        self.hellos += 1

    def qm(self) -> tuple[FakePeer, Wire]:
        peer = fake_qm(self.clock)
        wire = self.connect(self.factory.buildProtocol(None), peer.build_stream())
        self.settle()
        return peer, wire

    def bot(self, capacity: int = 4, run: str = "b1") -> tuple[FakePeer, Wire]:
        peer = fake_bot(self.clock, capacity, run)
        stream = self.engine.robot_factory().buildProtocol(None)
        assert stream is not None
        wire = self.connect(peer.build_stream(), stream)
        peer.say(READY)
        self.settle()
        return peer, wire

    def say(self, peer: FakePeer, *messages: Any) -> None:
        for message in messages:
            peer.say(message)
        self.settle()

    def write(self, fetch: Fetch, data: bytes = b"abc") -> None:
        (self.path / fetch.attempt).write_bytes(data)

    def finish(self, bot: FakePeer, fetch: Fetch) -> None:
        self.write(fetch)
        self.say(bot, done(fetch))

    def files(self) -> list[str]:
        return sorted(str(file.relative_to(self.path)) for file in self.path.rglob("*") if file.is_file())[:-1]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ids(peer: FakePeer) -> list[str]:
    return [fetch.id for fetch in peer.of(Fetch)]


def test_a_fetch_from_order_to_result(bench: Bench) -> None:
    qm, _ = bench.qm()
    assert qm.peer_hello is not None
    assert (qm.peer_hello.role, qm.peer_hello.machine, qm.peer_hello.run) == ("botm", 7, "m1")
    assert bench.hellos == 1
    bot, _ = bench.bot()
    assert qm.heard == [Ready(), Capacity(4)]
    bench.say(qm, fetch_order(1))
    (fetch,) = bot.of(Fetch)
    assert fetch.url == "http://site1.example/1"
    assert 260 < fetch.lease_seconds < 270
    bench.finish(bot, fetch)
    (result,) = qm.of(Done)
    assert (result.number, result.id, result.code, result.machine) == (1, "q1-1", 0, 7)
    assert result.file is not None
    assert (bench.path / content_path(result.file)).read_bytes() == b"abc"
    assert bench.files() == [content_path(result.file)]


def test_a_failure_leaves_no_file(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, fetch_order(1))
    (fetch,) = bot.of(Fetch)
    bench.write(fetch)
    bench.say(bot, done(fetch, 404, detail="gone"))
    (result,) = qm.of(Done)
    assert (result.code, result.detail, result.machine, result.file, result.size_bytes) == (
        404,
        "gone",
        None,
        None,
        0,
    )
    assert bench.files() == []


def test_orders_wait_for_robots_and_for_room(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.say(qm, *[fetch_order(number) for number in range(1, 6)])
    bot, _ = bench.bot(2)
    assert ids(bot) == ["q1-1", "q1-2"]
    bench.finish(bot, bot.of(Fetch)[1])
    assert ids(bot) == ["q1-1", "q1-2", "q1-3"]
    other, _ = bench.bot(2, "b2")
    assert ids(other) == ["q1-4", "q1-5"]


def test_the_capacity_is_told_when_it_changes(bench: Bench) -> None:
    bench.bot(3)
    qm, _ = bench.qm()
    assert qm.peer_hello is not None
    assert qm.peer_hello.capacity == 3
    _other, wire = bench.bot(5, "b2")
    third, _ = bench.bot(1, "b3")
    bench.say(third, Capacity(2))
    wire.kill(wire.client)
    bench.settle()
    assert qm.of(Capacity) == [Capacity(8), Capacity(9), Capacity(10), Capacity(5)]


def test_a_robot_without_a_ready_gets_nothing(bench: Bench) -> None:
    qm, _ = bench.qm()
    peer = fake_bot(bench.clock)
    stream = bench.engine.robot_factory().buildProtocol(None)
    assert stream is not None
    bench.connect(peer.build_stream(), stream)
    bench.say(qm, fetch_order(1))
    assert peer.heard == []
    assert qm.of(Capacity) == []


def test_a_provider_stays_with_its_robot(bench: Bench) -> None:
    qm, _ = bench.qm()
    bots = [bench.bot(4, f"b{number}")[0] for number in range(3)]
    home: dict[int, FakePeer] = {}
    for number in range(30):
        bench.say(qm, fetch_order(number, pid=number % 6))
        (bot,) = [bot for bot in bots if ids(bot)[-1:] == [f"q1-{number}"]]
        assert home.setdefault(number % 6, bot) is bot
        bench.finish(bot, bot.of(Fetch)[-1])
        bench.say(qm, RecordedUpto(number + 1))
    before = [len(bot.of(Fetch)) for bot in bots]
    bench.say(qm, *[fetch_order(number, pid=number) for number in range(100, 112)])  # all at once: spread evenly
    assert [len(bot.of(Fetch)) - count for bot, count in zip(bots, before, strict=True)] == [4, 4, 4]


def test_a_full_robot_does_not_hold_up_its_provider(bench: Bench) -> None:
    qm, _ = bench.qm()
    first, _ = bench.bot(1, "b1")
    bench.say(qm, fetch_order(1, pid=5))
    bench.finish(first, first.of(Fetch)[0])
    second, _ = bench.bot(1, "b2")
    bench.say(qm, fetch_order(2, pid=6))  # goes to the one with room, whichever it is
    taken = first if len(first.of(Fetch)) == 2 else second
    bench.say(qm, fetch_order(3, pid=5))
    assert len(first.of(Fetch)) + len(second.of(Fetch)) == 3
    assert taken.of(Fetch)[-1].id == "q1-2"


def test_the_orders_of_a_killed_robot_go_to_others_first(bench: Bench) -> None:
    qm, _ = bench.qm()
    victim, wire = bench.bot(2)
    bench.say(qm, *[fetch_order(number) for number in range(1, 5)])
    for fetch in victim.of(Fetch):
        bench.write(fetch, b"half")
    wire.kill(wire.client)
    bench.settle()
    assert bench.files() == []
    other, _ = bench.bot(3, "b2")
    assert ids(other) == ["q1-1", "q1-2", "q1-3"]
    old, new = victim.of(Fetch)[0].attempt, other.of(Fetch)[0].attempt
    assert old.rpartition(".")[0] == new.rpartition(".")[0]
    assert old != new
    bench.finish(other, other.of(Fetch)[0])
    assert [result.id for result in qm.of(Done)] == ["q1-1"]


def test_results_are_sent_again_until_they_are_recorded(bench: Bench) -> None:
    qm, wire = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, *[fetch_order(number) for number in range(1, 5)])
    fetches = bot.of(Fetch)
    bench.finish(bot, fetches[0])
    bench.finish(bot, fetches[1])
    bench.say(qm, RecordedUpto(1))
    wire.kill(wire.server)
    bench.settle()
    bench.finish(bot, fetches[2])
    again, _ = bench.qm()
    kinds = [type(message) for message in again.heard]
    assert kinds == [Done, Done, Running, Ready]
    assert [(result.number, result.id) for result in again.of(Done)] == [(2, "q1-2"), (3, "q1-3")]
    assert [running.id for running in again.of(Running)] == ["q1-4"]
    assert again.of(Running)[0].lease_seconds == 270
    assert again.of(Done)[0] == qm.of(Done)[1]
    bench.say(again, RecordedUpto(3))
    bench.finish(bot, fetches[3])
    assert again.of(Done)[-1].number == 4
    assert bench.engine.held == 1


def test_an_order_that_comes_again_is_ignored(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.say(qm, fetch_order(1), fetch_order(1))
    bot, _ = bench.bot()
    bench.say(qm, fetch_order(1))
    assert ids(bot) == ["q1-1"]
    bench.finish(bot, bot.of(Fetch)[0])
    bench.say(qm, fetch_order(1))  # its result is not recorded yet
    assert len(bot.of(Fetch)) == len(qm.of(Done)) == 1
    bench.say(qm, RecordedUpto(1), fetch_order(1))
    assert len(bot.of(Fetch)) == 2


def test_never_two_of_one_provider_are_out(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, wire = bench.bot()
    bench.say(qm, fetch_order(1, pid=9), fetch_order(2, pid=9), fetch_order(3, pid=9), fetch_order(4, pid=8))
    assert ids(bot) == ["q1-1", "q1-4"]
    wire.kill(wire.client)
    bench.settle()
    other, _ = bench.bot(4, "b2")
    assert sorted(ids(other)) == ["q1-1", "q1-4"]
    for expected in ("q1-2", "q1-3"):
        fetch = next(fetch for fetch in reversed(other.of(Fetch)) if fetch.pid == 9)
        bench.finish(other, fetch)
        assert ids(other)[-1] == expected


def test_garbage_drops_only_that_robot_and_its_orders_wait_for_it(bench: Bench) -> None:
    qm, _ = bench.qm()
    bad, _ = bench.bot(1, "b1")
    bench.say(qm, fetch_order(1))
    good, _ = bench.bot(4, "b2")
    bad.raw("<nonsense/>")
    bench.settle()
    assert bad.lost
    assert not good.lost
    assert ids(good) == []  # the bad one may still be fetching
    bench.say(qm, fetch_order(2))
    assert ids(good) == ["q1-2"]
    again, _ = bench.bot(1, "b1")  # it ended all its fetches when it lost the connection
    assert sorted(ids(again) + ids(good)) == ["q1-1", "q1-2"]


@pytest.mark.parametrize(
    "text",
    [
        '<done number="0" id="unknown" pid="1" key="00" generation="1" code="0"/>',
        '<done number="0"/>',
        '<capacity fetches="0"/>',
        '<capacity fetches="99999999"/>',
        "<!DOCTYPE x>",
        "</lcc:stream><lcc:stream/>",
    ],
)
def test_each_kind_of_garbage_ends_the_connection(bench: Bench, text: str) -> None:
    qm, _ = bench.qm()
    bad, _ = bench.bot()
    good, _ = bench.bot(1, "b2")
    bad.raw(text)
    bench.settle()
    bench.pass_time(11)
    assert bad.lost
    assert not good.lost
    bench.say(qm, fetch_order(1))
    assert ids(good) == ["q1-1"]
    assert bad.of(Fetch) == []


def test_a_silent_robot_is_dropped_and_its_orders_are_held_back_for_their_lease(bench: Bench) -> None:
    qm, _ = bench.qm()
    _, wire = bench.bot(1, "b1")
    bench.say(qm, fetch_order(1, lease=100), fetch_order(2, pid=1, lease=100))
    wire.client.hung = True
    other, _ = bench.bot(4, "b2")
    bench.pass_time(IDLE_SECONDS + 2)
    assert qm.of(Capacity)[-1] == Capacity(4)
    assert ids(other) == []
    bench.pass_time(50)
    assert ids(other) == []
    again, _ = bench.qm()
    assert [running.id for running in again.of(Running)] == ["q1-1", "q1-2"]
    bench.pass_time(30)
    assert ids(other) == []  # both orders are over by now
    assert again.of(Done) == []
    assert bench.engine.held == 0
    bench.say(again, fetch_order(3, pid=1))
    assert ids(other) == ["q1-3"]


def test_a_robot_that_connects_again_before_its_end_was_noticed(bench: Bench) -> None:
    qm, _ = bench.qm()
    old, _ = bench.bot(1, "b1")
    bench.say(qm, fetch_order(1))
    new, _ = bench.bot(1, "b1")
    assert old.lost
    assert ids(new) == ["q1-1"]
    assert qm.of(Capacity)[-1] == Capacity(1)


def test_an_order_whose_time_is_over_is_dropped_without_a_result(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.say(qm, fetch_order(1, lease=10), fetch_order(2, lease=100))
    bench.pass_time(12)
    bot, _ = bench.bot()
    assert ids(bot) == ["q1-2"]
    bench.pass_time(60)
    assert qm.of(Done) == []


def test_an_order_with_too_little_time_left_is_not_begun(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.bot()
    bench.say(qm, fetch_order(1, lease=2), fetch_order(2, lease=-5))
    assert bench.engine.held == 0
    assert qm.of(Done) == []


def test_a_robot_that_does_not_end_in_time_is_dropped(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot(2)
    bench.say(qm, fetch_order(1, lease=20), fetch_order(2, lease=200))
    assert bot.of(Fetch)[0].lease_seconds == 16
    bench.pass_time(25)
    assert bot.lost
    again, _ = bench.bot(2)
    assert ids(again) == ["q1-2"]
    assert qm.of(Done) == []


def test_deletes(bench: Bench, logged_errors: Any) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, fetch_order(1))
    bench.finish(bot, bot.of(Fetch)[0])
    file = qm.of(Done)[0].file
    bench.say(qm, Delete(1, 8, file))  # of another machine
    assert bench.files() == [content_path(file)]
    bench.say(qm, Delete(2, 7, file), Delete(3, 7, file), Delete(4, 7, 123456))
    assert bench.files() == []
    assert [deleted.id for deleted in qm.of(Deleted)] == [2, 3, 4]
    assert len(logged_errors.flush("came to machine 7")) == 1


class BrokenDisk(Disk):
    """Fails as told."""

    broken = False

    def rename(self, source: str, target: str) -> None:
        if self.broken:
            raise OSError(28, "No space left on device")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        if self.broken:
            raise OSError(5, "Input/output error")
        super().remove(path)


def test_a_failing_disk_stops_the_work_for_a_while(tmp_path: Path, logged_errors: Any) -> None:
    disk = BrokenDisk()
    bench = Bench(tmp_path, disk)
    qm, _ = bench.qm()
    bot, _ = bench.bot(1)
    bench.say(qm, *[fetch_order(number) for number in range(1, 5)])
    disk.broken = True
    bench.finish(bot, bot.of(Fetch)[0])
    (result,) = qm.of(Done)
    assert (result.code, result.file) == (CODES["store-failed"], None)
    assert "No space" in result.detail
    assert qm.of(Capacity)[-1] == Capacity(0)
    assert len(bot.of(Fetch)) == 1
    bench.say(qm, Delete(1, 7, 1))
    assert qm.of(Deleted) == []
    bench.pass_time(PAUSE_FIRST_SECONDS)
    assert qm.of(Capacity)[-1] == Capacity(1)
    bench.say(bot, done(bot.of(Fetch)[1], CODES["store-failed"]))  # the robot says so, too
    bench.pass_time(PAUSE_FIRST_SECONDS)
    assert len(bot.of(Fetch)) == 2  # this time it waits longer
    bench.pass_time(PAUSE_FIRST_SECONDS)
    disk.broken = False
    bench.finish(bot, bot.of(Fetch)[2])
    assert qm.of(Done)[-1].code == 0
    assert len(logged_errors.flush("Content cannot be stored")) == 2
    assert len(logged_errors.flush("cannot be removed")) == 1


def test_a_result_without_its_file_is_no_success(bench: Bench, logged_errors: Any) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, fetch_order(1))
    bench.say(bot, done(bot.of(Fetch)[0]))
    assert qm.of(Done)[0].code == CODES["store-failed"]
    assert logged_errors.flush("Content cannot be stored")


def test_no_name_can_be_reserved(tmp_path: Path, logged_errors: Any) -> None:
    bench = Bench(tmp_path)
    real = bench.content.reserve

    def fail() -> int:
        raise OSError(28, "No space left on device")

    bench.content.reserve = fail  # type: ignore[method-assign]
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, fetch_order(1), fetch_order(2))
    assert bot.of(Fetch) == []
    bench.content.reserve = real  # type: ignore[method-assign]
    bench.pass_time(PAUSE_FIRST_SECONDS)
    assert ids(bot) == ["q1-1", "q1-2"]
    assert logged_errors.flush("no file name can be reserved")


def test_too_many_orders_end_the_connection(tmp_path: Path) -> None:
    bench = Bench(tmp_path, orders_max=10)
    qm, _ = bench.qm()
    bench.say(qm, *[fetch_order(number) for number in range(30)])
    assert qm.lost
    assert bench.engine.held == 10
    again, _ = bench.qm()
    assert len(again.of(Running)) == 10


def test_too_many_robots(tmp_path: Path) -> None:
    bench = Bench(tmp_path, robots_max=2)
    _, wire = bench.bot(1, "b1")
    bench.bot(1, "b2")
    factory = bench.engine.robot_factory()
    assert factory.buildProtocol(None) is None
    wire.kill(wire.client)
    bench.settle()
    assert factory.buildProtocol(None) is not None


def test_nothing_is_left_in_the_reactor_after_stop(bench: Bench, logged_errors: Any) -> None:
    qm, wire = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, fetch_order(1), fetch_order(2))
    bench.say(bot, done(bot.of(Fetch)[0], CODES["store-failed"]))
    wire.kill(wire.server)
    bench.engine.stop()
    bench.settle()
    for peer in (qm, bot):
        peer.stream.abort()
    bench.settle()
    bench.clock.advance(0)
    qm.stream.connectionLost()
    assert bot.lost
    assert bench.clock.getDelayedCalls() == []
    assert logged_errors.flush("Content cannot be stored")


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_every_cut_of_the_bytes_gives_the_same(bench: Bench, size: int) -> None:
    qm, qm_wire = bench.qm()
    bot, bot_wire = bench.bot()

    def crawl() -> None:
        moved = True
        while moved:
            bench.clock.advance(0)
            ends = (*qm_wire.ends, *bot_wire.ends)
            moved = True in [wire_of(end, qm_wire, bot_wire).move(end, size) for end in ends]

    for number in range(1, 4):
        qm.say(fetch_order(number))
    crawl()
    for fetch in bot.of(Fetch):
        bench.write(fetch)
        bot.say(done(fetch))
    crawl()
    assert [result.number for result in qm.of(Done)] == [1, 2, 3]


def wire_of(end: Any, *wires: Wire) -> Wire:
    return next(wire for wire in wires if end in wire.ends)
