"""One HTTP/1.1 connection to a web server, one request at a time.

The parser (llhttp, through httptools) checks the grammar; this module does what it leaves open: it bounds header,
framing and body, refuses every framing that two parsers could read differently, knows when a body that ends with the
connection is whole, and notices what comes behind a response.

Strategy for time: one timer a connection, set to the earliest thing that may be due and moved only when it rings (or
when something is due before it), so that a fetch on a connection that is kept costs no timer at all.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser
from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.tcp import Connection
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.addresses import check_address
from lcc.fetchers.http_head import RawHeaders, ResponseHead, content_length, printable
from lcc.fetchers.steps import Steps
from lcc.fetchers.tls import describe_tls
from lcc.interfaces import IContentSink

_log = Logger()

CLOSING_SECONDS = 1.0
"""A TLS connection that we close politely is cut after this long."""
DRAIN_BYTES_MAX = 65536
"""A body that is not wanted (of a redirect, of an error) is read up to this length to keep the connection."""
_NO_BODY = frozenset([204, 304])


class Exchange(Protocol):
    """Who asked for something on a connection."""

    def head_received(self, head: ResponseHead) -> IContentSink | None:
        """The final response has begun.  Gives the sink for its body; None: the body is not wanted.

        :raises FetchError: the response is not acceptable."""

    def exchange_ended(self, connection: HttpConnection, error: FetchError | None, untouched: bool) -> None:
        """The response is complete, or failed.  Called last, once; the next request may be sent at once.

        :param untouched: a connection that had served before was lost before any byte of this response: the request
            may be sent again."""


class Owner(Protocol):
    """Who keeps connections."""

    def connection_made(self, connection: HttpConnection) -> None:
        """There is a socket now."""

    def connection_lost(self, connection: HttpConnection) -> None:
        """It is gone; called once, also for one that was never ready."""


@implementer(IHandshakeListener)
class HttpConnection(protocol.Protocol):
    """The protocol.

    :param clock: the reactor or a clock.
    :param secure: TLS is spoken below.
    :param private: the peer may have a private address.
    :param verify: called with the transport after a TLS handshake; raises FetchError "tls-failed".
    :param steps: is told what happens.
    :ivar key: what the owner keeps it under.
    :ivar ready: fires with the connection once a request can be sent (connected, and secure); fails with FetchError.
        Cancelling it closes the connection.
    :ivar wire_bytes: received during the present exchange.
    :ivar reusable: after an exchange: another request can be sent.
    """

    def __init__(
        self,
        clock: Any,
        limits: BotConfig,
        owner: Owner,
        key: object,
        *,
        secure: bool,
        private: bool,
        verify: Any = None,
        steps: Steps | None = None,
    ) -> None:
        self.key = key
        self.secure = secure
        self.wire_bytes = 0
        self.reusable = False
        self.ready: Deferred[HttpConnection] = Deferred(lambda ready: self.abort())
        self._clock = clock
        self._limits = limits
        self._owner = owner
        self._private = private
        self._verify = verify
        self._steps = steps or Steps(clock)
        self._exchange: Exchange | None = None
        self._timer: Any = None
        self._ready = False
        self._direct = False
        self._closing = False
        self._lost = False
        self._served = 0
        self._fault: FetchError | None = None
        self._due = 0.0
        self._last = 0.0
        self._deadline = 0.0
        self._parser: Any = HttpResponseParser(self)
        self._forget()

    def _forget(self) -> None:
        """Begin a response: nothing is known of it."""
        self._headers: RawHeaders = []
        self._in_head = True
        self._checked = False
        self._sink: IContentSink | None = None
        self._complete = False
        self._until_close = False
        self._chunked = False
        self._extra = False
        self._body_bytes = 0
        self._body_max = 0
        self._overhead_max = self._limits.header_bytes_max
        self.wire_bytes = 0

    # The owner's side.

    def send(self, head: bytes, exchange: Exchange, deadline: float) -> None:
        """Send a request and receive its response.

        :param head: the whole request.
        :param deadline: when, by the clock, the fetch as a whole must be over.
        """
        assert self._exchange is None and self._ready and not self._closing
        if self._served:
            self._forget()
        self._exchange = exchange
        self._last = self._clock.seconds()
        self._deadline = deadline
        self._write(head)
        self._arm(min(self._last + self._limits.idle_timeout, deadline))

    def _write(self, head: bytes) -> None:
        """Send now what the socket takes: by way of the reactor it would cost two changes of the poll set and a turn.

        Only TCP transports can, and only as long as nothing waits in their buffer."""
        transport: Any = self.transport
        if self._direct:
            sent = transport.writeSomeData(head)
            if sent == len(head):
                return
            self._direct = False
            # An exception instead of a number: the ordinary way meets it again, and ends the connection properly.
            head = head[sent:] if isinstance(sent, int) else head
        transport.write(head)

    @property
    def closing(self) -> bool:
        """It serves no more requests."""
        return self._closing or self._lost

    def rest(self) -> None:
        """No request for now: close after ``keepalive`` seconds."""
        self._due = self._last + self._limits.keepalive
        self._arm(self._due)

    def close(self) -> None:
        """Close politely; with TLS that needs the peer's answer, which is waited for only shortly."""
        if self._lost or self._closing:
            return
        self._closing = True
        self._due = self._clock.seconds() + CLOSING_SECONDS
        self._arm(self._due)
        self.transport.loseConnection()  # type: ignore[union-attr]  # it is connected

    def abort(self) -> None:
        """Close at once; the exchange is forgotten and hears nothing."""
        self._exchange = None
        self._closing = True
        if not self._lost and self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # it is connected

    # The transport's side.

    def connectionMade(self) -> None:
        """Check where we have come to."""
        self._owner.connection_made(self)
        self._due = self._clock.seconds() + self._limits.connect_timeout
        try:
            check_address(self.transport.getPeer().host, self._private)  # type: ignore[union-attr]  # it is connected
        except FetchError as error:
            self._fault = error
            self.abort()
            return
        if self.secure:
            self._arm(self._due)
        else:
            self._ready = True
            self._direct = isinstance(self.transport, Connection)
            self.ready.callback(self)

    def handshakeCompleted(self) -> None:
        """TLS stands; is it whom we wanted?"""
        if self._ready or self._closing:
            return
        try:
            if self._verify is not None:
                self._verify(self.transport)
        except FetchError as error:
            self._fault = error
            self.abort()
            return
        self._ready = True
        if self._steps.watch is not None:
            self._steps.tell("secured", describe_tls(self.transport))
        self.ready.callback(self)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of the response."""
        exchange = self._exchange
        if exchange is None:
            # Nobody asked: the server says good-bye (408), or is out of step.
            if not self._closing:
                self._closing = True
                self.transport.abortConnection()  # type: ignore[union-attr]  # it is connected
            return
        self._last = self._clock.seconds()
        if not self._checked:
            # llhttp takes RTSP and ICE, too.
            begin = data.lstrip(b"\r\n")
            if begin:
                self._checked = True
                if self._steps.watch is not None:
                    self._steps.tell("first-byte")
                if begin[0] != 72:
                    self.wire_bytes += len(data)
                    self._end(FetchError("bad-response", f"it begins with {printable(begin[:20])}"))
                    return
        self.wire_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self._complete:
                self._end(self._parser_fault(error))
                return
            self._extra = True
        overhead_max = self._overhead_max + self._body_bytes if self._chunked else self._overhead_max
        if self.wire_bytes - self._body_bytes > overhead_max:
            self._end(FetchError("headers-too-long"))
        elif self._complete:
            self._end(None)

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        """The connection is gone: a fault, unless the body ends with it."""
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        exchange, self._exchange = self._exchange, None
        self._parser = None
        error = self._fault
        if error is None:
            error = self._loss(reason)
        self.reusable = False
        self._owner.connection_lost(self)
        if not self.ready.called:
            self.ready.errback(error)
        if exchange is not None:
            whole = self._until_close and not self._in_head and reason.check(ConnectionDone)
            untouched = self._served > 0 and not self.wire_bytes
            exchange.exchange_ended(self, None if whole else error, untouched)

    # The parser's side.  What these raise ends the parsing; _parser_fault finds it again.

    def on_message_begin(self) -> None:
        """Another response, nobody asked for it; or the one behind a 1xx."""
        if self._complete:
            self._extra = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or a trailer: those are dropped."""
        if self._in_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there: is the response acceptable, and where does it end?"""
        if self._complete:
            return
        status: int = self._parser.get_status_code()
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise FetchError("bad-response", f"HTTP version {version}")
        if not 100 <= status < 600 or status == 101:
            raise FetchError("bad-response", f"unexpected status {status}")
        if self.wire_bytes > self._overhead_max:
            # A bound that does not depend on how the bytes were cut: what the fields alone amount to.
            length = sum(len(name) + len(value) + 4 for name, value in self._headers)
            if length > self._overhead_max:
                raise FetchError("headers-too-long")
        if status < 200:
            self._headers.clear()
            return
        self._in_head = False
        fields = {name.lower(): value for name, value in self._headers}
        self._framing(status, version, fields)
        told = fields.get(b"content-length")
        body_bytes = None if told is None else content_length(told)
        exchange = self._exchange
        assert exchange is not None
        self._sink = exchange.head_received(ResponseHead(status, self._headers, fields))
        if self._sink is not None and body_bytes is not None and body_bytes > self._body_max:
            raise FetchError("body-too-long", f"{body_bytes} bytes")

    def _framing(self, status: int, version: str, fields: dict[bytes, bytes]) -> None:
        length_field = fields.get(b"content-length")
        coding = fields.get(b"transfer-encoding")
        self.reusable = self._parser.should_keep_alive()
        self._body_max = self._limits.body_bytes_max
        if coding is not None:
            codings = [value for name, value in self._headers if name.lower() == b"transfer-encoding"]
            if len(codings) != 1 or coding.strip().lower() != b"chunked":
                raise FetchError("bad-response", f"Transfer-Encoding {printable(b', '.join(codings))}")
            if length_field is not None:
                raise FetchError("bad-response", "both Transfer-Encoding and Content-Length")
            self._chunked = True
            if version == "1.0":
                self.reusable = False
        elif length_field is None and status not in _NO_BODY:
            self._until_close = True
            self.reusable = False

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if self._complete:
            return
        self._body_bytes += len(data)
        if self._body_bytes > self._body_max:
            raise FetchError("body-too-long", f"more than {self._body_max} bytes")
        if self._sink is not None:
            try:
                self._sink.write(data)
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                raise FetchError("store-failed", reason) from None

    def on_message_complete(self) -> None:
        """The response ends here (so does a 1xx, which does not count)."""
        if not self._in_head:
            self._complete = True

    # Ends.

    def drop_body(self, head: ResponseHead) -> bool:
        """Shall a body that is not wanted be read, to keep the connection?  If not, the exchange should be ended.

        Called by the exchange from ``head_received``; True also bounds what is read."""
        try:
            length = content_length(head.fields.get(b"content-length", b"0"))
        except FetchError:
            return False
        if not self.reusable or length > DRAIN_BYTES_MAX:
            return False
        self._body_max = min(self._body_max, DRAIN_BYTES_MAX)
        return True

    def _parser_fault(self, error: Exception) -> FetchError:
        cause = error.__context__ if isinstance(error, HttpParserCallbackError) else None
        if isinstance(cause, FetchError):
            return cause
        if cause is not None:
            _log.failure("Cannot handle a response", failure=Failure(cause))
            return FetchError("robot-error", type(cause).__name__)
        return FetchError("bad-response", str(error)[:200])

    def _loss(self, reason: Failure) -> FetchError:
        if self.secure and not self._ready:
            return FetchError("tls-failed", _describe_loss(reason))
        if not self.wire_bytes:
            return FetchError("connection-lost", _describe_loss(reason))
        return FetchError("early-eof", "in the header" if self._in_head else f"after {self._body_bytes} bytes")

    def _end(self, error: FetchError | None) -> None:
        """End the exchange; the last thing done on behalf of an event, because the owner goes on from here."""
        exchange, self._exchange = self._exchange, None
        self._served += 1
        if error is not None:
            self.reusable = False
            self.abort()
        elif self._extra or not self.reusable:
            self.reusable = False
            self.close()
        if exchange is not None:
            exchange.exchange_ended(self, error, False)

    # Time.

    def _arm(self, due: float) -> None:
        timer = self._timer
        if timer is not None:
            if due >= timer.getTime():
                return
            timer.cancel()  # Twisted's reset to an earlier time looks through the timers of all connections
        self._timer = self._clock.callLater(max(0.0, due - self._clock.seconds()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        due = self._due
        if self._exchange is not None:
            due = min(self._last + self._limits.idle_timeout, self._deadline)
        if self._clock.seconds() < due:
            self._arm(due)
        elif self._exchange is not None:
            late = self._clock.seconds() >= self._deadline
            self._end(FetchError("deadline" if late else "idle-timeout"))
        elif self._closing:
            self.transport.abortConnection()  # type: ignore[union-attr]  # it is connected
        elif self._ready:
            self.close()
        else:
            self._fault = FetchError("connect-timeout", "in the TLS handshake")
            self.abort()


def _describe_loss(reason: Failure) -> str:
    """Why a connection was lost, in words: OpenSSL's reasons are lists of triples."""
    arguments = reason.value.args if reason.value is not None else ()
    first = arguments[0] if arguments else None
    if isinstance(first, list) and first and isinstance(first[0], tuple):
        return "; ".join(str(item[-1]) for item in first)[:200]
    if reason.check(ConnectionDone):
        return "the server closed the connection"
    return reason.getErrorMessage()[:200]
