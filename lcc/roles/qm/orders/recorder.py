"""Recording results: from ``<done>`` to a commit to ``<recorded>``.

Results wait in one line, in the order in which they came.  While one batch is being recorded the next one gathers,
so that batches are small when there is little to do (a page is in the cache at once) and big under load: when some
have come meanwhile, a moment passes before they are recorded, some times as long as the last batch took, because
what a batch costs is mostly one change for each provider in it, and one round trip for each question, however many
results there are.  So recording takes a part of the time only, until batches are full.  After the commit the
scheduler is told, and each BOT-M hears up to which number its results are on stable storage: because the line keeps
its order, that is the last number of it in the batch.

* *The database is away*: the batch is tried again, with growing delays.  The line fills up: past ``full`` no orders
  are given out, past ``brimming`` the BOT-Ms are not read any longer.
* *A result makes the store fail*: the results of its batch are tried one by one; one that fails alone is recorded
  as the robot's error without any of its data.  If that fails, too, it is dropped with a critical log line; its URL
  stays in the queue and is tried again by the next queue manager.
* *A result comes twice* (a BOT-M connected again): it is recorded twice, and the store ignores the second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from lcc.errors import Busy, code
from lcc.interfaces import IQueueStore
from lcc.model import Delay, FetchResult, Recorded
from lcc.roles.background import Background
from lcc.roles.qm.patience import Patience
from lcc.roles.qm.schedule.hours_filter import Closed

_log = Logger()

_ROBOT_ERROR = code("robot-error")
GATHER_TIMES = 4
"""Results that have come while a batch was recorded wait so many times as long as that took: more come soon."""
GATHER_SECONDS_MAX = 0.05
_GATHER_SECONDS_MIN = 0.001


class Reporter(Protocol):
    """Who is told that a result is on stable storage."""

    def recorded_upto(self, run: str, number: int, progress: tuple[str, int]) -> None:
        """The results of that run up to this number are.

        :param progress: how far the cache has come with them: its timeline, and the number of its last change.
        """


class Recording(Protocol):
    """What the recorder needs of the engine."""

    def recorded(self, done: list[tuple[bytes, int]], outcome: Recorded) -> None:
        """A batch is recorded: these ``(key, generation)``."""

    def take_removed(self) -> list[tuple[bytes, int]]:
        """Rows whose operation is "nothing" that were reached; the recorder takes them away."""

    def take_closed(self) -> list[Closed]:
        """Rows that were reached when their hours had closed; the recorder sends them to their slots."""

    def slots_now(self, closed: Sequence[Closed]) -> list[tuple[bytes, int, int]]:
        """The same as ``(key, generation, slot)``, with the slots that come next now."""

    def with_delays(self, write: Callable[[list[Delay]], Deferred[Recorded]]) -> Deferred[Recorded]:
        """Write, together with the delays that have changed."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""

    @property
    def progress(self) -> tuple[str, int]:
        """How far the cache has come: its timeline, and the number of its last change."""

    def now(self) -> int:
        """Seconds since 1970."""


class Entry(NamedTuple):
    """A result in line.

    :ivar result: None: it could not be read; only its number matters.
    """

    result: FetchResult | None
    reporter: Reporter | None
    run: str
    number: int


