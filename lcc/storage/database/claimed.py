"""Tables that one process writes at a time: a newer one fences older ones off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from lcc.errors import Busy
from lcc.storage.database.database import Database
from lcc.storage.database.locked_counter import draw, locked_counter
from lcc.storage.database.transactions import Txn

T = TypeVar("T")


class ClaimedTables:
    """
    :param name: of whoever writes them; its counters in ``meta`` begin so.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._run = -1  # claim() makes it valid

    def claim(self) -> Deferred[None]:
        """Become the one that may write."""

        def work(txn: Txn) -> int:
            draw(txn, f"{self._name}_writes")
            return draw(txn, f"{self._name}_run")

        def claimed(run: int) -> None:
            self._run = run

        return self._database.write(work).addCallback(claimed)

    def select(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Read."""
        return self._database.interact(function, *args)

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
                raise Busy(f"another {self._name} has claimed the database")
            return function(txn, *args)

        return self._database.write(work)
