"""What the clock does to the queue: time slots that begin, what is tried again, delays that are worth saving.

*Slots.*  Each second it is looked whether a slot of the LCC's period has begun; then its rows are moved to "fetch
now", in bounded pages, and their providers get work.  Up to when that was done is saved, so that slots that began
while no queue manager ran are opened by the next one; and so is what the slots' numbers meant, because after a change
of the period or of the LCC's time zone all of them are opened (rows whose hours are closed then go back to the right
slot as they are reached).  All are opened, too, when the wall clock was set back, because what has waited for
tomorrow's hours may be in today's now.

*Delays.*  What the results of fetches have cost is saved in the transaction that records them, so that no debt is
forgotten whenever the process is killed.  What changes otherwise is saved once a second; a long delay with the next
round of work.  A database that is away is tried again; until then they stand in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.hours import DAY_SLOTS, WEEK_SLOTS
from lcc.domain.timeslots import TimeSlots
from lcc.errors import code
from lcc.interfaces import IQueueStore
from lcc.model import Delay, FetchResult
from lcc.roles.qm.maintenance.retries import RetryKeeper
from lcc.roles.qm.maintenance.wall_clock import STEP_SECONDS, tell_step
from lcc.roles.qm.maintenance.worker import Keeping, Worker
from lcc.roles.qm.orders.recorder import Entry
from lcc.roles.qm.patience import Patience
from lcc.roles.qm.schedule.delays import SITE, Delays
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import fetch_info

_log = Logger()

PAGE_ROWS = 1000
ALARM_SECONDS = 1.5
_SLOTS_MAX = max(DAY_SLOTS, WEEK_SLOTS)


_NEVER = code("hours-never")
_OUTSIDE = code("outside-roots")
T = TypeVar("T")


class SlotKeeper(Worker):
    """Opens the slots that have begun."""

    def __init__(
        self, engine: Keeping, store: IQueueStore, patience: Patience, scheduler: Scheduler, timeslots: TimeSlots
    ) -> None:
        super().__init__(engine, store, patience)
        self._scheduler = scheduler
        self._timeslots = timeslots
        self._period = f"{timeslots.slots}/{timeslots.slot_seconds}/{timeslots.timezone}"[:255]
        self._upto: float | None = None
        self._next = 0.0
        self._set_back = False

    def set_back(self) -> None:
        """The wall clock was set back."""
        self._set_back = True

    def look(self, now: float) -> None:
        """Open what has begun, if anything has."""
        if self._upto is None or now >= self._next or self._set_back:
            self._begin(lambda: Deferred.fromCoroutine(self._open(now)), "Time slots cannot be opened")

    async def _open(self, now: float) -> None:
        slots = self._timeslots
        set_back, self._set_back = self._set_back, False
        if set_back and self._upto is not None:
            begun = list(range(slots.slots))
        elif self._upto is None:
            upto, period = await self._patience.ask("reading time slots", self._store.slots_opened)
            if period == self._period and not set_back and upto <= now + STEP_SECONDS:
                begun = [*slots.begun(upto, now), slots.current(now)]
            else:
                begun = list(range(_SLOTS_MAX if period else slots.slots))
        else:
            begun = slots.begun(self._upto, now)
        for slot in dict.fromkeys(begun):
            await self._open_one(slot)
        await self._patience.ask("saving time slots", partial(self._store.save_slots_opened, now, self._period))
        self._upto, self._next = now, slots.slot_end(now)

    async def _open_one(self, slot: int) -> None:
        upto: tuple[int, int] | None = (0, 0)
        while upto is not None:
            question = partial(self._store.open_slot, slot, PAGE_ROWS, upto)
            page = await self._patience.ask("opening a time slot", question)
            for pid, psetid, seq, priority in page.earliest:
                self._scheduler.work_arrived(pid, psetid, seq, priority)
            if page.earliest:
                self._engine.pump()
            upto = page.upto


class DelayKeeper(Worker):
    """Saves delays."""

    def __init__(
        self,
        engine: Keeping,
        store: IQueueStore,
        patience: Patience,
        delays: Delays,
        wall_clock: Callable[[], float],
    ) -> None:
        super().__init__(engine, store, patience)
        self._delays = delays
        self._wall_clock = wall_clock

    def save(self) -> None:
        """Save what has changed, if nothing is being saved."""
        if self._work is None and self._delays.changed:
            self._begin(lambda: Deferred.fromCoroutine(self._save()), "Delays cannot be saved")

    async def _save(self) -> None:
        await self._patience.ask("saving delays", lambda: self.saved_with(self._store.save_delays))

    def saved_with(self, write: Callable[[list[Delay]], Deferred[T]]) -> Deferred[T]:
        """Have what has changed saved by this write.  If it fails, it has changed still.

        Each try must come here: what is written last must be what was asked last.
        """
        rows = self._delays.to_save(self._wall_clock())

        def failed(failure: Failure) -> Failure:
            self._delays.not_saved(rows)
            return failure

        return write(rows).addErrback(failed)


class Timekeeper:
    """All of this for the engine, and its one alarm: when the first delay ends.

    :param wall_clock: seconds since 1970.
    :param site_rate: bytes per second for all fetches together; 0: without limit.
    """

    def __init__(
        self,
        engine: Keeping,
        store: IQueueStore,
        patience: Patience,
        scheduler: Scheduler,
        timeslots: TimeSlots,
        clock: IReactorTime,
        wall_clock: Callable[[], float],
        site_rate: int = 0,
    ) -> None:
        self.slots = SlotKeeper(engine, store, patience, scheduler, timeslots)
        self.retries = RetryKeeper(engine, store, patience, scheduler)
        self.delays = DelayKeeper(engine, store, patience, scheduler.delays, wall_clock)
        self._engine = engine
        self._store = store
        self._patience = patience
        self._scheduler = scheduler
        self._period_seconds = float(timeslots.period_seconds)
        self._clock = clock
        self._wall_clock = wall_clock
        self._site_rate = site_rate
        self._alarm: IDelayedCall | None = None
        self._alarm_time = 0.0
        self._lookups: set[Deferred[None]] = set()

    async def starting(self, last_time: float) -> float:
        """Load what was saved.

        :param last_time: what the wall clock showed when the queue manager before this one saved its state.
        :returns: by how many seconds it was set back since, at least; 0: it was not.
        """
        saved = await self._patience.ask("loading delays", self._store.delays)
        delays, now = self._scheduler.delays, self._wall_clock()
        # A delay is often saved before the next state is: what stands there may be all that tells of a step.
        set_back = max([last_time, *(delay.saved_time for delay in saved)]) - now
        if set_back >= STEP_SECONDS:
            tell_step(-set_back, " while no queue manager ran")
            self.slots.set_back()
            self.retries.stepped()
        else:
            set_back = 0.0
        delays.load(saved, self._period_seconds, now, set_back)
        delays.limits_changed(SITE, self._site_rate or None, now)
        return set_back

    def tick(self) -> None:
        """A second has passed."""
        now = self._wall_clock()
        self._scheduler.release(now)
        self.slots.look(now)
        self.retries.look(now)
        self.delays.save()

    def pumping(self) -> None:
        """The engine is about to see what can be sent."""
        self._scheduler.release(self._wall_clock())

    def pumped(self) -> None:
        """It has sent it."""
        delays = self._scheduler.delays
        if delays.urgent:
            self.delays.save()
        end = delays.next_end
        if self._alarm is not None and end == self._alarm_time:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if end is not None:
            wait = max(0.0, end - self._wall_clock())
            if wait < ALARM_SECONDS:  # a tick comes before a later one
                self._alarm = self._clock.callLater(wait, self._ring)
                self._alarm_time = end

    def _ring(self) -> None:
        self._alarm = None
        self._engine.pump()

    def unfetchable(self) -> list[Entry]:
        """Results for rows that never may be fetched."""
        hours = self._scheduler.hours
        never, hours.never = hours.never, []
        outside, hours.outside = hours.outside, []
        results = [
            FetchResult(row.pid, row.key, row.generation, _NEVER, detail=f"its hours are {row.notice.hours}")
            for row in never
        ]
        results += [FetchResult(row.pid, row.key, row.generation, _OUTSIDE) for row in outside]
        return [Entry(result, None, "", 0) for result in results]

    def stepped(self, step: float) -> None:
        """The wall clock was set.

        :param step: by so many seconds; less than 0: back.
        """
        self._scheduler.delays.stepped(step, self._wall_clock())
        self.retries.stepped()
        if step < 0:
            self.slots.set_back()

    def order_finished(self, kind: str, pid: int, error: int) -> None:
        """Something that ``lcc-admin`` ordered is done.

        :param pid: the provider; 0: all.
        :param error: the code that it was about; 0: all.
        """
        if kind == "provider-changed":
            self._provider_changed(pid)
        elif kind == "retry":
            self._scheduler.delays.try_again(pid, error, self._wall_clock())

    def _provider_changed(self, pid: int) -> None:
        """Its limits hold at once, also where it only waits."""
        lookup = Deferred.fromCoroutine(self._look_up(pid))
        self._lookups.add(lookup)
        lookup.addErrback(lambda failure: failure.trap(CancelledError) and None)
        lookup.addErrback(lambda failure: _log.failure("Provider {pid} cannot be read", failure=failure, pid=pid))
        lookup.addBoth(lambda _: self._lookups.discard(lookup))

    async def _look_up(self, pid: int) -> None:
        provider = await self._patience.ask("reading a provider", partial(self._store.provider, pid))
        if provider is not None and not provider.removed:
            self._scheduler.provider_changed(pid, fetch_info(provider).limits, self._wall_clock())
            self._engine.pump()

    def stop(self) -> None:
        """End what is going on."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.slots.stop()
        self.retries.stop()
        self.delays.stop()
        for lookup in list(self._lookups):
            lookup.cancel()
