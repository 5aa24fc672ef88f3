"""Looks at the whole queue now and then, in a reading thread, so that a scrape never has to."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StoreUnavailable
from lcc.model.survey import Survey

_log = Logger()

LAG_SECONDS = (10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 3 * 86400.0, 7 * 86400.0)
"""Buckets of how long providers have waited."""
SHARE = 0.05
"""Of the time that may be spent in looking: one that takes long is done less often."""


class Surveyor:
    """
    :param look: reads the tables.
    :param interval_seconds: between two looks, at least.
    :ivar last: what was found; None: nothing yet.
    """

    def __init__(self, look: Callable[[], Deferred[Survey]], clock: IReactorTime, interval_seconds: float) -> None:
        self._look = look
        self._clock = clock
        self._interval = interval_seconds
        self.last: Survey | None = None
        self._next: IDelayedCall | None = None
        self._looking: Deferred[None] | None = None
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
        if self._looking is not None:
            self._looking.cancel()

    def _begin(self) -> None:
        self._next = None
        begun = self._clock.seconds()
        self._looking = self._look().addCallback(self._found)
        self._looking.addErrback(self._failed).addBoth(self._ended, begun)

    def _found(self, survey: Survey) -> None:
        self.last = survey

    def _failed(self, failure: Failure) -> None:
        # Of a database that is away others tell; old figures say by their time that they are old.
        if not failure.check(StoreUnavailable, CancelledError):
            _log.failure("Cannot survey the queue", failure=failure)

    def _ended(self, _: object, begun: float) -> None:
        self._looking = None
        if self._running:
            took = self._clock.seconds() - begun
            self._next = self._clock.callLater(max(self._interval, took / SHARE), self._begin)
