"""Writing a long reply: the next piece is made when the one before has left."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IPushProducer
from twisted.web.http import Request
from zope.interface import implementer


@implementer(IPushProducer)
class Outlet:
    """The body of a reply, with back-pressure: ``write``, then wait for ``room()``."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._paused = False
        self._waiting: Deferred[None] | None = None
        request.registerProducer(self, True)

    def write(self, data: bytes) -> None:
        """Send the next bytes."""
        if data:
            self._request.write(data)

    def room(self) -> Deferred[None]:
        """Fires when more can be sent."""
        if not self._paused:
            return succeed(None)
        self._waiting = Deferred()
        return self._waiting

    def finish(self) -> None:
        """That was all."""
        self._request.unregisterProducer()
        self._request.finish()

    # IPushProducer.

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    def stopProducing(self) -> None:
        # The request's own notification cancels whoever writes.
        self._paused = True