class Recorder:
    """The line of results.

    :param batch: results recorded in one transaction, at most.
    """

    def __init__(self, engine: Recording, store: IQueueStore, patience: Patience, batch: int) -> None:
        self._engine = engine
        self._store = store
        self._patience = patience
        self._batch = batch
        self._line: deque[Entry] = deque()
        self._removed: list[tuple[bytes, int]] = []
        self._closed: list[Closed] = []
        self._in_work = 0
        self._recording: Sequence[Entry] = ()
        self._work = Background("Recording has failed", self.start)
        self._rooms: list[Deferred[None]] = []
        self._enabled = False
        self._stopped = False

    @property
    def waiting_count(self) -> int:
        """Results and removed rows that are not recorded yet."""
        return len(self._line) + len(self._removed) + len(self._closed) + self._in_work

    @property
    def full(self) -> bool:
        """Give out no more orders."""
        return len(self._line) + len(self._removed) + len(self._closed) > 4 * self._batch

    def holds_earlier(self, reporter: Reporter, run: str) -> bool:
        """Results of another run than this one are not recorded yet."""
        return any(
            entry.reporter is reporter and entry.run != run
            for entries in (self._recording, self._line)
            for entry in entries
        )

    def room(self) -> Deferred[None] | None:
        """What a BOT-M's stream waits for; None: there is room."""
        if len(self._line) <= 8 * self._batch or self._stopped:
            return None
        room: Deferred[None] = Deferred()
        self._rooms.append(room)
        return room

    def add(self, entry: Entry) -> None:
        """Put a result in line; :meth:`start` sets it going."""
        self._line.append(entry)

    def start(self) -> None:
        """Record what is in line, if nothing is being recorded."""
        if self._work.busy or not self._enabled or self._stopped:
            return
        self._take()
        if self._line or self._removed or self._closed:
            self._work.begin(self._record_all())

    def enable(self) -> None:
        """The queue manager may write from now on."""
        self._enabled = True
        self.start()

    def stop(self) -> None:
        """End what is going on; the BOT-Ms keep what is not recorded."""
        self._stopped = True
        self._line.clear()
        self._removed, self._closed = [], []
        self._work.cancel()
        self._make_room()

    async def _record_all(self) -> None:
        line = self._line
        while True:
            self._take()
            if not (line or self._removed or self._closed) or self._stopped:
                return
            entries = self._next_batch()
            removed, self._removed = self._removed[: self._batch], self._removed[self._batch :]
            closed, self._closed = self._closed[: self._batch], self._closed[self._batch :]
            self._in_work = len(entries) + len(removed) + len(closed)
            self._recording = entries
            begun = self._patience.clock.seconds()
            await self._record(entries, removed, closed)
            self._recording = ()
            self._in_work = 0
            if len(line) <= 4 * self._batch:
                self._make_room()
            pause = min(GATHER_SECONDS_MAX, GATHER_TIMES * (self._patience.clock.seconds() - begun))
            if 0 < len(line) < self._batch and pause >= _GATHER_SECONDS_MIN:
                await self._patience.sleep(pause)

    def _take(self) -> None:
        if not self._removed:
            self._removed = self._engine.take_removed()
        if not self._closed:
            self._closed = self._engine.take_closed()

    def _next_batch(self) -> list[Entry]:
        """From the head of the line; no URL twice, so that the store sees results of one URL in their order."""
        line = self._line
        entries: list[Entry] = []
        keys: set[bytes] = set()
        while line and len(entries) < self._batch:
            result = line[0].result
            if result is not None:
                if result.key in keys:
                    break
                keys.add(result.key)
            entries.append(line.popleft())
        return entries

    async def _record(self, entries: Sequence[Entry], removed: list[tuple[bytes, int]], closed: list[Closed]) -> None:
        results = [entry.result for entry in entries if entry.result is not None]
        if results or removed or closed:
            try:
                outcome = await self._ask(results, removed, closed)
            except (CancelledError, Busy):
                raise
            except Exception:
                count = len(results) + len(removed) + len(closed)
                _log.failure("{count} results cannot be recorded", count=count)
                await self._one_by_one(entries, removed, closed)
                return
            self._told(results, removed, closed, outcome)
        self._report(entries)

    async def _ask(
        self,
        results: list[FetchResult],
        removed: list[tuple[bytes, int]],
        closed: list[Closed],
    ) -> Recorded:
        try:
            return await self._patience.ask(
                "recording results",
                lambda: self._engine.with_delays(partial(self._ask_once, results, removed, closed)),
            )
        except Busy as error:
            self._engine.fatal(error)
            raise CancelledError from None

    def _ask_once(
        self,
        results: list[FetchResult],
        removed: list[tuple[bytes, int]],
        closed: list[Closed],
        delays: list[Delay],
    ) -> Deferred[Recorded]:
        engine = self._engine
        return self._store.record(results, removed, engine.now(), engine.slots_now(closed), delays)

    async def _one_by_one(
        self, entries: Sequence[Entry], removed: list[tuple[bytes, int]], closed: list[Closed]
    ) -> None:
        if len(entries) + len(removed) + len(closed) > 1:
            for row in removed:
                await self._record([], [row], [])
            for waiting in closed:
                await self._record([], [], [waiting])
            for entry in entries:
                await self._record([entry], [], [])
            return
        nothing = Recorded((), {}, {}, False)
        if removed or closed:
            key = removed[0][0] if removed else closed[0].key
            _log.critical("Row {key} cannot be removed from its place in the queue", key=key.hex())
            self._told([], removed, closed, nothing)
            return
        result = entries[0].result
        assert result is not None
        plain = FetchResult(
            result.pid, result.key, result.generation, _ROBOT_ERROR, detail="its result could not be recorded"
        )
        try:
            outcome = await self._ask([plain], [], [])
        except CancelledError:
            raise
        except Exception:
            _log.critical("The result of {key} is dropped: it cannot be recorded", key=result.key.hex())
            outcome = nothing
        self._told([plain], [], [], outcome)
        self._report(entries)

    def _told(
        self,
        results: list[FetchResult],
        removed: list[tuple[bytes, int]],
        closed: list[Closed],
        outcome: Recorded,
    ) -> None:
        done = [(result.key, result.generation) for result in results]
        self._engine.recorded([*done, *removed, *[(row.key, row.generation) for row in closed]], outcome)

    def _report(self, entries: Sequence[Entry]) -> None:
        last: dict[tuple[int, str], Entry] = {}
        for entry in entries:
            last[id(entry.reporter), entry.run] = entry
        for entry in last.values():
            if entry.reporter is not None:
                entry.reporter.recorded_upto(entry.run, entry.number, self._engine.progress)

    def _make_room(self) -> None:
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            room.callback(None)
