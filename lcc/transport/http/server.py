"""Answering over HTTP/1.1 (twisted.web) to peers that mean no good, or do not read.

twisted.web's channel trusts its peer in some ways that cost memory or a connection for ever; this one does not:

- Requests that were sent ahead (pipelined) are answered when the answer before has left: else each of them would add
  an answer to what a client does not read.
- While a client does not read, nothing more is read from it.
- A client has some time for the head and body of a request, from its first byte on, however steadily it sends.
- A connection that is to be closed and whose peer does not take the rest is closed without it.
- The head of an answer and what is written with it leave in one write, at once.
- A body is kept only where one is expected (:class:`BodyRequest`); one of any length is handed on while it arrives,
  and may be answered meanwhile (:class:`UploadRequest`).
- What cannot be served is answered by a status and a line that says why: 400 (it is no request, the length of its
  body is no number, or it is HTTP/1.1 and names no host, or several), 413 (its body is too long), 431 (its head is).
  The connection is closed in order then: what the peer still sends is read and thrown away for a while, because a
  connection that is closed with unread input is reset, and the answer would be lost.
- What still arrives after the connection was closed (over TLS it does) is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from io import BytesIO
from typing import Any, Protocol

from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IDelayedCall, IHalfCloseableProtocol, INegotiated
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, datetimeToString
from twisted.web.server import Request, Site
from zope.interface import implementer

from lcc.transport.direct import direct_transport, write_at_once

REQUEST_SECONDS = 60.0
"""How long a request may take to arrive."""
BODY_BYTES_MAX = 1024
"""Nobody has to send a body."""
HEAD_BYTES_MAX = 16_384
"""Request line and header fields."""
LENGTH_DIGITS_MAX = 18
"""Of a body's length.  Python refuses to read a number of thousands of them, and twisted.web does not expect that."""
LINGER_SECONDS = 10.0
"""Who was refused may send on for so long."""
LINGER_BYTES_MAX = 8 << 20
"""And so much."""


def text_header(request: Request, name: str) -> str | None:
    """The value of a header field, whatever bytes it is made of; None: there is none."""
    value = request.getHeader(name.encode("ascii"))
    return None if value is None else value.decode("latin-1")


def list_header(request: Request, name: str) -> str | None:
    """The same of a field whose value is a list, which may come in several lines."""
    values = request.requestHeaders.getRawHeaders(name.encode("ascii"))
    return None if values is None else b", ".join(values).decode("latin-1")


class GuardedRequest(Request):
    """A request whose body is limited to next to nothing."""

    body_bytes_max = BODY_BYTES_MAX
    _body_bytes = 0

    def render(self, resrc: Any) -> None:
        now = getattr(self.site, "now", None)
        if now is not None:
            self.setHeader(b"Date", datetimeToString(now()))
        self.setHeader("server", "LCC")  # instead of twisted.web's version
        super().render(resrc)

    def write(self, data: bytes) -> None:
        channel: Any = self.channel
        if self.startedWriting or channel is None:
            super().write(data)
            return
        channel.gather()
        try:
            super().write(data)
        finally:
            channel.send_gathered()

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        # twisted.web's table ends before 429.
        super().setResponseCode(code, reason_of(code) if message is None else message)

    def gotLength(self, length: int | None) -> None:
        # None: chunked; twisted.web would make a file for it.
        self.content = BytesIO()

    def is_upload(self, method: bytes, path: bytes, length: int | None) -> bool:
        """It is answered while its body arrives.

        :param length: of its body; None: chunked.
        """
        return False

    def expect(self, path: bytes) -> None:
        """Its head has come: it may allow a longer body (``body_bytes_max``)."""

    def handleContentChunk(self, data: bytes) -> None:
        self._body_bytes += len(data)
        channel: Any = self.channel
        if self._body_bytes > self.body_bytes_max and channel is not None:
            channel.refuse(413, f"the body is longer than {self.body_bytes_max} bytes")


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


class UploadTaker(Protocol):
    """Takes the body of an upload.  It keeps the time, too: nobody else watches a body that stalls."""

    def body_received(self, data: bytes) -> None:
        """The next bytes."""

    def body_ended(self) -> None:
        """That was all."""


class UploadRequest(BodyRequest):
    """A request that may be an upload: it is rendered when its head is there, and its body is handed on as it comes.
    An answer that ends before the body has come ends the connection, in order.

    :ivar uploads: it is one, not a request whose body is kept.
    :ivar is_complete: its body has come.
    """

    uploads = False
    is_complete = False
    _taker: UploadTaker | None = None

    def begin_upload(self, method: bytes, path: bytes, version: bytes) -> None:
        """Its head is there; of the body nothing is read until :meth:`take_upload`."""
        self.uploads = True
        super().requestReceived(method, path, version)

    def take_upload(self, taker: UploadTaker) -> None:
        """Hand on the body to this one; a peer that waits for "100 Continue" sends it now."""
        self._taker = taker
        for piece in self._pieces:
            taker.body_received(piece)
        self._pieces.clear()
        if self.is_complete:
            taker.body_ended()
        else:
            self.resume_upload()

    def hold_upload(self) -> None:
        """Read nothing more of it for now."""
        channel: Any = self.channel
        if channel is not None:
            channel.hold_body()

    def resume_upload(self) -> None:
        """Read on."""
        channel: Any = self.channel
        if channel is not None:
            channel.go_on()

    def handleContentChunk(self, data: bytes) -> None:
        if not self.uploads:
            super().handleContentChunk(data)
        elif self._taker is not None:
            self._taker.body_received(data)
        else:
            self._pieces.append(data)  # it came together with the head

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        self.is_complete = True
        if not self.uploads:
            super().requestReceived(command, path, version)
            return
        if self._taker is not None:
            self._taker.body_ended()


