"""The queue manager's state, for ``lcc-admin status`` and ``why``: a small text that it saves every few seconds.

Everything of lasting worth is in the tables; this is what only the running process knows: who is connected, how many
orders are out, how fast it goes.  The text is a JSON object with the time at which it was made: a reader that finds
an old one knows that no queue manager is running (or that it cannot reach the database).

What ``admin`` and the monitor make of it: :mod:`lcc.insight.qm_state`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from itertools import islice
from typing import Any

from lcc.domain.fetches.results import STORED, UNCHANGED, ResultCounts
from lcc.errors import StoreUnavailable
from lcc.interfaces import IQueueStore
from lcc.roles.qm.intake.absorber import Absorber
from lcc.roles.qm.intake.overload import Intake
from lcc.roles.qm.orders.deleter import Deleter
from lcc.roles.qm.orders.dispatcher import Dispatcher
from lcc.roles.qm.orders.leases import Leases
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.orders.recorder import Recorder
from lcc.roles.qm.part import Hub, Part
from lcc.roles.qm.peers.central import CentralHandler
from lcc.roles.qm.peers.handler import Handler
from lcc.roles.qm.schedule.hosts import HostGroup
from lcc.roles.qm.schedule.scheduler import Scheduler

SAVE_SECONDS = 5.0
END_SECONDS = 2.0
_LOOK_SECONDS = 0.05
MACHINES_SHOWN = 100
ORDERS_SHOWN = 100
HOSTS_SHOWN = 100
TURNS_SHOWN = 3
WAITING_SHOWN = 1000
ROBOTS_SHOWN = 200
UNSES_SHOWN = 100
WITHHELD_SHOWN = 1000
TROUBLE_CHARS = 500


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


def _host_turns(groups: Iterable[HostGroup]) -> list[dict[str, Any]]:
    """Providers that wait for another one of their host: who has the turn, the first of them, and how many."""
    shown, left = [], WAITING_SHOWN
    for group in islice(groups, HOSTS_SHOWN):
        waiting = [turn.pid for turn in group.waiting.first(left)]
        left -= len(waiting)
        turns = sorted(group.turns | group.elsewhere)[:TURNS_SHOWN]
        shown.append({"turns": turns, "waiting": waiting, "count": len(group.waiting)})
    return shown


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
        "connected": machine.connection is not None,
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


class StateSaver(Part):
    """Saves the state every few seconds.  While the database is unavailable nothing waits for it: the text would be
    old when it is back, and a new one comes soon.

    :ivar trouble: why the database did not take it the last time, such as a full disk, on which it still can be read;
        empty: it did.
    """

    ASKS_AGAIN = False
    ERROR_TEXT = "Cannot save the queue manager's state"

    def __init__(
        self,
        hub: Hub,
        store: IQueueStore,
        scheduler: Scheduler,
        intake: Intake,
        leases: Leases,
        dispatcher: Dispatcher,
        recorder: Recorder,
        deleter: Deleter,
        handlers: Callable[[], list[Handler]],
    ) -> None:
        super().__init__(hub, store)
        self.trouble = ""
        self._scheduler = scheduler
        self._intake = intake
        self._leases = leases
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._deleter = deleter
        self._handlers = handlers
        self._before: dict[str, Any] = {}
        self._next = 0.0
        self._ending = False

    def describe(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The state as an object for JSON; each list in it has a bounded length.

        :param before: what this gave the last time, for the rates; empty: there is none.
        """
        hub, dispatcher, scheduler, intake = self._hub, self._dispatcher, self._scheduler, self._intake
        handlers, now = self._handlers(), hub.clock.seconds()
        absorbers = [handler for handler in handlers if isinstance(handler, Absorber)]
        centrals = [handler for handler in handlers if isinstance(handler, CentralHandler)]
        machines = sorted(hub.machines, key=lambda machine: machine.number)
        connected = [machine for machine in machines if machine.connection is not None]
        free, most = dispatcher.slots()
        state: dict[str, Any] = {
            "run": hub.run,
            "time": hub.now(),
            "clock": now,
            "interval": SAVE_SECONDS,
            "lease": self._leases.longest_seconds,
            "database": hub.retry.trouble[:TROUBLE_CHARS],
            "paused_since": dispatcher.paused_since,
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
                for central in sorted(centrals, key=lambda central: central.name)[:MACHINES_SHOWN]
            ],
            "machines_connected": len(connected),
            "unses": sorted({absorber.name for absorber in absorbers})[:UNSES_SHOWN],
            "unses_connected": len({absorber.name for absorber in absorbers}),
            "unses_paused": sorted({absorber.name for absorber in absorbers if absorber.paused})[:UNSES_SHOWN],
            "absorb_waiting": sum(absorber.waiting_count for absorber in absorbers),
            "providers_waiting": scheduler.turns_awaited,
            "providers_active": scheduler.active_count,
            "awaited": _awaited(self._leases.awaited, hub.now() - now),
            "withheld": _withheld(scheduler),
            "host_turns": _host_turns(scheduler.hosts.with_waiting),
            "rows_buffered": scheduler.buffered_count,
            "orders": _orders(machines, now),
            "counts": {
                "sets_answered": intake.sets_answered,
                "results_recorded": self._recorder.results_recorded,
                "orders_sent": dispatcher.orders_sent,
                "orders_lost": dispatcher.orders_lost,
                "leases_passed": dispatcher.leases_passed,
                "results_again": dispatcher.results_again,
                "orders_too_late": dispatcher.orders_too_late,
                "orders_no_room": dispatcher.orders_no_room,
                "orders_handed_back": dispatcher.orders_handed_back,
                "files_deleted": self._deleter.files_deleted,
            },
            "results": _results(dispatcher.results),
        }
        state["rates"] = _rates(state, before)
        return state

    def tick(self, now: float) -> None:
        """Called every second.

        :param now: on the clock.
        """
        if now >= self._next and not (self._job.busy or self._ending):
            self._next = now + SAVE_SECONDS
            self._before = self.describe(self._before)
            self._begin(self._save, self._before)

    def soon(self) -> None:
        """Something has changed that should be seen at once."""
        self._next = 0.0

    async def _save(self, state: dict[str, Any]) -> None:
        text = json.dumps(state, separators=(",", ":"))
        try:
            await self._ask("saving the state", lambda: self._store.save_state(text))
        except StoreUnavailable as error:
            self.trouble = str(error)
        except Exception:
            if not self._ending:
                raise
        else:
            self.trouble = ""

    async def end(self) -> None:
        """Say that the queue manager stops, while the database is still there; that takes a bounded time."""
        self._ending = True
        until = self._hub.clock.seconds() + END_SECONDS
        await self._at_rest(until)  # a save that is running must not come after the last one
        if not self._job.busy:
            self._begin(self._save, self.describe(self._before) | {"stopped": True})
            await self._at_rest(until)

    async def _at_rest(self, until: float) -> None:
        while self._job.busy and self._hub.clock.seconds() < until:
            await self._sleep(_LOOK_SECONDS)
