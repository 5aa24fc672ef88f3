"""Metrics of a BOT-M, and whether it can do its work: of one with a machine, and of a central one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from zope.interface import implementer

from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading, counter, gauge, not_paused
from lcc.roles.botm.engine import BotMaster
from lcc.roles.botm.relay import Relay
from lcc.storage.disk.content_folder import ContentFolder

ROBOTS_SHOWN = 100
"""With series of their own."""
STUCK_SECONDS = 60.0
"""After so long without a look at the disk it is broken."""

CONNECTED = gauge("lcc_botm_upper_connected", "1: the queue manager, or the central BOT-M above, is connected")
PAUSED = gauge("lcc_botm_paused", "1: paused by an operator, takes no new orders")
ROBOTS = gauge("lcc_botm_robots_connected", "Robots that are ready")
CAPACITY = gauge("lcc_botm_capacity", "Concurrent fetches of all robots; 0 while content cannot be stored")
ROBOT_CAPACITY = gauge("lcc_botm_robot_capacity", f"Concurrent fetches by robot (the first {ROBOTS_SHOWN})", "robot")
ROBOT_FETCHES = gauge("lcc_botm_robot_orders", f"Outstanding orders by robot (the first {ROBOTS_SHOWN})", "robot")
ORDERS = gauge("lcc_botm_orders", "Orders held: waiting, or out (at a robot)", "state")
TAKEN = counter("lcc_botm_orders_taken", "Orders received")
EXPIRED = counter("lcc_botm_orders_expired", "Expired orders, dropped")
SENT_BACK = counter("lcc_botm_orders_sent_back", "Orders returned undone: hours over, no room, or handed back")
ROBOTS_LOST = counter("lcc_botm_robots_lost", "Lost connections of robots")
RESULTS_WAITING = gauge("lcc_botm_results_waiting", "Results not yet recorded by the queue manager")
STORED = counter("lcc_botm_files_stored", "Content files stored")
STORED_BYTES = counter("lcc_botm_files_stored_bytes", "Size of stored content")
REMOVED = counter("lcc_botm_files_removed", "Content files removed by order")
FREE = gauge("lcc_botm_disk_free_bytes", "Free space on the content disk")
RESERVE = gauge("lcc_botm_disk_reserve_bytes", "Space kept free on the content disk ([botm] content_reserve)")
SUSPECT = gauge("lcc_botm_suspect_files", "File names being verified after a crash of the machine")
CENTRAL_MACHINES = gauge("lcc_botm_central_machines", "Machines behind a central BOT-M")


def _upper(connected: bool) -> Condition:
    return Condition(
        "upper",
        "" if connected else "not connected to the queue manager or central BOT-M",
        "check that it runs, and [botm] connect (or parent)",
    )


@implementer(IRoleMetrics)
class BotmMetrics:
    """Metrics and conditions of a machine's BOT-M."""

    background: Sequence[Any] = ()

    def __init__(self, engine: BotMaster, content: ContentFolder) -> None:
        self._engine = engine
        self._content = content

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        botm = self._engine
        orders, robots = botm.orders, botm.robots
        out = sum(1 for order in orders if order.out)
        shown = robots[:ROBOTS_SHOWN]
        yield CONNECTED(botm.connected)
        yield PAUSED(botm.paused)
        yield ROBOTS(len(robots))
        yield CAPACITY(botm.capacity)
        yield ROBOT_CAPACITY.by(_sums((robot.name, robot.capacity) for robot in shown))
        yield ROBOT_FETCHES.by(_sums((robot.name, len(robot.orders)) for robot in shown))
        yield ORDERS.by({"waiting": len(orders) - out, "out": out})
        yield TAKEN(botm.counters.orders_taken)
        yield EXPIRED(botm.counters.orders_expired)
        yield SENT_BACK(botm.counters.orders_sent_back)
        yield ROBOTS_LOST(botm.counters.robots_lost)
        yield RESULTS_WAITING(botm.results_waiting)
        yield STORED(botm.counters.files_stored)
        yield STORED_BYTES(botm.counters.files_stored_bytes)
        yield REMOVED(botm.counters.files_removed)
        free_bytes = self._content.free_bytes
        yield FREE.by(()) if free_bytes is None else FREE(free_bytes)
        yield RESERVE(self._content.reserve_bytes)
        first, upto = botm.syncer.suspect
        yield SUSPECT(upto - first)

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        botm = self._engine
        yield _upper(botm.connected)
        yield Condition(
            "disk",
            botm.disk_trouble,
            "free space there, or repair the disk; fetching resumes by itself",
        )
        yield not_paused("botm", botm.paused, "it accepts no new orders")
        age = botm.look_age_seconds
        yield Condition(
            "looking",
            f"the disk was last checked {age:.0f} s ago" if age > STUCK_SECONDS else "",
            "restart it, nothing is lost; please report the traceback in its log",
            alive=True,
        )


@implementer(IRoleMetrics)
class RelayMetrics:
    """Metrics and conditions of a central BOT-M."""

    background: Sequence[Any] = ()

    def __init__(self, engine: Relay) -> None:
        self._engine = engine

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        yield CONNECTED(self._engine.connected)
        yield CENTRAL_MACHINES(len(self._engine.machines))

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        yield _upper(self._engine.connected)


def _sums(series: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Robots may have the same name: no series must come twice."""
    found: dict[str, int] = {}
    for name, value in series:
        found[name] = found.get(name, 0) + value
    return found
