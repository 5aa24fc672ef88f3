"""Trying again: growing delays while the database is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from lcc.errors import StoreUnavailable

_log = Logger()
T = TypeVar("T")

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
LOG_SECONDS = 60.0
"""It is logged once in this time, not at each attempt."""


class Patience:
    """Calls the store until it answers.

    :param random: gives numbers in [0, 1), for the jitter.
    """

    def __init__(self, clock: IReactorTime, random: Callable[[], float]) -> None:
        self.clock = clock
        self.retries = 0
        self._troubles: dict[object, str] = {}
        self._random = random
        self._quiet_until: float | None = None

    @property
    def trouble(self) -> str:
        """What waits for the database for longest, and why it was unavailable; empty: nothing has to wait."""
        return next(iter(self._troubles.values()), "")

    async def ask(self, what: str, question: Callable[[], Awaitable[T]]) -> T:
        """The store's answer to this question, asked again with growing delays while the store is unavailable.

        Every other failure is the caller's.  Cancelling the coroutine's Deferred ends it.
        """
        delay = FIRST_SECONDS
        asking = object()
        try:
            while True:
                try:
                    return await question()
                except StoreUnavailable as error:
                    self.retries += 1
                    self._troubles[asking] = f"{what}: {error}"
                    self._log(what, error)
                await self.sleep(delay * (0.75 + 0.25 * self._random()))
                delay = min(LONGEST_SECONDS, delay * 2)
        finally:
            self._troubles.pop(asking, None)

    def _log(self, what: str, error: StoreUnavailable) -> None:
        now = self.clock.seconds()
        if self._quiet_until is None or now >= self._quiet_until:
            self._quiet_until = now + LOG_SECONDS
            _log.warn("The database is unavailable ({what}), trying again: {error}", what=what, error=str(error))

    def sleep(self, seconds: float) -> Deferred[None]:
        """Fires after so long."""
        return deferLater(self.clock, seconds)
