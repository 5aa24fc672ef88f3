"""Tables that one process writes at a time: a newer one fences older ones off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from lcc.errors import Busy
from lcc.storage.database.database import Database
from lcc.storage.database.tables.locked_counter import draw, locked_counter
from lcc.storage.database.transactions import Txn

T = TypeVar("T")


class ClaimedTables:
    """
    :param name: its counters in ``meta`` begin so.
    :param writer: whoever writes them, as messages say.
    """

    def __init__(self, database: Database, name: str, writer: str) -> None:
        self._database = database
        self._name = name
        self._taken = f"another {writer} has claimed the database"
        self._run = -1  # claim() makes it valid

    def claim(self, function: Callable[[Txn], T]) -> Deferred[T]:
        """Become the one that may write, and run ``function(txn)`` in the same transaction."""

        def work(txn: Txn) -> tuple[int, T]:
            draw(txn, f"{self._name}_writes")
            run = draw(txn, f"{self._name}_run")
            return run, function(txn)

        def claimed(result: tuple[int, T]) -> T:
            self._run = result[0]
            return result[1]

        return self._database.write(work).addCallback(claimed)

    def check(self) -> Deferred[None]:
        """Fails with Busy when another process has claimed the tables."""
        run = self._run

        def work(txn: Txn) -> None:
            if int(txn.value("SELECT value FROM meta WHERE name = ?", [f"{self._name}_run"], 0)) != run:
                raise Busy(self._taken)

        return self._database.select(work)

    def write(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(txn, *args)`` in a transaction.

        :raises Busy: (as the Deferred's failure) another process has claimed the tables.
        """
        run = self._run

        def work(txn: Txn) -> T:
            if txn.dialect.certifies:
                # Locks are local to a node: both change the row, and one of the two commits.
                txn.execute("UPDATE meta SET value = value + 1 WHERE name = ?", [f"{self._name}_writes"])
            if locked_counter(txn, f"{self._name}_run") != run:
                raise Busy(self._taken)
            return function(txn, *args)

        return self._database.write(work)
