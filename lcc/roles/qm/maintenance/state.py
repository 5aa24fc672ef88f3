"""The queue manager's state, for ``lcc-admin status`` and ``why``: a small text that it saves every few seconds.

Everything of lasting worth is in the tables; this is what only the running process knows: who is connected, how many
orders are out, how fast it goes.  The text is a JSON object with the time at which it was made: a reader that finds
an old one knows that no queue manager is running (or that it cannot reach the database).

:func:`describe` makes the object and is pure; :class:`StateSaver` calls it by the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from itertools import islice
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from lcc.domain.results import STORED, UNCHANGED, ResultCounts
from lcc.errors import Busy, StoreUnavailable
from lcc.interfaces import IQueueStore
from lcc.roles.qm.intake.absorber import Absorber
from lcc.roles.qm.maintenance.periodic import Upkeep
from lcc.roles.qm.orders.deleter import Deleter
from lcc.roles.qm.orders.dispatcher import Dispatcher
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.patience import Patience
from lcc.roles.qm.peers.central import Central
from lcc.roles.qm.schedule.scheduler import Scheduler

_log = Logger()

SAVE_SECONDS = 5.0
END_SECONDS = 2.0
_LOOK_SECONDS = 0.05
MACHINES_SHOWN = 100
ORDERS_SHOWN = 100
ROBOTS_SHOWN = 200
UNSES_SHOWN = 100
WITHHELD_SHOWN = 1000
TROUBLE_CHARS = 500


class Counting(Protocol):
    """What is read of the engine."""

    run: int
    paused_since: int | None
    scheduler: Scheduler
    dispatcher: Dispatcher
    deleter: Deleter
    patience: Patience
    upkeep: Upkeep
    sets_answered: int
    results_recorded: int
    centrals: set[Central]

    @property
    def absorbers(self) -> Iterable[Absorber]:
        """The UNSes that are connected."""

    def now(self) -> int:
        """Seconds since 1970."""

    def clock_seconds(self) -> float:
        """The clock that leases are measured on."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""


def describe(engine: Counting, before: Mapping[str, Any]) -> dict[str, Any]:
    """The state as an object for JSON; each list in it has a bounded length.

    :param before: what this gave the last time, for the rates; empty: there is none.
    """
    dispatcher, scheduler, intake = engine.dispatcher, engine.scheduler, engine.upkeep.intake
    absorbers = list(engine.absorbers)
    machines = sorted(dispatcher.machines.values(), key=lambda machine: machine.number)
    connected = [machine for machine in machines if machine.line is not None]
    free, most = dispatcher.slots()
    state: dict[str, Any] = {
        "run": engine.run,
        "time": engine.now(),
        "clock": engine.clock_seconds(),
        "interval": SAVE_SECONDS,
        "lease": engine.upkeep.leases.longest_seconds,
        "database": engine.patience.trouble[:TROUBLE_CHARS],
        "paused_since": engine.paused_since,
        "overload": intake.reason,
        "overload_since": intake.since,
        "queue_rows": intake.queue_rows,
        "ports": {} if intake.port is None else {"UNSes": intake.port.is_open},
        "capacity": sum(machine.capacity for machine in connected if machine.ready),
        "orders_most": most,
        "orders_free": free,
        "orders_out": dispatcher.orders_out,
        "machines": _machines(machines),
        "centrals": [
            {"name": central.name, "machines": central.machine_count}
            for central in sorted(engine.centrals, key=lambda central: central.name)[:MACHINES_SHOWN]
        ],
        "machines_connected": len(connected),
        "unses": sorted({absorber.name for absorber in absorbers})[:UNSES_SHOWN],
        "unses_connected": len({absorber.name for absorber in absorbers}),
        "unses_paused": sorted({absorber.name for absorber in absorbers if absorber.paused})[:UNSES_SHOWN],
        "absorb_waiting": sum(absorber.waiting_count for absorber in absorbers),
        "providers_waiting": len(scheduler.ready),
        "providers_active": scheduler.active_count,
        "awaited": _awaited(engine.upkeep.leases.awaited, engine.now() - engine.clock_seconds()),
        "withheld": _withheld(scheduler),
        "rows_buffered": scheduler.buffered_count,
        "orders": _orders(machines, engine.clock_seconds()),
        "counts": {
            "sets_answered": engine.sets_answered,
            "results_recorded": engine.results_recorded,
            "orders_sent": dispatcher.orders_sent,
            "orders_lost": dispatcher.orders_lost,
            "leases_passed": dispatcher.leases_passed,
            "results_again": dispatcher.results_again,
            "orders_too_late": dispatcher.orders_too_late,
            "orders_no_room": dispatcher.orders_no_room,
            "files_deleted": engine.deleter.files_deleted,
        },
        "results": _results(dispatcher.results),
    }
    state["rates"] = _rates(state, before)
    return state


