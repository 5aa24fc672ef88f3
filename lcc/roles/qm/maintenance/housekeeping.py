"""Housekeeping of the store, a page now and then (:meth:`lcc.interfaces.IQueueStore.housekeeping`).

While there is something to do, a page a second: so it never gets in the way of fetching.  Else it is asked once a
minute whether something is due.  A database that is unavailable is asked again with the next look.
"""

from __future__ import annotations

from lcc.interfaces import IQueueStore
from lcc.roles.qm.part import Hub, Part

LOOK_SECONDS = 60.0


class Housekeeping(Part):
    """One page at a time."""

    ASKS_AGAIN = False
    ERROR_TEXT = "Housekeeping failed"

    def __init__(self, hub: Hub, store: IQueueStore) -> None:
        super().__init__(hub, store)
        self._next = 0.0

    def tick(self, now: float) -> None:
        """Called every second.

        :param now: on the clock.
        """
        if now >= self._next and not self._job.busy:
            self._next = now + LOOK_SECONDS
            self._begin(self._page)

    async def _page(self) -> None:
        kept = await self._ask("housekeeping", lambda: self._store.housekeeping(self._hub.now()))
        if kept.more:
            self._next = 0.0
        work = kept.work
        if work.queued or work.touched or work.deletes:
            self._hub.absorbed(work)
