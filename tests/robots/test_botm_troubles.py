"""The BOT-M when robots, disks and peers fail, and when time runs out."""

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from lcc.errors import CODES
from lcc.protocols.work import (
    Capacity,
    Delete,
    Deleted,
    Done,
    Fetch,
    Recall,
    Running,
)
from lcc.roles.botm.content_orders import ContentOrders
from lcc.roles.botm.counters import Counters
from lcc.roles.botm.disk_health import PAUSE_FIRST_SECONDS
from lcc.roles.peer import IDLE_SECONDS
from lcc.storage.disk.content_paths import content_path
from lcc.storage.disk.file_system import Disk
from tests.support.logs import LoggedErrors
from tests.support.roles.botm import Bench, ids
from tests.support.roles.robots import done, fetch_order

HANDED_BACK = CODES["handed-back"]


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
    assert qm.of(Capacity)[-1] == Capacity(4, hanging=1), "what hangs takes no place from what the other robot can do"
    assert ids(other) == []
    bench.pass_time(50)
    assert ids(other) == []
    again, _ = bench.qm()
    assert [running.id for running in again.of(Running)] == ["q1-1", "q1-2"]
    bench.pass_time(30)
    assert ids(other) == []  # both orders are over by now
    (back,) = again.of(Done)
    assert (back.id, back.code) == ("q1-2", HANDED_BACK), "the robot never got it"
    assert bench.engine.held == 1, "that result"
    assert again.of(Capacity)[-1] == Capacity(4)
    bench.say(again, fetch_order(3, pid=1))
    assert ids(other) == ["q1-3"]


def test_what_hangs_and_was_recalled_has_no_place(bench: Bench) -> None:
    """The queue manager counts it no longer, and has sent something else."""
    qm, _ = bench.qm()
    _, wire = bench.bot(4, "b1")
    bench.say(qm, *[fetch_order(number, lease=100) for number in (1, 2, 3, 4)])
    wire.client.hung = True
    bench.bot(4, "b2")
    bench.pass_time(IDLE_SECONDS + 2)
    assert qm.of(Capacity)[-1] == Capacity(4, hanging=4)
    bench.say(qm, *[Recall(number) for number in (1, 2, 3)])
    assert qm.of(Capacity)[-1] == Capacity(4, hanging=1)


@pytest.mark.parametrize("lost", [False, True], ids=["its lease passes", "it connects again"])
def test_what_was_dropped_has_a_place_until_the_queue_manager_gives_it_up(bench: Bench, lost: bool) -> None:
    qm, _ = bench.qm()
    for number in (1, 2):
        _, wire = bench.bot(1, f"b{number}")
        bench.say(qm, fetch_order(number, lease=100))
        wire.client.hung = True
    bench.bot(4, "b3")
    bench.pass_time(92)
    assert bench.engine.held == 0 and qm.of(Capacity)[-1] == Capacity(4, hanging=2)
    bench.say(qm, fetch_order(3, pid=1))
    bench.pass_time(1)
    assert qm.of(Capacity)[-1] == Capacity(4, hanging=1), "that provider has a place by what it has now"
    if lost:  # it hears what is held, and so that the rest is not
        again, _ = bench.qm()
        bench.pass_time(2)
        assert again.of(Capacity) == []
    else:
        bench.pass_time(10)
        assert qm.of(Capacity)[-1] == Capacity(4)


def test_a_robot_that_connects_again_before_its_end_was_noticed(bench: Bench) -> None:
    qm, _ = bench.qm()
    old, _ = bench.bot(1, "b1")
    bench.say(qm, fetch_order(1))
    new, _ = bench.bot(1, "b1")
    assert old.lost
    bench.pass_time(1)
    assert ids(new) == ["q1-1"]
    assert qm.of(Capacity)[-1] == Capacity(1)


