"""The BOT-M between a queue manager and robots that the test plays, on the real wires."""

from typing import Any

import pytest

from lcc.protocols.hello import Ready, is_earlier
from lcc.protocols.work import (
    Capacity,
    Done,
    Fetch,
    RecordedUpto,
    Robot,
    Robots,
    Running,
    addressed,
)
from lcc.storage.disk.content_paths import content_path
from tests.support.roles.botm import Bench, ids
from tests.support.roles.robots import FakePeer, done, fake_bot, fetch_order
from tests.support.transports import Wire


def test_a_fetch_from_order_to_result(bench: Bench) -> None:
    qm, _ = bench.qm()
    assert qm.peer_hello is not None
    assert (qm.peer_hello.role, qm.peer_hello.machine, qm.peer_hello.run) == ("botm", 7, "m1")
    assert bench.hellos == 1
    bot, _ = bench.bot()
    assert qm.heard == [Ready(), Capacity(4), Robots.telling([Robot("bot-b1", 4, 0, False)])]
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
    stream = bench.engine.downstream_factory().buildProtocol(None)
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
    early, _ = bench.bot(2, "b3")
    assert ids(early) == ["q1-3", "q1-4"]  # the dead one may not have closed all its connections yet
    bench.pass_time(1)
    assert bench.files() == []
    other, _ = bench.bot(3, "b2")
    assert ids(other) == ["q1-1", "q1-2"]
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
    assert kinds == [Done, Done, Running, Ready, Robots]
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
    bench.pass_time(1)
    other, _ = bench.bot(4, "b2")
    assert sorted(ids(other)) == ["q1-1", "q1-4"]
    for expected in ("q1-2", "q1-3"):
        fetch = next(fetch for fetch in reversed(other.of(Fetch)) if fetch.pid == 9)
        bench.finish(other, fetch)
        assert ids(other)[-1] == expected


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


def test_each_connection_has_a_name_and_what_is_meant_for_an_earlier_one_is_dropped(bench: Bench) -> None:
    qm, wire = bench.qm()
    bot, _ = bench.bot()
    wire.kill(wire.server)
    bench.settle()
    again, _ = bench.qm()
    assert qm.peer_hello is not None and again.peer_hello is not None
    first, second = qm.peer_hello.session, again.peer_hello.session
    assert first != second and is_earlier(first, second) and not is_earlier(second, first)
    again.raw(addressed(fetch_order(1), 7, first) + addressed(fetch_order(2), 7, second) + fetch_order(3).to_xml())
    bench.settle()
    assert ids(bot) == ["q1-2", "q1-3"]


@pytest.mark.parametrize("one", ["", "r", "r.", "r.x", f"r.{'9' * 5000}", "r.-", "other.1", "r.2", "r.\u0661"])
def test_which_connection_was_earlier(one: str) -> None:
    assert is_earlier("r.1", one) is (one == "r.2")
    assert not is_earlier(one, "r.1")
