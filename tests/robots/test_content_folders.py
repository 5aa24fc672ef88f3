"""A robot that writes to another content folder than that of its BOT-M: it alone gets no orders."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock

from lcc.protocols.work import Capacity, Fetch
from lcc.roles.bot.engine import Robot
from lcc.roles.botm.console import BotmCommands
from lcc.roles.botm.robots import FOLDER_CHARS
from lcc.storage.disk.content_folder import OWNER, AttemptFolder
from lcc.storage.disk.file_system import Disk
from tests.support.roles.botm import Bench, ids
from tests.support.roles.robots import fetch_order


def robot_of(folder: Path, bench: Bench) -> Robot:
    """A real one that writes to this folder."""
    attempts = AttemptFolder(folder)
    return Robot("bot", 4, bench.clock, {}, attempts.sink, "r1", str(folder), attempts.owner)


def test_it_gets_no_orders_and_the_others_go_on(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    bench.engine.start()
    other = tmp_path_factory.mktemp("other")
    qm, _ = bench.qm()
    theirs = robot_of(other, bench).hello()
    wrong, wire = bench.bot(4, "b1", theirs.folder, theirs.owner)
    right, _ = bench.bot(2, "b2", str(bench.path), robot_of(bench.path, bench).hello().owner)
    refused = f"robot bot-b1: its content folder, {other}, is not that of its BOT-M, {bench.path}"
    assert qm.of(Capacity) == [Capacity(0, refused=refused), Capacity(2, refused=refused)]
    assert [robot.name for robot in bench.engine.robots] == ["bot-b2"]
    assert ("no orders", refused.replace("robot bot-b1:", "bot-b1:")) in BotmCommands(bench.engine).est()
    bench.say(qm, *[fetch_order(number) for number in range(1, 4)])
    assert (ids(wrong), ids(right)) == ([], ["q1-1", "q1-2"])
    bench.say(wrong, Capacity(8))
    assert (ids(wrong), ids(right)) == ([], ["q1-1", "q1-2"])
    bench.finish(right, right.of(Fetch)[0])
    assert ids(right) == ["q1-1", "q1-2", "q1-3"]
    wire.kill(wire.client)
    bench.settle()
    assert qm.of(Capacity)[-1] == Capacity(2)
    again, _ = bench.bot(4, "b1", str(bench.path), bench.content.owner)  # somebody has mended its configuration
    assert qm.of(Capacity)[-1] == Capacity(6)
    bench.say(qm, fetch_order(9))
    assert ids(again) == ["q1-9"]


def test_a_robot_that_connects_again_is_looked_at_again(bench: Bench) -> None:
    bench.engine.start()
    qm, _ = bench.qm()
    bench.bot(4, "b1", "/elsewhere")
    again, _ = bench.bot(4, "b1", str(bench.path), bench.content.owner)  # the end of the first is not noticed yet
    assert qm.of(Capacity)[-1] == Capacity(4)
    bench.say(qm, fetch_order(1))
    assert ids(again) == ["q1-1"]


def test_a_robot_of_an_older_version_tells_nothing_and_gets_orders(bench: Bench) -> None:
    bench.engine.start()
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, fetch_order(1))
    assert ids(bot) == ["q1-1"]


class NoNote(Disk):
    """Whose content folder it is cannot be noted."""

    def patch(self, path: object, offset: int, data: bytes, *, create: bool = False) -> None:
        if str(path).endswith(OWNER):
            raise OSError(28, "No space left on device")
        super().patch(path, offset, data, create=create)  # type: ignore[arg-type]


def test_what_cannot_be_noted_is_not_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, NoNote())
    bench.engine.start()
    qm, _ = bench.qm()
    bot, _ = bench.bot(4, "b1", str(tmp_path), "an earlier run")
    bench.say(qm, fetch_order(1))
    assert ids(bot) == ["q1-1"]


def test_what_is_told_of_them_is_bounded(bench: Bench) -> None:
    bench.engine.start()
    qm, _ = bench.qm()
    for number in range(9):
        bench.bot(4, f"b{number}", "/x" * 5000)
    told = qm.of(Capacity)[-1].refused
    assert told.count("robot bot-") == 3
    assert told.endswith("; and 6 more")
    assert len(told) < 4 * (2 * FOLDER_CHARS + 200)


def test_a_robot_reads_the_owner_at_each_connection(tmp_path: Path) -> None:
    robot = Robot("bot", 4, Clock(), {}, lambda _: None, "r1", "f", AttemptFolder(tmp_path).owner)  # type: ignore[arg-type, return-value]
    assert robot.hello().owner == ""
    bench = Bench(tmp_path)
    bench.content.claim("first")
    assert robot.hello().owner == "first"
    bench.content.claim("a later run")
    assert robot.hello().owner == "a later run"
    bench.content.claim("short")
    assert (robot.hello().owner, robot.hello().folder) == ("short", "f")
