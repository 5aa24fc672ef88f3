"""Metrics of a robot, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zope.interface import implementer

from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading, counter, gauge, histogram, not_paused
from lcc.roles.bot.engine import Robot

RUNNING = gauge("lcc_bot_fetches_running", "Fetches in progress")
WAITING = gauge("lcc_bot_orders_waiting", "Orders waiting for a fetch to finish")
CONCURRENCY = gauge("lcc_bot_concurrency", "Concurrent fetches ([bot] concurrency)")
CONNECTED = gauge("lcc_bot_botm_connected", "1: its BOT-M is connected")
PAUSED = gauge("lcc_bot_paused", "1: paused by an operator, takes no new orders")
FETCHES = histogram(
    "lcc_bot_fetch_seconds",
    "Duration of finished fetches by result (stored, unchanged, or the error's name)",
    "result",
)
WIRE_BYTES = counter("lcc_bot_wire_bytes", "Bytes transferred by fetches, headers included")
CONTENT_BYTES = counter("lcc_bot_content_bytes", "Content stored by fetches")
ABANDONED = counter("lcc_bot_fetches_abandoned", "Fetches that did not stop when cancelled")


@implementer(IRoleMetrics)
class BotMetrics:
    """Metrics and conditions of a robot."""

    background: Sequence[Any] = ()

    def __init__(self, engine: Robot) -> None:
        self._engine = engine

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        robot = self._engine
        running, waiting = robot.jobs
        yield RUNNING(len(running))
        yield WAITING(len(waiting))
        yield CONCURRENCY(robot.concurrency)
        yield CONNECTED(robot.connected)
        yield PAUSED(robot.paused)
        yield FETCHES.by({name: seconds.shown() for name, seconds in robot.counters.seconds.items()})
        yield WIRE_BYTES(robot.counters.results.wire_bytes)
        yield CONTENT_BYTES(robot.counters.results.content_bytes)
        yield ABANDONED(robot.counters.abandoned)

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        robot = self._engine
        yield Condition(
            "botm",
            "" if robot.connected else "not connected to its BOT-M",
            "check that the BOT-M of this machine runs, and [bot] connect",
        )
        yield not_paused("bot", robot.paused, "it accepts no new orders")
