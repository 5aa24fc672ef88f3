"""The fetches of a robot, counted."""

from __future__ import annotations

from lcc.domain.fetches.results import ResultCounts
from lcc.model.metrics import Histogram

FETCH_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class FetchCounters:
    """Fetches since the start, for the console and the metrics.

    :ivar results: how they ended.
    :ivar seconds: by that, how long they took.
    :ivar abandoned: that did not end when they were told to.
    """

    def __init__(self) -> None:
        self.results = ResultCounts()
        self.seconds: dict[str, Histogram] = {}
        self.abandoned = 0

    def ended(self, code: int, unchanged: bool, wire_bytes: int, content_bytes: int, seconds: float) -> None:
        """One has ended."""
        name = self.results.ended(code, unchanged, wire_bytes, content_bytes)
        histogram = self.seconds.get(name)
        if histogram is None:
            histogram = self.seconds[name] = Histogram(FETCH_SECONDS)
        histogram.add(seconds)
