"""Opens retries: URLs that wait after an error go to the end of their sets when they are due.

They stand in the database only, in the order in which they are due
(:mod:`lcc.storage.queue.schedule.waiting_retries`). Here stands when the first of them is: what the recorder says,
or the page that was opened last; and once a minute the database is asked, for what was mended meanwhile; so it is
when the wall clock was set, because no row waits for longer than the longest delay that there is.  (What is due by a
clock that was set forward is tried at once.)
"""

from __future__ import annotations

from functools import partial
from math import inf

from lcc.interfaces import IQueueStore
from lcc.roles.qm.part import Hub, Part
from lcc.roles.qm.schedule.scheduler import Scheduler

PAGE_ROWS = 1000
ASKED_SECONDS = 60.0


class RetryOpener(Part):
    """Opens retries that are due."""

    ERROR_TEXT = "Cannot read due retries"

    def __init__(self, hub: Hub, store: IQueueStore, scheduler: Scheduler) -> None:
        super().__init__(hub, store)
        self._scheduler = scheduler
        self._next = 0.0
        self._noted = inf
        self._stepped = False

    def stepped(self) -> None:
        """The wall clock was set."""
        self._stepped = True

    def waits(self, until: float) -> None:
        """A row waits until then."""
        self._noted = min(self._noted, until)

    def tick(self, now: float) -> None:
        """Called every second: open what is due."""
        if self._stepped or now >= min(self._next, self._noted):
            self._begin(self._open, now)

    async def _open(self, now: float) -> None:
        self._stepped = False
        while True:
            self._noted = inf  # what is recorded from now on may be too late for this page
            ask = partial(self._store.open_retries, int(now), PAGE_ROWS)
            page = await self._ask("reading due retries", ask)
            for pid, psetid, seq, priority in page.earliest:
                self._scheduler.work_arrived(pid, psetid, seq, priority)
            if page.earliest:
                self._hub.pump()
            if page.next_time is None or page.next_time > now:
                break
        self._next = now + ASKED_SECONDS
        if page.next_time is not None:
            self._next = min(self._next, page.next_time)
