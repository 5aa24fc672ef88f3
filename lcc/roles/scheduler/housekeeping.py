"""What is forgotten in the course of time: ended jobs, answers, statistics, items that their feeds no longer have."""

from __future__ import annotations

from lcc.config import SchedulerConfig
from lcc.storage.tasks.feeds.item_purge import Place
from lcc.storage.tasks.store import TaskStore

_PURGE_SECONDS = 300.0
_ITEMS_SECONDS = 6 * 3600.0
_POSTPONED_SECONDS = 86400.0


class Housekeeping:
    """A page each second, until there is no more; then again after a while.  So it is, too, after one that failed."""

    def __init__(self, settings: SchedulerConfig, store: TaskStore) -> None:
        self._settings = settings
        self._store = store
        self._purge_at = 0.0
        self._items_at = 0.0
        self._items_place: Place | None = None

    def postpone(self, clock: float) -> None:
        """The wall clock was set forward: what looks old may not be; nothing is forgotten before a day has passed."""
        self._purge_at = self._items_at = clock + _POSTPONED_SECONDS

    async def purge(self, clock: float, now: int) -> None:
        """The next page of jobs and statistics, if it is time.

        :param clock: of the process; ``now``: seconds since 1970.
        """
        if clock >= self._purge_at:
            self._purge_at = clock + _PURGE_SECONDS
            if await self._store.purge_page(now, self._settings.jobs_kept, self._settings.statistics_kept):
                self._purge_at = clock

    async def purge_items(self, clock: float, now: int) -> None:
        """The next page of items, if it is time."""
        if clock >= self._items_at:
            place, self._items_place = self._items_place or Place(), None
            self._items_at = clock + _ITEMS_SECONDS
            self._items_place = await self._store.purge_items(now, self._settings.items_kept, place)
            if self._items_place:
                self._items_at = clock
