"""Opens time slots: rows that wait for one go to "fetch now" when it begins.

Each second it is looked whether a slot of the LCC's period has begun; then its rows are moved, in bounded pages, and
their providers get work.  Up to when that was done is saved, so that slots that began while no queue manager ran are
opened by the next one; and so is what the slots' numbers meant, because after a change of the period or of the LCC's
time zone all of them are opened (rows whose hours are closed then go back to the right slot as they are reached).
All are opened, too, when the wall clock was set back, because what has waited for tomorrow's hours may be in today's
now.
"""

from __future__ import annotations

from functools import partial

from lcc.domain.fetches.hours import DAY_SLOTS, WEEK_SLOTS
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.interfaces import IQueueStore
from lcc.roles.qm.part import Hub, Part
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.wall_clock import STEP_SECONDS

PAGE_ROWS = 1000
_SLOTS_MAX = max(DAY_SLOTS, WEEK_SLOTS)


class SlotOpener(Part):
    """Opens the slots that have begun."""

    ERROR_TEXT = "Cannot open time slots"

    def __init__(self, hub: Hub, store: IQueueStore, scheduler: Scheduler, timeslots: TimeSlots) -> None:
        super().__init__(hub, store)
        self._scheduler = scheduler
        self._timeslots = timeslots
        self._period = f"{timeslots.slots}/{timeslots.slot_seconds}/{timeslots.timezone}"[:255]
        self._upto: float | None = None
        self._next = 0.0
        self._set_back = False

    def set_back(self) -> None:
        """The wall clock was set back."""
        self._set_back = True

    def tick(self, now: float) -> None:
        """Called every second: open what has begun."""
        if self._upto is None or now >= self._next or self._set_back:
            self._begin(self._open, now)

    async def _open(self, now: float) -> None:
        slots = self._timeslots
        set_back, self._set_back = self._set_back, False
        if set_back and self._upto is not None:
            begun = list(range(slots.slots))
        elif self._upto is None:
            upto, period = await self._ask("reading time slots", self._store.slots_opened)
            if period == self._period and not set_back and upto <= now + STEP_SECONDS:
                begun = [*slots.begun(upto, now), slots.current(now)]
            else:
                begun = list(range(_SLOTS_MAX if period else slots.slots))
        else:
            begun = slots.begun(self._upto, now)
        for slot in dict.fromkeys(begun):
            await self._open_one(slot)
        await self._ask("saving time slots", partial(self._store.save_slots_opened, now, self._period))
        self._upto, self._next = now, slots.slot_end(now)

    async def _open_one(self, slot: int) -> None:
        upto: tuple[int, int] | None = (0, 0)
        while upto is not None:
            page = await self._ask("opening a time slot", partial(self._store.open_slot, slot, PAGE_ROWS, upto))
            for pid, psetid, seq, priority in page.earliest:
                self._scheduler.work_arrived(pid, psetid, seq, priority)
            if page.earliest:
                self._hub.pump()
            upto = page.upto
