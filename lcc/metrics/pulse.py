"""Reactor lag: the one metric that shows whatever blocks the reactor."""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from lcc.model.metrics import Histogram

BEAT_SECONDS = 0.5
LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Pulse:
    """Schedules a call and measures how late it comes.

    :ivar lags: of all beats since the start, in seconds.
    :ivar last_seconds: of the last one.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._call: IDelayedCall | None = None
        self._due = 0.0
        self.lags = Histogram(LAG_SECONDS)
        self.last_seconds = 0.0

    def start(self) -> None:
        """Begin."""
        self._due = self._clock.seconds() + BEAT_SECONDS
        self._call = self._clock.callLater(BEAT_SECONDS, self._beat)

    def stop(self) -> None:
        """End."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _beat(self) -> None:
        self.last_seconds = max(0.0, self._clock.seconds() - self._due)
        self.lags.add(self.last_seconds)
        self.start()
