"""How slowly a long reply may be read."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from lcc.users.web import streaming


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
        outlet = streaming.Outlet(request, clock, 300.0, rate)
        outlet.write(b"x" * written)
        outlet.pause()
        clock.advance(taken_after)
        assert request.aborted is dropped, (written, rate, taken_after)
        outlet.resume()
        outlet.stop()
        assert not clock.getDelayedCalls()
