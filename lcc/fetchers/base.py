"""What fetchers of small protocols are made from: a coroutine for one fetch; limits, deadline and end are done here.

The fetcher of http does not use this: it has ten thousand fetches a second to think of.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHostnameResolver
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.dial import Dialer
from lcc.fetchers.download import Connections, Download
from lcc.fetchers.steps import Steps
from lcc.interfaces import IContentSink, IWatchedFetcher
from lcc.model import Fetched, FetchOrder, FetchStep


@implementer(IContentSink)
class Task:
    """One fetch that is going on, and the way into its sink.

    :ivar order: what was asked for.
    :ivar size_bytes: of the content so far.
    :ivar wire_bytes: what has travelled so far; the content is counted by ``lcc.fetchers.download.Download``.
    """

    def __init__(self, order: FetchOrder, sink: IContentSink, size_max_bytes: int) -> None:
        self.order = order
        self.size_bytes = 0
        self.wire_bytes = 0
        self._sink = sink
        self._size_max_bytes = size_max_bytes

    def write(self, data: bytes) -> None:
        """Take the next bytes of the content.

        :raises FetchError: "body-too-long", "store-failed".
        """
        self.check_size(self.size_bytes + len(data))
        try:
            self._sink.write(data)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise FetchError("store-failed", reason) from None
        self.size_bytes += len(data)

    def check_size(self, size_bytes: int) -> None:
        """May the content become so large?

        :raises FetchError: "body-too-long".
        """
        if size_bytes > self._size_max_bytes:
            raise FetchError("body-too-long", f"more than {self._size_max_bytes} bytes")


@implementer(IWatchedFetcher)
class CoroutineFetcher(ABC):
    """A fetcher whose fetch is one coroutine, :meth:`run`.

    :param reactor: connects, resolves, and is the clock.
    :param resolver: None: the machine's.
    :ivar dialer: makes guarded connections.
    :ivar connections: those that are open; each protocol that is dialled must report to it.
    :ivar steps: what may be told to a person who looks on.
    """

    schemes: Sequence[str] = ()

    def __init__(self, reactor: Any, settings: BotConfig, resolver: IHostnameResolver | None = None) -> None:
        self.reactor = reactor
        self.settings = settings
        self.steps = Steps(reactor)
        self.dialer = Dialer(reactor, settings, resolver, self.steps)
        self.connections = Connections()
        self._running: set[Deferred[Fetched]] = set()
        self._closing = False

    @abstractmethod
    async def run(self, task: Task) -> Fetched:
        """Fetch one URL: write its content to the task, and tell about it (``wire_bytes`` is filled in).

        It is cancelled when its time is over, or when nobody wants it any longer.

        :raises FetchError: what went wrong.
        """

    def download(self, task: Task) -> Download:
        """A protocol that takes all that a connection brings as the content."""
        return Download(self.reactor, self.settings.idle_timeout, task, self.connections, self.steps)

    def fetch(self, order: FetchOrder, sink: IContentSink, follow: Callable[[str, str], str]) -> Deferred[Fetched]:
        """As :meth:`lcc.interfaces.IFetcher.fetch`."""
        task = Task(order, sink, self.settings.body_bytes_max)

        def late(result: Any, _seconds: float) -> Any:
            return Failure(FetchError("deadline")) if isinstance(result, Failure) else result

        def ended(result: Any) -> Any:
            self._running.discard(running)
            if isinstance(result, Failure):
                # Whatever it is, a cancellation too: what travelled is paid for.
                result.value.wire_bytes = task.wire_bytes  # type: ignore[union-attr]  # any exception takes it
                return result
            return result._replace(wire_bytes=task.wire_bytes)

        if self._closing:
            running: Deferred[Fetched] = Deferred()
            running.errback(FetchError("robot-error", "the robot is stopping"))
            return running
        running = Deferred.fromCoroutine(self.run(task))
        self._running.add(running)
        running.addTimeout(self.settings.deadline, self.reactor, late)
        running.addBoth(ended)
        return running

    def watch(self, watcher: Callable[[FetchStep], None]) -> None:
        """As :meth:`lcc.interfaces.IWatchedFetcher.watch`."""
        self.steps.watch = watcher

    def close(self) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFetcher.close`; fetches that still run end as cancelled."""
        self._closing = True
        for running in list(self._running):
            running.cancel()
        self.dialer.close()
        return self.connections.close()
