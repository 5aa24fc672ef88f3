"""Questions to the database that are asked together share one interaction.

A thread is woken, and a transaction is committed, once for all of them: what is asked while an interaction runs waits
for the next one.  A question that comes alone is asked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.errors import StoreUnavailable

Q = TypeVar("Q")
A = TypeVar("A")

_log = Logger()

TOGETHER_MAX = 500
"""Questions in one interaction; fewer than the values of one IN list."""


class Gathering(Generic[Q, A]):
    """Asks one interaction at a time.

    :param interact: answers many questions, in their order.
    """

    def __init__(self, interact: Callable[[list[Q]], Deferred[Sequence[A]]]) -> None:
        self._interact = interact
        self._waiting: list[tuple[Q, Deferred[A]]] = []
        self._busy = False

    def ask(self, question: Q) -> Deferred[A]:
        """The answer to this question; fails as the interaction does."""
        answer: Deferred[A] = Deferred()
        self._waiting.append((question, answer))
        if not self._busy:
            self._busy = True
            Deferred.fromCoroutine(self._work()).addErrback(
                lambda failure: _log.failure("Cannot ask the database", failure=failure)
            )
        return answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                some, self._waiting = self._waiting[:TOGETHER_MAX], self._waiting[TOGETHER_MAX:]
                await self._ask_together(some)
        finally:
            self._busy = False

    async def _ask_together(self, some: list[tuple[Q, Deferred[A]]]) -> None:
        try:
            answers = await self._interact([question for question, _ in some])
        except Exception as error:
            if len(some) == 1 or isinstance(error, StoreUnavailable):
                for _, answer in some:
                    answer.errback(error)
                return
            # One of them is wrong in itself; the others are not to suffer from it.
            for each in some:
                await self._ask_together([each])
            return
        for (_, answer), found in zip(some, answers, strict=True):
            answer.callback(found)
