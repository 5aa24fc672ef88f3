"""Housekeeping of the store, a page now and then (:meth:`lcc.interfaces.IQueueStore.housekeeping`).

While there is something to do, a page a second: so it never gets in the way of fetching.  Else it is asked once a
minute whether something is due.  A database that is away is asked again with the next look.
"""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import Busy, StoreUnavailable
from lcc.interfaces import IQueueStore
from lcc.model import Absorbed, Kept

_log = Logger()

LOOK_SECONDS = 60.0


class Housed(Protocol):
    """What a housekeeper needs of the engine."""

    def now(self) -> int:
        """Seconds since 1970."""

    def absorbed(self, outcome: Absorbed) -> None:
        """Something was done to the queue."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""


class Housekeeper:
    """Keeps house, one page at a time.

    :ivar pages: done so far.
    """

    def __init__(self, engine: Housed, store: IQueueStore) -> None:
        self.pages = 0
        self._engine = engine
        self._store = store
        self._working: Deferred[None] | None = None
        self._next = 0.0

    def tick(self, clock_seconds: float) -> None:
        """To be called every second."""
        if self._working is None and clock_seconds >= self._next:
            self._next = clock_seconds + LOOK_SECONDS
            working = self._working = self._store.housekeeping(self._engine.now()).addCallback(self._kept)
            working.addErrback(self._failed)
            working.addBoth(self._done)

    def stop(self) -> None:
        """End what is going on."""
        self._next = float("inf")
        if self._working is not None:
            self._working.cancel()

    def _kept(self, kept: Kept) -> None:
        if kept.more:
            self.pages += 1
            self._next = 0.0
        work = kept.work
        if work.queued or work.touched or work.deletes:
            self._engine.absorbed(work)

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, Busy):
            self._engine.fatal(error)
        elif not failure.check(CancelledError, StoreUnavailable):
            _log.failure("Housekeeping has failed", failure=failure)

    def _done(self, _: object) -> None:
        self._working = None
