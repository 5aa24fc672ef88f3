"""Answering over HTTP/1.1 (twisted.web) to peers that mean no good, or do not read.

twisted.web's channel trusts its peer in some ways that cost memory or a connection for ever; this one does not:

- Requests that were sent ahead (pipelined) are answered when the answer before has left: else each of them would add
  an answer to what a client does not read.
- While a client does not read, nothing more is read from it.
- A client has some time for the head and body of a request, from its first byte on, however steadily it sends.
- A connection that is to be closed and whose peer does not take the rest is closed without it.
- A body's length must be a sane number.
- A body is kept only where one is expected (:class:`BodyRequest`); one that is longer than it may be closes the
  connection.
- What still arrives after the connection was closed (over TLS it does) is not looked at.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, datetimeToString
from twisted.web.server import Request, Site

REQUEST_SECONDS = 60.0
"""How long a request may take to arrive."""
BODY_BYTES_MAX = 1024
"""Nobody has to send a body."""
LENGTH_DIGITS_MAX = 18
"""Of a body's length.  Python refuses to read a number of thousands of them, and twisted.web does not expect that."""


def text_header(request: Request, name: str) -> str | None:
    """The value of a header field, whatever bytes it is made of; None: there is none."""
    value = request.getHeader(name.encode("ascii"))
    return None if value is None else value.decode("latin-1")


class GuardedRequest(Request):
    """A request without a body to speak of."""

    body_bytes_max = BODY_BYTES_MAX
    _body_bytes = 0

    def render(self, resrc: Any) -> None:
        assert self.site is not None
        self.setHeader(b"Date", datetimeToString(self.site.reactor.seconds()))  # of the clock that was given
        self.setHeader("server", "LCC")  # instead of twisted.web's version
        super().render(resrc)

    def gotLength(self, length: int | None) -> None:
        # None: chunked; twisted.web would make a file for it.
        self.content = BytesIO()

    def handleContentChunk(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > self.body_bytes_max and self.channel is not None:
            self.channel.forceAbortClient()


class BodyRequest(GuardedRequest):
    """A request whose body is kept, in memory: :meth:`body` gives it."""

    body_bytes_max = 16_384

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pieces: list[bytes] = []

    def handleContentChunk(self, data: bytes) -> None:
        super().handleContentChunk(data)
        if self._body_bytes <= self.body_bytes_max:
            self._pieces.append(data)

    def body(self) -> bytes:
        """All of it."""
        return b"".join(self._pieces)


class GuardedChannel(HTTPChannel):
    """A connection."""

    _full = False
    """More waits to be sent than should."""
    _answering = False
    """A request is there, and its answer has not ended."""
    _ended: Any = None
    """A request whose answer has ended but has not left."""
    _arriving: IDelayedCall | None = None
    """Ends a request that takes too long to arrive."""
    _leaving = False
    """The connection was closed here."""

    _idle_seconds: float | None = None

    def connectionMade(self) -> None:
        self._idle_seconds = self.timeOut  # while a request is answered, that is None
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        if self._leaving:
            return
        if self._arriving is None and not self._answering:
            self._arriving = self.callLater(REQUEST_SECONDS, self._too_late)
        super().dataReceived(data)
        if self._full and self._answering:
            self._peer().pauseProducing()  # resumed when the answer has left

    def headerReceived(self, line: bytes) -> bool:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and len(value.strip()) > LENGTH_DIGITS_MAX:
            self._respondToBadRequestAndDisconnect()
            return False
        received: bool = super().headerReceived(line)
        return received

    def forceAbortClient(self) -> None:
        self._leaving = True
        super().forceAbortClient()

    def allContentReceived(self) -> None:
        if self._leaving:
            return
        self._arrived()
        self._answering = True
        super().allContentReceived()

    def requestDone(self, request: Any) -> None:
        if self._full and self.persistent:
            self._ended = request
            self.setTimeout(self._idle_seconds)
        else:
            self._answering = False
            super().requestDone(request)

    def pauseProducing(self) -> None:
        self._full = True
        super().pauseProducing()

    def resumeProducing(self) -> None:
        self._full = False
        super().resumeProducing()
        request, self._ended = self._ended, None
        if request is not None:
            self.setTimeout(None)
            self.requestDone(request)

    def loseConnection(self) -> None:
        self._leaving = True
        if self._abortingCall is None:
            self.setTimeout(self._idle_seconds)
        super().loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._arrived()
        if self._ended is not None:
            self.requests.remove(self._ended)
            self._ended = None
        super().connectionLost(reason)

    def _arrived(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _too_late(self) -> None:
        self._arriving = None
        self._peer().abortConnection()

    def _peer(self) -> Any:
        return self.transport


class HttpCounts:
    """Answers of a site since the start.

    :ivar by_status: class of status, such as ``2xx`` -> how many there were.
    :ivar sent_bytes: of their bodies.
    """

    def __init__(self) -> None:
        self.by_status = dict.fromkeys(("2xx", "3xx", "4xx", "5xx"), 0)
        self.sent_bytes = 0

    def ended(self, status: int, sent_bytes: int) -> None:
        """One has left."""
        name = f"{min(max(status // 100, 2), 5)}xx"
        self.by_status[name] += 1
        self.sent_bytes += sent_bytes


class GuardedSite(Site):
    """A site of such connections, without an access log: what is asked for is nobody's business.

    :param reactor: a clock.
    :ivar counts: what it has answered.
    """

    protocol = GuardedChannel  # type: ignore[assignment]  # Twisted's makes HTTPChannels and HTTP/2
    requestFactory = GuardedRequest
    displayTracebacks = False
    noisy = False

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.counts = HttpCounts()

    def acceptableProtocols(self) -> list[bytes]:
        return [b"http/1.1"]

    def log(self, request: Any) -> None:
        """Count it."""
        self.counts.ended(request.code, request.sentLength)