def _results(results: ResultCounts) -> dict[str, int]:
    """How fetches have ended, as far as a reader wants to know it."""
    fine = {name: results.by_name[name] for name in (STORED, UNCHANGED)}
    return {**fine, "failed": results.by_name.total() - sum(fine.values()), "wire_bytes": results.wire_bytes}


def _awaited(leases: Mapping[int, float], ahead: float) -> list[dict[str, int]]:
    """Machines that may have orders of an earlier queue manager, and until when (seconds since 1970).

    :param ahead: what the wall clock shows more than the clock.
    """
    first = nsmallest(MACHINES_SHOWN, leases.items())
    return [{"machine": machine, "until": int(until + ahead)} for machine, until in first]


def _withheld(scheduler: Scheduler) -> dict[str, Any]:
    """Providers that wait for those: how many, the first ones, and the latest of their earliest sets."""
    withheld = scheduler.withheld
    return {
        "providers": len(withheld),
        "pids": nsmallest(WITHHELD_SHOWN, withheld),
        "sets_upto": max((entry.psetid for entry in withheld.values()), default=0),
    }


def _machines(machines: Iterable[Machine]) -> list[dict[str, Any]]:
    shown, left = [], ROBOTS_SHOWN
    for machine in islice(machines, MACHINES_SHOWN):
        robots = machine.robots[:left]
        left -= len(robots)
        shown.append(_machine(machine) | {"robots": [robot._asdict() for robot in robots]})
    return shown


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "machine": machine.number,
        "name": machine.name,
        "via": machine.via,
        "content": machine.content,
        "connected": machine.line is not None,
        "ready": machine.ready,
        "capacity": machine.capacity,
        "trouble": machine.trouble[:TROUBLE_CHARS],
        "refused": machine.refused,
        "paused": machine.paused,
        "robots_refused": machine.robots_refused,
        "orders": len(machine.orders),
        "robots_count": machine.robots_count,
    }


def _orders(machines: Iterable[Machine], now: float) -> list[dict[str, Any]]:
    """The orders that have been out for longest."""
    every = (order for machine in machines for order in machine.orders.values())
    oldest = nsmallest(ORDERS_SHOWN, every, key=lambda order: order.deadline)
    return [
        {
            "pid": order.pid,
            "key": order.key.hex(),
            "machine": order.machine.number,
            "lease_left": round(order.deadline - now, 1),
        }
        for order in oldest
    ]


def _rates(state: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float]:
    """Of each count, how much a second it has grown since the last time; empty: that is not known."""
    if not before or state["clock"] <= before["clock"]:
        return {}
    seconds = state["clock"] - before["clock"]
    return {name: round((count - before["counts"][name]) / seconds, 2) for name, count in state["counts"].items()}


class StateSaver:
    """Saves the engine's state every few seconds, never more than once at a time.

    :ivar trouble: why the database did not take it the last time, such as a full disk, on which it still can be read;
        empty: it did.
    """

    def __init__(self, engine: Counting, store: IQueueStore) -> None:
        self._engine = engine
        self._store = store
        self._before: dict[str, Any] = {}
        self._saving: Deferred[None] | None = None
        self._next = 0.0
        self._ended = False
        self.trouble = ""

    def tick(self, now: float) -> None:
        """Called every second or so; ``now`` is the clock's."""
        if self._saving is not None or now < self._next or self._ended:
            return
        self._next = now + SAVE_SECONDS
        self._before = describe(self._engine, self._before)
        self._save(self._before)

    def _save(self, state: dict[str, Any]) -> None:
        text = json.dumps(state, separators=(",", ":"))
        saving = self._saving = self._store.save_state(text)
        saving.addCallbacks(self._taken, self._failed)
        saving.addBoth(self._saved)

    def soon(self) -> None:
        """Something has changed that should be seen at once."""
        self._next = 0.0

    async def end(self, clock: IReactorTime) -> None:
        """Say that the queue manager stops, while the database is still there; that takes a bounded time."""
        self._ended = True
        until = clock.seconds() + END_SECONDS
        await self._at_rest(clock, until)  # a save that is under way must not come after the last one
        if self._saving is None:
            self._save(describe(self._engine, self._before) | {"stopped": True})
            await self._at_rest(clock, until)

    async def _at_rest(self, clock: IReactorTime, until: float) -> None:
        while self._saving is not None and clock.seconds() < until:
            await deferLater(clock, _LOOK_SECONDS)

    def stop(self) -> None:
        """Wait for nothing any longer."""
        if self._saving is not None:
            self._saving.cancel()

    def _taken(self, _: object) -> None:
        self.trouble = ""

    def _saved(self, _: object) -> None:
        self._saving = None

    def _failed(self, failure: Any) -> None:
        # A database that is away: the text would be old when it is back; a new one comes soon.
        if failure.check(StoreUnavailable):
            self.trouble = failure.getErrorMessage()
            return
        if failure.check(CancelledError) or self._ended:
            return
        if failure.check(Busy):
            self._engine.fatal(failure.value)
            return
        _log.failure("The queue manager's state cannot be saved", failure=failure)
