"""Recording results: from ``<done>`` to a commit to ``<recorded>``.

Results wait in one queue, in the order in which they came.  While one batch is being recorded the next one gathers,
so that batches are small when there is little to do (a page is in the cache at once) and big under load: when some
have come meanwhile, a moment passes before they are recorded, some times as long as the last batch took, because
what a batch costs is mostly one change for each provider in it, and one round trip for each question, however many
results there are.  So recording takes a part of the time only, until batches are full.  After the commit the
scheduler is told, and each BOT-M hears up to which number its results are on stable storage: because the queue
keeps its order, that is the last number of it in the batch.

* *The database is unavailable*: the batch is retried, with growing delays.  The queue fills up: past ``full`` no
  orders are given out, past twice that the BOT-Ms are paused (``room``).
* *A result makes the store fail*: the results of its batch are tried one by one; one that fails alone is recorded
  as the robot's error without any of its data.  If that fails, too, it is dropped with a critical log line; its URL
  stays in the queue and is fetched again by the next queue manager.
* *A result comes twice* (a BOT-M connected again): it is recorded twice, and the store ignores the second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.errors import code
from lcc.interfaces import IQueueStore
from lcc.model import FetchResult, QueueRow, Recorded
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.part import ENDINGS, Hub, Part
from lcc.roles.qm.schedule.hours_filter import Closed
from lcc.roles.qm.schedule.scheduler import Scheduler

_log = Logger()

_ROBOT_ERROR = code("robot-error")
_NEVER = code("hours-never")
_OUTSIDE = code("outside-roots")
GATHER_TIMES = 4
"""Results that have come while a batch was recorded wait so many times as long as that took: more come soon."""
GATHER_SECONDS_MAX = 0.025
_GATHER_SECONDS_MIN = 0.001


class Entry(NamedTuple):
    """A result that waits to be recorded.

    :ivar result: None: it could not be read; only its number matters.
    :ivar machine: who hears that it is recorded; None: nobody.
    :ivar psetid: of its row, as it was handed out; 0: that is not known.
    :ivar timeline: of the database, in which its order went out; empty: in the present one.
    """

    result: FetchResult | None
    machine: Machine | None = None
    run: str = ""
    number: int = 0
    psetid: int = 0
    timeline: str = ""


class _Batch(NamedTuple):
    """What one transaction records.

    :ivar removed: rows whose operation is "nothing": ``(key, generation)``.
    :ivar closed: rows that go to their slots.
    """

    entries: Sequence[Entry] = ()
    removed: Sequence[tuple[bytes, int]] = ()
    closed: Sequence[Closed] = ()

    @property
    def size(self) -> int:
        return len(self.entries) + len(self.removed) + len(self.closed)

    def parts(self) -> list[_Batch]:
        """Each of them in a batch of its own."""
        return [
            *(_Batch(removed=[row]) for row in self.removed),
            *(_Batch(closed=[row]) for row in self.closed),
            *(_Batch([entry]) for entry in self.entries),
        ]


class Recorder(Part):
    """Records results, and the rows that the scheduler has reached and must not hand out.

    :param batch: results recorded in one transaction, at most.
    :ivar results_recorded: results and removed rows that are recorded.
    """

    ERROR_TEXT = "Cannot record results"

    def __init__(self, hub: Hub, store: IQueueStore, scheduler: Scheduler, batch: int) -> None:
        super().__init__(hub, store)
        self.results_recorded = 0
        self._scheduler = scheduler
        self._batch = batch
        self._queue: deque[Entry] = deque()
        self._removed: list[tuple[bytes, int]] = []
        self._closed: list[Closed] = []
        self._recording = _Batch()
        self._rooms: list[Deferred[None]] = []
        self._enabled = False
        self._timeline = ""
        self._former: Mapping[str, int] = {}

    @property
    def waiting_count(self) -> int:
        """Results and removed rows that are not recorded yet."""
        return len(self._queue) + len(self._removed) + len(self._closed) + self._recording.size

    @property
    def full(self) -> bool:
        """Give out no more orders."""
        return len(self._queue) + len(self._removed) + len(self._closed) > 4 * self._batch

    def holds_earlier(self, machine: Machine, run: str) -> bool:
        """Results of another run of this machine's BOT-M are not recorded yet."""
        return any(
            entry.machine is machine and entry.run != run
            for entries in (self._recording.entries, self._queue)
            for entry in entries
        )

    def room(self) -> Deferred[None] | None:
        """What a BOT-M's stream waits for; None: there is room."""
        if len(self._queue) <= 8 * self._batch or self._stopped:
            return None
        room: Deferred[None] = Deferred()
        self._rooms.append(room)
        return room

    def add(self, entry: Entry) -> None:
        """A result has come; :meth:`start` sets it going."""
        self._queue.append(entry)

    def start(self) -> None:
        """Record what waits, if nothing is being recorded."""
        self._take_unfetchable()
        if self._job.busy or not self._enabled or self._stopped:
            return
        self._take_reached()
        if self._queue or self._removed or self._closed:
            self._job.begin(self._record_all())

    def enable(self, timeline: str = "", former: Mapping[str, int] | None = None) -> None:
        """The queue manager may write from now on.

        :param timeline: of the database, which has begun with this queue manager.
        :param former: those before, in which orders may have gone out that are not lost: name -> highest generation.
        """
        self._timeline, self._former = timeline, former or {}
        self._enabled = True
        self.start()

    def stop(self) -> None:
        """End what is going on; the BOT-Ms keep what is not recorded."""
        self._queue.clear()
        self._removed, self._closed = [], []
        super().stop()
        self._make_room()

    def _ended(self) -> None:
        self.start()

    async def _record_all(self) -> None:
        queue, clock = self._queue, self._hub.clock
        while True:
            self._take_reached()
            if not (queue or self._removed or self._closed) or self._stopped:
                return
            batch = self._recording = self._next_batch()
            begun = clock.seconds()
            await self._record(batch)
            self._recording = _Batch()
            if len(queue) <= 4 * self._batch:
                self._make_room()
            pause = min(GATHER_SECONDS_MAX, GATHER_TIMES * (clock.seconds() - begun))
            if 0 < len(queue) < self._batch and pause >= _GATHER_SECONDS_MIN:
                await self._sleep(pause)

    def _take_reached(self) -> None:
        """Take the rows that are to be removed, or sent to their slots."""
        hours = self._scheduler.hours
        if not self._removed:
            self._removed, hours.removed = hours.removed, []
        if not self._closed:
            self._closed, hours.closed = hours.closed, []

    def _take_unfetchable(self) -> None:
        """Take the rows that may never be fetched: their results are errors."""
        hours = self._scheduler.hours
        if hours.never:
            self._queue += [Entry(_error(row, _NEVER, f"its hours are {row.notice.hours}")) for row in hours.never]
            hours.never = []
        if hours.outside:
            self._queue += [Entry(_error(row, _OUTSIDE)) for row in hours.outside]
            hours.outside = []

    def _next_batch(self) -> _Batch:
        """From the head of the queue; no URL twice, so that the store sees results of one URL in their order."""
        queue, most = self._queue, self._batch
        entries: list[Entry] = []
        keys: set[bytes] = set()
        while queue and len(entries) < most:
            result = queue[0].result
            if result is not None:
                if result.key in keys:
                    break
                keys.add(result.key)
            entries.append(self._known(queue.popleft()))
        removed, self._removed = self._removed[:most], self._removed[most:]
        closed, self._closed = self._closed[:most], self._closed[most:]
        return _Batch(entries, removed, closed)

    def _known(self, entry: Entry) -> Entry:
        """A result whose order is lost, as the database was put back since, becomes older than any: generations after
        a second restore may be lower than those after the first."""
        result, timeline = entry.result, entry.timeline
        if result is None or timeline in ("", self._timeline) or result.generation <= self._former.get(timeline, -1):
            return entry
        return entry._replace(result=result._replace(generation=0))

    async def _record(self, batch: _Batch) -> None:
        results = [entry.result for entry in batch.entries if entry.result is not None]
        if results or batch.removed or batch.closed:
            try:
                outcome = await self._ask("recording results", partial(self._write, results, batch))
            except ENDINGS:
                raise
            except Exception:
                count = len(results) + len(batch.removed) + len(batch.closed)
                _log.failure("Cannot record {count} results", count=count)
                await self._one_by_one(batch)
                return
            self._recorded(results, batch, outcome)
        self._acknowledge(batch.entries)

    async def _write(self, results: list[FetchResult], batch: _Batch) -> Recorded:
        """One attempt, with the slots and the delays as they are now."""
        now = self._hub.wall_clock()
        with self._scheduler.delays.saving(now) as delays:
            slots = self._scheduler.hours.slots_of(batch.closed, now)
            psetids = {entry.psetid for entry in batch.entries if entry.psetid}
            return await self._store.record(results, batch.removed, int(now), slots, delays, psetids)

    async def _one_by_one(self, batch: _Batch) -> None:
        if batch.size > 1:
            for part in batch.parts():
                await self._record(part)
            return
        nothing = Recorded((), {}, {}, False)
        if not batch.entries:
            key = batch.removed[0][0] if batch.removed else batch.closed[0].key
            _log.critical("Cannot remove row {key} from its place in the queue", key=key.hex())
            self._recorded([], batch, nothing)
            return
        result = batch.entries[0].result
        assert result is not None
        error = _error(result, _ROBOT_ERROR, "its result could not be recorded")
        try:
            outcome = await self._ask("recording results", partial(self._write, [error], _Batch()))
        except ENDINGS:
            raise
        except Exception:
            _log.critical("Cannot record a result of {key}; it is dropped", key=result.key.hex())
            outcome = nothing
        self._recorded([error], _Batch(), outcome)
        self._acknowledge(batch.entries)

    def _recorded(self, results: list[FetchResult], batch: _Batch, outcome: Recorded) -> None:
        done = [(result.key, result.generation) for result in results]
        done += batch.removed
        done += [(row.key, row.generation) for row in batch.closed]
        self.results_recorded += len(done)
        self._scheduler.recorded(done, outcome, self._hub.wall_clock())
        self._hub.recorded(outcome)

    def _acknowledge(self, entries: Sequence[Entry]) -> None:
        last: dict[tuple[int, str], Entry] = {}
        for entry in entries:
            last[id(entry.machine), entry.run] = entry
        for entry in last.values():
            if entry.machine is not None:
                entry.machine.recorded_upto(entry.run, entry.number, self._hub.progress)

    def _make_room(self) -> None:
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            room.callback(None)


def _error(row: QueueRow | FetchResult, number: int, detail: str = "") -> FetchResult:
    """The fetch of this row has ended with an error."""
    return FetchResult(row.pid, row.key, row.generation, number, detail=detail)
