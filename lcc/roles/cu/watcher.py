"""Waiting for the next change of the cache: one small question to the database now and then, however many wait."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StoreUnavailable
from lcc.roles.cu.answers import Reads
from lcc.roles.cu.tokens import Token
from lcc.storage.database.tables.timeline import position

_log = Logger()

PERIOD_SECONDS = 0.25


class ChangeWatcher:
    """Tells when the cache has moved on.

    A database that cannot be reached for a while is asked again; those who wait go on waiting.
    """

    def __init__(self, database: Reads, clock: IReactorTime) -> None:
        self._database = database
        self._clock = clock
        self._waiting: dict[Deferred[bool], tuple[tuple[str, int], IDelayedCall]] = {}
        self._next: IDelayedCall | None = None
        self._asking = False
        self._stopped = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def changed(self, token: Token, timeout_seconds: float) -> Deferred[bool]:
        """Fires when there is a change after this token (True), or the time is over (False).

        It fires where the timeline is another one, too: the change may be lost, and numbers of others say nothing.
        It may be cancelled.
        """
        if self._stopped:
            return succeed(False)
        result: Deferred[bool] = Deferred(self._cancelled)
        timer = self._clock.callLater(timeout_seconds, self._end, result, False)
        self._waiting[result] = (token.timeline, token.number), timer
        self._ask_later()
        return result

    def stop(self) -> None:
        """Everybody's time is over."""
        self._stopped = True
        if self._next is not None:
            self._next.cancel()
            self._next = None
        for result in list(self._waiting):
            self._end(result, False)

    def _ask_later(self) -> None:
        if self._next is None and not self._asking and self._waiting and not self._stopped:
            self._next = self._clock.callLater(PERIOD_SECONDS, self._ask)

    def _ask(self) -> None:
        self._next = None
        self._asking = True
        self._database.select(position).addCallbacks(self._heard, self._not_heard).addBoth(self._asked)

    def _heard(self, reached: tuple[str, int]) -> None:
        for result, (seen, _) in list(self._waiting.items()):
            if reached[0] != seen[0] or reached > seen:
                self._end(result, True)

    def _not_heard(self, failure: Failure) -> None:
        if not failure.check(StoreUnavailable):
            _log.failure("Cannot read the number of the last change", failure=failure)

    def _asked(self, _: object) -> None:
        self._asking = False
        self._ask_later()

    def _end(self, result: Deferred[bool], changed: bool) -> None:
        if self._forget(result):
            result.callback(changed)

    def _cancelled(self, result: Deferred[bool]) -> None:
        self._forget(result)

    def _forget(self, result: Deferred[bool]) -> bool:
        waiting = self._waiting.pop(result, None)
        if waiting is None:
            return False
        if waiting[1].active():
            waiting[1].cancel()
        return True
