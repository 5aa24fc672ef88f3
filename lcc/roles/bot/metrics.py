"""Metrics of a robot, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zope.interface import implementer

from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading, counter, gauge, histogram
from lcc.roles.bot.engine import Robot

RUNNING = gauge("lcc_bot_fetches_running", "Fetches that are going on")
WAITING = gauge("lcc_bot_orders_waiting", "Orders that wait for one of them to end")
CONCURRENCY = gauge("lcc_bot_concurrency", "Fetches that it does at once ([bot] concurrency)")
CONNECTED = gauge("lcc_bot_botm_connected", "1: its BOT-M is connected")
PAUSED = gauge("lcc_bot_paused", "1: an operator has it take no new orders")
FETCHES = histogram(
    "lcc_bot_fetch_seconds",
    "Fetches that have ended, by how (stored, unchanged, or the error's name) and by how long they took",
    "result",
)
WIRE_BYTES = counter("lcc_bot_wire_bytes", "What fetches have moved over the net, headers included")
CONTENT_BYTES = counter("lcc_bot_content_bytes", "Content that fetches have stored")
ABANDONED = counter("lcc_bot_fetches_abandoned", "Fetches that did not end when they were told to")


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
            "" if robot.connected else "its BOT-M is not connected",
            "see that the BOT-M of this machine runs, and what [bot] connect says",
        )
        yield Condition(
            "not-paused",
            "" if not robot.paused else "paused by an operator: it accepts no new orders",
            "resume() at its console (lcc-admin console bot)",
        )
