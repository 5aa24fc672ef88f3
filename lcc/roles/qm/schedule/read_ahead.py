"""Reading ahead: which rows of the queue stand in memory, and which are wanted.

Two things keep it right while rows come, change and go:

* *Rewinding.*  Rows behind the cursor are unread, rows before it are in the buffer or were handed out.  Whatever
  may have put a row at or before some place (new work, a retry, an order that was lost, a notification for a row
  that is buffered) rewinds to that place: the buffer's tail is dropped and read again.  A rewind that happens while
  a read is under way is noted and done again when its rows have come, because the read may have been made before or
  after.
* *Taken keys.*  A row that was handed out stays in the database until its result is recorded.  Its key is kept as
  taken until then, and a read that gives it is not believed.  A read that was under way when the result was
  recorded may still give it afterwards: such keys are kept until that read has come back.

*In company.*  Rows are wanted for a provider when its buffer is half empty.  They are read once somebody's is at a
quarter, or one in eight of all want some: a question costs little more for many providers than for one.

*Partial sets pass full ones.*  Where the cursor stands in a full set of which more than a quantum is left, the first
rows of the provider's partial sets behind it are read, too, once a quantum, and handed out first; at most half of a
quantum, so that the full set gets on as well.  Partial sets do not pass each other: what is left in the buffer of the
sets before the full one goes first, and a rewind to a place among these rows drops the tail of them, too.  All of
them stand behind the cursor's set: once the cursor comes there, or goes back to an earlier set, or no more than a
quantum of the full set is left, they are dropped and read in their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from lcc.domain.keys import pid_of
from lcc.model import Ahead, Cursor, QueueRow
from lcc.model.providers import PRIORITIES
from lcc.roles.qm.schedule.ready_queue import Place
from lcc.roles.qm.schedule.work import START, FetchInfo, ProviderWork

_COMPANY = 8


class ReadAhead(ABC):
    """The rows in memory.

    :param read_ahead: rows buffered for one provider, at most.
    :param quantum_urls: rows that a provider hands out in its turn.
    """

    def __init__(self, read_ahead: int, quantum_urls: int) -> None:
        self._read_ahead = read_ahead
        self._quantum = quantum_urls
        self._limit = read_ahead
        self._active: dict[int, ProviderWork] = {}
        self._taken: dict[bytes, int] = {}
        self._hungry: tuple[dict[int, ProviderWork], ...] = tuple({} for _ in range(PRIORITIES))
        self._urgent: set[int] = set()

    @property
    def active_count(self) -> int:
        """Providers that have their turn."""
        return len(self._active)

    @property
    def buffered_count(self) -> int:
        """Rows in memory, waiting to be handed out."""
        return sum(len(work.buffer) + len(work.express) for work in self._active.values())

    @property
    def taken_count(self) -> int:
        """Rows handed out whose results are not recorded yet."""
        return len(self._taken)

    def active(self, pid: int) -> ProviderWork | None:
        """The provider, if it has its turn."""
        return self._active.get(pid)

    def active_work(self) -> list[ProviderWork]:
        """The providers that have their turn, longest first."""
        return list(self._active.values())

    def known(self, key: bytes, generation: int) -> None:
        """A result for this row has come that no order waits for; do not hand the row out before it is recorded."""
        self._taken.setdefault(key, generation)

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
                if reading.partial:
                    work.express_stale = True
                else:
                    self._note_rewind(work, (reading.psetid, reading.seq + 1))
            if any(row.key in changed for row in work.express):
                self._drop_express(work)
                work.express_due = True
            for row in work.buffer:
                if row.key in changed:
                    self._rewind(work, row.psetid, row.seq)
                    break
            self._update(work)

    def wants_read_ahead(self, limit: int) -> list[Cursor]:
        """Where to read now, for at most this many providers; each must come back by :meth:`rows_read` or
        :meth:`read_failed`."""
        if not self._urgent and _COMPANY * sum(map(len, self._hungry)) < len(self._active):
            return []
        cursors: list[Cursor] = []
        for hungry in reversed(self._hungry):
            while hungry and len(cursors) < limit:
                pid = next(iter(hungry))
                self._urgent.discard(pid)
                work = hungry.pop(pid)
                cursor = work.reading = self._next_cursor(work)
                work.recent.clear()
                cursors.append(cursor)
        return cursors

    def _next_cursor(self, work: ProviderWork) -> Cursor:
        psetid, seq = work.cursor
        if work.express_due:
            work.express_due = work.express_stale = False
            self._drop_express(work)
            work.express_done = True
            rows = min(self._limit, self._quantum // 2 - work.express_count)
            return Cursor(work.pid, psetid + 1, 0, max(1, rows), True)
        rows = self._limit - len(work.buffer)
        if self._may_have_to_yield(work):
            # What is read beyond its quantum would be dropped with its turn.
            rows = min(rows, self._quantum - work.served - len(work.buffer) - len(work.express))
        return Cursor(work.pid, psetid, seq, max(2, rows))

    def rows_read(
        self, cursors: Sequence[Cursor], aheads: Sequence[Ahead], infos: Mapping[int, FetchInfo | None]
    ) -> None:
        """Rows have come.

        :param cursors: as :meth:`wants_read_ahead` gave them, the same objects.
        :param infos: what is known of their providers.
        """
        for cursor, ahead in zip(cursors, aheads, strict=True):
            work = self._active.get(cursor.pid)
            if work is None or work.reading is not cursor:
                continue  # forgotten meanwhile
            work.reading = None
            info = infos.get(cursor.pid)
            if info is not None and not work.info_stale:
                self._informed(work, info)
            work.info_stale = False
            if cursor.partial:
                self._accept_partial(work, ahead.rows)
            else:
                self._accept(work, ahead.rows)
                work.exhausted = len(ahead.rows) < cursor.limit
                if ahead.full_left <= self._quantum:
                    self._let_none_pass(work)
                else:
                    work.passable = True
                    if not work.express_done:
                        work.express_due = True
            work.recent.clear()
            again, work.rewind = work.rewind, None
            if again is not None:
                self._rewind(work, *again)
            self._update(work)

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
        if work.express and work.express[0].psetid <= last.psetid:
            self._drop_express(work)

    def _accept_partial(self, work: ProviderWork, rows: list[QueueRow]) -> None:
        if not work.passable:
            work.express_done = False
            return
        if work.express_stale:
            work.express_due = True
            return
        taken, recent = self._taken, work.recent
        for row in rows:
            key = row.key
            if key in taken or (recent and recent.get(key, -1) >= row.generation):
                continue
            work.express.append(row)
            work.express_count += 1

    def read_failed(self, cursors: Sequence[Cursor]) -> None:
        """Nothing was read; it is wanted again."""
        for cursor in cursors:
            work = self._active.get(cursor.pid)
            if work is not None and work.reading is cursor:
                work.reading = None
                work.info_stale = False
                again, work.rewind = work.rewind, None
                if again is not None:
                    self._rewind(work, *again)
                self._update(work)

    def _next_row(self, work: ProviderWork) -> QueueRow | None:
        """Take a provider's next row out of memory; None: there is none."""
        taken, buffer, express = self._taken, work.buffer, work.express
        while buffer or express:
            # Only the full set that the cursor is in is passed.
            passes = express and (not buffer or buffer[0].psetid == work.cursor[0])
            row = (express if passes else buffer).popleft()
            if row.key not in taken:  # else its result came by another way while it was in the buffer
                taken[row.key] = row.generation
                return row
        return None

    # What the scheduler adds.

    @abstractmethod
    def _update(self, work: ProviderWork) -> None:
        """Put a provider where it belongs, after anything has changed."""

    @abstractmethod
    def _informed(self, work: ProviderWork, info: FetchInfo) -> None:
        """What has to be known of the provider has come with its rows."""

    @abstractmethod
    def _may_have_to_yield(self, work: ProviderWork) -> bool:
        """Whether others wait for its turn to end."""

    # Inside.

    def _update_reading(self, work: ProviderWork) -> None:
        hungry = self._hungry[work.priority]
        enough = work.exhausted or len(work.buffer) > self._limit // 2
        if work.reading is not None or (enough and not work.express_due):
            self._not_hungry(work)
        else:
            hungry[work.pid] = work
            if len(work.buffer) <= self._limit // 4 or work.express_due:
                self._urgent.add(work.pid)

    def _forget(self, work: ProviderWork) -> None:
        work.gone = True
        work.buffer.clear()
        work.express.clear()
        self._active.pop(work.pid, None)
        self._not_hungry(work)

    def _not_hungry(self, work: ProviderWork) -> None:
        self._hungry[work.priority].pop(work.pid, None)
        self._urgent.discard(work.pid)

    def _rewind(self, work: ProviderWork, psetid: int, seq: int) -> None:
        at, reading = (psetid, seq), work.reading
        in_set = work.cursor[0]
        if reading is not None and (psetid > in_set or not reading.partial):
            self._note_rewind(work, at)
        if psetid < in_set:
            self._let_none_pass(work)  # it may be a partial set
        elif psetid > in_set:
            work.express_due |= self._drop_express(work, at)
        before = (psetid, seq - 1) if at > START else START
        if before < work.cursor:
            work.cursor = before
            buffer = work.buffer
            while buffer and (buffer[-1].psetid, buffer[-1].seq) >= at:
                buffer.pop()
        work.exhausted = False

    def _let_none_pass(self, work: ProviderWork) -> None:
        work.passable = work.express_due = False
        self._drop_express(work)

    def _drop_express(self, work: ProviderWork, at: Place = START) -> bool:
        """Drop their tail from this place on; as many may be looked for again in this quantum.

        :return: any were dropped.
        """
        express, before = work.express, len(work.express)
        while express and (express[-1].psetid, express[-1].seq) >= at:
            express.pop()
        dropped = before - len(express)
        if dropped:
            work.express_count -= dropped
            work.express_done = False
        return dropped > 0

    def _note_rewind(self, work: ProviderWork, at: tuple[int, int]) -> None:
        if work.rewind is None or at < work.rewind:
            work.rewind = at
