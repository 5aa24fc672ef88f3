"""What to fetch next: the queue as far as it stands in memory.  Pure: no I/O, no clock of its own.

A provider with work is in one of these places:

* *waiting* for its turn (:class:`lcc.roles.qm.schedule.ready_queue.ReadyQueue`): a number, nothing more;
* *active*: it has a :class:`~lcc.roles.qm.schedule.work.ProviderWork`; rows are read ahead for it
  (:mod:`lcc.roles.qm.schedule.read_ahead`), and some of them are out, a *run*
  (:mod:`lcc.roles.qm.schedule.runs`): one robot fetches them one after the other;
* *delayed* (:class:`lcc.roles.qm.schedule.delays.Delays`), because of its bandwidth, its hours, or its site.  One
  that waits only for a moment keeps its rows, as far as there is room.

An active provider with nothing left is forgotten; new work brings it back.

It keeps its turn until its quantum is used up and others of its priority wait, or until somebody of a higher priority
waits and there is no free place.
"""

from __future__ import annotations

from collections.abc import Iterable

from lcc.domain.fetches.results import holds_provider
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.keys import pid_of
from lcc.model import FETCH_NOW, ProviderHosts, Recorded, Waiting
from lcc.model.providers import PRIORITIES
from lcc.roles.qm.schedule.costs import Costs
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.frozen import Frozen
from lcc.roles.qm.schedule.host_turns import HostTurns
from lcc.roles.qm.schedule.hosts import NO, HostGroups
from lcc.roles.qm.schedule.hours_filter import HoursFilter
from lcc.roles.qm.schedule.inactive import Inactive
from lcc.roles.qm.schedule.ready_queue import Place, ReadyQueue
from lcc.roles.qm.schedule.runs import Runs
from lcc.roles.qm.schedule.work import START, FetchInfo, Limits, ProviderWork

_PARKED_SECONDS = 60.0


