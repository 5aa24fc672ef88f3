"""What to fetch next: the queue as far as it stands in memory.  Pure: no I/O, no clock of its own.

A provider with work is in one of these places:

* *waiting* for its turn (:class:`lcc.roles.qm.turns.Turns`): a number, nothing more;
* *active*: it has a :class:`~lcc.roles.qm.work.ProviderWork`; rows are read ahead for it, and at most one of them
  is being fetched;
* *held* back, because its site cannot be reached (:class:`lcc.roles.qm.holds.Holds`).

An active provider with nothing left is forgotten; new work brings it back.

Two things keep reading ahead right while rows come, change and go:

* *Rewinding.*  Rows behind the cursor are unread, rows before it are in the buffer or were handed out.  Whatever
  may have put a row at or before some place (new work, a retry, an order that was lost, a notification for a row
  that is buffered) rewinds to that place: the buffer's tail is dropped and read again.  A rewind that happens while
  a read is under way is noted and done again when its rows have come, because the read may have been made before or
  after.
* *Taken keys.*  A row that was handed out stays in the database until its result is recorded.  Its key is kept as
  taken until then, and a read that gives it is not believed.  A read that was under way when the result was
  recorded may still give it afterwards: such keys are kept until that read has come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from lcc.domain.keys import pid_of
from lcc.errors import Remedy, entry_for
from lcc.model import Ahead, Cursor, QueueRow, Recorded
from lcc.roles.qm.holds import Holds
from lcc.roles.qm.turns import Turns
from lcc.roles.qm.work import START, ProviderWork

_REMEDIES: dict[int, Remedy] = {0: Remedy.NONE}


def holds_provider(code: int) -> bool:
    """True for an error that is the site's: nothing else of the provider is worth trying now."""
    remedy = _REMEDIES.get(code)
    if remedy is None:
        remedy = entry_for(code).remedy
        if len(_REMEDIES) < 1000:
            _REMEDIES[code] = remedy
    return remedy is Remedy.HOLD_PROVIDER


