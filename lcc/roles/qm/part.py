"""What the parts of the queue manager share.

A part asks the store, does one job at a time in the background, and tells the others through the :class:`Hub`:

* *The database is unavailable*: a question is asked again, with growing delays (:class:`StoreRetry`).  Parts that the
  clock calls every second anyway do not ask again (``ASKS_AGAIN`` is false): their job ends, and the next tick begins
  a new one.
* *A newer queue manager has claimed the database* (``Busy``): this one stops.
* *Any other error* of a job is logged; the job is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import Busy, StoreUnavailable
from lcc.interfaces import IQueueStore
from lcc.model import Absorbed, Recorded
from lcc.roles.background import Background
from lcc.roles.qm.orders.machines import Machine

_log = Logger()
T = TypeVar("T")
P = ParamSpec("P")

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
LOG_SECONDS = 60.0
"""An unavailable database is logged once in this time, not at each attempt."""
ENDINGS = (CancelledError, Busy)
"""Errors that end a job, whatever it would do about others."""


class StoreRetry:
    """Asks the store until it answers.

    :param random: gives numbers in [0, 1), for the jitter.
    :ivar retries: questions that were asked again.
    """

    def __init__(self, clock: IReactorTime, random: Callable[[], float]) -> None:
        self.retries = 0
        self._clock = clock
        self._random = random
        self._troubles: dict[object, str] = {}
        self._waits: dict[object, Deferred[None]] = {}
        self._quiet_until: float | None = None
        self._stopped = False

    @property
    def trouble(self) -> str:
        """What has waited longest for the database, and why it is unavailable; empty: nothing waits."""
        return next(iter(self._troubles.values()), "")

    async def ask(self, what: str, question: Callable[[], Awaitable[T]]) -> T:
        """The store's answer, asked for again with growing delays while the store is unavailable.

        :param what: for the log and the state.
        :raises CancelledError: :meth:`stop` was called.
        """
        delay = FIRST_SECONDS
        asking = object()
        try:
            while True:
                try:
                    return await question()
                except StoreUnavailable as error:
                    if self._stopped:
                        raise CancelledError from None
                    self.retries += 1
                    self._troubles[asking] = f"{what}: {error}"
                    self._log(what, error)
                wait = self._waits[asking] = deferLater(self._clock, delay * (0.75 + 0.25 * self._random()))
                await wait
                delay = min(LONGEST_SECONDS, delay * 2)
        finally:
            self._troubles.pop(asking, None)
            self._waits.pop(asking, None)

    def stop(self) -> None:
        """Ask nothing again."""
        self._stopped = True
        for wait in list(self._waits.values()):
            wait.cancel()

    def _log(self, what: str, error: StoreUnavailable) -> None:
        now = self._clock.seconds()
        if self._quiet_until is None or now >= self._quiet_until:
            self._quiet_until = now + LOG_SECONDS
            _log.warn("Database unavailable ({what}), retrying: {error}", what=what, error=str(error))


class Hub(Protocol):
    """What the parts know of the queue manager.

    :ivar clock: for timers and leases; it is never set.
    :ivar wall_clock: seconds since 1970; it may be set at any time.
    """

    clock: IReactorTime
    wall_clock: Callable[[], float]
    retry: StoreRetry

    def now(self) -> int:
        """The wall clock in whole seconds, as the store has it."""

    @property
    def run(self) -> int:
        """Number of this run; 0: the database is not claimed yet."""

    @property
    def machines(self) -> list[Machine]:
        """The machines whose BOT-Ms have ever connected."""

    @property
    def progress(self) -> tuple[str, int]:
        """How far the cache has come: its timeline, and the number of its last change."""

    def pump(self) -> None:
        """Something has changed: send, read and record what can be."""

    def absorbed(self, outcome: Absorbed) -> None:
        """Something was queued."""

    def recorded(self, outcome: Recorded) -> None:
        """Results were recorded."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""


class Part:
    """A part of the queue manager.

    :cvar ASKS_AGAIN: a question waits for a database that is unavailable; else it fails, and the job ends silently.
    :cvar ERROR_TEXT: logged with an error that ends the job.
    """

    ASKS_AGAIN: ClassVar[bool] = True
    ERROR_TEXT: ClassVar[str]

    def __init__(self, hub: Hub, store: IQueueStore) -> None:
        self._hub = hub
        self._store = store
        self._stopped = False
        self._job = Background(self.ERROR_TEXT, self._ended, self._failed)

    def stop(self) -> None:
        """Cancel the job, and begin no other one."""
        self._stopped = True
        self._job.cancel()

    def _begin(self, work: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Begin this job, unless one is running."""
        if not (self._job.busy or self._stopped):
            self._job.begin(work(*args, **kwargs))

    def _ask(self, what: str, question: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """The store's answer.

        :param what: for the log and the state.
        """
        return self._hub.retry.ask(what, question) if self.ASKS_AGAIN else question()

    def _sleep(self, seconds: float) -> Deferred[None]:
        """Fires after so long."""
        return deferLater(self._hub.clock, seconds)

    def _ended(self) -> None:
        """The job is over, in whatever way; it may be begun again."""

    def _failed(self, failure: Failure) -> None:
        """The job has raised this."""
        error = failure.value
        if isinstance(error, Busy):
            self._hub.fatal(error)
        elif not failure.check(CancelledError) and (self.ASKS_AGAIN or not failure.check(StoreUnavailable)):
            self._log_failure(failure)

    def _log_failure(self, failure: Failure) -> None:
        """An error has ended the job."""
        _log.failure(self.ERROR_TEXT, failure=failure)
