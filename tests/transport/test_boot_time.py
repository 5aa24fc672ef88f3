"""Timers run on a clock that nobody sets."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from twisted.internet.base import ReactorBase
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.pollreactor import PollReactor
from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import LoopingCall

from lcc.commands.boottime import boot_seconds, use_boot_time
from tests.support.waiting import wait_for


class Wall:
    """In place of :func:`time.time`, as somebody sets it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture(params=[EPollReactor, PollReactor, SelectReactor])
def reactor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A reactor of its own, never run but by hand, with the wall clock that Twisted gives it."""
    monkeypatch.setattr(ReactorBase, "seconds", staticmethod(Wall()))
    return request.param()


@pytest.mark.parametrize("step", [-86400.0, -3600.0, 3600.0, 86400.0])
def test_a_step_of_the_wall_clock_moves_no_timer(reactor: Any, step: float) -> None:
    wall, called = reactor.seconds, []
    begun = boot_seconds()
    early = reactor.callLater(0.05, called.append, "made before")
    use_boot_time(reactor)
    use_boot_time(reactor)  # again: nothing happens
    reactor.callLater(100.0, called.append, "too early")
    reactor.callLater(0.05, called.append, "made after")
    loop = LoopingCall(called.append, "again")
    loop.clock = reactor
    loop.start(0.05, now=False)
    wall.ahead = step
    assert begun <= early.getTime() <= boot_seconds() + 0.05 and reactor.timeout() <= 0.05

    def all_called() -> bool:
        reactor.runUntilCurrent()
        return {"made before", "made after", "again"} <= set(called)

    wait_for("those that are due are called", all_called, every_seconds=0.01)
    assert "too early" not in called
    assert called.count("again") <= 1 + (boot_seconds() - begun) / 0.05
    loop.stop()


def test_a_reactor_that_runs_keeps_its_clock(reactor: Any) -> None:
    reactor.running = True
    with pytest.raises(RuntimeError, match="already running"):
        use_boot_time(reactor)


def test_it_counts_while_the_machine_sleeps() -> None:
    assert boot_seconds() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=1.0)


_COMMAND = """
from twisted.internet.task import deferLater
from lcc.commands.boottime import boot_seconds, react

def main(reactor):
    print(reactor.seconds is boot_seconds)
    return deferLater(reactor, 0)

react(main)
"""
_ROLE = """
from lcc.services.process.environment import real_environment
from lcc.commands.boottime import boot_seconds
print(real_environment().reactor.seconds is boot_seconds)
"""


@pytest.mark.parametrize("program", [_COMMAND, _ROLE], ids=["command", "role"])
def test_commands_and_roles_run_on_it(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n", done.stderr
