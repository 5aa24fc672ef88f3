"""The wall clock, looked at together with one that is never set: so it is noticed when somebody sets it.

What is measured runs on the other clock, and nothing happens to it.  But the queue manager and the scheduler also
wait for times of day, and keep times that outlast them in the database: those must be worked out anew.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.domain.wording import duration

_log = Logger()

STEP_SECONDS = 2.0
"""The wall clock was set by this, or more.  A clock that is set right slowly (NTP) differs less between two looks,
which are a second apart."""
_STILL_SECONDS = 0.2


def tell_step(step: float, when: str = "") -> None:
    """Log that the wall clock was set by so many seconds; less than 0: back.

    :param when: such as " while no queue manager ran".
    """
    _log.warn(
        "The wall clock was set {direction} by {seconds} s ({text}){when}",
        direction="forward" if step > 0 else "back",
        seconds=round(abs(step)),
        text=duration(abs(step)),
        when=when,
    )


class WallClock:
    """Called, it gives seconds since 1970.

    :param now: the wall clock as the machine has it.
    :param clock: one that is never set.
    :param stepped: called at the first look after the wall clock was set, before that look is answered: by how many
        seconds; less than 0: back.
    """

    def __init__(self, now: Callable[[], float], clock: IReactorTime, stepped: Callable[[float], None]) -> None:
        self._now = now
        self._clock = clock
        self._stepped = stepped
        self._ahead = now() - clock.seconds()

    def __call__(self) -> float:
        begun = self._clock.seconds()
        wall = self._now()
        ended = self._clock.seconds()
        if ended - begun < _STILL_SECONDS:  # else the process stood still in between, which looks like a step
            step, self._ahead = wall - ended - self._ahead, wall - ended
            if abs(step) >= STEP_SECONDS:
                tell_step(step)
                self._stepped(step)
        return wall
