"""The manager's end of a worker's descriptor 3 (:mod:`lcc.protocols.worker`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import StreamError
from lcc.interfaces import IConversation
from lcc.protocols.flat import Flat
from lcc.protocols.worker import REQUESTS, WORKER_LIMITS, Refused
from lcc.protocols.xmlfeed import End, Event, Start, XmlFeed
from lcc.transport.stream import StreamLimits, XmlStream

PACED_REQUESTS = 200
"""After so many requests of a job the next one waits :data:`PACE_SECONDS`, so that one that floods does not have the
manager for itself."""
PACE_SECONDS = 0.02


class Denied(Exception):
    """A request is refused.

    :ivar code: of :class:`~lcc.protocols.worker.Refused`.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Asked(Protocol):
    """The job that a descriptor 3 belongs to."""

    def asked(self, request: Flat) -> Flat | Deferred[Flat]:
        """The answer to a request.

        :raises Denied: it is refused.
        """

    def fault(self, text: str) -> None:
        """Nothing more will be understood on this descriptor."""


@implementer(IConversation)
class WorkerConversation:
    """Answers one request after the other.

    :param requests_max: with one more the conversation is over.
    :param closed: called when the connection is closed.
    """

    def __init__(self, job: Asked, clock: IReactorTime, requests_max: int, closed: Callable[[], object]) -> None:
        self._job = job
        self._clock = clock
        self._requests_max = requests_max
        self._closed = closed
        self._requests = 0
        self._feed = XmlFeed(WORKER_LIMITS)
        self._stream: XmlStream

    def build_stream(self) -> XmlStream:
        """The Twisted protocol of this conversation."""
        return XmlStream(self, self._clock, self._feed, StreamLimits(stall_timeout_seconds=0))

    # IConversation.

    def stream_opened(self, stream: XmlStream) -> None:
        self._stream = stream

    def events_received(self, events: list[Event]) -> Deferred[None] | None:
        for event in events:
            if isinstance(event, Start):
                self._requests += 1
                if self._requests > self._requests_max:
                    text = f"more than {self._requests_max:,} requests ([manager] requests_max)"
                    raise StreamError("limit", text)
                return self._answered(REQUESTS.read(event.name, event.attributes))
            assert isinstance(event, End)
        self._go_on()  # the end tag came in a piece of its own
        return None

    def _answered(self, request: Flat) -> Deferred[None] | None:
        try:
            answer = self._job.asked(request)
        except Denied as denied:
            answer = Refused(denied.code, str(denied))
        if isinstance(answer, Deferred):
            return answer.addCallback(self._answer)
        self._answer(answer)
        return None

    def _answer(self, answer: Flat) -> None:
        self._stream.send(answer.to_xml() + "\n")
        if self._feed.waiting:
            self._go_on()

    def _go_on(self) -> None:
        # Not before this turn is over; and not while a worker does not read its answers.
        seconds = 0 if self._requests % PACED_REQUESTS else PACE_SECONDS
        self._clock.callLater(seconds, self._next)

    def _next(self) -> None:
        if self._stream.writable:
            self._stream.next_document()

    def stream_failed(self, error: StreamError) -> None:
        text = f"descriptor 3: {error}"
        self._job.fault(text)
        self._stream.send(Refused("invalid", text).to_xml() + "\n")
        self._stream.flush()
        self._stream.abort()  # a worker that reads nothing is not waited for

    def stream_resumed(self) -> None:
        if self._feed.waiting:
            self._stream.next_document()

    def peer_finished(self) -> None:
        if self._feed.unfinished:
            self._job.fault("descriptor 3: it was closed in the middle of a request")
        self._stream.close()

    def stream_closed(self, reason: Failure) -> None:
        self._closed()
