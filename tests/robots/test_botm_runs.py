"""Runs at a BOT-M: the orders of one provider are with one robot at a time, whatever becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.error import ConnectionLost

from lcc.errors import CODES
from lcc.protocols.hello import KNOWS_INTERVAL, Hello
from lcc.protocols.work import DOWN, Capacity, Done, Fetch, Recall
from lcc.protocols.work import Running as StillRunning
from lcc.roles.botm.dispatcher import ENDING_SECONDS, ROBOT_MARGIN_SECONDS
from lcc.roles.botm.orders import HeldOrder, Run
from lcc.roles.botm.status import fetching
from tests.support.roles.botm import Bench as OneOrder
from tests.support.roles.botm import ids
from tests.support.roles.robots import READY, FakePeer, done, fetch_order
from tests.support.transports import Wire

HANDED_BACK, HOURS_OVER, NO_ROOM = CODES["handed-back"], CODES["hours-over"], CODES["no-room"]
PID = 5


def run_order(number: int, pid: int = PID, lease: int = 300, start: int | None = None, **fields: Any) -> Fetch:
    return fetch_order(number, pid, lease, start=start).replaced(**fields)


class Bench(OneOrder):
    """A BOT-M with robots that take runs."""

    def robot(self, capacity: int = 4, run: str = "b1", orders_max: int = 1000) -> tuple[FakePeer, Wire]:
        knows = KNOWS_INTERVAL if orders_max else ""
        hello = Hello("bot", f"bot-{run}", capacity=capacity, run=run, orders_max=orders_max, knows=knows)
        peer = FakePeer(self.clock, hello, "botm", DOWN)
        stream = self.engine.downstream_factory().buildProtocol(None)
        assert stream is not None
        wire = self.connect(peer.build_stream(), stream)
        peer.say(READY)
        self.settle()
        return peer, wire

    def run(self, qm: FakePeer, numbers: range, pid: int = PID, **fields: Any) -> None:
        for number in numbers:
            qm.say(run_order(number, pid, **fields))
        self.settle()

    def reset(self, wire: Wire) -> None:
        """Something between here and a robot resets the connection; the robot hangs."""
        wire.client.hung = True
        wire.server.lose(ConnectionLost())
        self.settle()

    def end(self, bot: FakePeer, *numbers: int, code: int = 0, wire_bytes: int = 0) -> None:
        for number in numbers:
            fetch = next(fetch for fetch in reversed(bot.of(Fetch)) if fetch.id == f"q1-{number}")
            if not code:
                self.write(fetch)
            bot.say(attrs.evolve(done(fetch, code), wire_bytes=wire_bytes))
        self.settle()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def given(peer: FakePeer) -> list[int]:
    """What a robot got."""
    return [int(each[3:]) for each in ids(peer)]


def told(peer: FakePeer) -> list[tuple[int, int]]:
    """The results that the queue manager heard, without a gap: numbers of orders, and codes."""
    results = peer.of(Done)
    assert [result.number for result in results] == list(range(1, len(results) + 1))
    return [(int(result.id[3:]), result.code) for result in results]


def test_a_run_goes_to_one_robot_and_grows_there(bench: Bench) -> None:
    qm, _ = bench.qm()
    first, _ = bench.robot(1, "b1")
    second, _ = bench.robot(4, "b2")
    bench.run(qm, range(1, 4))
    bench.run(qm, range(4, 6))
    with_it, other = (first, second) if given(first) else (second, first)
    assert given(with_it) == [1, 2, 3, 4, 5] and given(other) == []
    bench.end(with_it, 1, 2)
    bench.run(qm, range(6, 8))
    assert given(with_it) == [1, 2, 3, 4, 5, 6, 7] and given(other) == []
    bench.end(with_it, *range(3, 8))
    assert told(qm) == [(number, 0) for number in range(1, 8)]
    assert bench.engine.held == 7 and len({result.file for result in qm.of(Done)}) == 7


def test_a_run_takes_one_place_however_long_it_is(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(2)
    bench.run(qm, range(1, 6), pid=1)
    bench.run(qm, range(6, 8), pid=2)
    bench.run(qm, range(8, 10), pid=3)
    assert given(bot) == [1, 2, 3, 4, 5, 6, 7]
    bench.end(bot, 6)
    assert len(given(bot)) == 7
    bench.end(bot, 7)
    assert given(bot)[7:] == [8, 9]


def test_the_whole_run_of_a_lost_robot_goes_to_another_in_its_order(bench: Bench) -> None:
    qm, _ = bench.qm()
    lost, wire = bench.robot(1, "b1")
    bench.run(qm, range(1, 5))
    other, _ = bench.robot(4, "b2")
    bench.end(lost, 1)
    bench.write(lost.of(Fetch)[1], b"part")
    wire.kill(wire.client)
    bench.settle()
    bench.run(qm, range(5, 6))
    assert given(other) == []  # its fetches may end a moment after its connection
    bench.pass_time(ENDING_SECONDS, ENDING_SECONDS)
    assert given(other) == [2, 3, 4, 5]
    bench.end(other, 2, 3, 4, 5)
    assert told(qm) == [(number, 0) for number in range(1, 6)]
    assert len(bench.files()) == 5


def test_the_interval_counts_from_the_loss_of_a_robot(bench: Bench) -> None:
    qm, _ = bench.qm()
    _, wire = bench.robot(1, "b1")
    bench.run(qm, range(1, 3), interval_ms=3000)
    other, _ = bench.robot(4, "b2")
    bench.pass_time(10)
    wire.kill(wire.client)
    bench.settle()
    bench.pass_time(ENDING_SECONDS, ENDING_SECONDS)
    assert given(other) == [1, 2]
    assert [fetch.owed_ms for fetch in other.of(Fetch)] == [3000, 3000]
    bench.say(other, *(attrs.evolve(done(fetch, HANDED_BACK), owed_ms=2500) for fetch in other.of(Fetch)))
    assert [(result.code, result.owed_ms) for result in qm.of(Done)] == [(HANDED_BACK, 2500)] * 2


def test_the_rest_of_a_run_that_arrives_when_the_first_has_ended_finds_the_interval(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(1, "b1")
    bench.run(qm, range(1, 2), interval_ms=500)
    bench.end(bot, 1)
    assert told(qm) == [(1, 0)]  # nothing of it is here
    bench.run(qm, range(2, 3), interval_ms=500)  # was sent together with the first
    assert [fetch.owed_ms for fetch in bot.of(Fetch)] == [0, 500]
    bench.end(bot, 2)
    bench.run(qm, range(3, 4))
    assert [fetch.owed_ms for fetch in bot.of(Fetch)] == [0, 500, 0]  # it has no interval any longer


def test_the_interval_counts_from_when_a_fetch_began() -> None:
    run = Run(PID, 0)
    for number, code, elapsed_ms, paid_at in (
        (1, 0, 1500, 158.5),
        (2, HANDED_BACK, 0, 158.5),
        (3, NO_ROOM, 200, 159.8),
        (4, 503, 9000, 159.8),
    ):
        order = HeldOrder(run_order(number, interval_ms=60_000), 1000.0)
        run.ended(order, attrs.evolve(done(order.fetch, code), elapsed_ms=elapsed_ms), 100.0)
        assert run.paid_at == paid_at


def test_a_robot_of_an_older_version_gets_nothing_that_must_wait(bench: Bench) -> None:
    qm, _ = bench.qm()
    old, _ = bench.robot(4, "b1", orders_max=0)
    bench.run(qm, range(1, 4), interval_ms=3000)
    assert given(old) == [1]
    bench.end(old, 1)
    codes = told(qm)
    assert sorted(codes) == [(1, 0), (2, HANDED_BACK), (3, HANDED_BACK)] and given(old) == [1]


def test_the_run_of_a_robot_that_may_hang_is_held_back(bench: Bench) -> None:
    qm, _ = bench.qm()
    _, wire = bench.robot(1, "b1")
    bench.run(qm, range(1, 4))
    other, _ = bench.robot(4, "b2")
    bench.reset(wire)
    bench.run(qm, range(4, 5))
    bench.run(qm, range(10, 12), pid=6)
    bench.pass_time(60)
    assert given(other) == [10, 11]
    again, _ = bench.robot(1, "b1")
    assert given(again) + given(other)[2:] == [1, 2, 3, 4]


def test_what_came_after_is_carried_out_when_the_leases_of_a_robot_that_hangs_are_over(bench: Bench) -> None:
    """The orders that it may still have must not hold up what it never got."""
    qm, _ = bench.qm()
    _, wire = bench.robot(1, "b1")
    bench.run(qm, range(1, 3), lease=50)
    bench.run(qm, range(20, 21), pid=6, lease=280)  # waits
    other, _ = bench.robot(4, "b2")
    bench.reset(wire)
    bench.run(qm, range(3, 5), lease=200)
    bench.pass_time(44)
    assert given(other) == [20]
    bench.pass_time(3)
    assert given(other) == [20, 3, 4]
    again, _ = bench.robot(1, "b1")  # it takes nothing of that away
    assert given(again) == []
    bench.end(other, 3, 4)
    assert told(qm) == [(3, 0), (4, 0)]


def test_a_recall_of_what_waits(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.run(qm, range(1, 4))
    bench.say(qm, Recall(PID), Recall(PID), Recall(99))
    assert told(qm) == [(1, HANDED_BACK), (2, HANDED_BACK), (3, HANDED_BACK)]
    bench.run(qm, range(4, 6))
    bot, _ = bench.robot()
    assert given(bot) == [4, 5] and bot.of(Recall) == []


def test_a_recall_of_what_is_out(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot()
    bench.run(qm, range(1, 4))
    bench.say(qm, Recall(PID))
    assert told(qm) == [] and bot.of(Recall) == [Recall(PID)]
    bench.end(bot, 2, 3, code=HANDED_BACK)
    bench.end(bot, 1)
    assert told(qm) == [(2, HANDED_BACK), (3, HANDED_BACK), (1, 0)]
    bench.run(qm, range(4, 6))
    assert given(bot)[3:] == [4, 5] and bot.of(Recall) == [Recall(PID)]


def test_a_recall_of_what_is_held_back_comes_back_with_the_robot(bench: Bench) -> None:
    qm, _ = bench.qm()
    _, wire = bench.robot(1, "b1")
    bench.run(qm, range(1, 3))
    other, _ = bench.robot(4, "b2")
    bench.reset(wire)
    bench.run(qm, range(3, 4))
    bench.say(qm, Recall(PID))
    assert told(qm) == [(3, HANDED_BACK)]
    again, _ = bench.robot(1, "b1")
    assert told(qm)[1:] == [(1, HANDED_BACK), (2, HANDED_BACK)]
    assert given(again) == given(other) == []
    bench.run(qm, range(4, 5))
    assert given(again) + given(other) == [4]


def test_a_recall_while_a_lost_robot_ends(bench: Bench) -> None:
    qm, _ = bench.qm()
    _, wire = bench.robot(1, "b1")
    bench.run(qm, range(1, 3))
    wire.kill(wire.client)
    bench.settle()
    bench.say(qm, Recall(PID))
    assert told(qm) == []
    bench.pass_time(1)
    assert told(qm) == [(1, HANDED_BACK), (2, HANDED_BACK)]


def test_a_robot_of_an_older_version_gets_one_at_a_time(bench: Bench) -> None:
    qm, _ = bench.qm()
    old, _ = bench.robot(2, orders_max=0)
    bench.run(qm, range(1, 4))
    bench.run(qm, range(10, 12), pid=6)
    assert given(old) == [1, 10]
    bench.end(old, 1)
    assert given(old) == [1, 10, 2]
    bench.run(qm, range(4, 5))
    bench.say(qm, Recall(6))
    assert old.of(Recall) == [] and told(qm) == [(1, 0), (11, HANDED_BACK)]
    for number in (2, 3, 4):
        bench.end(old, number)
    bench.end(old, 10)
    assert given(old) == [1, 10, 2, 3, 4]


def test_an_older_and_a_newer_robot(bench: Bench) -> None:
    qm, _ = bench.qm()
    old, _ = bench.robot(1, "b1", orders_max=0)
    bench.run(qm, range(1, 4))
    new, _ = bench.robot(1, "b2")
    assert (given(old), given(new)) == ([1], [])
    bench.run(qm, range(10, 11), pid=6)
    bench.end(new, 10)
    bench.end(old, 1)
    assert given(old) + given(new)[1:] == ([1, 2] if given(new) == [10] else [1, 2, 3])


def test_the_run_of_a_paused_robot_does_not_grow_there(bench: Bench) -> None:
    qm, _ = bench.qm()
    paused, _ = bench.robot(1, "b1")
    bench.run(qm, range(1, 3))
    bench.say(paused, Capacity(0, paused="bot"))
    other, _ = bench.robot(1, "b2")
    bench.run(qm, range(3, 5))
    bench.end(paused, 1)
    assert given(paused) == [1, 2] and given(other) == []
    bench.end(paused, 2)
    assert given(paused) == [1, 2] and given(other) == [3, 4]


def test_a_robot_that_is_resumed_in_mid_run_gets_the_rest(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(1, "b1")
    bench.run(qm, range(1, 3))
    bench.say(bot, Capacity(0, paused="bot"))
    bench.run(qm, range(3, 5))
    bench.say(bot, Capacity(1))
    bench.end(bot, 1, 2)
    assert given(bot) == [1, 2, 3, 4]


def test_the_next_free_robot_goes_to_the_highest_priority(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(1)
    bench.run(qm, range(1, 2), pid=1)
    bench.run(qm, range(10, 12), pid=2, priority=0)
    bench.run(qm, range(20, 22), pid=3, priority=1)
    bench.run(qm, range(30, 32), pid=4, priority=2)
    bench.run(qm, range(40, 42), pid=5, priority=2)
    bench.run(qm, range(50, 51), pid=6, priority=99)
    for number in (1, 30, 31, 40, 41, 50, 20, 21, 10, 11):
        bench.end(bot, number)
    assert given(bot) == [1, 30, 31, 40, 41, 50, 20, 21, 10, 11]


def test_what_is_owed_travels_to_another_robot(bench: Bench) -> None:
    qm, _ = bench.qm()
    lost, wire = bench.robot(1, "b1")
    bench.run(qm, range(1, 4), rate=1000)
    assert [fetch.owed_ms for fetch in lost.of(Fetch)] == [0, 0, 0]
    bench.end(lost, 1, wire_bytes=5000)
    wire.kill(wire.client)
    bench.settle()
    bench.pass_time(1)
    other, _ = bench.robot(1, "b2")
    assert given(other) == [2, 3]
    assert [fetch.owed_ms for fetch in other.of(Fetch)] == [4000, 4000]


def test_no_name_can_be_reserved_in_mid_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged_errors: Any
) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(1)
    reserve = bench.content.reserve
    names = 2

    def reserve_some() -> int:
        nonlocal names
        names -= 1
        if names < 0:
            raise OSError(5, "Input/output error")
        return reserve()

    monkeypatch.setattr(bench.content, "reserve", reserve_some)
    bench.run(qm, range(1, 5))
    assert given(bot) == [1, 2] and qm.of(Capacity)[-1].fetches == 0
    assert bot.of(Recall) == [Recall(PID)]
    bench.end(bot, 2, code=HANDED_BACK)
    bench.run(qm, range(5, 6))  # was on its way
    names = 100
    bench.pass_time(6)
    assert given(bot) == [1, 2, 5] and qm.of(Capacity)[-1].fetches == 1
    bench.end(bot, 1, 5)
    assert sorted(told(qm)) == [(1, 0), (2, HANDED_BACK), (3, HANDED_BACK), (4, HANDED_BACK), (5, 0)]
    logged_errors.flush("Cannot store content")


def test_no_name_can_be_reserved_for_the_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged_errors: Any
) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(1)

    def fails() -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(bench.content, "reserve", fails)
        bench.run(qm, range(1, 3))
        bench.run(qm, range(3, 4), pid=6)
    assert given(bot) == []
    bench.pass_time(6)
    assert given(bot) == [1, 2]
    bench.end(bot, 1, 2)
    assert given(bot) == [1, 2, 3]
    logged_errors.flush("Cannot store content")


def test_no_room_in_mid_run(bench: Bench, monkeypatch: pytest.MonkeyPatch, logged_errors: Any) -> None:
    """What the robot has not begun is asked back: nothing of it could be stored."""
    qm, _ = bench.qm()
    bot, _ = bench.robot(1)
    bench.engine.start()
    bench.run(qm, range(1, 4))
    bench.run(qm, range(10, 12), pid=6)
    monkeypatch.setattr(bench.content, "no_room", lambda thorough: "full")
    bench.pass_time(5)
    assert told(qm) == [(10, NO_ROOM), (11, NO_ROOM)]
    assert bot.of(Recall) == [Recall(PID)]
    bench.end(bot, 2, 3, code=HANDED_BACK)
    bench.end(bot, 1, code=CODES["store-failed"])
    assert told(qm)[2:] == [(2, HANDED_BACK), (3, HANDED_BACK), (1, NO_ROOM)]
    monkeypatch.undo()
    bench.pass_time(5)
    bench.run(qm, range(4, 6))
    assert given(bot)[3:] == [4, 5]
    assert len(logged_errors.flush("No room for content")) == 1
    bench.engine.stop()


def test_leases_and_hours_that_end_for_a_part_of_a_run(bench: Bench) -> None:
    qm, _ = bench.qm()
    orders = [
        run_order(1, lease=300),
        run_order(2, lease=10),
        run_order(3, start=5),
        run_order(4),
        run_order(5, lease=2),
    ]
    bench.say(qm, *orders)
    bench.pass_time(12)
    bot, _ = bench.robot(1)
    too_late = [(5, HANDED_BACK), (2, HANDED_BACK), (3, HOURS_OVER)]
    assert given(bot) == [1, 4] and told(qm) == too_late
    assert bot.of(Fetch)[0].lease_seconds == 270 - 12 - ROBOT_MARGIN_SECONDS
    bench.end(bot, 1, 4)
    assert told(qm) == [*too_late, (1, 0), (4, 0)]


def test_a_run_of_which_nothing_can_be_begun_leaves_its_place(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(1)
    bench.say(qm, run_order(1, lease=2), run_order(2, start=0), run_order(3, pid=6))
    assert given(bot) == [3] and told(qm) == [(1, HANDED_BACK), (2, HOURS_OVER)]
    bench.run(qm, range(4, 5))
    bench.end(bot, 3)
    assert given(bot) == [3, 4]


def test_an_order_out_of_turn_that_is_over_does_not_end_the_run(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(1, "b1")
    other, _ = bench.robot(1, "b2")
    bench.run(qm, range(1, 4))
    with_it, other = (bot, other) if given(bot) else (other, bot)
    bench.end(with_it, 2, code=HOURS_OVER)
    bench.run(qm, range(4, 5))
    assert given(with_it) == [1, 2, 3, 4] and given(other) == []


def test_all_orders_of_a_run_are_still_running_for_a_new_queue_manager(bench: Bench) -> None:
    qm, wire = bench.qm()
    bot, _ = bench.robot(1)
    bench.run(qm, range(1, 4))
    bench.end(bot, 1)
    wire.kill(wire.server)
    bench.settle()
    bench.end(bot, 2)
    again, _ = bench.qm()
    assert [order.id for order in again.of(StillRunning)] == ["q1-3"]
    assert told(again) == [(1, 0), (2, 0)]
    bench.say(again, Recall(PID))
    assert bot.of(Recall) == [Recall(PID)]
    bench.end(bot, 3, code=HANDED_BACK)
    assert told(again) == [(1, 0), (2, 0), (3, HANDED_BACK)]


def test_what_waits_at_a_robot_is_not_shown_as_being_fetched(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.robot(2)
    bench.run(qm, range(1, 4))
    bench.pass_time(2)
    bench.end(bot, 1)
    bench.pass_time(3)
    shown = fetching(bench.engine.orders, bench.content, bench.clock.seconds())
    assert [(each["url"].rpartition("/")[2], each["seconds"]) for each in shown] == [("2", 3.0)]


def test_runs_that_were_sent_back_leave_nothing(bench: Bench) -> None:
    qm, _ = bench.qm()
    for number in range(1, 200):
        bench.say(qm, run_order(number), Recall(PID))
    orders = bench.engine._dispatcher.orders
    assert len(orders) == 0 and not any(orders._queues) and not orders._runs and not orders._grown
