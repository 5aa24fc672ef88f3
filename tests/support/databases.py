"""Empty databases on each backend, and the real tables asked in the calling thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import MAIN
from lcc.storage.database.transactions import Txn
from lcc.testing.galera import galera_library
from lcc.testing.mariadb import MariaDbMissing


def need_galera() -> None:
    """Skip where its library is not installed."""
    try:
        galera_library()
    except MariaDbMissing as missing:
        pytest.skip(str(missing))


@attrs.frozen
class Backend:
    """An empty database.

    :ivar kind: ``sqlite``, ``mariadb`` or ``galera``.
    :ivar url: as for ``database.url``.
    :ivar home: an empty folder.
    """

    kind: str
    url: str
    home: Path


T = TypeVar("T")
Tables = dict[str, list[tuple[Any, ...]]]


def table_names(txn: Txn) -> list[str]:
    """All tables."""
    sqlite = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    return [name for (name,) in txn.query(sqlite if txn.dialect.name == "sqlite" else "SHOW TABLES")]


def dumped(txn: Txn) -> Tables:
    """A backup."""
    return {name: txn.query(f"SELECT * FROM {name}") for name in table_names(txn)}


def put_back(txn: Txn, tables: Tables) -> None:
    """All is as it was; who uses the database notices nothing."""
    for name, rows in tables.items():
        txn.execute(f"DELETE FROM {name}")
        for row in rows:
            txn.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))


SETTINGS = DatabaseConfig(retries=3)


WAITS_SECONDS = 0.5
"""After so long, somebody who waits for a lock does wait."""
PATIENT_SECONDS = 60.0
"""How long a loaded machine may take."""


def at_once(both: tuple[BlockingDatabase, BlockingDatabase], first: Callable[[Txn], Any], then: Any) -> Any:
    """Begin the second one before the first one is committed.

    :returns: what came of the second one: its result, or why it failed.
    """
    done, go_on = threading.Event(), threading.Event()

    def slowly(txn: Txn) -> None:
        first(txn)
        done.set()
        go_on.wait(PATIENT_SECONDS)

    with ThreadPoolExecutor(2) as threads:
        earlier = threads.submit(both[0].write, slowly)
        assert done.wait(PATIENT_SECONDS)
        later = threads.submit(both[1].write, then)
        later_ended = threading.Event()
        later.add_done_callback(lambda _: later_ended.set())
        later_ended.wait(WAITS_SECONDS)
        go_on.set()
        earlier.result(PATIENT_SECONDS)
        return later.exception(PATIENT_SECONDS) or later.result()


class DirectDatabase:
    """In place of a Database: the same, at once, in this thread.

    :ivar lose: so many of the next writes are done twice (the first one's commit is not believed).
    :ivar fail_after: so many of the next writes are done, but fail with StoreUnavailable all the same.
    """

    def __init__(self, url: str, home: Path, series: str = MAIN) -> None:
        self.blocking = BlockingDatabase(url, home, SETTINGS, random=Random(1), series=series)
        self.dialect = self.blocking.dialect
        self.lose = 0
        self.fail_after = 0
        self.blocking.interact(lambda txn: None)
        if self.dialect.name == "sqlite":
            self.blocking._holder.connect().execute("PRAGMA synchronous=OFF")

    def now(self, function: Callable[..., T], *args: Any) -> T:
        return self.blocking.write(function, *args)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.blocking.interact(lambda txn: txn.query(sql, parameters))

    def interact(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        return self._do(self.blocking.interact, function, args)

    def select(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        return self._do(self.blocking.select, function, args)

    def write(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        if self.lose > 0:
            self.lose -= 1
            self.blocking.write(function, *args)
        result = self._do(self.blocking.write, function, args)
        if self.fail_after > 0:
            self.fail_after -= 1
            result.addErrback(lambda _: None)
            return fail(StoreUnavailable("its commit was not heard of"))
        return result

    def _do(self, do: Callable[..., T], function: Callable[..., T], args: tuple[Any, ...]) -> Deferred[T]:
        try:
            return succeed(do(function, *args))
        except Exception as error:
            return fail(error)


def result_of(deferred: Deferred[T]) -> T:
    """The result that a Deferred has by now."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    assert results, "it has no result yet"
    if hasattr(results[0], "raiseException"):
        results[0].raiseException()
    return results[0]