def test_an_order_that_has_waited_until_its_time_is_over_is_handed_back(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.say(qm, fetch_order(1, lease=10), fetch_order(2, lease=100))
    bench.pass_time(12)
    bot, _ = bench.bot()
    assert ids(bot) == ["q1-2"]
    bench.pass_time(60)
    assert [(done.id, done.code) for done in qm.of(Done)] == [("q1-1", HANDED_BACK)]


def test_an_order_with_too_little_time_left_is_not_begun(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.bot()
    bench.say(qm, fetch_order(1, lease=2), fetch_order(2, lease=-5))
    assert [(done.id, done.code) for done in qm.of(Done)] == [("q1-1", HANDED_BACK), ("q1-2", HANDED_BACK)]


def test_an_order_that_waited_while_the_process_stood_still_is_handed_back(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.say(qm, fetch_order(1, lease=20))
    bench.pass_time(5)
    bench.clock.rightNow += 15  # it was stopped, or its machine was
    bench.pass_time(5)
    assert [(done.id, done.code) for done in qm.of(Done)] == [("q1-1", HANDED_BACK)]


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
    assert len(logged_errors.flush("this is machine 7")) == 1


class BrokenDisk(Disk):
    """Fails as told."""

    broken = False

    def rename(self, source: Any, target: Any) -> None:
        if self.broken:
            raise OSError(28, "No space left on device")
        super().rename(source, target)

    def remove(self, path: Any) -> bool:
        if self.broken:
            raise OSError(5, "Input/output error")
        return super().remove(path)


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
    assert len(logged_errors.flush("Cannot store content")) == 2
    assert len(logged_errors.flush("Cannot remove content file")) == 1


def test_many_files_that_cannot_be_removed_are_one_message(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    disk = BrokenDisk()
    bench = Bench(tmp_path, disk)
    disk.broken = True
    working: list[tuple[Deferred[Any], tuple[Any, ...]]] = []

    def in_thread(*call: Any) -> Deferred[Any]:
        working.append((Deferred(), call))
        return working[-1][0]

    orders = ContentOrders(bench.content, 7, in_thread, Counters())
    link: Any = None
    for number in range(1, 6):
        orders.delete(link, Delete(number, 7, number))
    while working:
        called, (function, *arguments) = working.pop()
        called.callback(function(*arguments))
    first, others = logged_errors.flush("Cannot remove content file")
    assert first == "Cannot remove content file 1: [Errno 5] Input/output error"
    assert others == "Cannot remove content file 2 and 3 other files: [Errno 5] Input/output error"


def test_a_result_without_its_file_is_no_success(bench: Bench, logged_errors: Any) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, fetch_order(1))
    bench.say(bot, done(bot.of(Fetch)[0]))
    assert qm.of(Done)[0].code == CODES["store-failed"]
    assert logged_errors.flush("Cannot store content")


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
    assert logged_errors.flush("cannot reserve a file name")


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
    factory = bench.engine.downstream_factory()
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
    assert logged_errors.flush("Cannot store content")


def test_an_order_that_is_too_late_goes_back(bench: Bench) -> None:
    """Its hours end while it waits for a robot."""
    qm, _ = bench.qm()
    bot, _ = bench.bot(1)
    bench.say(qm, fetch_order(1), fetch_order(2, start=10), fetch_order(3))
    (first,) = bot.of(Fetch)
    bench.pass_time(11.0)
    bench.settle()
    (late,) = qm.of(Done)
    assert (late.id, late.code, late.number, late.file) == ("q1-2", CODES["hours-over"], 1, None)
    bench.finish(bot, first)
    assert ids(bot) == ["q1-1", "q1-3"]


def test_a_robot_hears_how_much_time_is_left_to_begin(bench: Bench) -> None:
    qm, _ = bench.qm()
    bench.say(qm, fetch_order(1, start=100), fetch_order(2))
    bench.pass_time(10.0)
    bot, _ = bench.bot()
    assert [fetch.start_seconds for fetch in bot.of(Fetch)] == [90, None]


def test_a_fetch_does_not_begin_again_after_its_hours(bench: Bench) -> None:
    """Its robot dies when they are over; the next one must not fetch it."""
    qm, _ = bench.qm()
    _, wire = bench.bot(1)
    bench.say(qm, fetch_order(1, start=10))
    bench.pass_time(12.0)
    assert qm.of(Done) == []  # it began in time
    wire.kill(wire.client)
    bench.settle()
    other, _ = bench.bot(1, "b2")
    bench.pass_time(1)
    assert ids(other) == []
    (late,) = qm.of(Done)
    assert late.code == CODES["hours-over"]


def test_an_order_that_a_hanging_robot_may_still_carry_out_does_not_go_back(bench: Bench) -> None:
    qm, _ = bench.qm()
    bad, _ = bench.bot(1, "b1")
    bench.say(qm, fetch_order(1, start=10))
    bad.raw("<nonsense/>")
    bench.settle()
    bench.pass_time(12.0)
    assert qm.of(Done) == []
    bench.bot(1, "b1")
    (late,) = qm.of(Done)
    assert late.code == CODES["hours-over"]


def test_files_are_removed_in_a_thread_all_that_were_ordered_meanwhile_at_once(bench: Bench) -> None:
    running: list[tuple[list[int], Deferred[Any]]] = []

    def in_thread(remove: Any, deletes: Any) -> Deferred[Any]:
        running.append(([delete.id for delete in deletes], Deferred()))
        return running[-1][1].addCallback(lambda _: remove(deletes))

    bench.engine._content_orders._in_thread = in_thread
    qm, wire = bench.qm()
    bench.say(qm, *[Delete(number, 7, number) for number in (1, 2, 3)])
    assert [ids for ids, _ in running] == [[1]] and qm.of(Deleted) == []
    running[0][1].callback(None)
    bench.settle()
    assert [ids for ids, _ in running] == [[1], [2, 3]]
    assert [deleted.id for deleted in qm.of(Deleted)] == [1]
    bench.say(qm, Delete(4, 7, 4))
    wire.kill(wire.server)
    again, _ = bench.qm()
    running[1][1].callback(None)
    bench.settle()
    assert len(running) == 2 and again.of(Deleted) == [], "it orders them again"
    bench.say(again, Delete(2, 7, 2))
    running[2][1].callback(None)
    bench.settle()
    assert [deleted.id for deleted in again.of(Deleted)] == [2]
