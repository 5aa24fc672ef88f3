"""A body that is taken apart as it comes, a little ahead of whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer
from twisted.python.failure import Failure
from zope.interface import implementer

T = TypeVar("T")


@implementer(IConsumer)
class Ahead(Generic[T]):
    """The parts of a body; it is paused while enough of them wait.

    :param split: gives the parts that are complete with these bytes; what it raises ends the body.
    :param weigh: what a part counts.
    :param weight_max: parts that count as much together are enough.
    """

    def __init__(self, split: Callable[[bytes], list[T]], weigh: Callable[[T], int], weight_max: int) -> None:
        self._split = split
        self._weigh = weigh
        self._weight_max = weight_max
        self._weight = 0
        self._parts: list[T] = []
        """The next one is last: popping it is cheap."""
        self._producer: Any = None
        self._paused = False
        self._waiting: Deferred[None] | None = None
        self._over = False
        self._failure: Failure | None = None

    async def next(self) -> T | None:
        """The next part; None: there are no more.

        :raises HttpFailed: the connection was lost.
        """
        while not self._parts:
            if self._failure is not None:
                self._failure.raiseException()
            if self._over:
                return None
            if self._paused:
                self._paused = False
                self._producer.resumeProducing()
                continue
            self._waiting = Deferred()
            await self._waiting
        part = self._parts.pop()
        self._weight -= self._weigh(part)
        return part

    def end(self, result: Any) -> None:
        """The body has ended."""
        self._over = True
        if isinstance(result, Failure) and self._failure is None:
            self._failure = result
        self._wake()

    # IConsumer.

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._producer = producer

    def unregisterProducer(self) -> None:
        self._producer = None

    def write(self, data: bytes) -> None:
        if self._failure is not None:
            return
        try:
            parts = self._split(data)
        except Exception:
            self._failure = Failure()
            if self._producer is not None:
                self._producer.stopProducing()
            return
        if parts:
            self._parts = [*reversed(parts), *self._parts]
            self._weight += sum(map(self._weigh, parts))
            self._wake()
        if self._weight >= self._weight_max and not self._paused and self._producer is not None:
            self._paused = True
            self._producer.pauseProducing()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)
