"""Questions to a database that somebody waits for."""

from __future__ import annotations

from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from lcc.errors import StoreUnavailable

T = TypeVar("T")


def in_time(question: Deferred[T], clock: IReactorTime, seconds: float) -> Deferred[T]:
    """What the database answers, if it does in time; a later answer is of no interest.

    :raises StoreUnavailable: (as the Deferred's failure) it does not.
    """

    def late(_result: Any, _seconds: float) -> Any:
        raise StoreUnavailable("the database is not responding")

    answer: Deferred[T] = Deferred()
    question.addBoth(lambda result: None if answer.called else answer.callback(result))
    return answer.addTimeout(seconds, clock, late)
