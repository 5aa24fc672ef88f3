"""Threads that ask the database, each by a connection of its own.

A question costs two wake-ups, of a thread and of the reactor, and as little Python as possible in between: Twisted's
thread pool takes twice as long for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure

from lcc.storage.database.retry import ConnectionHolder

P = ParamSpec("P")
T = TypeVar("T")

_Job = Callable[[], None]


class Threads(ConnectionHolder):
    """Runs functions in threads, which start when they are needed.  Its methods are called in the reactor's thread.

    :param name: of the threads.
    :param count: threads at most.
    :param opened: makes a connection.
    """

    def __init__(self, reactor: IReactorFromThreads, name: str, count: int, opened: Callable[[], Any]) -> None:
        self._reactor = reactor
        self._name = name
        self._count = count
        self._opened = opened
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._own = threading.local()

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """Call it in a thread; those that wait are called in the order in which they came."""
        result: Deferred[T] = Deferred()
        tell = self._reactor.callFromThread

        def job() -> None:
            try:
                value = function(*args, **kwargs)
            except BaseException:
                tell(self._ended, result.errback, Failure())
            else:
                tell(self._ended, result.callback, value)

        self._busy += 1
        if self._busy > len(self._threads) < self._count:
            # Daemons: whoever ends a process without stop() is not to wait for a database.
            thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put(job)
        return result

    def _ended(self, answer: Callable[[Any], None], result: Any) -> None:
        self._busy -= 1
        answer(result)

    def close(self) -> None:
        """End all threads, and close their connections.  Nothing may be running."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    # In a thread.

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # while the next one is waited for it would keep what it was about
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            self.disconnect(connection)

    def connect(self) -> Any:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._opened()
        return connection

    def disconnect(self, connection: Any) -> None:
        self._own.connection = None
        connection.close()
