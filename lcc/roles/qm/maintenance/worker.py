"""Something that the clock sets going: one thing at a time, in the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import Busy
from lcc.interfaces import IQueueStore
from lcc.roles.qm.patience import Patience

_log = Logger()


class Keeping(Protocol):
    """What is needed of the engine."""

    started: bool

    def pump(self) -> None:
        """There may be something to do."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""


class Worker:
    """Does one thing at a time; what fails is logged, and tried again when the clock says so."""

    def __init__(self, engine: Keeping, store: IQueueStore, patience: Patience) -> None:
        self._engine = engine
        self._store = store
        self._patience = patience
        self._work: Deferred[None] | None = None
        self._stopped = False

    def _begin(self, work: Callable[[], Deferred[None]], text: str) -> None:
        if self._work is None and not self._stopped:
            self._work = work()
            self._work.addErrback(self._failed, text)
            self._work.addBoth(self._worked)

    def _failed(self, failure: Failure, text: str) -> None:
        error = failure.value
        if isinstance(error, Busy):
            self._engine.fatal(error)
        elif not isinstance(error, CancelledError):
            _log.failure(text, failure=failure)

    def _worked(self, _: object) -> None:
        self._work = None

    def stop(self) -> None:
        """End what is going on."""
        self._stopped = True
        if self._work is not None:
            self._work.cancel()
