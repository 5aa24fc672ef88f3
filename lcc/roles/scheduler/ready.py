"""Jobs that wait for a manager, and which of them is next.  Pure: no I/O, no clock of its own.

Jobs that need the same (kind, command, resource, hosts) wait in one line, by when they are due.  A line whose
resource is in use, or may not be used yet, is set aside until it may; one that no manager with room may have, until
any has more room or other executables.  A kind for which nobody has room is not looked at.  So a choice takes as long
as what it chooses, however much waits.

Memory is bounded, and what cannot be given must not keep out what can.  Where there is no more room, lines lose their
ends (:meth:`ReadyJobs.make_room`): first those that no manager may have at all, wholly, then the longest ones, half
of each.  Such a line goes on in the database only; it is read again (:attr:`ReadyJobs.read_from`) when it is empty
here, or when managers have changed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from lcc.domain.tasks.job_hosts import may_run
from lcc.model.tasks import DueJob


class Taker(Protocol):
    """A manager, as it concerns the choice."""

    @property
    def host(self) -> str:
        """Its host, as rules name it."""

    def free(self, kind: str) -> int:
        """How many more jobs of this kind it takes; of the kind "": of all kinds together."""

    def has(self, command: str) -> bool:
        """It can run this command."""

    def takes_kind(self, kind: str) -> bool:
        """It runs jobs of this kind, when it has room."""


Key = tuple[int, int]
"""When a job is due, and its id: in this order jobs wait."""


class Need(NamedTuple):
    """What the jobs of a line need."""

    kind: str
    command: str
    resource: str
    hosts: tuple[str, ...]


def need_of(job: DueJob) -> Need:
    """What it needs."""
    return Need(job.kind, job.command, job.resource, job.hosts)


class ReadyJobs:
    """The lines.

    :ivar intervals: of resources, in seconds; others have none.
    :ivar read_from: jobs with this key, and later ones, are to be read again; None: none are.
    """

    def __init__(self) -> None:
        self.read_from: Key | None = None
        self.intervals: dict[str, int] = {}
        self._jobs: dict[int, DueJob] = {}
        self._lines: dict[Need, list[tuple[int, int]]] = {}
        self._open: dict[str, list[tuple[int, int, Need]]] = {}
        """Kind -> heads of its lines that may be chosen, as a heap, never empty.  One may be there twice, or as it
        was."""
        self._cut: dict[Need, Key] = {}
        """Lines that have lost their ends: the first job that they have lost."""
        self._aside: dict[str, set[Need]] = {}
        """Resource -> lines that wait for it."""
        self._unmatched: set[Need] = set()
        """Lines that no manager with room may have."""
        self._users: dict[str, int] = {}
        """Resource -> the job that has it."""
        self._free_times: dict[str, float] = {}
        """Resource -> when it may be used again."""
        self._used_times: dict[str, float] = {}
        """Resource that has an interval -> when it was used last."""

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, number: int) -> bool:
        return number in self._jobs

    @property
    def oldest_due_time(self) -> int | None:
        """When the job was due that has waited longest; None: none waits."""
        heads = (line[0] for line in self._lines.values() if line)
        return min((due for due, _ in (*heads, *self._cut.values())), default=None)

    @property
    def waiting_by_kind(self) -> dict[str, int]:
        """How many of each kind wait."""
        found: dict[str, int] = {}
        for job in self._jobs.values():
            found[job.kind] = found.get(job.kind, 0) + 1
        return found

    def wants(self, job: DueJob) -> bool:
        """It is not here, and belongs here: not behind the end of a line that was cut."""
        cut = self._cut.get(need_of(job))
        return job.id not in self._jobs and (cut is None or (job.due_time, job.id) < cut)

    def add(self, job: DueJob) -> None:
        """It waits from now on, in place of what was known of it; where it is not wanted, in the database only."""
        self.discard(job.id)
        if not self.wants(job):
            return
        self._jobs[job.id] = job
        need = need_of(job)
        line = self._lines.setdefault(need, [])
        heapq.heappush(line, (job.due_time, job.id))
        if line[0] == (job.due_time, job.id) and need not in self._unmatched:
            self._reopen([need])

    def discard(self, number: int) -> None:
        """It does not wait any longer."""
        job = self._jobs.pop(number, None)
        if job is not None:
            need = need_of(job)
            line = self._lines[need]
            line.remove((job.due_time, job.id))
            heapq.heapify(line)
            self._reopen([need])
            self._drop_empty(need)

    def clear(self) -> None:
        """Forget all that wait; resources stay as they are."""
        for held in (self._jobs, self._lines, self._open, self._cut, self._aside, self._unmatched):
            held.clear()
        self.read_from = None

    # Memory.

    def make_room(self, takers: Sequence[Taker]) -> bool:
        """Cut lines, so that others have room; False: none can be.

        :param takers: all managers, with room or without.
        """
        if not takers:
            return False
        nobodys = [need for need in self._lines if not _may_have(takers, need)]
        for need in nobodys:
            self._cut_off(need, 0)
        if nobodys:
            return True
        most = max(map(len, self._lines.values()), default=0)
        for need, line in self._lines.items():
            if len(line) > max(1, most // 2):
                self._cut_off(need, (len(line) + 1) // 2)
        return most > 1

    def _cut_off(self, need: Need, kept: int) -> None:
        line = sorted(self._lines[need])  # a sorted list is a heap
        self._lines[need], lost = line[:kept], line[kept:]
        self._cut[need] = min(lost[0], self._cut.get(need, lost[0]))
        for _, number in lost:
            del self._jobs[number]
        if not kept:
            # Not _drop_empty: there is no use in reading it again before managers change.
            del self._lines[need]
            self._unmatched.discard(need)

    def _read_again(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.read_from = key if self.read_from is None else min(key, self.read_from)

    # Resources.

    def use(self, resource: str, job: int, started_time: float) -> None:
        """A job has this resource, and has started then; empty: it needs none."""
        self._hold(resource, job)
        if resource:
            interval = self.intervals.get(resource, 0)
            if interval:
                self._free_times[resource] = started_time + interval
                self._used_times[resource] = started_time

    def _hold(self, resource: str, job: int) -> None:
        if resource:
            self._users[resource] = job

    def release(self, resource: str, job: int) -> None:
        """It has not any longer."""
        if self._users.get(resource) == job:
            del self._users[resource]
            self._reopen(self._aside.pop(resource, ()))

    def set_interval(self, resource: str, interval_seconds: int, started_time: float) -> None:
        """A resource has this interval from now on; 0: none.

        :param started_time: of the last job that used it, as stored; such a job may have gone out later.
        """
        self.intervals[resource] = interval_seconds
        self._free_times.pop(resource, None)
        used_time = max(started_time, self._used_times.get(resource, 0.0))
        if interval_seconds and used_time:
            self._free_times[resource] = used_time + interval_seconds
        if not interval_seconds:
            del self.intervals[resource]
            self._used_times.pop(resource, None)
        self._reopen(self._aside.pop(resource, ()))

    def no_later_than(self, now: float) -> None:
        """The clock was set back: nothing was used later than now.  Intervals are to be set again."""
        self._used_times = {name: min(time, now) for name, time in self._used_times.items()}

    # The choice.

    def more_room(self) -> None:
        """A manager has more room."""
        unmatched, self._unmatched = self._unmatched, set()
        self._reopen(unmatched)

    def managers_changed(self) -> None:
        """There are other managers, or they take other kinds, or have other executables."""
        self.more_room()
        self._read_again([self._cut.pop(need) for need in list(self._cut) if need not in self._lines])

    def choose(self, takers: Sequence[Taker], now: float, limit: int) -> list[tuple[DueJob, Taker]]:
        """The jobs to start now, those that are due longest first, each with who gets it; they wait no longer.

        :param limit: at most so many.
        """
        for resource in [name for name, time in self._free_times.items() if time <= now]:
            del self._free_times[resource]
            self._reopen(self._aside.pop(resource, ()))
        chosen: list[tuple[DueJob, Taker]] = []
        room = _Room(takers)
        later: list[tuple[int, int, Need]] = []
        heads = [(heap[0], kind) for kind, heap in self._open.items() if room.of(kind)]
        heapq.heapify(heads)
        while heads and len(chosen) < limit:
            entry, kind = heapq.heappop(heads)
            if not room.of(kind):
                continue
            self._pop_open(kind)  # the same entry
            need = entry[2]
            line = self._lines.get(need)
            if not line or line[0] != entry[:2] or need in self._unmatched:
                pass  # it is not the head any longer
            elif entry[0] > now:
                later.append(entry)  # the clock was set back
            elif need.resource and (need.resource in self._users or need.resource in self._free_times):
                self._aside.setdefault(need.resource, set()).add(need)
            elif (taker := room.taker(need)) is None:
                self._unmatched.add(need)
            else:
                job = self._jobs.pop(heapq.heappop(line)[1])
                chosen.append((job, taker))
                room.give(taker, need.kind)
                self._hold(need.resource, job.id)  # it is used once the job has started
                self._reopen([need])
                self._drop_empty(need)
            if kind in self._open:
                heapq.heappush(heads, (self._open[kind][0], kind))
        for entry in later:
            heapq.heappush(self._open.setdefault(entry[2].kind, []), entry)
        return chosen

    def _pop_open(self, kind: str) -> None:
        heap = self._open[kind]
        heapq.heappop(heap)
        if not heap:
            del self._open[kind]  # kinds are free names: there may be ever new ones

    def _reopen(self, needs: Iterable[Need]) -> None:
        for need in needs:
            line = self._lines.get(need)
            if line:
                heapq.heappush(self._open.setdefault(need.kind, []), (*line[0], need))

    def _drop_empty(self, need: Need) -> None:
        if not self._lines.get(need, True):
            del self._lines[need]
            self._unmatched.discard(need)
            if need in self._cut:
                self._read_again([self._cut.pop(need)])


def _may_have(takers: Iterable[Taker], need: Need) -> bool:
    """Whether any may have such a job, now or when it has room."""
    return any(
        taker.takes_kind(need.kind) and taker.has(need.command) and may_run(need.hosts, taker.host)
        for taker in takers
    )


class _Room:
    """What managers still take, while a choice is made."""

    def __init__(self, takers: Sequence[Taker]) -> None:
        self._takers = takers
        self._given: dict[tuple[int, str], int] = {}

    def of(self, kind: str) -> bool:
        """Whether any takes one more job of this kind."""
        return any(self._free(taker, kind) > 0 for taker in self._takers)

    def taker(self, need: Need) -> Taker | None:
        """The one with the most room of those that may have such a job; None: none may, or has room."""
        best, most = None, 0
        for taker in self._takers:
            free = self._free(taker, need.kind)
            if free > most and taker.has(need.command) and may_run(need.hosts, taker.host):
                best, most = taker, free
        return best

    def give(self, taker: Taker, kind: str) -> None:
        """It gets one."""
        for each in (kind, ""):
            self._given[id(taker), each] = self._given.get((id(taker), each), 0) + 1

    def _free(self, taker: Taker, kind: str) -> int:
        return min(taker.free(each) - self._given.get((id(taker), each), 0) for each in (kind, ""))
