"""A database server, for the store of a simulated process: the real tables, the real SQL, all of the real retrying
rules; what is simulated is the way to it.

A transaction happens at one moment, as a whole (SQLite in memory).  Around it everything may go wrong that the store
has to live with: the server is away, the connection is lost before the commit or after it (so that nobody knows), the
transaction is chosen as the victim of a deadlock.  How two transactions of different processes mix is not simulated:
that is tested with a real MariaDB.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable
from math import log
from pathlib import Path
from random import Random
from typing import Any

import attrs
from twisted.internet.defer import Deferred, DeferredList, fail
from twisted.python.failure import Failure

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.storage.database.dialects import SqliteDialect
from lcc.storage.database.metrics import DatabaseCounts
from lcc.storage.database.migrations import MAIN, migrate
from lcc.storage.database.retry import RetryPolicy, run_once
from lcc.storage.database.transactions import Access, Txn
from lcc.testing.simulated.network import Network
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Timeline

_STATEMENTS_KEPT = 1000
"""Prepared ones: those of all roles, and of whoever looks at the tables."""


@attrs.define
class DatabaseFaults:
    """How likely it is, for each transaction, that …

    :ivar answer_lost: it is done, and nobody hears of it.
    :ivar connection_lost: the connection breaks before the commit.
    :ivar deadlock: it is rolled back, to be tried again.
    """

    answer_lost: float = 0.0
    connection_lost: float = 0.0
    deadlock: float = 0.0


class DatabaseServer:
    """One server, with one set of tables for each series.

    :param name: of its source of chance.
    :ivar away_until: it does not answer before this time.
    :ivar full_until: its disk is full before this time: nothing can be written.
    :ivar committed: called after each transaction that wrote, with the series.
    :ivar kept: the last backup.
    """

    def __init__(self, timeline: Timeline, network: Network, address: str, name: str = "database") -> None:
        self.timeline = timeline
        self.network = network
        self.address = address
        self.chance = timeline.random(name)
        self.faults = DatabaseFaults()
        self.away_until = 0.0
        self.slow_until = 0.0
        self.full_until = 0.0
        self.committed: Callable[[str], None] | None = None
        self.dialect = _AtOneMoment(Path(f"/{address}/lcc.db"))
        self.dialect.random_bits = self.chance.getrandbits
        self._connections: dict[str, sqlite3.Connection] = {}
        self.kept: sqlite3.Connection | None = None

    def connection(self, series: str = MAIN) -> sqlite3.Connection:
        """The tables, for whoever looks at them beside the system."""
        connection = self._connections.get(series)
        if connection is None:
            connection = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS_KEPT
            )
            connection.execute("PRAGMA synchronous=OFF")
            migrate(self.dialect, connection, lambda: None, f"{self.chance.getrandbits(64):016x}", series)
            self._connections[series] = connection
        return connection

    def rows_of_tables(self) -> dict[str, int]:
        """How many rows each table has, by series and name."""
        counts = {}
        for series, connection in self._connections.items():
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                counts[f"{series} {name}"] = connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0]
        return counts

    def now(self, function: Callable[..., Any], *args: Any, series: str = MAIN) -> Any:
        """Run an interaction for the test itself, whatever is the matter."""
        return self.run(Access.WRITE, function, args, series)

    def run(self, access: Access, function: Callable[..., Any], args: tuple[Any, ...], series: str) -> Any:
        """Run an interaction; one that fails leaves nothing behind."""
        connection = self.connection(series)
        try:
            return run_once(connection, self.dialect, access, function, *args)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def backup(self) -> None:
        """Keep what is in the tables of the queue now."""
        connection = self.connection()
        if connection.in_transaction:
            return
        self.kept = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.backup(self.kept)

    def restore(self) -> bool:
        """Put back what :meth:`backup` has kept; False: there is nothing."""
        if self.kept is None:
            return False
        self.kept.backup(self.connection())
        return True

    def close(self) -> None:
        """It is over."""
        for connection in self._connections.values():
            connection.close()

    def transaction_seconds(self) -> float:
        """How long one takes."""
        seconds = -0.002 * log(1.0 - self.chance.random())
        if self.timeline.now < self.slow_until:
            seconds += self.chance.uniform(0, 3)
        return seconds


class _AtOneMoment(SqliteDialect):
    """What only reads needs no transaction to see one state of the tables: nobody else comes in between."""

    def begin(self, connection: Any, write: bool) -> None:
        if write:
            super().begin(connection, write)

    def commit(self, connection: Any) -> None:
        if connection.in_transaction:
            super().commit(connection)


@attrs.define(eq=False)
class _Job:
    access: Access
    function: Callable[..., Any]
    args: tuple[Any, ...]
    result: Deferred[Any]
    failures: int = 0

    @property
    def is_write(self) -> bool:
        return self.access is Access.WRITE


class SimulatedDatabase:
    """In place of :class:`lcc.storage.database.database.Database`, for one process."""

    def __init__(
        self,
        server: DatabaseServer,
        process: Process,
        url: str,
        home: Path,
        reactor: Any,
        settings: DatabaseConfig,
        *,
        random: Random,
        series: str = MAIN,
        lean: bool = False,
    ) -> None:
        self.dialect = server.dialect
        self.counts = DatabaseCounts()
        self._server = server
        self._process = process
        self._series = series
        self._policy = RetryPolicy(settings.retries, random, lambda _: False)
        self._open = False
        self._writes: deque[_Job] = deque()
        self._running: dict[_Job, Deferred[None]] = {}

    def start(self) -> None:
        """As of the real one."""
        self._open = True

    def stop(self) -> Deferred[None]:
        """As of the real one."""
        self._open = False
        return DeferredList(list(self._running.values())).addCallback(lambda _: None)

    def interact(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """As of the real one."""
        return self._take(Access.SNAPSHOT, function, args)

    def select(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """As of the real one."""
        return self._take(Access.SELECT, function, args)

    def write(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """As of the real one."""
        return self._take(Access.WRITE, function, args)

    def _take(self, access: Access, function: Callable[..., Any], args: tuple[Any, ...]) -> Deferred[Any]:
        if not self._open:
            return fail(StoreUnavailable("the database is closed"))
        job = _Job(access, function, args, Deferred())
        self._running[job] = Deferred()
        if access is Access.WRITE:
            self._writes.append(job)
            if len(self._writes) > 1:
                return job.result
        self._plan(job, 0.0)
        return job.result

    def _plan(self, job: _Job, delay: float) -> None:
        seconds = delay + self._server.transaction_seconds()
        self._process.timeline.call_later(seconds, self._process, self._attempt, job)

    def _attempt(self, job: _Job) -> None:
        server, chance, faults = self._server, self._server.chance, self._server.faults
        timeline = self._process.timeline
        passes = server.network.passes(self._process.machine.address, server.address)
        if timeline.now < server.away_until or not passes:
            self._passing(job, "the database is away")
            return
        if job.is_write and timeline.now < server.full_until:
            # Nothing is tried again then: the store says so at once (lcc.storage.database.retry).
            self._answer(job, Failure(StoreUnavailable("simulated: the database's disk is full")))
            return
        luck = chance.random()
        connection = server.connection(self._series)
        try:
            if luck < faults.deadlock:
                self._run(connection, job, commit=False)
                self._passing(job, "a deadlock")
                return
            luck -= faults.deadlock
            if luck < faults.connection_lost:
                self._run(connection, job, commit=False)
                self._passing(job, "the connection was lost")
                return
            luck -= faults.connection_lost
            value = self._run(connection, job, commit=True)
        except Exception:
            self._answer(job, Failure())
            return
        if job.is_write and luck < faults.answer_lost:
            self._passing(job, "the connection was lost after the commit")
        else:
            self._answer(job, value)

    def _run(self, connection: sqlite3.Connection, job: _Job, commit: bool) -> Any:
        if not commit:
            connection.execute("BEGIN")
            try:
                _interrupted(self.dialect, connection, job)
            finally:
                connection.execute("ROLLBACK")
            return None
        value = self._server.run(job.access, job.function, job.args, self._series)
        if job.is_write and self._server.committed is not None:
            self._server.committed(self._series)
        return value

    def _passing(self, job: _Job, reason: str) -> None:
        job.failures += 1
        if job.failures > self._policy.retries or not self._open:
            self._answer(job, Failure(StoreUnavailable(f"simulated: {reason}")))
        else:
            self._plan(job, self._policy.delay_seconds(job.failures))

    def _answer(self, job: _Job, value: Any) -> None:
        seconds = self._server.transaction_seconds() / 4
        self._process.timeline.call_later(seconds, self._process, self._answered, job, value)

    def _answered(self, job: _Job, value: Any) -> None:
        if job.is_write:
            self._writes.popleft()
            if self._writes:
                self._plan(self._writes[0], 0.0)
        done = self._running.pop(job)
        job.result.callback(value)
        done.callback(None)


def _interrupted(dialect: SqliteDialect, connection: sqlite3.Connection, job: _Job) -> None:
    """Everything but the commit."""
    txn = Txn(dialect, connection)
    job.function(txn, *job.args)
    txn.close()
