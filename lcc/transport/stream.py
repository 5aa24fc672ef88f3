"""One stream of XML over one transport: feed, back-pressure in both directions, timeouts, joined writes.

Every port of the LCC and every link speaks through :class:`XmlStream`.  A conversation (in ``lcc/roles`` or
``lcc/provider``) is an :class:`IConversation`; it sees events and calls :meth:`XmlStream.send`.

* All that is sent in one reactor turn goes out in one write: what costs is the write, not the message.  The write
  itself is made at once, as far as the socket takes it: by way of the reactor it would cost two changes of the poll
  set and a turn.
* ``events_received`` may return a Deferred: until it fires the transport is paused, so that a slow consumer
  (a database) slows its peer instead of filling the memory.
* ``writable`` is false while the transport's buffer is full; ``stream_resumed`` tells when it has drained.  A peer
  that never reads is dropped after ``stall_timeout_seconds``.
* With ``idle_timeout_seconds`` a peer that sends nothing is dropped; the conversation hears ``stream_failed`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IDelayedCall,
    IHalfCloseableProtocol,
    INegotiated,
    IPushProducer,
    IReactorTime,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import StreamError
from lcc.interfaces import IConversation, IFeed
from lcc.transport.direct import direct_transport, write_at_once
from lcc.transport.pipes import PipeEnd, Soon

_log = Logger()


@attrs.frozen
class StreamLimits:
    """Times of a stream, in seconds; 0: without limit."""

    idle_timeout_seconds: float = 0
    stall_timeout_seconds: float = 60
    linger_seconds: float = 10
    linger_bytes: int = 64 * 1024 * 1024


@implementer(IPushProducer, IHalfCloseableProtocol)
class XmlStream(Protocol):
    """A Twisted protocol that carries one conversation.

    :param conversation: what stands behind the stream.
    :param clock: all timers run on it.
    :param feed: turns the bytes into events (:class:`lcc.protocols.xmlfeed.XmlFeed`).
    """

    def __init__(
        self,
        conversation: IConversation,
        clock: IReactorTime,
        feed: IFeed,
        limits: StreamLimits | None = None,
    ) -> None:
        self.conversation = conversation
        self.clock = clock
        self.limits = limits or StreamLimits()
        self.feed = feed
        self.writable = True
        self.connected_stream = False
        self.peer_finished = False
        """True once the peer has closed its sending half: nothing more will arrive."""
        self._out: list[str] = []
        self._flush_call: IDelayedCall | Soon | None = None
        self._idle_call: IDelayedCall | None = None
        self._stall_call: IDelayedCall | None = None
        self._linger_call: IDelayedCall | None = None
        self._busy = False
        self._late: list[bytes] = []
        self._end_untold = False
        self._paused = False
        self._held_reading = False
        self._discarding = False
        self._discarded_bytes = 0
        self._finishing = False
        self._last_activity = 0.0
        self._direct: Any = None
        """The transport that takes bytes at once; None: there is none, or it must take no more."""
        self._call_soon: Callable[[Callable[[], None]], IDelayedCall | Soon] = partial(clock.callLater, 0)

    # The conversation's side.

    def send(self, text: str, soon: bool = True) -> None:
        """Send this text, joined with whatever else is sent in this reactor turn.  After the end: dropped.

        :param soon: False: it can wait for what is sent next.
        """
        if not self.connected_stream or self._finishing:
            return
        self._out.append(text)
        if soon and self._flush_call is None:
            self._flush_call = self._call_soon(self._flush)

    def flush(self) -> None:
        """Write what was sent so far at once."""
        self._cancel("_flush_call")
        self._flush()

    def next_document(self) -> None:
        """Go on with the peer's next document (see :class:`XmlFeed`)."""
        if self.connected_stream and not self._discarding:
            self._handle(self.feed.next_document)

    def pause_reading(self) -> None:
        """Read nothing until :meth:`resume_reading`."""
        self._held_reading = True
        self._update_reading()

    def resume_reading(self) -> None:
        """Undo :meth:`pause_reading`."""
        self._held_reading = False
        self._update_reading()

    def finish(self) -> None:
        """Close in order: write everything, half-close, read on and throw away (within bounds) until the peer
        closes too.  Closing with unread input would lose the last answer."""
        if not self._end():
            return
        transport: Any = self.transport
        # TLS says goodbye and reads on by itself.  What it seems to have for a half-close is that of the TCP below.
        if self.peer_finished or INegotiated.providedBy(transport) or not hasattr(transport, "loseWriteConnection"):
            transport.loseConnection()
            return
        transport.loseWriteConnection()

    def close(self) -> None:
        """Close: what was sent is delivered, what the peer still says is of no interest."""
        if self._end():
            transport: Any = self.transport
            transport.loseConnection()

    def abort(self) -> None:
        """Drop the connection at once; nothing unsent is delivered."""
        self._discarding = True
        self._direct = None
        if self.connected_stream:
            transport: Any = self.transport
            getattr(transport, "abortConnection", transport.loseConnection)()

    def hand_over(self, protocol: Protocol) -> None:
        """Let another protocol have the transport, which is not read from until that resumes it.  This stream is at
        its end; its conversation hears nothing more, and nothing that was sent is lost."""
        self.flush()
        for name in ("_flush_call", "_idle_call", "_stall_call", "_linger_call"):
            self._cancel(name)
        self.connected_stream = False
        self._discarding = True
        transport: Any = self.transport
        transport.unregisterProducer()
        transport.pauseProducing()
        # What is between the socket and its protocol calls that a wrapped one.
        name = "wrappedProtocol" if hasattr(transport, "wrappedProtocol") else "protocol"
        setattr(transport, name, protocol)
        protocol.makeConnection(transport)

    @property
    def peer(self) -> Any:
        """The transport's peer address."""
        assert self.transport is not None
        return self.transport.getPeer()

    # The transport's side.

    def connectionMade(self) -> None:
        self.connected_stream = True
        transport: Any = self.transport
        if hasattr(transport, "setTcpNoDelay"):
            try:
                transport.setTcpNoDelay(True)
            except (OSError, AttributeError):
                pass  # a UNIX socket
        transport.registerProducer(self, True)
        self._direct = direct_transport(transport)
        if isinstance(self._direct, PipeEnd):
            self._call_soon = self._direct.call_soon  # what is sent in a turn is there in the next, not the one after
        self._last_activity = self.clock.seconds()
        if self.limits.idle_timeout_seconds:
            self._idle_call = self.clock.callLater(self.limits.idle_timeout_seconds, self._check_idle)
        self.conversation.stream_opened(self)

    def dataReceived(self, data: bytes) -> None:
        self._last_activity = self.clock.seconds()
        if self._busy and not self._discarding:
            self._late.append(data)  # a transport may deliver once more after it was paused
            return
        if self._discarding:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > self.limits.linger_bytes:
                self.abort()
            return
        self._handle(self.feed.receive, data)

    def readConnectionLost(self) -> None:
        self.peer_finished = True
        if self._finishing:
            transport: Any = self.transport
            transport.loseConnection()
        elif self._busy:
            self._end_untold = True  # until all is processed that came before
        else:
            self.conversation.peer_finished()

    def writeConnectionLost(self) -> None:
        """Our half is closed; we read on until the peer closes (see :meth:`finish`)."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.connected_stream = False
        self._out.clear()
        for name in ("_flush_call", "_idle_call", "_stall_call", "_linger_call"):
            self._cancel(name)
        self.conversation.stream_closed(reason)

    def pauseProducing(self) -> None:
        self.writable = False
        if self._stall_call is None and self.limits.stall_timeout_seconds:
            self._stall_call = self.clock.callLater(self.limits.stall_timeout_seconds, self._stalled)

    def resumeProducing(self) -> None:
        self.writable = True
        self._last_activity = self.clock.seconds()  # it reads: a sign of life
        self._cancel("_stall_call")
        if self.connected_stream and not self._finishing:
            self.conversation.stream_resumed()

    def stopProducing(self) -> None:
        self.writable = False

    # Inside.

    def _end(self) -> bool:
        """Write everything, and only throw away what comes from now on; False: the end has come already."""
        if self._finishing or not self.connected_stream:
            return False
        self.flush()
        self._finishing = True
        self._discarding = True
        self._cancel("_idle_call")
        self._update_reading()  # TLS closes only when it has read the peer's goodbye
        transport: Any = self.transport
        # Also for a peer that has sent everything: it may never read what is left in the transport's buffer.
        self._linger_call = self.clock.callLater(self.limits.linger_seconds, self.abort)
        # A TLS transport does not close as long as a producer is registered.
        transport.unregisterProducer()
        return True

    def _handle(self, feeder: Any, *args: Any) -> None:
        try:
            events = feeder(*args)
            error = None
        except StreamError as fault:
            events, error = self.feed.salvaged, fault
        if events:
            try:
                result = self.conversation.events_received(events)
            except StreamError as fault:
                error, result = fault, None
            except Exception:
                _log.failure("Conversation failed; dropping the connection")
                self.abort()
                return
            if result is not None:
                self._wait_for(result, error)
                return
        # Only now: who goes on with the next document at once need not be paused.
        self._update_reading()
        if error is not None:
            self._fail(error)

    def _wait_for(self, result: Deferred[Any], error: StreamError | None) -> None:
        self._busy = True

        def done(value: Any) -> None:
            self._busy = False
            if isinstance(value, Failure):
                if isinstance(value.value, StreamError):
                    self._fail(value.value)
                else:
                    _log.failure("Conversation failed; dropping the connection", failure=value)
                    self.abort()
                return
            if error is not None:
                self._fail(error)
            self._last_activity = self.clock.seconds()
            if not self.connected_stream:
                return  # stream_closed was the last that the conversation hears
            if self._late and not self._discarding:
                late = b"".join(self._late)
                self._late.clear()
                self._handle(self.feed.receive, late)
            self._update_reading()
            if self._end_untold and self.connected_stream and not (self._busy or self._finishing):
                self._end_untold = False
                self.conversation.peer_finished()

        result.addBoth(done)
        self._update_reading()

    def _fail(self, error: StreamError) -> None:
        if self._discarding or not self.connected_stream:
            return
        self._discarding = True
        self._update_reading()
        self.conversation.stream_failed(error)

    def _flush(self) -> None:
        self._flush_call = None
        if self._out:
            data = "".join(self._out).encode()
            self._out.clear()
            write_at_once(self.transport, self._direct, data)

    def _update_reading(self) -> None:
        if not self.connected_stream:
            return
        want = self._discarding or not (self._busy or self._held_reading or self.feed.waiting)
        transport: Any = self.transport
        if want and self._paused:
            self._paused = False
            self._last_activity = self.clock.seconds()  # until now it was we who did not read
            transport.resumeProducing()
        elif not want and not self._paused:
            self._paused = True
            transport.pauseProducing()

    def _check_idle(self) -> None:
        limit = self.limits.idle_timeout_seconds
        quiet = self.clock.seconds() - self._last_activity
        if self._paused:
            quiet = 0.0  # it is we who do not read
        if quiet >= limit:
            self._idle_call = None
            self._fail(StreamError("timeout", f"nothing for {limit:g} seconds"))
            return
        self._idle_call = self.clock.callLater(limit - quiet, self._check_idle)

    def _stalled(self) -> None:
        self._stall_call = None
        _log.warn("Peer does not read; dropping the connection", peer=str(self.peer))
        self.abort()

    def _cancel(self, name: str) -> None:
        call: IDelayedCall | Soon | None = getattr(self, name)
        setattr(self, name, None)
        if call is not None and call.active():
            call.cancel()
