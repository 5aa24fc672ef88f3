"""Work that a role does in the background, one piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

_log = Logger()


class Background:
    """A coroutine of which at most one is under way.

    :param failed: what is logged with what it raises; its cancellation is no failure.
    :param ended: called when it has come to its end, in whatever way.  It may begin the next one.
    """

    def __init__(self, failed: str, ended: Callable[[], object] = lambda: None) -> None:
        self._text = failed
        self._then = ended
        self._work: Deferred[None] | None = None

    @property
    def busy(self) -> bool:
        """One is under way."""
        return self._work is not None

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Set it going; nothing else may be under way."""
        assert self._work is None
        work = self._work = Deferred.fromCoroutine(coroutine)
        work.addErrback(self._failed)
        work.addBoth(self._ended)

    def cancel(self) -> None:
        """End what is under way."""
        if self._work is not None:
            self._work.cancel()

    def _failed(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            _log.failure(self._text, failure=failure)

    def _ended(self, _: object) -> None:
        self._work = None
        self._then()
