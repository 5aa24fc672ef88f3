"""Whether it is certain when something began that was just read.

A process may have stood still (a machine suspended, a disk that hung): what it reads then may have come long ago, and
who sent it may have gone meanwhile, and have told something newer elsewhere.
"""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall, IReactorTime

_BEAT_SECONDS = 0.5
CERTAIN_SECONDS = 1.5
"""What took longer says nothing of when it began."""


class Standstills:
    """Looks whether this process stands still, while it is told to."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._call: IDelayedCall | None = None
        self._last_beat = self._uncertain_until = clock.seconds()

    def watch(self, watching: bool) -> None:
        """Begin to look, or end it."""
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        if watching:
            self._last_beat = self._clock.seconds()
            self._call = self._clock.callLater(_BEAT_SECONDS, self._beat)

    def certain_time(self) -> float | None:
        """When what was just read began, by the clock: now; None: that is not certain."""
        now = self._clock.seconds()
        self._look(now)
        return now if now >= self._uncertain_until else None

    def is_certain(self, since: float | None) -> bool:
        """Whether what has this :meth:`certain_time` still counts as begun just now."""
        return since is not None and self._clock.seconds() - since <= CERTAIN_SECONDS

    def _beat(self) -> None:
        now = self._clock.seconds()
        self._look(now)
        self._last_beat = now
        self._call = self._clock.callLater(_BEAT_SECONDS, self._beat)

    def _look(self, now: float) -> None:
        if now - self._last_beat > _BEAT_SECONDS + CERTAIN_SECONDS:
            self._uncertain_until = now + CERTAIN_SECONDS
