"""The database as content users ask it: so many questions wait at most, and none for somebody who has gone away.

There are few reading threads, and while the database is unreachable each of them tries for seconds.  Without a limit,
clients that ask, give up and ask again would fill the memory with questions whose answers nobody waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from lcc.errors import StoreUnavailable
from lcc.roles.cu.answers import Reads
from lcc.storage.database.transactions import Txn

T = TypeVar("T")


class _NobodyWaits(Exception):
    """The question was cancelled before its turn came."""


class Questions:
    """Limits the questions to another :class:`lcc.roles.cu.answers.Reads`.

    :param waiting_max: questions at once; beyond that, and if there is no place, they fail with StoreUnavailable.
    :ivar waiting: how many there are.
    """

    def __init__(self, database: Reads, waiting_max: int) -> None:
        self._database = database
        self._waiting_max = waiting_max
        self.waiting = 0

    def interact(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(txn, *args)`` in a reading thread; a Deferred that is cancelled before takes nobody's time.

        :raises StoreUnavailable: (as the Deferred's failure) the database cannot be reached, or too many ask.
        """
        return self._run(self._database.interact, function, args)

    def select(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """The same, for a function that runs one SELECT."""
        return self._run(self._database.select, function, args)

    def _run(self, run: Callable[..., Deferred[T]], function: Callable[..., T], args: tuple[Any, ...]) -> Deferred[T]:
        if self.waiting >= self._waiting_max:
            return fail(StoreUnavailable("too many questions wait for the database"))
        self.waiting += 1
        result: Deferred[T] = Deferred()

        def ask(txn: Txn) -> T:
            if result.called:  # cancelled
                raise _NobodyWaits
            return function(txn, *args)

        def answered(outcome: T | Failure) -> None:
            self.waiting -= 1
            if not result.called:
                result.callback(outcome)  # a failure calls its errbacks

        run(ask).addBoth(answered)
        return result
