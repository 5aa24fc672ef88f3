"""Around one part of the queue manager: a hub that notes what it is told, and a store that answers by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from lcc.errors import Busy, StoreUnavailable, StreamError
from lcc.model import Absorbed, Recorded
from lcc.protocols.flat import Flat
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.part import StoreRetry
from lcc.roles.qm.peers.handler import Handler

NOW = 1_700_000_000
NOTHING_ABSORBED = Absorbed((), {}, frozenset(), False)
NOTHING_RECORDED = Recorded((), {}, {}, False)


class FakeHub:
    """A :class:`lcc.roles.qm.part.Hub`.

    :ivar pumps: how often it was told that something has changed.
    :ivar ended: what a newer queue manager has said.
    """

    def __init__(self) -> None:
        self.clock: Any = Clock()
        self.wall_clock: Callable[[], float] = lambda: NOW + self.clock.seconds()
        self.retry = StoreRetry(self.clock, lambda: 1.0)
        self.run = 1
        self.machines: list[Machine] = []
        self.progress = ("timeline", 7)
        self.pumps = 0
        self.all_absorbed: list[Absorbed] = []
        self.all_recorded: list[Recorded] = []
        self.ended: list[Busy] = []

    def now(self) -> int:
        return int(self.wall_clock())

    def pump(self) -> None:
        self.pumps += 1

    def absorbed(self, outcome: Absorbed) -> None:
        self.all_absorbed.append(outcome)

    def recorded(self, outcome: Recorded) -> None:
        self.all_recorded.append(outcome)

    def fatal(self, error: Busy) -> None:
        self.ended.append(error)


class Question(NamedTuple):
    """What the store was asked, and not yet answered."""

    name: str
    args: tuple[Any, ...]
    answer: Deferred[Any]


class SlowStore:
    """An IQueueStore that answers when it is told to.

    :ivar open: the questions that wait, in order.
    :ivar asked: the names of all questions so far.
    """

    def __init__(self) -> None:
        self.open: list[Question] = []
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Deferred[Any]]:
        def ask(*args: Any) -> Deferred[Any]:
            question = Question(name, args, Deferred(lambda _: self.open.remove(question)))
            self.open.append(question)
            self.asked.append(name)
            return question.answer

        return ask

    @property
    def names(self) -> list[str]:
        """Of the questions that wait."""
        return [question.name for question in self.open]

    def answer(self, value: Any = None, name: str = "") -> tuple[Any, ...]:
        """Answer the first one that waits; gives what it was about.

        :param name: the first of these.
        """
        question = self._take(name)
        question.answer.callback(value)
        return question.args

    def fail(self, error: Exception, name: str = "") -> tuple[Any, ...]:
        """The same, with an error."""
        question = self._take(name)
        question.answer.errback(error)
        return question.args

    def unavailable(self, name: str = "") -> tuple[Any, ...]:
        """The database is unavailable."""
        return self.fail(StoreUnavailable("connection refused"), name)

    def busy(self, name: str = "") -> tuple[Any, ...]:
        """A newer queue manager has claimed the database."""
        return self.fail(Busy("a newer queue manager"), name)

    def _take(self, name: str) -> Question:
        question = next(each for each in self.open if name in ("", each.name))
        self.open.remove(question)
        return question


class FakeConnection:
    """A :class:`lcc.roles.qm.peers.handler.Connection`."""

    def __init__(self, name: str = "peer") -> None:
        self.name = name
        self.handler: Handler | None = None
        self.said: list[Flat] = []
        self.left = False
        self.dropped = False
        self.errors: list[StreamError] = []

    def describe(self) -> str:
        return self.name

    def say(self, message: Flat) -> None:
        self.said.append(message)

    def peer_clock_ms(self) -> int | None:
        return None

    def stream_failed(self, error: StreamError) -> None:
        self.errors.append(error)
        self.drop()

    def leave(self) -> None:
        self.left = True

    def drop(self) -> None:
        self.dropped = True
        handler, self.handler = self.handler, None
        if handler is not None:
            handler.lost()

    def heard(self, kind: type[Flat]) -> list[Any]:
        """What of this kind was said to it."""
        return [message for message in self.said if isinstance(message, kind)]
