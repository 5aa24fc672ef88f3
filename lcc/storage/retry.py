"""Whole interactions, tried again: after a deadlock, a lost connection, a database that is away for a while.

adbapi does not notice a MySQL connection that is gone, so all of this is ours.  It runs in the thread that the
connection belongs to.

A database that is away is told in the log at once, then once a minute: not at each attempt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Protocol, TypeVar

import attrs
from twisted.logger import Logger

from lcc.errors import StoreUnavailable
from lcc.storage.dialects import Dialect, Trouble
from lcc.storage.transactions import Txn

_log = Logger()
T = TypeVar("T")

FIRST_DELAY_SECONDS = 0.02
LONGEST_DELAY_SECONDS = 2.0
OUTAGE_LOG_SECONDS = 60.0


class ConnectionHolder(Protocol):
    """Keeps the connection of the current thread."""

    def connect(self) -> Any:
        """The connection; made now if there is none."""

    def disconnect(self, connection: Any) -> None:
        """Close it and forget it."""


class OutageLog:
    """Tells that a database is away: at once, then at most once a minute, however many ask and however often.

    :param shown: the database, as it is shown.
    :param seconds: a clock.
    """

    def __init__(self, shown: str, seconds: Callable[[], float] = time.monotonic) -> None:
        self._shown = shown
        self._seconds = seconds
        self._lock = threading.Lock()
        self._told = False
        self._quiet_until: float | None = None

    def away(self, reason: str) -> None:
        """An attempt has failed."""
        with self._lock:
            now = self._seconds()
            if self._quiet_until is not None and now < self._quiet_until:
                return
            self._quiet_until = now + OUTAGE_LOG_SECONDS
            self._told = True
        _log.warn(
            "The database cannot be reached: {database}: {reason}; trying again", database=self._shown, reason=reason
        )

    def reached(self) -> None:
        """An attempt has succeeded."""
        if not self._told:
            return
        with self._lock:
            told, self._told = self._told, False
        if told:
            _log.info("The database can be reached again: {database}", database=self._shown)


@cache
def outage_log(shown: str) -> OutageLog:
    """The one of this process for this database: several roles may use it."""
    return OutageLog(shown)


@attrs.frozen
class RetryPolicy:
    """How often and after which delays.

    :ivar retries: tries after the first one.
    :ivar random: jitter; a delay is between half and all of its nominal length.
    :ivar wait: wait for so many seconds; True: the database is being closed, give up.
    """

    retries: int
    random: Random
    wait: Callable[[float], bool]

    def delay_seconds(self, failures: int) -> float:
        """The delay after so many failures (1: the first)."""
        nominal = min(FIRST_DELAY_SECONDS * 2 ** min(failures - 1, 20), LONGEST_DELAY_SECONDS)
        return float(nominal * (0.5 + 0.5 * self.random.random()))


def run_retrying(
    holder: ConnectionHolder,
    dialect: Dialect,
    policy: RetryPolicy,
    write: bool,
    prepare: Callable[[Any], None],
    function: Callable[..., T],
    *args: Any,
) -> T:
    """Run ``function(txn, *args)`` as one transaction, again from its start after passing troubles.

    :param prepare: called with the connection first (the schema is brought up to date there).
    :raises StoreUnavailable: it was tried often enough; it may or may not have been done.
    """
    failures = 0
    outages = outage_log(repr(dialect))
    while True:
        connection: Any = None
        try:
            connection = holder.connect()
            prepare(connection)
            result = run_once(connection, dialect, write, function, *args)
            outages.reached()
            return result
        except BaseException as error:
            trouble = dialect.trouble(error)
            if not _clean(holder, dialect, connection, trouble):
                trouble = trouble and Trouble.LOST
            if trouble is None:
                raise
            failures += 1
            reason = dialect.reason(error)
            if trouble is Trouble.LOST:
                outages.away(reason)
            else:
                _log.info(
                    "{database!r}: failure {failures}: {reason}", database=dialect, failures=failures, reason=reason
                )
            if failures > policy.retries or policy.wait(policy.delay_seconds(failures)):
                raise StoreUnavailable(f"{dialect!r}: {reason}") from None


def run_once(connection: Any, dialect: Dialect, write: bool, function: Callable[..., T], *args: Any) -> T:
    """Run ``function(txn, *args)`` and commit.  At an exception the caller has to roll back."""
    dialect.begin(connection, write)
    txn = Txn(dialect, connection)
    result = function(txn, *args)
    txn.close()
    dialect.commit(connection)
    return result


def _clean(holder: ConnectionHolder, dialect: Dialect, connection: Any, trouble: Trouble | None) -> bool:
    """Roll back; a connection on which that is not possible is closed.  False: it was closed."""
    if connection is None:
        return False
    if trouble is not Trouble.LOST:
        try:
            dialect.rollback(connection)
        except Exception:
            trouble = Trouble.LOST
    if trouble is Trouble.LOST:
        holder.disconnect(connection)
        return False
    return True
