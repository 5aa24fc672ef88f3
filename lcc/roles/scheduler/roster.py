"""Which manager has which job, and which jobs are lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from lcc.model.tasks import ManagerStatus, RunningJob
from lcc.roles.scheduler.managers import Manager

FORGOTTEN_SECONDS = 7 * 86400
"""A manager that was not heard of for so long is no longer missed."""


class Lost(NamedTuple):
    """An attempt that is lost.

    :ivar why: for its log.
    """

    job: int
    attempt: int
    resource: str
    why: str


class Roster:
    """Managers of this run of the scheduler, and the jobs that an earlier run gave out.

    :param lease_seconds: how long a manager may be silent before its jobs are lost.
    """

    def __init__(self, lease_seconds: float) -> None:
        self.managers: dict[tuple[str, str], Manager] = {}
        """By name and run."""
        self._lease_seconds = lease_seconds
        self._orphans: dict[int, RunningJob] = {}
        """Jobs that an earlier run of the scheduler gave out, and that no manager has named yet."""
        self._orphaned_at = 0.0

    @property
    def connected(self) -> list[Manager]:
        """Those that are there."""
        return [manager for manager in self.managers.values() if manager.connection is not None]

    @property
    def missing(self) -> list[Manager]:
        """Those that were there, and no newer run of which is."""
        there = {manager.name for manager in self.connected}
        return [each for each in self.managers.values() if each.connection is None and each.name not in there]

    def by_name(self) -> list[Manager]:
        """One of each name: the one that is there, or was heard of last."""
        found: dict[str, Manager] = {}
        for manager in sorted(self.managers.values(), key=lambda each: (each.connection is not None, each.heard)):
            found[manager.name] = manager
        return list(found.values())

    @property
    def running_count(self) -> int:
        """Jobs that managers have."""
        return len(self._orphans) + sum(len(manager.jobs) for manager in self.managers.values())

    def running(self) -> Iterator[tuple[int, str]]:
        """Each job that is out, with its kind."""
        for number, orphan in self._orphans.items():
            yield number, orphan.kind
        for manager in self.managers.values():
            for number, (_, kind, _) in manager.jobs.items():
                yield number, kind

    def adopt_orphans(self, running: list[RunningJob], now: float) -> None:
        """These were given out by an earlier run."""
        self._orphans = {job.id: job for job in running}
        self._orphaned_at = now

    def manager_of(self, name: str, run: str, clock: float, now: float) -> Manager:
        """The manager of this name and run, of which something was heard just now.

        :param clock: that leases are measured on; ``now``: seconds since 1970.
        """
        manager = self.managers.get((name, run))
        if manager is None:
            manager = self.managers[name, run] = Manager(name, run, now)
        manager.heard = clock
        return manager

    def runs_of(self, name: str, runs: Collection[str]) -> list[Manager]:
        """Those of these runs of a manager that are known here."""
        return [self.managers[name, run] for run in sorted(runs) if (name, run) in self.managers]

    def expect(self, known: Iterable[ManagerStatus], clock: float, now: float) -> None:
        """An earlier run of the scheduler knew these; those that were there are missed from now on, until they come.

        :param clock, now: as of :meth:`manager_of`.
        """
        for each in known:
            manager = self.managers.get((each.name, each.run))
            if manager is None:
                manager = self.managers[each.name, each.run] = Manager(each.name, each.run, each.started_time)
                manager.heard = clock - max(0.0, now - each.heard_time)
                manager.lost_time = now if each.down_time is None else each.down_time
                manager.host, manager.capacity = each.host, each.capacity
                manager.kinds = {limits.kind: limits for limits in each.kinds}
            manager.started_time = each.started_time

    def no_later_than(self, now: float) -> None:
        """The wall clock was set: nothing of a manager was later than now."""
        for manager in self.managers.values():
            manager.started_time = min(manager.started_time, now)
            manager.lost_time = None if manager.lost_time is None else min(manager.lost_time, now)

    def compare(
        self, manager: Manager, named: Mapping[int, int], ended: Collection[int], over: Collection[str] = ()
    ) -> tuple[list[Lost], list[tuple[int, int]]]:
        """A manager has named all that it has.

        :param ended: jobs whose endings it has reported, and which wait to be recorded: these are not lost.
        :param over: earlier runs of it, of which nothing runs any longer: it speaks for them as well.
        :returns: what it should have and has not, which is lost; and what it has and should not (job and attempt).
        """
        unwanted = []
        for earlier in self.runs_of(manager.name, over):
            # What it has named are endings that the earlier run has left.
            for job in [job for job, (attempt, *_) in earlier.jobs.items() if named.get(job) == attempt]:
                manager.take(job, *earlier.jobs.pop(job))
        for job, attempt in named.items():
            orphan = self._orphans.get(job)
            if orphan is not None and orphan.attempt == attempt and orphan.manager == manager.name:
                del self._orphans[job]
                manager.take(job, attempt, orphan.kind, orphan.resource)
            elif manager.attempt_of(job) != attempt:
                unwanted.append((job, attempt))
        lost = [
            Lost(job, attempt, resource, f"manager {manager} does not know it")
            for job, (attempt, _, resource) in manager.jobs.items()
            if named.get(job) != attempt and job not in ended
        ]
        for each in lost:
            del manager.jobs[each.job]
        return lost + self._lost_before(manager, over, ended), unwanted

    def _lost_before(self, manager: Manager, over: Collection[str], ended: Collection[int]) -> list[Lost]:
        """What runs of a manager had that are over, and what an earlier scheduler gave to them or to this one."""
        why = f"manager {manager} was ended while the job ran, and started again"
        lost = []
        for earlier in self.runs_of(manager.name, over):
            if earlier.connection is not None:
                earlier.connection.stream.abort()  # nobody is at its other end
            for job in sorted(earlier.jobs.keys() - set(ended)):
                attempt, _, resource = earlier.jobs.pop(job)
                lost.append(Lost(job, attempt, resource, why))
        for orphan in list(self._orphans.values()):
            if orphan.manager == manager.name and orphan.run in (manager.run, *over) and orphan.id not in ended:
                del self._orphans[orphan.id]
                reason = why if orphan.run in over else f"manager {manager} does not know it"
                lost.append(Lost(orphan.id, orphan.attempt, orphan.resource, reason))
        return lost

    def holder(self, job: int) -> Manager | None:
        """The manager that has this job."""
        return next((manager for manager in self.managers.values() if job in manager.jobs), None)

    def take_lost(self, now: float) -> list[Lost]:
        """The jobs whose lease has passed; nobody has them any longer."""
        lost: list[Lost] = []
        if self._orphans and now >= self._orphaned_at + self._lease_seconds:
            for orphan in self._orphans.values():
                why = f"manager {orphan.manager} did not come back"
                lost.append(Lost(orphan.id, orphan.attempt, orphan.resource, why))
            self._orphans = {}
        for key, manager in list(self.managers.items()):
            if manager.jobs and now >= manager.heard + self._lease_seconds:
                why = f"manager {manager} is lost"
                lost += [Lost(job, attempt, name, why) for job, (attempt, _, name) in manager.jobs.items()]
                manager.jobs = {}
                if manager.connection is not None:
                    manager.connection.stream.abort()
            if manager.connection is None and not manager.jobs and self._superseded(manager, now):
                del self.managers[key]
        return lost

    def _superseded(self, manager: Manager, now: float) -> bool:
        newer = any(other.name == manager.name for other in self.connected)
        return newer or now >= manager.heard + FORGOTTEN_SECONDS
