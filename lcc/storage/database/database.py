"""The database behind adbapi: one writer thread, a few reader threads; the schema is migrated at first use.

Interactions are plain functions ``function(txn, *args)`` (:class:`lcc.storage.database.transactions.Txn`), run as a
whole in a thread, and again after transient errors; so each must be idempotent.  Writes run one at a time, in the
order of the calls.  An interaction that gives up fails with StoreUnavailable: it may or may not have been committed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from twisted.application.service import Service
from twisted.enterprise import adbapi
from twisted.internet.defer import Deferred, DeferredList, fail
from twisted.internet.threads import deferToThreadPool

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.storage.database.dialects import Dialect, SqliteDialect, dialect_for
from lcc.storage.database.metrics import DatabaseCounts
from lcc.storage.database.migrations import MAIN, migrate
from lcc.storage.database.retry import ConnectionHolder, RetryPolicy, run_retrying
from lcc.storage.database.transactions import Access
from lcc.storage.disk.durable import make_folder_durably

T = TypeVar("T")

READERS_MAX = 3
LEAN_CACHE_KIB = 512
"""Of pages that SQLite keeps for a connection of a lean database."""


def _new_epoch(random: Random) -> str:
    return f"{random.getrandbits(64):016x}"


class _Schema:
    """Migrates the schema once, in whichever thread comes first."""

    def __init__(self, dialect: Dialect, random: Random, series: str) -> None:
        self._dialect = dialect
        self._series = series
        self._random = random
        self._lock = threading.Lock()
        self._done = False

    def prepare(self, connection: Any) -> None:
        if self._done:
            return
        with self._lock:
            if not self._done:
                migrate(self._dialect, connection, self._open, _new_epoch(self._random), self._series)
                self._done = True

    def _open(self) -> Any:
        connection = import_module(self._dialect.driver).connect(**self._dialect.connect_arguments)
        self._dialect.opened(connection)
        return connection


def _make_folder(dialect: Dialect) -> None:
    if isinstance(dialect, SqliteDialect):
        make_folder_durably(dialect.path.parent)


class Database:
    """The tables, for code that runs under a reactor.

    :param url: as ``database.url`` in the configuration.
    :param home: a SQLite path is relative to it.
    :param random: for the jitter of retries, and the epoch of a new database.
    :param series: which tables (:mod:`lcc.storage.database.migrations`).
    :param read_seconds: timeout of a query, and :meth:`interact` is read-only; 0: no timeout.
    :param lean: for a role whose reads are few and short: one thread reads instead of three, and SQLite keeps half a
        megabyte of pages for each connection, not 16.
    :raises ConfigError: bad URL.
    """

    def __init__(
        self,
        url: str,
        home: Path,
        reactor: Any,
        settings: DatabaseConfig,
        *,
        random: Random,
        series: str = MAIN,
        read_seconds: float = 0.0,
        lean: bool = False,
    ) -> None:
        self.dialect = dialect_for(url, home, settings)
        self.dialect.read_seconds = read_seconds
        if lean:
            self.dialect.cache_kib = LEAN_CACHE_KIB
        self._readers_max = 1 if lean else READERS_MAX
        self._reactor = reactor
        self.counts = DatabaseCounts()
        self._closing = threading.Event()
        self._policy = RetryPolicy(settings.retries, random, self._closing.wait, self.counts.failed)
        self._schema = _Schema(self.dialect, random, series)
        self._writer: adbapi.ConnectionPool | None = None
        self._readers: adbapi.ConnectionPool | None = None
        self._running: set[Deferred[Any]] = set()

    def __repr__(self) -> str:
        return f"<Database {self.dialect!r}>"

    def start(self) -> None:
        """Accept interactions.  Does not connect yet."""
        if self._writer is None:
            _make_folder(self.dialect)
            self._closing.clear()
            self._writer = self._pool(1, self.dialect.writer_arguments)
            self._readers = self._pool(self._readers_max, self.dialect.reader_arguments)

    def stop(self) -> Deferred[None]:
        """Accept no more interactions, wait for running ones (without retries), and end all threads."""
        self._closing.set()
        pools = [pool for pool in (self._writer, self._readers) if pool is not None]
        self._writer = self._readers = None

        def close(_: Any) -> None:
            for pool in pools:
                pool.close()

        return DeferredList(list(self._running)).addCallback(close)

    def interact(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(txn, *args)`` in a reading thread, as one transaction on one snapshot.

        :raises StoreUnavailable: (as the Deferred's failure) the database is unreachable, or a query timed out.
        """
        return self._run(self._readers, Access.SNAPSHOT, function, args)

    def select(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """As :meth:`interact`, for a function that runs a single SELECT: on MySQL that saves a round trip.

        :raises RuntimeError: (as the Deferred's failure) it ran several.
        """
        return self._run(self._readers, Access.SELECT, function, args)

    def write(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(txn, *args)`` in the writing thread; durable when the Deferred fires.

        :raises StoreUnavailable: (as the Deferred's failure) gave up; it may or may not have been committed.
        """
        return self._run(self._writer, Access.WRITE, function, args)

    def _run(
        self, pool: adbapi.ConnectionPool | None, access: Access, function: Callable[..., T], args: tuple[Any, ...]
    ) -> Deferred[T]:
        if pool is None:
            return fail(StoreUnavailable(f"{self.dialect!r} is closed"))
        result: Deferred[T] = deferToThreadPool(
            self._reactor,
            pool.threadpool,
            run_retrying,
            pool,
            self.dialect,
            self._policy,
            access,
            self._schema.prepare,
            function,
            *args,
        )
        done: Deferred[None] = Deferred()
        self._running.add(done)
        begun = self._reactor.seconds()

        def ended(outcome: Any) -> Any:
            self.counts.ended(access is Access.WRITE, self._reactor.seconds() - begun)
            self._running.discard(done)
            done.callback(None)
            return outcome

        return result.addBoth(ended)

    def _pool(self, threads: int, arguments: dict[str, Any]) -> adbapi.ConnectionPool:
        return adbapi.ConnectionPool(
            self.dialect.driver,
            cp_reactor=self._reactor,
            cp_min=1,
            cp_max=threads,
            cp_openfun=self.dialect.opened,
            **arguments,
        )


class _OneConnection(ConnectionHolder):
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._connection: Any = None

    def connect(self) -> Any:
        if self._connection is None:
            connection = import_module(self._dialect.driver).connect(**self._dialect.writer_arguments)
            try:
                self._dialect.opened(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def disconnect(self, connection: Any) -> None:
        self._connection = None
        connection.close()


class BlockingDatabase:
    """The same for code without a reactor (``lcc-admin``); one thread, one connection.

    The parameters are those of :class:`Database`.
    """

    def __init__(self, url: str, home: Path, settings: DatabaseConfig, *, random: Random, series: str = MAIN) -> None:
        self.dialect = dialect_for(url, home, settings)
        self._holder = _OneConnection(self.dialect)
        self._policy = RetryPolicy(settings.retries, random, self._pause)
        self._schema = _Schema(self.dialect, random, series)
        _make_folder(self.dialect)

    @staticmethod
    def _pause(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    def interact(self, function: Callable[..., T], *args: Any) -> T:
        """Run ``function(txn, *args)`` on one snapshot, read-only.

        :raises StoreUnavailable: the database is unreachable.
        """
        return self._run(Access.SNAPSHOT, function, args)

    def select(self, function: Callable[..., T], *args: Any) -> T:
        """As :meth:`interact`, for a function that runs one SELECT.

        :raises RuntimeError: it ran several.
        """
        return self._run(Access.SELECT, function, args)

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Run ``function(txn, *args)``; durable on return.

        :raises StoreUnavailable: gave up; it may or may not have been committed.
        """
        return self._run(Access.WRITE, function, args)

    def _run(self, access: Access, function: Callable[..., T], args: tuple[Any, ...]) -> T:
        return run_retrying(self._holder, self.dialect, self._policy, access, self._schema.prepare, function, *args)

    def close(self) -> None:
        """Close the connection."""
        connection = self._holder._connection
        if connection is not None:
            self._holder.disconnect(connection)


class DatabaseService(Service):
    """Starts and stops a database with the role that uses it.

    :param tables: which, if the role has several.
    """

    def __init__(self, database: Database, tables: str = "") -> None:
        self.database = database
        self.setName(" ".join(filter(None, ["database", tables, database.dialect.name])))

    def startService(self) -> None:
        super().startService()
        self.database.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self.database.stop()
