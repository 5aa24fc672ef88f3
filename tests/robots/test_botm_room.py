"""The BOT-M when its disk has no room: orders go back, none come, and all goes on by itself."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from lcc.errors import CODES
from lcc.protocols.work import Capacity, Done, Fetch
from lcc.roles.botm.disk_health import LOOK_SECONDS
from lcc.storage.disk.file_system import Disk, Space
from tests.support.roles.botm import Bench, ids
from tests.support.roles.robots import done, fetch_order

NO_ROOM, STORE_FAILED = CODES["no-room"], CODES["store-failed"]


class FullDisk(Disk):
    """Full, or failing, while the test says so."""

    full = False
    fault = 0

    def space(self, folder: Any) -> Space:
        return Space(0 if self.full else 1 << 30, 1000, True)

    def create(self, path: Any) -> Any:
        if self.fault:
            raise OSError(self.fault, "it fails")
        return super().create(path)


@pytest.fixture
def disk() -> FullDisk:
    return FullDisk()


@pytest.fixture
def bench(tmp_path: Path, disk: FullDisk) -> Bench:
    bench = Bench(tmp_path, disk, content_reserve=1 << 20)
    bench.engine.start()
    return bench


def test_a_disk_that_fills_up_ends_the_work_until_there_is_room(
    bench: Bench, disk: FullDisk, logged_errors: Any
) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot(2)
    bench.say(qm, *[fetch_order(number) for number in range(1, 6)])
    assert ids(bot) == ["q1-1", "q1-2"]
    disk.full = True
    bench.pass_time(LOOK_SECONDS)
    told = qm.of(Capacity)[-1]
    assert told.fetches == 0 and "[botm] content_reserve" in told.trouble and str(bench.path) in told.trouble
    assert [(result.id, result.code) for result in qm.of(Done)] == [(f"q1-{n}", NO_ROOM) for n in (3, 4, 5)]
    # What is out goes on; if it can still be stored, it is.
    bench.finish(bot, bot.of(Fetch)[0])
    assert qm.of(Done)[-1].code == 0
    bench.say(bot, done(bot.of(Fetch)[1], STORE_FAILED))
    assert (qm.of(Done)[-1].id, qm.of(Done)[-1].code) == ("q1-2", NO_ROOM)
    bench.say(qm, fetch_order(6))  # it was on its way
    assert (qm.of(Done)[-1].id, qm.of(Done)[-1].code) == ("q1-6", NO_ROOM)
    assert len(bot.of(Fetch)) == 2 and bench.engine.held == len(qm.of(Done))
    disk.full = False
    bench.pass_time(LOOK_SECONDS)
    assert qm.of(Capacity)[-1] == Capacity(2)
    bench.say(qm, fetch_order(7))
    assert ids(bot)[-1] == "q1-7"
    assert len(logged_errors.flush("No room for content")) == 1


def test_the_capacity_is_told_before_orders_go_back(bench: Bench, disk: FullDisk, logged_errors: Any) -> None:
    """Else the queue manager would send them here again."""
    qm, _ = bench.qm()
    bot, _ = bench.bot(1)
    bench.say(qm, fetch_order(1), fetch_order(2))
    disk.full = True
    bench.say(bot, done(bot.of(Fetch)[0], STORE_FAILED))
    said = [message for message in qm.heard if isinstance(message, (Capacity, Done))]
    assert isinstance(said[-3], Capacity) and said[-3].fetches == 0
    assert {message.id for message in said[-2:] if isinstance(message, Done)} == {"q1-1", "q1-2"}
    logged_errors.flush("No room")


@pytest.mark.parametrize("fault", [errno.EIO, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_takes_no_writes_fails_no_url(
    bench: Bench, disk: FullDisk, fault: int, logged_errors: Any
) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot(1)
    bench.say(qm, fetch_order(1))
    disk.fault = fault
    bench.say(bot, done(bot.of(Fetch)[0], STORE_FAILED))
    assert qm.of(Done)[-1].code == NO_ROOM
    bench.pass_time(10 * LOOK_SECONDS)
    assert qm.of(Capacity)[-1].fetches == 0
    disk.fault = 0
    bench.pass_time(LOOK_SECONDS)
    assert qm.of(Capacity)[-1] == Capacity(1)
    assert len(logged_errors.flush("No room")) == 1


def test_orders_of_a_robot_that_is_lost_meanwhile_go_back_too(
    bench: Bench, disk: FullDisk, logged_errors: Any
) -> None:
    qm, _ = bench.qm()
    _bot, wire = bench.bot(1)
    bench.say(qm, fetch_order(1))
    disk.full = True
    bench.pass_time(LOOK_SECONDS)
    wire.kill(wire.client)
    bench.settle()
    bench.pass_time(1)
    assert [(result.id, result.code) for result in qm.of(Done)] == [("q1-1", NO_ROOM)]
    logged_errors.flush("No room")


def test_a_botm_that_starts_on_a_full_disk_says_so(tmp_path: Path, disk: FullDisk, logged_errors: Any) -> None:
    disk.full = True
    bench = Bench(tmp_path, disk, content_reserve=1 << 20)
    bench.engine.start()
    bench.bot(3)
    qm, _ = bench.qm()
    (told,) = qm.of(Capacity)
    assert told.fetches == 0 and told.trouble
    disk.full = False
    bench.pass_time(LOOK_SECONDS)
    assert qm.of(Capacity)[-1] == Capacity(3)
    logged_errors.flush("No room")