class Scheduler:
    """Hands out the rows of the queue, in order, never two of one provider at once.

    :param read_ahead: rows buffered for one provider, at most.
    :param read_ahead_total: rows buffered for all, about.
    """

    def __init__(self, turns: Turns, holds: Holds, read_ahead: int, read_ahead_total: int) -> None:
        self.turns = turns
        self.holds = holds
        self.removed: list[tuple[bytes, int]] = []
        """Rows whose operation is "nothing" that were reached: ``(key, generation)``, for the recorder to take."""
        self._read_ahead = read_ahead
        self._read_ahead_total = read_ahead_total
        self._limit = read_ahead
        self._active: dict[int, ProviderWork] = {}
        self._blocked: set[int] = set()
        self._line: deque[ProviderWork] = deque()
        self._hungry: dict[int, ProviderWork] = {}
        self._taken: dict[bytes, int] = {}

    # What is going on.

    @property
    def active_count(self) -> int:
        """Providers that have their turn."""
        return len(self._active)

    @property
    def buffered_count(self) -> int:
        """Rows in memory, waiting to be handed out."""
        return sum(len(work.buffer) for work in self._active.values())

    @property
    def taken_count(self) -> int:
        """Rows handed out whose results are not recorded yet."""
        return len(self._taken)

    def active(self, pid: int) -> ProviderWork | None:
        """The provider, if it has its turn."""
        return self._active.get(pid)

    # Work comes.

    def load(self, waiting: Iterable[tuple[int, int]]) -> None:
        """Begin with these providers, as ``(psetid, pid)``."""
        self.turns.load((psetid, pid) for psetid, pid in waiting if pid not in self._active and pid not in self.holds)
        # One that is active already (an order of an earlier queue manager) may have read before the queue was known.
        for work in list(self._active.values()):
            self._rewind(work, *START)
            self._settle(work)

    def work_arrived(self, pid: int, psetid: int, seq: int) -> None:
        """There are new rows of this provider, the earliest at this place."""
        work = self._active.get(pid)
        if work is not None:
            self._rewind(work, psetid, seq)
            self._settle(work)
        elif pid in self.holds:
            self.holds.work_arrived(pid, psetid)
        else:
            self.turns.add(pid, psetid)

    def touched(self, keys: Iterable[bytes]) -> None:
        """These rows were queued already and have changed: do not hand them out as they were."""
        by_pid: dict[int, set[bytes]] = {}
        active = self._active
        for key in keys:
            pid = pid_of(key)
            if pid in active:
                by_pid.setdefault(pid, set()).add(key)
        for pid, changed in by_pid.items():
            work = active[pid]
            reading = work.reading
            if reading is not None:
                self._note_rewind(work, (reading.psetid, reading.seq + 1))
            for row in work.buffer:
                if row.key in changed:
                    self._rewind(work, row.psetid, row.seq)
                    break
            self._settle(work)

    def provider_removed(self, pid: int) -> None:
        """The provider and its queue are gone."""
        self.turns.discard(pid)
        self.holds.discard(pid)
        work = self._active.get(pid)
        if work is not None:
            self._drop(work)

    # Work goes out.

    def fill(self, wanted: int) -> None:
        """Give providers their turn until this many are active that are not being fetched from."""
        share = self._read_ahead_total // max(1, wanted + len(self._blocked))
        self._limit = max(2, min(self._read_ahead, share))
        while len(self._active) - len(self._blocked) < wanted:
            entry = self.turns.next()
            if entry is None:
                return
            psetid, pid = entry
            self._activate(pid, psetid)

    def take(self) -> ProviderWork | None:
        """Hand out the next row: it stands in the provider's ``row``.  None: there is nothing to send now."""
        line = self._line
        while line:
            work = line.popleft()
            work.in_line = False
            if work.gone or work.busy or work.doubt is not None:
                continue
            row = self._take_row(work)
            if row is not None:
                work.row = row
                work.busy = 1
                self._settle(work)
                return work
            self._settle(work)
        return None

    def _take_row(self, work: ProviderWork) -> QueueRow | None:
        buffer = work.buffer
        taken = self._taken
        while buffer:
            row = buffer.popleft()
            key = row.key
            if key in taken:
                continue  # its result came by another way while it was in the buffer
            taken[key] = row.generation
            if not row.delete:
                return row
            self.removed.append((key, row.generation))
        return None

    def running(self, pid: int, key: bytes, generation: int) -> None:
        """An earlier queue manager's order is still being fetched."""
        work = self._active.get(pid)
        if work is None:
            self.turns.discard(pid)
            work = self._activate(pid, 0)
        work.busy += 1
        self._taken[key] = generation
        self._settle(work)

    # Work comes back.

    def finished(self, pid: int, key: bytes, code: int) -> None:
        """An order that was handed out has come back; its result is yet to be recorded."""
        work = self._active.get(pid)
        doubt = holds_provider(code)
        if not doubt:
            self.holds.reached(pid)
        if work is None:
            return
        if work.busy:
            work.busy -= 1
        if doubt:
            work.doubt = key
        self._settle(work)

    def known(self, key: bytes, generation: int) -> None:
        """A result for this row has come that no order waits for; do not hand the row out before it is recorded."""
        self._taken.setdefault(key, generation)

    def lost(self, pid: int, key: bytes, psetid: int, seq: int) -> None:
        """An order that was handed out will not come back: its row, at this place, is handed out again."""
        self._taken.pop(key, None)
        work = self._active.get(pid)
        if work is not None and work.busy:
            work.busy -= 1
        self.work_arrived(pid, psetid, seq)

    def recorded(self, done: Iterable[tuple[bytes, int]], outcome: Recorded, now: float) -> None:
        """Results were recorded.

        :param done: ``(key, generation)`` of all that were given to the store, removed rows included.
        """
        active, taken = self._active, self._taken
        changed: dict[int, ProviderWork] = {}
        for key, generation in done:
            taken.pop(key, None)
            work = active.get(pid_of(key))
            if work is None:
                continue
            if work.reading is not None:
                work.recent[key] = generation
            if work.doubt == key:
                work.doubt = None
            changed[work.pid] = work
        for row in outcome.again:
            self.work_arrived(row.pid, row.psetid, row.seq)
        for pid in outcome.held:
            self._hold(pid, now)
        for pid, (psetid, seq) in outcome.requeued.items():
            self.work_arrived(pid, psetid, seq)
        for work in changed.values():
            if not work.gone:
                self._settle(work)

    def release(self, now: float) -> None:
        """Providers whose delay has passed wait for their turn again."""
        for psetid, pid in self.holds.release(now):
            work = self._active.get(pid)
            if work is None:
                self.turns.add(pid, psetid)
            else:
                self._settle(work)

    def hold(self, pid: int, now: float) -> None:
        """Hold the provider back (also what :meth:`recorded` does for errors of its site)."""
        self._hold(pid, now)

    def _hold(self, pid: int, now: float) -> None:
        work = self._active.get(pid)
        psetid = work.psetid if work is not None else 0
        self.turns.discard(pid)
        self.holds.hold(pid, psetid, now)
        if work is None:
            return
        # What it has in memory is read again after the delay.  An order of it that is still out keeps its record.
        if work.busy:
            self._rewind(work, *START)
            self._settle(work)
        else:
            self._drop(work)

    # Reading ahead.

    def wants_read_ahead(self, limit: int) -> list[Cursor]:
        """Where to read now, for at most this many providers; each must come back by :meth:`rows_read` or
        :meth:`read_failed`."""
        cursors: list[Cursor] = []
        hungry = self._hungry
        while hungry and len(cursors) < limit:
            pid = next(iter(hungry))
            work = hungry.pop(pid)
            rows = max(2, self._limit - len(work.buffer))
            cursor = work.reading = Cursor(pid, work.cursor[0], work.cursor[1], rows)
            work.recent.clear()
            cursors.append(cursor)
        return cursors

    def rows_read(self, cursors: Sequence[Cursor], aheads: Sequence[Ahead], infos: dict[int, object]) -> None:
        """Rows have come.

        :param cursors: as :meth:`wants_read_ahead` gave them, the same objects.
        :param infos: what :attr:`~lcc.roles.qm.work.ProviderWork.info` becomes.
        """
        for cursor, ahead in zip(cursors, aheads, strict=True):
            work = self._active.get(cursor.pid)
            if work is None or work.reading is not cursor:
                continue  # forgotten meanwhile
            work.reading = None
            work.info = infos.get(cursor.pid, work.info)
            self._accept(work, ahead.rows)
            work.exhausted = len(ahead.rows) < cursor.limit
            again, work.rewind = work.rewind, None
            if again is not None:
                self._rewind(work, *again)
            self._settle(work)

    def _accept(self, work: ProviderWork, rows: list[QueueRow]) -> None:
        if not rows:
            return
        buffer, taken, recent = work.buffer, self._taken, work.recent
        for row in rows:
            key = row.key
            if key in taken or (recent and recent.get(key, -1) >= row.generation):
                continue
            buffer.append(row)
        last = rows[-1]
        work.cursor = (last.psetid, last.seq)
        work.psetid = rows[0].psetid
        recent.clear()

    def read_failed(self, cursors: Sequence[Cursor]) -> None:
        """Nothing was read; it is wanted again."""
        for cursor in cursors:
            work = self._active.get(cursor.pid)
            if work is not None and work.reading is cursor:
                work.reading = None
                again, work.rewind = work.rewind, None
                if again is not None:
                    self._rewind(work, *again)
                self._settle(work)

    # Inside.

    def _activate(self, pid: int, psetid: int) -> ProviderWork:
        work = self._active[pid] = ProviderWork(pid, psetid)
        self._settle(work)
        return work

    def _drop(self, work: ProviderWork) -> None:
        work.gone = True
        work.buffer.clear()
        self._active.pop(work.pid, None)
        self._blocked.discard(work.pid)
        self._hungry.pop(work.pid, None)

    def _rewind(self, work: ProviderWork, psetid: int, seq: int) -> None:
        at = (psetid, seq)
        if work.reading is not None:
            self._note_rewind(work, at)
        before = (psetid, seq - 1) if at > START else START
        if before < work.cursor:
            work.cursor = before
            buffer = work.buffer
            while buffer and (buffer[-1].psetid, buffer[-1].seq) >= at:
                buffer.pop()
        work.exhausted = False

    def _note_rewind(self, work: ProviderWork, at: tuple[int, int]) -> None:
        if work.rewind is None or at < work.rewind:
            work.rewind = at

    def _settle(self, work: ProviderWork) -> None:
        """Put a provider where it belongs, after anything has changed.  (Whether it may go on with its next row, or
        must yield, is decided here.)"""
        pid = work.pid
        if work.busy or work.doubt is not None:
            self._blocked.add(pid)
            if pid in self.holds:
                self._hungry.pop(pid, None)
                return
        else:
            self._blocked.discard(pid)
            if pid in self.holds:
                self._drop(work)
                return
            if work.buffer:
                if not work.in_line:
                    work.in_line = True
                    self._line.append(work)
            elif work.exhausted and work.reading is None:
                self._drop(work)
                return
        if work.exhausted or work.reading is not None or len(work.buffer) > self._limit // 2:
            self._hungry.pop(pid, None)
        else:
            self._hungry[pid] = work
