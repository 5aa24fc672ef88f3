"""What to fetch next: the queue as far as it stands in memory.  Pure: no I/O, no clock of its own.

A provider with work is in one of these places:

* *waiting* for its turn (:class:`lcc.roles.qm.turns.Turns`): a number, nothing more;
* *active*: it has a :class:`~lcc.roles.qm.work.ProviderWork`; rows are read ahead for it
  (:mod:`lcc.roles.qm.readahead`), and at most one of them is being fetched;
* *delayed* (:class:`lcc.roles.qm.delays.Delays`), because of its bandwidth, its hours, or its site.  One that waits
  only for a moment keeps its rows, as far as there is room.

An active provider with nothing left is forgotten; new work brings it back.

It keeps its turn until its quantum is used up and others of its priority wait, or until somebody of a higher priority
waits and there is no free place; both are looked at between two fetches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from lcc.domain.keys import pid_of
from lcc.domain.timeslots import TimeSlots
from lcc.errors import Remedy, entry_for
from lcc.model import FETCH_NOW, QueueRow, Recorded, Waiting
from lcc.roles.qm.delays import SITE, Delays
from lcc.roles.qm.readahead import ReadAhead
from lcc.roles.qm.turns import PRIORITIES, Order, Turns
from lcc.roles.qm.work import START, FetchInfo, Limits, ProviderWork

_REMEDIES: dict[int, Remedy] = {0: Remedy.NONE}

_PARKED_SECONDS = 60.0
_PRIORITIES_KEPT = 10_000
_NO_LIMITS = Limits()


def holds_provider(code: int) -> bool:
    """True for an error that is the site's: nothing else of the provider is worth trying now."""
    remedy = _REMEDIES.get(code)
    if remedy is None:
        remedy = entry_for(code).remedy
        if len(_REMEDIES) < 1000:
            _REMEDIES[code] = remedy
    return remedy is Remedy.HOLD_PROVIDER


