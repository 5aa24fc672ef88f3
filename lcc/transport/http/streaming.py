"""Writing a long reply: more is made when what there is has left; who does not read is dropped."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IConsumer, IPushProducer, IReactorTime
from twisted.web.http import Request
from zope.interface import implementer

from lcc.transport.http.client import Watch

SLOW_SECONDS = 30.0
"""Nobody is too slow who has been waited for less than this."""


@implementer(IPushProducer)
class _Producer:
    """What the request pauses and resumes."""

    def __init__(self, writer: HttpWriter) -> None:
        self._writer = writer

    def pauseProducing(self) -> None:
        self._writer.pause()

    def resumeProducing(self) -> None:
        self._writer.resume()

    def stopProducing(self) -> None:
        self._writer.stop()


@implementer(IConsumer)
class HttpWriter:
    """The body of a reply, with back-pressure: ``write``, then wait for ``room()``; or give it to a producer.

    :param stall_seconds: a client that takes nothing for so long while something waits for it is dropped.
    :param rate_min: one that has taken fewer bytes per second, on the average of all the time in which something
        waited for it, is dropped after half a minute of that; 0: no such limit.  So who reads fast may pause.
    """

    def __init__(self, request: Request, clock: IReactorTime, stall_seconds: float, rate_min: int = 0) -> None:
        self._request = request
        self._clock = clock
        self._stall = stall_seconds
        self._rate_min = rate_min
        self._sent_bytes = 0
        self._waited_seconds = 0.0
        self._paused_since = 0.0
        self._watch = Watch(clock, stall_seconds)
        self._paused = False
        self._waiting: Deferred[None] | None = None
        self._source: Any = None
        self._over = False
        request.notifyFinish().addBoth(lambda _: self.stop())
        request.registerProducer(_Producer(self), True)

    @property
    def full(self) -> bool:
        """The client has not taken what it was sent."""
        return self._paused

    def write(self, data: bytes) -> None:
        """Send the next bytes."""
        if data and not self._over:
            self._sent_bytes += len(data)
            self._request.write(data)

    def room(self) -> Deferred[None]:
        """Fires when more can be sent."""
        if not self._paused:
            return succeed(None)
        self._waiting = Deferred()
        return self._waiting

    def close(self) -> None:
        """Nothing more comes; the reply itself is not finished by that."""
        if not self._over:
            self.stop()
            self._request.unregisterProducer()

    def finish(self) -> None:
        """That was all."""
        self.close()
        self._request.finish()

    # What the request asks for.

    def pause(self) -> None:
        """It cannot take more now."""
        if not self._paused:
            self._paused = True
            self._paused_since = self._clock.seconds()
            if self._rate_min:
                allowed = max(SLOW_SECONDS, self._sent_bytes / self._rate_min) - self._waited_seconds
                self._watch = Watch(self._clock, max(0.0, min(self._stall, allowed)))
            self._watch.start(self._abort)
            if self._source is not None:
                self._source.pauseProducing()

    def resume(self) -> None:
        """It can again."""
        if self._paused:
            self._paused = False
            self._waited_seconds += self._clock.seconds() - self._paused_since
        self._watch.stop()
        if self._source is not None:
            self._source.resumeProducing()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    def stop(self) -> None:
        """The client is gone, or has everything."""
        self._over = True
        self._watch.stop()
        if self._source is not None:
            source, self._source = self._source, None
            source.stopProducing()

    # IConsumer: what a producer of the body asks for.

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """From now on this one writes."""
        self._source = producer
        if self._over:
            producer.stopProducing()
        elif self._paused:
            producer.pauseProducing()

    def unregisterProducer(self) -> None:
        """It writes no longer."""
        self._source = None

    def _abort(self) -> None:
        channel = self._request.channel
        if channel is not None:
            channel.forceAbortClient()
