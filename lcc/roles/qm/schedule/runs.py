"""Runs: rows of one provider that are out together, for one robot to fetch one after the other.

A run may grow while it is out, so that the robot never waits for the next order; but not beyond what can be decided
in advance: its quantum, the bytes that it is expected to bring, and, where the provider's bandwidth is limited or it
has an interval, what about a second pays for.  Of a slow site no more is out than is fetched within
:attr:`Runs.run_seconds`, for others that wait for the robot do so until the run ends.  Where any do, it ends with its
quantum, also if nobody else waits for a place.  What may change between two fetches the robot looks at (hours,
bandwidth, interval, errors of the site); for all else the rest of a run is *recalled*: somebody of a higher priority
waits, or the provider was changed or removed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple

from lcc.model.providers import PRIORITIES
from lcc.roles.qm.schedule.costs import expected_bytes, paid_for
from lcc.roles.qm.schedule.delays import SITE, Delays
from lcc.roles.qm.schedule.hours_filter import HoursFilter
from lcc.roles.qm.schedule.read_ahead import ReadAhead
from lcc.roles.qm.schedule.work import ProviderWork


class Behind(NamedTuple):
    """What may follow a run where it is out.

    :ivar rows: at most.
    :ivar contended: other runs wait there for a robot.
    """

    rows: int
    contended: bool


class Runs(ReadAhead):
    """Hands out the rows that are in memory.

    :param quantum_bytes: what a provider may fetch before others of its priority that wait.
    :param run_rows: rows of one provider that are out at the same time, at most.
    :ivar recalls: providers whose runs are to be recalled, for the dispatcher.
    :ivar spaces_runs: every BOT-M that may get orders keeps to intervals within a run; else runs of providers with
        one are of one row.
    :ivar run_seconds: for so long a robot may fetch what is out of one provider, as far as anybody knows.
    """

    def __init__(
        self,
        delays: Delays,
        hours: HoursFilter,
        read_ahead: int,
        quantum_urls: int,
        quantum_bytes: int,
        run_rows: int,
    ) -> None:
        super().__init__(read_ahead, quantum_urls)
        self.delays = delays
        self.hours = hours
        self.recalls: set[int] = set()
        self.spaces_runs = True
        self.run_seconds = inf
        self._quantum_bytes = quantum_bytes
        self._run_rows = run_rows
        self._queues: tuple[deque[ProviderWork], ...] = tuple(deque() for _ in range(PRIORITIES))
        self._fetching: tuple[dict[int, ProviderWork], ...] = tuple({} for _ in range(PRIORITIES))
        self._growing: dict[int, ProviderWork] = {}

    def take(self, now: float, most: int = 1) -> ProviderWork | None:
        """Hand out the next rows: they stand in the provider's ``rows_out``.  None: there is nothing to send now.

        :param most: rows.
        """
        if SITE in self.delays:
            return None
        for queue in reversed(self._queues):
            while queue:
                work = queue.popleft()
                work.queued = False
                if not self._waits_for_place(work):
                    continue
                if not self.hours.lets_provider(work, now):
                    self._update(work)
                elif self._take_rows(work, most, now):
                    return work
        return None

    def take_more(self, now: float, most: int, behind: Callable[[ProviderWork], Behind]) -> Iterator[ProviderWork]:
        """Hand out more rows of providers whose runs are nearly done, as :meth:`take`.

        :param most: rows of one that are out then.
        :param behind: what may follow this one's.
        """
        growing, self._growing = self._growing, {}
        for work in growing.values():
            if not self._may_grow(work) or SITE in self.delays or work.busy >= most:
                continue
            rows, contended = behind(work)
            if (
                rows > 0
                and self._goes_on(work, contended)
                and self.hours.lets_provider(work, now)
                and self._take_rows(work, min(rows, most - work.busy), now)
            ):
                yield work

    def overtaken(self, frees: Callable[[ProviderWork], bool]) -> bool:
        """Somebody waits for a place, with rows: recall the newest run of the lowest priority below.

        :param frees: whether the recall of this one's run makes room at once.
        :return: False: nobody waits, or there is no such run.
        """
        if self._run_rows == 1:
            return False  # what is out is a single fetch each
        for level in range(PRIORITIES - 1, 0, -1):
            queue = self._queues[level]
            while queue and not self._waits_for_place(queue[0]):
                queue.popleft().queued = False
            if queue:
                for lower in self._fetching[:level]:
                    while lower:
                        work = next(reversed(lower.values()))
                        if frees(work):
                            self._recall(work)
                            return True
                        del lower[work.pid]  # looked at again when something has come of it
                return False
        return False

    def recall_all(self) -> None:
        """Nothing more of what is out is to be begun."""
        for work in [work for work in self._active.values() if not work.recalled]:
            self._recall(work)

    # What the scheduler adds.

    @abstractmethod
    def _waits_for_place(self, work: ProviderWork) -> bool:
        """Whether one of the queues is still in its turn, with nothing out."""

    # Inside.

    def _recall(self, work: ProviderWork) -> None:
        if work.busy:
            work.recalled = True
            self.recalls.add(work.pid)
            self._fetching[work.priority].pop(work.pid, None)
            self._growing.pop(work.pid, None)

    def _may_grow(self, work: ProviderWork) -> bool:
        """Whether more may be sent behind what is out of this provider."""
        if work.gone or work.recalled or work.doubt is not None or work.info is None or not work.has_rows:
            return False
        if work.info.limits.rate or work.info.limits.interval:
            return False  # what crosses the last result would find no debt where it arrives
        if work.group is not None and work.group.contested:
            return False
        most = min(self._run_rows // 2, self._rows_in_time(work) - 1)  # else nothing could follow
        return 0 < work.busy <= most and work.pid not in self.delays

    def _goes_on(self, work: ProviderWork, contended: bool) -> bool:
        """Whether its quantum is not used up, or nobody waits (for a place, or where its run is for a robot), so that
        it gets another one."""
        if work.served < self._quantum and work.served_bytes + work.expected_bytes < self._quantum_bytes:
            return True
        if work.expected_bytes >= self._quantum_bytes:
            return False
        if contended or self._may_have_to_yield(work) or self._queues[work.priority]:
            return False
        work.renew_quantum()
        return True

    def _rows_in_time(self, work: ProviderWork) -> int:
        """How many rows of a provider may be out, if fetching them takes as long as it took."""
        if work.page_seconds * self._run_rows <= self.run_seconds:
            return self._run_rows
        return max(1, int(self.run_seconds / work.page_seconds))

    def _take_rows(self, work: ProviderWork, most: int, now: float) -> bool:
        """Hand out some rows; False: there are none."""
        rows = work.rows_out = []
        most = min(most, max(1, self._quantum - work.served), self._rows_in_time(work) - work.busy)
        bytes_left = self._quantum_bytes - work.served_bytes
        if work.info is not None:
            most, bytes_left = paid_for(work.info.limits, most, bytes_left, self.spaces_runs)
        bytes_left -= work.expected_bytes
        while len(rows) < most:
            row = self._next_row(work)
            if row is None:
                break
            if not self.hours.lets_row(work, row, now):
                continue
            expected = expected_bytes(row)
            work.hand_out(row, expected)
            bytes_left -= expected
            if bytes_left <= 0:
                break
        self._update(work)
        return bool(rows)
