"""The clock of a simulated world."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from twisted.internet.task import LoopingCall

from lcc.testing.simulated.network import Network
from lcc.testing.simulated.process import Machine, Process
from lcc.testing.simulated.timeline import EPOCH, Timeline


def test_a_delay_that_is_lost_in_the_time_moves_it_all_the_same() -> None:
    timeline = Timeline("1")
    boot = timeline.now - 1.0
    seen: list[float] = []

    def again() -> None:
        seen.append(timeline.now - boot)
        if len(seen) < 100:
            timeline.call_later(1e-12, None, again)

    timeline.call_later(0.0, None, again)
    timeline.run_until(EPOCH + 1.0)

    assert len(seen) == 100
    assert seen == sorted(set(seen))


def test_no_delay_is_now() -> None:
    timeline = Timeline("1")
    seen: list[float] = []
    timeline.call_later(0.0, None, lambda: seen.append(timeline.now))
    timeline.run_until(EPOCH)

    assert seen == [EPOCH]


def happened_less(timeline: Timeline, events: int) -> bool:
    return timeline.events < events


def no_service(_: Any) -> Any:
    raise AssertionError


@pytest.mark.parametrize("interval", [0.3, 1.0, 0.1])
def test_the_clock_of_a_reactor_is_finer_than_that_of_the_world(interval: float) -> None:
    """What comes a little too early there waits again, once, not for ever (seed 72010)."""
    timeline = Timeline("loops")
    machine = Machine(timeline, Network(timeline), "10.0.0.1")
    for place in range(50):
        timeline.run_until(EPOCH + 0.37 * place)
        machine.booted = timeline.now - 0.013 * place
        process = Process(machine, "user", no_service, no_service, {}.copy, lambda _: None)
        loop = LoopingCall(lambda: None)
        loop.clock = process.reactor
        loop.start(interval)
        many = timeline.events + 100
        assert not timeline.run_while(partial(happened_less, timeline, many), 10 * interval)
        loop.stop()


def test_where_memory_lies_is_no_part_of_the_digest() -> None:
    """Some functions are named after another one, and where that is."""
    digests = []
    for address in ("0x7fa457631b20", "0x7fa457631c00"):
        timeline = Timeline("1")

        def happens() -> None:
            pass

        happens.__qualname__ = f"<implementation for <function connect at {address}>>"
        timeline.call_later(0.0, None, happens)
        timeline.run_until(EPOCH)
        digests.append(timeline.digest)

    assert digests[0] == digests[1]
