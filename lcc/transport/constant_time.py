"""Answers that tell nothing by when they come."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime


def constant_time(clock: IReactorTime, begun: float, step_seconds: float) -> Deferred[None]:
    """Fires at the next multiple of some seconds: what was done until then could have taken any other time.

    :param begun: when the question came, of the clock.
    """
    passed = clock.seconds() - begun
    done: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = clock.callLater(step_seconds * (passed // step_seconds + 1) - passed, lambda: done.callback(None))
    return done