class Scheduler(ReadAhead):
    """Hands out the rows of the queue, in order, never two of one provider at once.

    All times are seconds since 1970.

    :param read_ahead: rows buffered for one provider, at most.
    :param read_ahead_total: rows buffered for all, about.
    :param quantum_urls, quantum_bytes: what a provider may fetch before others of its priority that wait.
    """

    def __init__(
        self,
        turns: Turns,
        delays: Delays,
        timeslots: TimeSlots,
        read_ahead: int,
        read_ahead_total: int,
        quantum_urls: int = 100,
        quantum_bytes: int = 64 << 20,
    ) -> None:
        super().__init__(read_ahead, quantum_urls)
        self.turns = turns
        self.delays = delays
        self.timeslots = timeslots
        self.removed: list[tuple[bytes, int]] = []
        """Rows whose operation is "nothing" that were reached: ``(key, generation)``, for the recorder to take."""
        self.closed: list[tuple[bytes, int, int]] = []
        """Rows whose own hours had closed when they were reached: ``(key, generation, slot)``, likewise."""
        self.never: list[QueueRow] = []
        """Rows whose hours never meet their provider's: to be recorded as errors."""
        self._read_ahead_total = read_ahead_total
        self._quantum_bytes = quantum_bytes
        self._blocked: set[int] = set()
        self._parked: set[int] = set()
        self._lines: tuple[deque[ProviderWork], ...] = tuple(deque() for _ in range(PRIORITIES))
        self._idle: tuple[dict[int, ProviderWork], ...] = tuple({} for _ in range(PRIORITIES))
        self._spent: dict[int, tuple[int, int]] = {}
        self._unpaid: dict[int, int] = {}
        self._priorities: dict[int, int] = {}
        self._delayed: dict[int, tuple[Order, int]] = {}

    # What is going on.

    @property
    def active_count(self) -> int:
        """Providers that have their turn."""
        return len(self._active)

    @property
    def waiting_count(self) -> int:
        """Providers that wait for their turn, or are delayed with work."""
        return len(self.turns) + len(self._delayed)

    @property
    def buffered_count(self) -> int:
        """Rows in memory, waiting to be handed out."""
        return sum(len(work.buffer) + len(work.express) for work in self._active.values())

    @property
    def taken_count(self) -> int:
        """Rows handed out whose results are not recorded yet."""
        return len(self._taken)

    @property
    def reached_count(self) -> int:
        """Rows that were reached and not handed out, which the recorder is to take."""
        return len(self.removed) + len(self.closed) + len(self.never)

    def active(self, pid: int) -> ProviderWork | None:
        """The provider, if it has its turn."""
        return self._active.get(pid)

    # Work comes.

    def load(self, waiting: Iterable[Waiting]) -> None:
        """Begin with these providers."""
        now: list[Waiting] = []
        for entry in waiting:
            if entry.pid in self.delays:
                self._delayed[entry.pid] = ((entry.psetid, 0), entry.priority)
            elif entry.pid not in self._active:
                now.append(entry)
        self.turns.load(now)
        # One that is active already (an order of an earlier queue manager) may have read before the queue was known.
        for work in list(self._active.values()):
            self._rewind(work, *START)
            self._settle(work)

    def work_arrived(self, pid: int, psetid: int, seq: int, priority: int | None = None) -> None:
        """There are new rows of this provider, the earliest at this place.

        :param priority: of the provider; None: as before, if it is known.
        """
        work = self._active.get(pid)
        if work is not None:
            self._rewind(work, psetid, seq)
            self._settle(work)
            return
        if pid in self.delays:
            order, known = self._delayed.get(pid, ((psetid, 0), self._priority(pid)))
            if not order[1]:
                order = min(order, (psetid, 0))
            self._delayed[pid] = (order, known if priority is None else priority)
            return
        self.turns.add(pid, (psetid, 0), self._priority(pid) if priority is None else priority)

    def provider_changed(self, pid: int, limits: Limits, now: float) -> None:
        """The provider's limits were changed.  (What it does with its rows is read again with them.)"""
        self._learn_priority(pid, limits.priority)
        self.turns.set_priority(pid, limits.priority)
        if pid in self._delayed:
            self._delayed[pid] = (self._delayed[pid][0], limits.priority)
        work = self._active.get(pid)
        if work is not None:
            work.info = None
            work.info_stale = work.reading is not None
            self._rewind(work, *START)
            self._settle(work)
        self.delays.limits_changed(pid, limits.rate, now)

    def provider_removed(self, pid: int) -> None:
        """The provider and its queue are gone."""
        self.turns.discard(pid)
        self.delays.discard(pid)
        self._delayed.pop(pid, None)
        self._spent.pop(pid, None)
        self._unpaid.pop(pid, None)
        work = self._active.get(pid)
        if work is not None:
            self._drop(work)

    # Work goes out.

    def fill(self, wanted: int) -> None:
        """Give providers their turn until this many are active that could be fetched from; a higher priority takes
        the places of lower ones."""
        share = self._read_ahead_total // max(1, wanted + len(self._blocked))
        self._limit = max(2, min(self._read_ahead, share))
        turns, idle = self.turns, self._idle
        places = wanted - sum(map(len, idle))
        while (top := turns.top) >= 0:
            if places <= 0:
                lowest = next((level for level in range(top) if idle[level]), None)
                if lowest is None or wanted <= 0:
                    return
                self._give_up(next(reversed(idle[lowest].values())))
                places += 1
            turn = turns.next()
            assert turn is not None
            if turn.pid in self.delays:  # what came last from it is not paid for yet
                self._delayed[turn.pid] = (turn.order, turn.priority)
                continue
            self._activate(turn.pid, turn.order, turn.priority)
            places -= 1

    def take(self, now: float) -> ProviderWork | None:
        """Hand out the next row: it stands in the provider's ``row``.  None: there is nothing to send now."""
        if SITE in self.delays:
            return None
        for line in reversed(self._lines):
            while line:
                work = line.popleft()
                work.in_line = False
                if work.gone or work.busy or work.doubt is not None or work.pid in self._parked:
                    continue
                row = self._take_row(work, now) if self._is_open(work, now) else None
                if row is not None:
                    work.row = row
                    work.busy = 1
                    work.served += 1
                    self._settle(work)
                    return work
                self._settle(work)
        return None

    def _is_open(self, work: ProviderWork, now: float) -> bool:
        """Whether the provider's hours are open; else it is delayed until they are."""
        if work.open_since <= now < work.open_until:
            return True
        limits = _NO_LIMITS if work.info is None else work.info.limits
        slots = self.timeslots
        mask = slots.mask(limits.hours)
        opens = slots.opening(mask, now, limits.timezone)
        if opens is not None and opens <= now:
            work.open_since, work.open_until = now, slots.closing(mask, now, limits.timezone)
            return True
        self.delays.closed(work.pid, now + slots.period_seconds if opens is None else opens, now)
        return False

    def _take_row(self, work: ProviderWork, now: float) -> QueueRow | None:
        taken = self._taken
        while work.express or work.buffer:
            row = (work.express or work.buffer).popleft()
            key = row.key
            if key in taken:
                continue  # its result came by another way while it was in the buffer
            taken[key] = row.generation
            if row.delete:
                self.removed.append((key, row.generation))
            elif not row.notice.hours or self._is_row_open(work, row, now):
                return row
        return None

    def _is_row_open(self, work: ProviderWork, row: QueueRow, now: float) -> bool:
        limits = _NO_LIMITS if work.info is None else work.info.limits
        hours, slots = row.notice.hours, self.timeslots
        mask = slots.meet(hours, limits.hours)
        if not mask:
            self.never.append(row)
            return False
        if slots.is_open(mask, now, limits.timezone):
            return True
        slot = slots.slot(hours, limits.hours, limits.timezone, now)
        assert slot != FETCH_NOW
        self.closed.append((row.key, row.generation, slot))
        return False

    def running(self, pid: int, key: bytes, generation: int) -> None:
        """An earlier queue manager's order is still being fetched."""
        work = self._active.get(pid)
        if work is None:
            order, priority = self._delayed.pop(pid, (START, self._priority(pid)))
            self.turns.discard(pid)
            work = self._activate(pid, order, priority)
        work.busy += 1
        self._taken[key] = generation
        self._settle(work)

    # Work comes back.

    def finished(self, pid: int, key: bytes, code: int, wire_bytes: int, now: float) -> None:
        """An order that was handed out has come back; its result is yet to be recorded."""
        work = self._active.get(pid)
        doubt = holds_provider(code)
        if not doubt:
            self.delays.reached(pid)
        self.came(pid, wire_bytes, now)
        if work is None:
            return
        if work.busy:
            work.busy -= 1
        if doubt:
            work.doubt = key
        self._settle(work)

    def came(self, pid: int, wire_bytes: int, now: float) -> None:
        """So much has travelled for this provider (also for a result that no order waits for)."""
        if not wire_bytes:
            return
        work = self._active.get(pid)
        if work is None:
            self._unpaid[pid] = self._unpaid.get(pid, 0) + wire_bytes
            return
        work.served_bytes += wire_bytes
        if work.info is None:
            work.unpaid_bytes += wire_bytes
        elif work.info.limits.rate:
            self.delays.charge(pid, wire_bytes, work.info.limits.rate, now)

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

        :param done: ``(key, generation)`` of all that were given to the store, removed and closed rows included.
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
            if row.slot == FETCH_NOW:
                self.work_arrived(row.pid, row.psetid, row.seq)
        for pid, code in outcome.held.items():
            self.hold(pid, code, now)
        for pid, (psetid, seq) in outcome.requeued.items():
            self.work_arrived(pid, psetid, seq)
        for work in changed.values():
            if not work.gone:
                self._settle(work)

    def release(self, now: float) -> None:
        """Providers whose delays have passed go on, or wait for their turn again."""
        for pid in self.delays.release(now):
            work = self._active.get(pid)
            if work is not None:
                self._parked.discard(pid)
                self._settle(work)
            elif pid in self._delayed:
                order, priority = self._delayed.pop(pid)
                self.turns.add(pid, order, priority)

    def hold(self, pid: int, code: int, now: float) -> None:
        """Hold the provider back (also what :meth:`recorded` does for errors of its site)."""
        work = self._active.get(pid)
        self.delays.site_error(pid, code, now)
        if work is None:
            self._delayed.setdefault(pid, (START, self._priority(pid)))
            self.turns.discard(pid)
            return
        # What it has in memory is read again after the delay.  An order of it that is still out keeps its record.
        self._rewind(work, *START)
        self._settle(work)

    # Inside.

    def _priority(self, pid: int) -> int:
        """The provider's, as far as it is known; it is looked at again when rows of it are read."""
        return self._priorities.get(pid) or self.turns.priority(pid)

    def _learn_priority(self, pid: int, priority: int) -> None:
        known = self._priorities
        known.pop(pid, None)
        if priority:
            known[pid] = priority
            if len(known) > _PRIORITIES_KEPT:
                del known[next(iter(known))]

    def _activate(self, pid: int, order: Order, priority: int) -> ProviderWork:
        work = self._active[pid] = ProviderWork(pid, order, priority)
        work.served, work.served_bytes = self._spent.pop(pid, (0, 0))
        work.unpaid_bytes = self._unpaid.pop(pid, 0)
        self._settle(work)
        return work

    def _give_up(self, work: ProviderWork, order: Order | None = None) -> None:
        """Back to those that wait for their turn."""
        self.turns.add(work.pid, order or work.order, work.priority)
        if order is None:
            self._spent[work.pid] = (work.served, work.served_bytes)
        self._drop(work)

    def _delay(self, work: ProviderWork) -> None:
        """It waits for its delay, with its rows or without."""
        pid = work.pid
        if not work.finished:
            if self._may_park(work):
                self._parked.add(pid)
                self._blocked.add(pid)
                self._idle[work.priority].pop(pid, None)
                self._settle_reading(work)
                return
            self._delayed[pid] = (work.order, work.priority)
            self._spent[pid] = (work.served, work.served_bytes)
        self._drop(work)

    def _may_park(self, work: ProviderWork) -> bool:
        if work.pid in self._parked:
            return True
        record = self.delays.get(work.pid)
        if record is None or record.retry or record.hours:
            return False
        room = len(self._parked) < self._read_ahead_total // (2 * self._read_ahead)
        return room and record.until - self.delays.now <= _PARKED_SECONDS

    def _drop(self, work: ProviderWork) -> None:
        pid = work.pid
        if work.unpaid_bytes:
            self._unpaid[pid] = self._unpaid.get(pid, 0) + work.unpaid_bytes
        self._parked.discard(pid)
        self._blocked.discard(pid)
        self._idle[work.priority].pop(pid, None)
        self._forget(work)

    def _informed(self, work: ProviderWork, info: FetchInfo) -> None:
        """What has to be known of the provider has come with its rows."""
        if info is work.info:
            return
        limits = info.limits
        self._learn_priority(work.pid, limits.priority)
        if limits.priority != work.priority:
            self._idle[work.priority].pop(work.pid, None)
            self._hungry[work.priority].pop(work.pid, None)
            work.priority = limits.priority
            if work.in_line:
                self._lines[work.priority].append(work)
        work.info = info
        work.open_since = work.open_until = 0.0
        unpaid, work.unpaid_bytes = work.unpaid_bytes, 0
        if unpaid and limits.rate:
            self.delays.charge(work.pid, unpaid, limits.rate, self.delays.now)

    def _settle(self, work: ProviderWork) -> None:
        """Put a provider where it belongs, after anything has changed.  (Whether it may go on with its next row, or
        must yield, is decided here.)"""
        pid, priority = work.pid, work.priority
        if work.busy or work.doubt is not None:
            self._blocked.add(pid)
            self._parked.discard(pid)
            self._idle[priority].pop(pid, None)
            if pid in self.delays and not self._may_park(work):
                self._hungry[priority].pop(pid, None)
                return
        else:
            if pid in self.delays:
                self._delay(work)
                return
            if work.finished:
                self._drop(work)
                return
            if work.served >= self._quantum or work.served_bytes >= self._quantum_bytes:
                if self.turns.waits(priority):
                    self._give_up(work, self.turns.behind())
                    return
                work.served = work.served_bytes = 0
                work.express_done = False
            self._blocked.discard(pid)
            self._idle[priority][pid] = work
            if work.has_rows and not work.in_line:
                work.in_line = True
                self._lines[priority].append(work)
        self._settle_reading(work)

    def _may_have_to_yield(self, work: ProviderWork) -> bool:
        return self.turns.waits(work.priority)
