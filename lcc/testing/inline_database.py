"""A database that answers in the same call: the real tables and the real SQL, without threads.

For tests that run a role under a simulated clock.  Interactions can be made to fail, to be done without their result
getting through, or to wait until the test lets them happen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail, succeed

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.metrics import DatabaseCounts
from lcc.storage.database.migrations import MAIN

T = TypeVar("T")


class InlineDatabase:
    """In place of :class:`lcc.storage.database.database.Database`.

    :param url: as ``database.url`` in the configuration.
    :param series: which tables (:mod:`lcc.storage.database.migrations`).
    :ivar unavailable: everything fails with StoreUnavailable.
    :ivar full: writes fail with StoreUnavailable, as on a full disk.
    :ivar lose_results: so many of the next writes are done, but fail with StoreUnavailable all the same.
    :ivar waiting: while :meth:`hold_back` is in force: what was asked for and has not happened; True for a write.
    """

    def __init__(self, home: Path, random: Random, url: str = "sqlite:lcc.db", series: str = MAIN) -> None:
        self._database = BlockingDatabase(url, home, DatabaseConfig(retries=0), random=random, series=series)
        # Tests end before the machine does.
        self._database.interact(lambda txn: None)
        self.dialect = self._database.dialect
        self.counts = DatabaseCounts()
        if self.dialect.name == "sqlite":
            self._database._holder.connect().execute("PRAGMA synchronous=OFF")
        self.unavailable = self.full = False
        self.lose_results = 0
        self.waiting: list[tuple[bool, Callable[[], None]]] = []
        self._held_back = False

    def interact(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """As :meth:`lcc.storage.database.database.Database.interact`."""
        return self._ask(self._database.interact, False, function, args)

    def select(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """As :meth:`lcc.storage.database.database.Database.select`."""
        return self._ask(self._database.select, False, function, args)

    def write(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """As :meth:`lcc.storage.database.database.Database.write`."""
        return self._ask(self._database.write, True, function, args)

    def now(self, function: Callable[..., T], *args: Any) -> T:
        """For the test itself: run it, whatever is the matter with the database."""
        return self._database.write(function, *args)

    def hold_back(self) -> None:
        """From now on nothing happens until :meth:`step`."""
        self._held_back = True

    def step(self, index: int = 0) -> None:
        """Let one thing happen: a read, or else the write that was asked for first (they keep their order)."""
        write, happen = self.waiting[index]
        if write:
            index = next(at for at, (is_write, _) in enumerate(self.waiting) if is_write)
            happen = self.waiting[index][1]
        del self.waiting[index]
        happen()

    def let_go(self) -> None:
        """Let everything happen that waits, and whatever comes."""
        self._held_back = False
        while self.waiting:
            self.step()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _ask(
        self, run: Callable[..., T], write: bool, function: Callable[..., T], args: tuple[Any, ...]
    ) -> Deferred[T]:
        if not self._held_back:
            return self._do(run, write, function, args)
        result: Deferred[T] = Deferred()

        def happen() -> None:
            done = self._do(run, write, function, args)
            if result.called:  # it was cancelled; the thread of the real one carries it out all the same
                done.addErrback(lambda _: None)
            else:
                done.chainDeferred(result)

        self.waiting.append((write, happen))
        return result

    def _do(
        self, run: Callable[..., T], write: bool, function: Callable[..., T], args: tuple[Any, ...]
    ) -> Deferred[T]:
        if self.unavailable:
            return fail(StoreUnavailable("switched off by the test"))
        if write and self.full:
            return fail(StoreUnavailable("database or disk is full"))
        try:
            result = run(function, *args)
        except Exception:
            return fail()
        if write and self.lose_results:
            self.lose_results -= 1
            return fail(StoreUnavailable("done, but switched off by the test"))
        return succeed(result)
