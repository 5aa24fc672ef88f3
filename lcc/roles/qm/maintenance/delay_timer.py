"""Loads and saves the delays of providers, and wakes the queue manager when the first one ends.

What the results of fetches have cost is saved in the transaction that records them, so that no debt is forgotten
whenever the process is killed.  What changes otherwise is saved once a second; a long delay with the next round of
work.  While the database is unavailable they stand in memory.
"""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall

from lcc.domain.fetches.timeslots import TimeSlots
from lcc.interfaces import IQueueStore
from lcc.model import Delay
from lcc.roles.qm.part import Hub, Part
from lcc.roles.qm.schedule.delays import SITE, Delays
from lcc.roles.wall_clock import STEP_SECONDS, tell_step

ALARM_SECONDS = 1.5
"""What ends later than this is seen by a tick."""


class DelayTimer(Part):
    """All delays.

    :param site_rate: bytes per second for all fetches together; 0: without limit.
    """

    ERROR_TEXT = "Cannot save delays"

    def __init__(
        self, hub: Hub, store: IQueueStore, delays: Delays, timeslots: TimeSlots, site_rate: int = 0
    ) -> None:
        super().__init__(hub, store)
        self._delays = delays
        self._period_seconds = float(timeslots.period_seconds)
        self._site_rate = site_rate
        self._alarm: IDelayedCall | None = None
        self._alarm_time = 0.0

    def arrived(self, pid: int, delay: Delay | None) -> None:
        """A provider has come from another sub-LCC.

        :param delay: which is saved; None: it need not wait, as far as was saved there.
        """
        now = self._hub.wall_clock()
        if delay is not None:
            self._delays.load([delay], self._period_seconds, now)
        self._delays.arrived(pid, now)

    async def load(self, last_time: float) -> bool:
        """Load what was saved.

        :param last_time: what the wall clock showed when the queue manager before this one saved its state.
        :returns: whether the wall clock was set back since.
        """
        saved = await self._ask("loading delays", self._store.delays)
        now = self._hub.wall_clock()
        # A delay is often saved before the next state is: what stands there may be the only sign of a step.
        set_back = max([last_time, *(delay.saved_time for delay in saved)]) - now
        if set_back >= STEP_SECONDS:
            tell_step(-set_back, " while no queue manager ran")
        else:
            set_back = 0.0
        self._delays.load(saved, self._period_seconds, now, set_back)
        self._delays.limits_changed(SITE, self._site_rate or None, now)
        return set_back > 0

    def tick(self) -> None:
        """Called every second: save what has changed, if nothing is being saved."""
        if self._delays.changed:
            self._begin(self._save)

    def is_saved(self, pid: int) -> bool:
        """Whether the provider's delay is in the tables; if not, it is being saved."""
        if self._delays.has_changed(pid):
            self.tick()
        return not (self._job.busy or self._delays.has_changed(pid))

    async def _save(self) -> None:
        await self._ask("saving delays", self._save_once)

    async def _save_once(self) -> None:
        with self._delays.saving(self._hub.wall_clock()) as delays:
            await self._store.save_delays(delays)

    def pumped(self) -> None:
        """A round of work is over: save what cannot wait, and set the alarm for the first delay that ends."""
        if self._delays.urgent:
            self.tick()
        end = self._delays.next_end
        if self._alarm is not None and end == self._alarm_time:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if end is not None:
            wait = max(0.0, end - self._hub.wall_clock())
            if wait < ALARM_SECONDS:  # a tick comes before a later one
                self._alarm = self._hub.clock.callLater(wait, self._ring)
                self._alarm_time = end

    def _ring(self) -> None:
        self._alarm = None
        self._hub.pump()

    def stop(self) -> None:
        """End what is going on."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        super().stop()