class Scheduler(Runs):
    """Hands out the rows of the queue, in order.

    All times are seconds since 1970.

    :param read_ahead: rows buffered for one provider, at most.
    :param read_ahead_total: rows buffered for all, about.
    :param quantum_urls, quantum_bytes: what a provider may fetch before others of its priority that wait.
    :param hours_margin: seconds at the end of hours that are not used.
    :param run_rows: rows of one provider that are out at the same time, at most.
    :param hosts: the providers that share a host, of which one at a time has its turn; None: there are none.
    """

    def __init__(
        self,
        ready: ReadyQueue,
        delays: Delays,
        timeslots: TimeSlots,
        read_ahead: int,
        read_ahead_total: int,
        quantum_urls: int,
        quantum_bytes: int,
        hours_margin: float,
        run_rows: int,
        hosts: HostGroups | None = None,
    ) -> None:
        hours = HoursFilter(timeslots, delays, hours_margin)
        super().__init__(delays, hours, read_ahead, quantum_urls, quantum_bytes, run_rows)
        self.ready = ready
        self.hosts = hosts or HostGroups(NO)
        self._read_ahead_total = read_ahead_total
        self._blocked: set[int] = set()
        self._parked: set[int] = set()
        self._idle: tuple[dict[int, ProviderWork], ...] = tuple({} for _ in range(PRIORITIES))
        self._inactive = Inactive()
        self.costs = Costs(self._active, self._inactive, delays, self.hosts)
        self._turns = HostTurns(self.hosts, self._active, ready, delays, self._update, self._recall)
        moving = (self._active, self._taken, self._parked, ready, delays, self._inactive)
        self.frozen = Frozen(*moving, self._update, self._recall)
        self.withheld: dict[int, Waiting] = {}
        """Providers with work that may still be fetched from by order of an earlier queue manager."""

    # What is going on.

    @property
    def turns_awaited(self) -> int:
        """Providers that wait for their turn."""
        return len(self.ready) + self.hosts.waiting_count

    @property
    def waiting_count(self) -> int:
        """Providers that wait for their turn, or are delayed with work."""
        return self.turns_awaited + len(self._inactive.delayed) + len(self.withheld)

    @property
    def delayed_with_work(self) -> int:
        """Providers that are delayed and have work."""
        return len(self._inactive.delayed) + len(self._parked)

    # Work comes.

    def load(self, waiting: Iterable[Waiting], withhold: bool = False) -> None:
        """Begin with these providers.

        :param withhold: not until :meth:`let_go`; save those of which an order is known (:meth:`running`).
        """
        if withhold:
            known = self._active.keys() | self._inactive.delayed.keys()
            self.withheld = {entry.pid: entry for entry in waiting if entry.pid not in known}
            waiting = [entry for entry in waiting if entry.pid in known]
            self.hosts.withhold(self.withheld)
        self._have_work(waiting)
        # One that is active already (an order of an earlier queue manager) may have read before the queue was known.
        for work in list(self._active.values()):
            self._rewind(work, *START)
            self._update(work)

    def let_go(self, now: float = 0.0) -> None:
        """Nothing is fetched from the providers that were withheld."""
        waiting, self.withheld = self.withheld, {}
        self.costs.unsure(waiting, now)
        self._turns.let_go(now)
        self._have_work(waiting.values())

    def _have_work(self, waiting: Iterable[Waiting]) -> None:
        now: list[Waiting] = []
        for entry in waiting:
            if entry.pid in self.delays:
                self._inactive.waits(entry.pid, entry.psetid, entry.priority)
            elif entry.pid not in self._active:
                now.append(entry)
        self.ready.load(now)

    def work_arrived(self, pid: int, psetid: int, seq: int, priority: int | None = None) -> None:
        """There are new rows of this provider, the earliest at this place.

        :param priority: of the provider; None: as before, if it is known.
        """
        work = self._active.get(pid)
        if work is not None:
            self._rewind(work, psetid, seq)
            self._update(work)
            return
        if priority is None:
            priority = self._priority(pid)
        if pid in self.withheld:
            self.withheld[pid] = Waiting(min(psetid, self.withheld[pid].psetid), pid, priority)
        elif pid in self.delays:
            self._inactive.waits(pid, psetid, priority)
        else:
            self._turns.queue_of(pid).add(pid, (psetid, 0), priority)

    def provider_changed(self, pid: int, limits: Limits, now: float) -> None:
        """The provider's limits were changed.  (What it does with its rows is read again with them.)"""
        self._inactive.learn(pid, limits)
        self._turns.set_priority(pid, limits.priority)
        if pid in self.withheld:
            self.withheld[pid] = self.withheld[pid]._replace(priority=limits.priority)
        work = self._active.get(pid)
        if work is not None:
            work.info = None
            work.info_stale = work.reading is not None
            self._recall(work)
            self._rewind(work, *START)
            self._update(work)
        self.delays.limits_changed(pid, limits.rate, now, limits.interval)

    def roots_changed(self, provider: ProviderHosts) -> None:
        """The provider may be fetched from other hosts than before, or is watched no longer."""
        self._turns.learn(provider)
        work = self._active.get(provider.pid)
        if work is not None:
            self._update(work)

    def provider_removed(self, pid: int) -> None:
        """The provider and its queue are gone."""
        self._turns.leave_queue(pid)
        self.delays.discard(pid)
        self.withheld.pop(pid, None)
        self.recalls.add(pid)
        self._turns.removed(pid)
        work = self._active.get(pid)
        if work is not None:
            self._drop(work)
        self._inactive.discard(pid)  # what was kept of its work, too

    # Work goes out.

    def fill(self, wanted: int) -> None:
        """Give providers their turn until this many are active that could be fetched from; a higher priority takes
        the places of lower ones."""
        share = self._read_ahead_total // max(1, wanted + len(self._blocked))
        self._limit = max(2, min(self._read_ahead, share))
        ready, idle = self.ready, self._idle
        places = wanted - sum(map(len, idle))
        while (top := ready.top) >= 0:
            if places <= 0:
                if wanted <= 0:
                    return
                lowest = next((level for level in range(top) if idle[level]), None)
                if lowest is not None:
                    self._give_up(self._last_queued(idle[lowest]))
                    places += 1
                elif self._run_rows == 1 or -places >= sum(map(len, self._fetching[:top])):
                    return  # else there is a run that can be recalled once its rows are here
            turn = ready.next()
            assert turn is not None
            if turn.pid in self.delays:  # what came last from it is not paid for yet
                self._inactive.delayed[turn.pid] = (turn.place, turn.priority)
                self._turns.pass_on(turn.pid)
            elif not self._turns.must_wait(turn):
                self._update(self._activate(turn.pid, turn.place, turn.priority))
                places -= 1

    def _last_queued(self, idle: dict[int, ProviderWork]) -> ProviderWork:
        newest_first = reversed(idle.values())
        return next((work for work in newest_first if not work.served), next(reversed(idle.values())))

    def running(self, pid: int, key: bytes, generation: int) -> None:
        """An earlier queue manager's order is still being fetched."""
        work = self._active.get(pid)
        if work is None:
            place, priority = self._inactive.delayed.pop(pid, (START, self._priority(pid)))
            self._turns.leave_queue(pid)
            self.withheld.pop(pid, None)
            self.hosts.known(pid)
            work = self._activate(pid, place, priority)
        work.busy += 1
        work.used = True
        self._taken[key] = generation
        self._update(work)
        if work.group is not None:
            self._turns.press(work.group, work.priority)

    # Work comes back.

    def finished(
        self, pid: int, key: bytes, code: int, wire_bytes: int, now: float, elapsed_seconds: float = 0.0
    ) -> None:
        """An order that was handed out has come back; its result is yet to be recorded.

        :param elapsed_seconds: how long its fetch took, at least; 0: not known.
        """
        work = self._active.get(pid)
        doubt = holds_provider(code)
        if not doubt:
            self.delays.reached(pid)
        self.costs.came(pid, wire_bytes, now, elapsed_seconds)
        self._turns.answered(pid, now)
        if work is None:
            return
        self._came_back(work, key)
        work.took(elapsed_seconds)
        if doubt:
            work.doubt = key
        self._update(work)

    def asked(self, pid: int, code: int, seconds: float, now: float) -> None:
        """The provider's web server has answered with this error, and asked to be left alone for so long."""
        self.delays.asked(pid, code, seconds, now)
        work = self._active.get(pid)
        if work is not None:
            self._update(work)

    def lost(self, pid: int, key: bytes, psetid: int, seq: int, began: float = 0.0) -> None:
        """An order that was handed out will not come back: its row, at this place, is handed out again.

        :param began: its fetch may have begun, until then; 0: it has not.
        """
        self._taken.pop(key, None)
        if began:
            self.costs.came(pid, 0, began)
        self._turns.answered(pid, self.delays.now)
        work = self._active.get(pid)
        if work is not None:
            self._came_back(work, key)
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
                self._update(work)

    def release(self, now: float) -> None:
        """Providers whose delays have passed go on, or wait for their turn again."""
        for pid in self.delays.release(now):
            work = self._active.get(pid)
            if work is not None:
                self._parked.discard(pid)
                self._update(work)
            elif pid in self._inactive.delayed:
                self.ready.add(pid, *self._inactive.delayed.pop(pid))

    def hold(self, pid: int, code: int, now: float) -> None:
        """Hold the provider back (also what :meth:`recorded` does for errors of its site)."""
        work = self._active.get(pid)
        self.delays.site_error(pid, code, now)
        if work is None:
            if pid not in self.withheld:
                self._inactive.is_held(pid, self._priority(pid))
            self._turns.leave_queue(pid)
            return
        # What it has in memory is read again after the delay.  An order of it that is still out keeps its record.
        self._rewind(work, *START)
        self._update(work)

    def stepped(self, step: float, now: float) -> None:
        """The wall clock was set by so many seconds, and shows this now."""
        self.delays.stepped(step, now)
        self._inactive.stepped(step)
        self.hosts.stepped(step)
        self.costs.stepped(step)

    # Inside.

    def _came_back(self, work: ProviderWork, key: bytes) -> None:
        """One of its rows that were out."""
        work.came_back(key)
        if not work.busy:
            self._turns.free(work.pid)

    def _priority(self, pid: int) -> int:
        """The provider's, as far as it is known; it is looked at again when rows of it are read."""
        withheld = self.withheld.get(pid)
        return (
            withheld.priority if withheld else self._inactive.priority(pid) or self._turns.queue_of(pid).priority(pid)
        )

    def _activate(self, pid: int, place: Place, priority: int) -> ProviderWork:
        work = self._active[pid] = ProviderWork(pid, place, priority)
        self._turns.begins(work)
        self._inactive.comes(work)
        return work

    def _give_up(self, work: ProviderWork, place: Place | None = None) -> None:
        """Back to those that wait for their turn."""
        self.ready.add(work.pid, place or work.place, work.priority)
        self._inactive.leaves(work, keep_quantum=place is None)
        self._drop(work)

    def _delay(self, work: ProviderWork) -> None:
        """It waits for its delay, with its rows or without."""
        pid = work.pid
        if not work.finished:
            if self._may_park(work):
                self._parked.add(pid)
                self._blocked.add(pid)
                self._idle[work.priority].pop(pid, None)
                self._update_reading(work)
                return
            self._inactive.delayed[pid] = (work.place, work.priority)
            self._inactive.leaves(work, keep_quantum=True)
        self._drop(work)

    def _may_park(self, work: ProviderWork) -> bool:
        record = self.delays.get(work.pid)
        if work.group is not None and work.group.waiting:
            # What another one began is waited for in its turn: else it would never come to it.
            return not (work.used or work.group.contested) and record is not None and record.due >= record.until
        if work.pid in self._parked:
            return True
        if record is None or record.retry or record.hours:
            return False
        room = len(self._parked) < self._read_ahead_total // (2 * self._read_ahead)
        return room and record.until - self.delays.now <= _PARKED_SECONDS

    def _drop(self, work: ProviderWork) -> None:
        pid = work.pid
        self._inactive.owes(pid, work.unpaid_bytes)
        if self._rows_in_time(work) < self._run_rows:
            self._inactive.is_slow(pid, work.page_seconds)
        self._parked.discard(pid)
        self._blocked.discard(pid)
        self._idle[work.priority].pop(pid, None)
        self._fetching[work.priority].pop(pid, None)
        self._growing.pop(pid, None)
        self._forget(work)
        self._turns.ends(work)

    def _informed(self, work: ProviderWork, info: FetchInfo) -> None:
        """What has to be known of the provider has come with its rows."""
        if info is work.info:
            return
        limits = info.limits
        self._turns.learn(ProviderHosts(work.pid, info.hosts, info.watched))
        self._inactive.learn(work.pid, limits)
        if limits.priority != work.priority:
            self._idle[work.priority].pop(work.pid, None)
            self._fetching[work.priority].pop(work.pid, None)
            self._not_hungry(work)
            work.priority = limits.priority
            if work.queued:
                self._queues[work.priority].append(work)
        work.info = info
        work.open_since = work.open_until = 0.0
        self.costs.limits_known(work, limits)

    def _update(self, work: ProviderWork) -> None:
        """Put a provider where it belongs, after anything has changed.  (Whether it may go on with its next row, or
        must yield, is decided here.)"""
        pid, priority = work.pid, work.priority
        if work.busy or work.doubt is not None:
            self._blocked.add(pid)
            self._parked.discard(pid)
            self._idle[priority].pop(pid, None)
            if work.busy and not work.recalled:
                self._fetching[priority][pid] = work
            else:
                self._fetching[priority].pop(pid, None)
            if pid in self.delays and not self._may_park(work):
                self._not_hungry(work)
                return
            if self._may_grow(work):
                self._growing[pid] = work
        else:
            self._fetching[priority].pop(pid, None)
            if pid in self.delays:
                self._delay(work)
                return
            if work.finished:
                self._drop(work)
                return
            if work.group is not None and (work.group.contested or work.group.waiting.top > priority):
                self._give_up(work)
                return
            if work.served >= self._quantum or work.served_bytes >= self._quantum_bytes:
                if self._may_have_to_yield(work):
                    self._give_up(work, self.ready.behind())
                    return
                work.renew_quantum()
            self._blocked.discard(pid)
            self._idle[priority][pid] = work
            if work.has_rows and not work.queued:
                work.queued = True
                queue = self._queues[priority]
                # In the middle of its turn it goes on: its connections are open, its rows of the tables at hand.
                (queue.appendleft if work.served else queue.append)(work)
        self._update_reading(work)

    def _waits_for_place(self, work: ProviderWork) -> bool:
        return not (work.gone or work.busy or work.doubt is not None or work.pid in self._parked)

    def _may_have_to_yield(self, work: ProviderWork) -> bool:
        if self.ready.waits(work.priority):
            return True
        return work.group is not None and work.group.waiting.waits(work.priority)
