"""Retries whole interactions: after a deadlock, a lost connection, an outage of the database.

adbapi does not notice a lost MySQL connection, so this is our own.  It runs in the thread that owns the connection.

An unreachable database is logged at once, then once a minute, not at each attempt.  So is one whose disk is full;
there an interaction fails at once, because its caller may have something better to do than to wait.
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

from lcc.errors import StoreFull, StoreUnavailable
from lcc.storage.database.dialects import DatabaseFault, Dialect
from lcc.storage.database.transactions import Access, Txn

_log = Logger()
T = TypeVar("T")

FIRST_DELAY_SECONDS = 0.02
LONGEST_DELAY_SECONDS = 2.0
OUTAGE_LOG_SECONDS = 60.0
FULL_SECONDS = 10.0
"""Longer than the retry delay of callers that were told that the database is full."""


class ConnectionHolder(Protocol):
    """Keeps the connection of the current thread."""

    def connect(self) -> Any:
        """The connection; made now if there is none."""

    def disconnect(self, connection: Any) -> None:
        """Close it and forget it."""


class OutageLog:
    """Logs that a database is unreachable, or full: at once, then at most once a minute, however many callers there
    are.

    :param shown: the name of the database in the log.
    :param seconds: a clock.
    """

    def __init__(self, shown: str, seconds: Callable[[], float] = time.monotonic) -> None:
        self._shown = shown
        self._seconds = seconds
        self._lock = threading.Lock()
        self._told_away = self._told_full = False
        self._failed = 0.0
        self._quiet_until: dict[bool, float] = {}

    def away(self, reason: str) -> None:
        """An attempt failed: unreachable."""
        if self._tell(False):
            _log.warn(
                "Database unreachable: {database}: {reason}; trying again",
                database=self._shown,
                reason=reason,
            )

    def full(self, reason: str) -> None:
        """An attempt failed: no write is possible."""
        if self._tell(True):
            _log.error(
                "Cannot write to the database: {database}: {reason}; trying again",
                database=self._shown,
                reason=reason,
            )

    def reached(self, wrote: bool = True) -> None:
        """An attempt succeeded.

        :param wrote: it was a write.  The disk may still be full, for a write that needs no more space succeeds:
            "writable again" is logged after a while without failures.
        """
        if self._told_away or (wrote and self._told_full):
            with self._lock:
                away, self._told_away = self._told_away, False
                full = wrote and self._told_full and self._seconds() > self._failed + FULL_SECONDS
                self._told_full = self._told_full and not full
            if away:
                _log.info("Database reachable again: {database}", database=self._shown)
            if full:
                _log.info("Database writable again: {database}", database=self._shown)

    def _tell(self, full: bool) -> bool:
        with self._lock:
            now = self._seconds()
            if full:
                self._failed = now
            quiet_until = self._quiet_until.get(full)
            if quiet_until is not None and now < quiet_until:
                return False
            self._quiet_until[full] = now + OUTAGE_LOG_SECONDS
            if full:
                self._told_full = True
            else:
                self._told_away = True
            return True


@cache
def outage_log(shown: str) -> OutageLog:
    """The log of this process for this database, shared by its roles."""
    return OutageLog(shown)


@attrs.frozen
class RetryPolicy:
    """How often to retry, and after which delays.

    :ivar retries: attempts after the first one.
    :ivar random: jitter; a delay is between half and all of its nominal length.
    :ivar wait: wait for so many seconds; True: the database is being closed, give up.
    :ivar counted: called with ``DatabaseFault.value`` of each failed attempt, in the thread that made it.
    """

    retries: int
    random: Random
    wait: Callable[[float], bool]
    counted: Callable[[str], None] = lambda trouble: None

    def delay_seconds(self, failures: int) -> float:
        """The delay after so many failures (1: the first)."""
        nominal = min(FIRST_DELAY_SECONDS * 2 ** min(failures - 1, 20), LONGEST_DELAY_SECONDS)
        return float(nominal * (0.5 + 0.5 * self.random.random()))


def run_retrying(
    holder: ConnectionHolder,
    dialect: Dialect,
    policy: RetryPolicy,
    access: Access,
    prepare: Callable[[Any], None],
    function: Callable[..., T],
    *args: Any,
) -> T:
    """Run ``function(txn, *args)`` as one transaction, again from its start after passing troubles.

    :param prepare: called with the connection first (the schema is brought up to date there).
    :raises StoreUnavailable: it was tried often enough, or its disk is full; it may or may not have been done.
    """
    failures = 0
    outages = outage_log(repr(dialect))
    while True:
        connection: Any = None
        try:
            connection = holder.connect()
            prepare(connection)
            result = run_once(connection, dialect, access, function, *args)
            outages.reached(access is Access.WRITE)
            return result
        except BaseException as error:
            trouble = dialect.trouble(error)
            if not _clean(holder, dialect, connection, trouble) and trouble is not DatabaseFault.FULL:
                trouble = trouble and DatabaseFault.LOST
            if trouble is None:
                raise
            failures += 1
            policy.counted(trouble.value)
            reason = dialect.reason(error)
            if trouble is DatabaseFault.SLOW:
                reason = f"query exceeded {dialect.read_seconds:g} seconds"
                raise StoreUnavailable(f"{dialect!r}: {reason}") from None
            if trouble is DatabaseFault.FULL:
                reason = f"{reason}; {dialect.remedy()}"
                outages.full(reason)
                raise StoreFull(f"{dialect!r}: {reason}") from None
            if trouble is DatabaseFault.LOST:
                outages.away(reason)
            else:
                _log.info(
                    "{database!r}: attempt {failures} failed: {reason}",
                    database=dialect,
                    failures=failures,
                    reason=reason,
                )
            if failures > policy.retries or policy.wait(policy.delay_seconds(failures)):
                raise StoreUnavailable(f"{dialect!r}: {reason}") from None


def run_once(connection: Any, dialect: Dialect, access: Access, function: Callable[..., T], *args: Any) -> T:
    """Run ``function(txn, *args)`` and commit.  At an exception the caller has to roll back."""
    dialect.begin(connection, access is Access.WRITE)
    txn = Txn(dialect, connection, access)
    result = function(txn, *args)
    txn.finish()
    return result


def _clean(holder: ConnectionHolder, dialect: Dialect, connection: Any, trouble: DatabaseFault | None) -> bool:
    """Roll back; a connection on which that is not possible is closed.  False: it was closed."""
    if connection is None:
        return False
    if trouble is not DatabaseFault.LOST:
        try:
            dialect.rollback(connection)
        except Exception:
            trouble = DatabaseFault.LOST
    if trouble is DatabaseFault.LOST:
        holder.disconnect(connection)
        return False
    return True
