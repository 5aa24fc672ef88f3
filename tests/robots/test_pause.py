"""pause() and resume() of a BOT-M and of a robot."""

from __future__ import annotations

from pathlib import Path

import pytest

from lcc.protocols.hello import Ready
from lcc.protocols.work import Capacity, Done, Fetch
from lcc.roles.bot.console import BotCommands
from lcc.roles.botm.console import BotmCommands
from tests.support.roles.botm import Bench
from tests.support.roles.robots import fetch_order

from . import test_bot


def test_a_botm_takes_no_new_orders(bench: Bench) -> None:
    commands = BotmCommands(bench.engine)
    qm, _ = bench.qm()
    bot, _ = bench.bot(capacity=1)
    bench.say(qm, fetch_order(1), fetch_order(2))
    commands.pause()
    bench.settle()
    assert qm.of(Capacity)[-1] == Capacity(0, "", "BOT-M")
    for _ in range(2):  # what is here is carried out
        bench.finish(bot, bot.of(Fetch)[-1])
    assert len(qm.of(Done)) == 2
    assert "PAUSED" in str(commands.est())
    commands.resume()
    bench.settle()
    assert qm.of(Capacity)[-1] == Capacity(1)


def test_a_queue_manager_that_comes_later_is_told(bench: Bench) -> None:
    BotmCommands(bench.engine).pause()
    bench.bot()
    qm, _ = bench.qm()
    assert qm.peer_hello is not None and qm.peer_hello.capacity == 0
    assert qm.of(Capacity) == [Capacity(0, "", "BOT-M")]


def test_a_paused_robot_gets_no_orders(bench: Bench) -> None:
    qm, _ = bench.qm()
    paused, _ = bench.bot(capacity=2, run="b1")
    other, _ = bench.bot(capacity=1, run="b2")
    bench.say(paused, Capacity(0, paused="bot"))
    assert qm.of(Capacity)[-1] == Capacity(1, "", "robot bot-b1")
    bench.say(qm, fetch_order(1), fetch_order(2))
    assert not paused.of(Fetch) and len(other.of(Fetch)) == 1
    bench.say(paused, Capacity(2))
    assert len(paused.of(Fetch)) == 1 and qm.of(Capacity)[-1] == Capacity(3)


def test_a_robot_that_is_being_dropped_gets_no_orders(bench: Bench) -> None:
    """Its connection ends a moment later; an order that comes meanwhile goes to another one."""
    bench.bot(capacity=1, run="b1")
    other, _ = bench.bot(capacity=1, run="b2")
    qm, _ = bench.qm()
    bad = bench.engine.robots[0]
    qm.say(fetch_order(1))
    bad.drop("it hangs")
    assert bad in bench.engine.robots
    bench.settle()
    assert len(other.of(Fetch)) == 1


def test_what_the_commands_of_a_botm_say(bench: Bench) -> None:
    commands = BotmCommands(bench.engine)
    assert "none" in str(commands.est()) and commands.queue(5) == [("queue", "no orders")]
    qm, _ = bench.qm()
    bench.bot(capacity=1)
    bench.say(qm, fetch_order(1), fetch_order(2))
    (_, first), (_, second) = commands.queue(5)
    assert "at robot bot" in first and "waiting for a robot" in second and "http://site1.example/1" in first
    assert commands.queue(1)[1] == ("", "… and 1 order more")
    assert "no orders for 9" in str(commands.provider(9)) and commands.provider(1)[0][1] == first


@pytest.fixture
def robot(tmp_path: Path) -> test_bot.Bench:
    return test_bot.Bench(tmp_path)


def test_a_robot_says_that_it_is_paused(robot: test_bot.Bench) -> None:
    commands = BotCommands(robot.robot)
    robot.order(1)
    commands.pause()
    robot.settle()
    assert robot.botm.of(Capacity) == [Capacity(0, "", "bot")]
    (running,) = robot.fetcher.running
    assert (
        "PAUSED" in str(commands.est())
        and "http://site1.example/1" in str(commands.queue(5))
        and commands.provider(1)
    )
    running.succeed(b"x", mimetype="text/html")
    assert len(robot.results) == 1
    commands.resume()
    robot.settle()
    assert robot.botm.of(Capacity)[-1] == Capacity(4)
    assert robot.botm.heard[0] == Ready()
