"""Polls whether a database answers, for roles that do not use it all the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from lcc.model.metrics import Condition
from lcc.storage.database.transactions import Txn

PROBE_SECONDS = 5.0
LATE_SECONDS = 10.0
"""A database that has not answered for so long counts as unreachable."""


def ping(txn: Txn) -> int:
    """The cheapest query."""
    return int(txn.value("SELECT 1"))


class DatabaseProbe:
    """Polls the database, one query at a time.

    :param interact: :meth:`lcc.storage.database.database.Database.interact`.
    """

    def __init__(self, interact: Callable[..., Deferred[Any]], clock: IReactorTime) -> None:
        self._interact = interact
        self._clock = clock
        self._fault = "not polled yet"
        self._asked = 0.0
        self._asking: Deferred[Any] | None = None
        self._next: IDelayedCall | None = None
        self._running = False

    def start(self) -> None:
        """Poll now, and periodically."""
        self._running = True
        self._ask()

    def stop(self) -> None:
        """Stop polling."""
        self._running = False
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def condition(self) -> Condition:
        """Whether the database answers."""
        fault, waited = self._fault, self._clock.seconds() - self._asked
        if not fault and self._asking is not None and waited > LATE_SECONDS:
            fault = f"no answer for {waited:.0f} s"
        return Condition(
            "database",
            f"the database: {fault}" if fault else "",
            "check the database server and [database] url (lcc-admin check)",
        )

    def _ask(self) -> None:
        self._next = None
        self._asked = self._clock.seconds()
        self._asking = self._interact(ping)
        self._asking.addCallbacks(self._well, self._ill).addBoth(self._answered)

    def _well(self, _: object) -> None:
        self._fault = ""

    def _ill(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._fault = failure.getErrorMessage()

    def _answered(self, _: object) -> None:
        self._asking = None
        if self._running:
            self._next = self._clock.callLater(PROBE_SECONDS, self._ask)
