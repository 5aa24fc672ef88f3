"""How slowly a long reply may be read."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from lcc.transport.http import streaming as http_streaming


class Taking:
    """Stands for a request."""

    def __init__(self) -> None:
        self.channel = self
        self.aborted = False

    def notifyFinish(self) -> Deferred[None]:
        return Deferred()

    def registerProducer(self, *_: object) -> None: ...

    def write(self, data: bytes) -> None: ...

    def forceAbortClient(self) -> None:
        self.aborted = True

    def unregisterProducer(self) -> None: ...


def test_how_slow_is_too_slow() -> None:
    """What waits for the client has to be taken at that rate, or within half a minute."""
    for written, rate, taken_after, dropped in (
        (1_000_000, 10_000, 99, False),
        (1_000_000, 10_000, 101, True),
        (1000, 10_000, 29, False),
        (1000, 10_000, 31, True),
        (100_000_000, 10_000, 299, False),
        (100_000_000, 10_000, 301, True),
        (1000, 0, 299, False),
    ):
        clock = Clock()
        request: Any = Taking()
        writer = http_streaming.HttpWriter(request, clock, 300.0, rate)
        writer.write(b"x" * written)
        writer.pause()
        clock.advance(taken_after)
        assert request.aborted is dropped, (written, rate, taken_after)
        writer.resume()
        writer.stop()
        assert not clock.getDelayedCalls()


def test_the_rate_is_that_of_all_the_time_that_was_waited() -> None:
    """Who takes little again and again is dropped, although each time it is not waited for long; who has taken much
    may pause."""

    def dropped(rounds: int, written: int, seconds: float, pause: float = 0.0) -> bool:
        clock = Clock()
        request: Any = Taking()
        writer = http_streaming.HttpWriter(request, clock, 300.0, 10_000)
        for _ in range(rounds):
            writer.write(b"x" * written)
            writer.pause()
            clock.advance(seconds)
            writer.resume()
            writer.resume()
            clock.advance(1000)  # while nothing waits for it
        if pause:
            writer.pause()
            clock.advance(pause)
        writer.stop()
        return bool(request.aborted)

    assert not dropped(100, 100_000, 9.9) and not dropped(2, 100_000, 14.9)
    assert dropped(5, 100_000, 10.1) and dropped(2, 65_536, 29.0)
    assert not dropped(30, 100_000, 0.1, pause=200) and dropped(30, 100_000, 0.1, pause=298)
    assert dropped(1000, 1_000_000, 0.1, pause=301)
