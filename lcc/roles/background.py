"""Background jobs of a role, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

_log = Logger()


class Background:
    """Runs a coroutine, at most one at a time.

    :param error_text: logged with what it raises; being cancelled is no error.
    :param ended: called when it has ended, in whatever way.  It may begin the next one.
    :param failed: called with its failure instead of logging it.
    :ivar busy: one is running.
    """

    def __init__(
        self,
        error_text: str,
        ended: Callable[[], object] = lambda: None,
        failed: Callable[[Failure], object] | None = None,
    ) -> None:
        self.busy = False
        self._error_text = error_text
        self._ended = ended
        self._failed = failed or self._log_failure
        self._work: Deferred[None] | None = None
        self._cancelled = False

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it; no other one may be running."""
        assert not self.busy
        self.busy = True
        self._cancelled = False
        work = self._work = Deferred.fromCoroutine(coroutine)
        if self._cancelled:  # while it ran for the first time
            work.cancel()
        work.addErrback(self._failed)
        work.addBoth(self._over)

    def cancel(self) -> None:
        """End the one that is running."""
        self._cancelled = True
        if self._work is not None:
            self._work.cancel()

    def _log_failure(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            _log.failure(self._error_text, failure=failure)

    def _over(self, _: object) -> None:
        self._work = None
        self.busy = False
        self._ended()
