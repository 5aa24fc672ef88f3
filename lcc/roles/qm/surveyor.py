"""Looks at the tables now and then, in a reading thread, so that a scrape never has to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from lcc.errors import StoreUnavailable
from lcc.roles.background import Background

T = TypeVar("T")

LAG_SECONDS = (10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 3 * 86400.0, 7 * 86400.0)
"""Buckets of how long providers have waited."""
SHARE = 0.05
"""Of the time that may be spent in looking: one that takes long is done less often."""


class Surveyor(Generic[T]):
    """
    :param look: reads the tables.
    :param interval_seconds: between two looks, at least.
    :param error_text: logged with what a look raises, but for an unavailable database.
    :ivar last: what was found; None: nothing yet.
    """

    def __init__(
        self,
        look: Callable[[], Deferred[T]],
        clock: IReactorTime,
        interval_seconds: float,
        error_text: str = "Cannot survey the queue",
    ) -> None:
        self._look = look
        self._clock = clock
        self._interval = interval_seconds
        self.last: T | None = None
        self._next: IDelayedCall | None = None
        self._begun = 0.0
        self._job = Background(error_text, self._ended)
        self._running = False

    def start(self) -> None:
        """Look now, then again and again."""
        self._running = True
        self._begin()

    def stop(self) -> None:
        """Look no longer."""
        self._running = False
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._job.cancel()

    def _begin(self) -> None:
        self._next = None
        self._begun = self._clock.seconds()
        self._job.begin(self._survey())

    async def _survey(self) -> None:
        # Others log that the database is unavailable; the survey's timestamp shows that it is old.
        with suppress(StoreUnavailable):
            self.last = await self._look()

    def _ended(self) -> None:
        if self._running:
            took = self._clock.seconds() - self._begun
            self._next = self._clock.callLater(max(self._interval, took / SHARE), self._begin)