@implementer(IHalfCloseableProtocol)
class GuardedChannel(HTTPChannel):
    """An HTTP connection with limits on header, body and time."""

    _upload: UploadRequest | None = None
    """It is answered while its body arrives."""
    _held = False
    """The body of that is not read for now."""
    _asks = False
    """The peer waits for "100 Continue"."""
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

    _lingering: IDelayedCall | None = None
    """Ends a connection whose peer was refused and sends on."""
    _lingering_bytes = 0

    _idle_seconds: float | None = None
    _direct: Any = None
    _host: Any = None
    _gathered: list[bytes] | None = None
    """What is being written; None: all goes to the transport."""
    totalHeadersSize = HEAD_BYTES_MAX
    requests: list[Any]

    def connectionMade(self) -> None:
        self._idle_seconds = self.timeOut  # while a request is answered, that is None
        self._direct = direct_transport(self.transport)
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        if self._leaving:
            self._lingering_bytes += len(data)
            if self._lingering is not None and self._lingering_bytes > LINGER_BYTES_MAX:
                self._peer().abortConnection()
            return
        if self._arriving is None and not self._answering and self._upload is None:
            self._arriving = self.callLater(REQUEST_SECONDS, self._too_late)
        super().dataReceived(data)
        if self._full and self._answering:
            self._peer().pauseProducing()  # resumed when the answer has left

    def getHost(self) -> Any:
        if self._host is None:
            self._host = super().getHost()  # twisted.web asks the system for each request
        return self._host

    def gather(self) -> None:
        """Keep what is written until :meth:`send_gathered`."""
        self._gathered = []

    def send_gathered(self) -> None:
        """Write it."""
        gathered, self._gathered = self._gathered, None
        if gathered:
            write_at_once(self.transport, self._direct, b"".join(gathered))

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: Any) -> None:
        head = [version, b" ", code, b" ", reason, b"\r\n"]
        for name, values in headers.getAllRawHeaders():
            for value in values:
                head += (name, b": ", value, b"\r\n")
        self.writeSequence([*head, b"\r\n"])

    def write(self, data: bytes) -> None:
        if self._gathered is None:
            super().write(data)
        else:
            self._gathered.append(data)

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        if self._gathered is None:
            super().writeSequence(iovec)
        else:
            self._gathered.extend(iovec)

    def lineReceived(self, line: bytes) -> None:
        if self._leaving:
            return
        if self._receivedHeaderSize + len(line) > self.totalHeadersSize:
            self._refuse_head()
            return
        super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        self._refuse_head()

    def headerReceived(self, line: bytes) -> bool:
        if self._leaving:
            return False
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and len(value.strip()) > LENGTH_DIGITS_MAX and value.strip().isdigit():
            self.refuse(413, "the body is longer than any may be")
            return False
        if self._receivedHeaderCount >= self.maxHeaders:
            self.refuse(431, f"there are more than {self.maxHeaders} header fields")
            return False
        received: bool = super().headerReceived(line)
        return received

    def allHeadersReceived(self) -> None:
        if self._leaving:
            return
        request = self.requests[-1]
        request.expect(self._path)
        hosts = len(request.requestHeaders.getRawHeaders(b"host", ()))
        if hosts > 1 or (not hosts and self._version == b"HTTP/1.1"):
            self.refuse(400, "a request names its host once" if hosts else "a request of HTTP/1.1 names its host")
        elif request.is_upload(self._command, self._path, self.length):
            self._begin_upload(request)
        elif self.length is not None and self.length > request.body_bytes_max:
            # Before a "100 Continue": whoever waits for that need not send it at all.
            self.refuse(413, f"the body is longer than {request.body_bytes_max} bytes")
        else:
            super().allHeadersReceived()

    def _begin_upload(self, request: UploadRequest) -> None:
        self._arrived()
        self._upload = request
        command, path, version = self._command, self._path, self._version
        super().allHeadersReceived()
        self._savedTimeOut = self.setTimeout(None)  # as twisted.web does once a body is there
        self.hold_body()
        request.begin_upload(command, path, version)

    def _send100Continue(self) -> None:
        if self._upload is None:
            super()._send100Continue()
        else:
            self._asks = True

    @property
    def _uploading(self) -> bool:
        """A request is answered whose body is still arriving."""
        return self._upload is not None and not self._answering

    def hold_body(self) -> None:
        """Read nothing more of an upload."""
        if self._uploading and not self._held:
            self._held = True
            network: Any = self._networkProducer
            network.pauseProducing()

    def go_on(self) -> None:
        """Read on."""
        if not self._uploading or self._leaving:
            return
        asks, self._asks = self._asks, False
        if asks and not self.requests[0].startedWriting:
            super()._send100Continue()
        if self._held:
            self._held = False
            network: Any = self._networkProducer
            network.resumeProducing()

    def rawDataReceived(self, data: bytes) -> None:
        if not self._leaving:
            super().rawDataReceived(data)

    # The peer has sent everything, and may still read.

    def readConnectionLost(self) -> None:
        if self._answering and isinstance(self.requests[0], UploadRequest):
            self.persistent = 0
        else:
            self._peer().abortConnection()

    def writeConnectionLost(self) -> None:
        """This half is closed; see :meth:`refuse`."""

    def refuse(self, status: int, why: str) -> None:
        """Answer what cannot be served, and close.

        :param why: a line of ASCII.
        """
        if self._leaving:
            return
        upload = self._upload
        if upload is not None:
            if upload.startedWriting:
                self._peer().abortConnection()  # an answer without its end
                return
            self.requests.remove(upload)
            upload.connectionLost(Failure(ConnectionAborted()))
        self._arrived()
        body = f"{why}\n".encode("ascii")
        head = (
            f"HTTP/1.1 {status} {reason_of(status).decode()}\r\nServer: LCC\r\nContent-Type: text/plain\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        peer = self._peer()
        peer.write(head.encode("ascii") + body)
        site: Any = getattr(self, "site", None)
        if site is not None:
            site.counts.ended(status, len(body))
        self._leave()

    def _leave(self) -> None:
        """Close in order: what was written is delivered, what still comes is thrown away for a while."""
        self._leaving = True
        self._held = False
        self._lingering = self.callLater(LINGER_SECONDS, self._too_late)
        network: Any = self._networkProducer
        peer = self._peer()
        network.resumeProducing()
        # TLS says goodbye and reads on by itself.  What it seems to have for a half-close is that of the TCP below.
        if INegotiated.providedBy(peer) or not hasattr(peer, "loseWriteConnection"):
            self.loseConnection()
        else:
            self.setTimeout(None)
            network.unregisterProducer()
            peer.loseWriteConnection()

    def _respondToBadRequestAndDisconnect(self) -> None:
        self.refuse(400, "this is no request of HTTP")

    def _refuse_head(self) -> None:
        self.refuse(431, f"the head of the request is longer than {self.totalHeadersSize} bytes")

    def forceAbortClient(self) -> None:
        self._leaving = True
        super().forceAbortClient()

    def allContentReceived(self) -> None:
        if self._leaving:
            return
        self._arrived()
        self.go_on()  # who disconnects now is noticed
        self._answering = True
        super().allContentReceived()

    def requestDone(self, request: Any) -> None:
        if self._uploading:
            self.requests.remove(request)
            self._upload = None
            self._leave()
        elif self._full and self.persistent:
            self._ended = request
            self.setTimeout(self._idle_seconds)
        else:
            self._answering = self._held = False
            self._upload = None
            super().requestDone(request)

    def pauseProducing(self) -> None:
        self._full = True
        self._let_read_on(super().pauseProducing)

    def resumeProducing(self) -> None:
        self._full = False
        self._let_read_on(super().resumeProducing)
        request, self._ended = self._ended, None
        if request is not None:
            self.setTimeout(None)
            self.requestDone(request)

    def _let_read_on(self, change: Callable[[], None]) -> None:
        """Whether an upload is read is decided by who takes it, not by whether its answer leaves: a peer may send
        everything before it reads."""
        uploading = self._uploading
        handling, self._handlingRequest = self._handlingRequest, uploading or self._handlingRequest
        change()
        self._handlingRequest = handling

    def loseConnection(self) -> None:
        self._leaving = True
        if self._abortingCall is None:
            self.setTimeout(self._idle_seconds)
        super().loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._arrived()
        if self._lingering is not None and self._lingering.active():
            self._lingering.cancel()
        self._lingering = None
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


def reason_of(status: int) -> bytes:
    """The reason phrase of a status."""
    try:
        return HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b"Unknown Status"


class HttpCounts:
    """Replies of a site since the start.

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
    """A site of guarded connections, without an access log: what users ask for is private.

    :param reactor: a clock.
    :param now: the wall clock, for the dates of answers; None: the machine's.
    :ivar counts: what it has answered.
    """

    protocol = GuardedChannel  # type: ignore[assignment]  # Twisted's makes HTTPChannels and HTTP/2
    requestFactory = GuardedRequest
    displayTracebacks = False
    noisy = False

    def __init__(self, *args: Any, now: Callable[[], float] | None = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self.now = now
        self.counts = HttpCounts()

    def acceptableProtocols(self) -> list[bytes]:
        return [b"http/1.1"]

    def log(self, request: Any) -> None:
        """Count it."""
        self.counts.ended(request.code, request.sentLength)
