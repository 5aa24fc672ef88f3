"""Keeps the table ``managers`` as the roster is, so that others see which managers are up, and since when.

What changes is written within a second; that those which are connected were heard of, a few times a minute.  At its
start the scheduler reads it: a manager that does not come back is missed, also if it was lost with the scheduler.
"""

from __future__ import annotations

import math

import attrs

from lcc.model.tasks import ManagerStatus
from lcc.roles.scheduler.managers import Manager
from lcc.roles.scheduler.roster import FORGOTTEN_SECONDS, Roster
from lcc.storage.tasks.store import TaskStore

HEARD_WRITTEN_SECONDS = 20.0


class ManagerTable:
    """See :mod:`lcc.roles.scheduler.manager_table`."""

    def __init__(self, roster: Roster, store: TaskStore) -> None:
        self._roster = roster
        self._store = store
        self._written: dict[str, ManagerStatus] = {}
        self._changed = True
        self._write_at = 0.0

    def changed(self) -> None:
        """A manager has come, gone, or says something else of itself."""
        self._changed = True

    async def load(self, clock: float, now: float) -> None:
        """What an earlier run of the scheduler knew.

        :param clock: of leases; ``now``: seconds since 1970.
        """
        known = await self._store.managers()
        self._roster.expect(known, clock, now)

    async def save(self, clock: float, now: float) -> None:
        """Write what is to be written; to be called each second."""
        if not self._changed and clock < self._write_at:
            return
        shown = {manager.name: _status(manager, clock, now) for manager in self._roster.by_name()}
        changed = [each for name, each in shown.items() if not _same(each, self._written.get(name))]
        heard = [manager.name for manager in self._roster.connected]
        self._changed, self._write_at = False, clock  # if it fails: the next second
        await self._store.save_managers(changed, heard, math.floor(now), FORGOTTEN_SECONDS)
        self._written = shown
        self._write_at = clock + HEARD_WRITTEN_SECONDS


def _status(manager: Manager, clock: float, now: float) -> ManagerStatus:
    return ManagerStatus(
        manager.name,
        manager.host,
        manager.run,
        math.floor(manager.started_time),
        math.floor(manager.started_time),
        int(now - max(0.0, clock - manager.heard)),
        None if manager.lost_time is None else math.floor(manager.lost_time),
        manager.paused,
        manager.capacity,
        tuple(limits for _, limits in sorted(manager.kinds.items())),
    )


def _same(status: ManagerStatus, written: ManagerStatus | None) -> bool:
    """Whether they differ at most in when it was heard of."""
    return written is not None and attrs.evolve(status, heard_time=written.heard_time) == written
