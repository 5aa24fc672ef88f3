"""An internal wire from either end: hello, flat messages, keep-alive.

A role derives one class for each kind of peer from :class:`Peer` and says what its messages mean.  A peer that does
not say hello in time, says one that is not expected, or is silent too long is dropped; who connected, connects again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import StreamError
from lcc.interfaces import IConversation
from lcc.model.notifiers import NOTIFIERS
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import INTERNAL_LIMITS, Hello, Ping, read_hello
from lcc.protocols.xmlfeed import End, Event, Start, XmlFeed
from lcc.transport.stream import StreamLimits, XmlStream

_log = Logger()

PING_SECONDS = 5.0
IDLE_SECONDS = 20.0
HELLO_SECONDS = 10.0


@implementer(IConversation)
class Peer:
    """One connection to another role.

    Override :meth:`peer_ready`, :meth:`messages_received` (or, for raw elements, :meth:`elements_received`),
    :meth:`peer_lost` and, where much is written, :meth:`stream_resumed`.

    :param hello: what this end says of itself.
    :param expected: the roles that may be at the other end.
    :param vocabulary: what the other end may say.
    """

    def __init__(self, clock: IReactorTime, hello: Hello, expected: frozenset[str], vocabulary: Vocabulary) -> None:
        self.clock = clock
        self.hello = hello
        self.expected = expected
        self.vocabulary = vocabulary
        self.feed: XmlFeed = None  # type: ignore[assignment]  # set in build_stream, with which everything begins
        self.peer_hello: Hello | None = None
        self.stream: XmlStream = None  # type: ignore[assignment]  # set in stream_opened, before anything else runs
        self._ping: LoopingCall | None = None
        self._hello_call: Any = None
        self._peer_clock: tuple[int, int] | None = None

    def build_stream(self) -> XmlStream:
        """The Twisted protocol for this peer."""
        self.feed = XmlFeed(INTERNAL_LIMITS)
        self.feed.spellings = self.vocabulary.spellings
        return XmlStream(self, self.clock, self.feed, StreamLimits(idle_timeout_seconds=IDLE_SECONDS))

    # For the role.

    def say(self, message: Flat) -> None:
        """Send a message; after the connection's end it is dropped."""
        self.stream.send(message.to_xml())

    def clock_ms(self) -> int:
        """This end's clock as it is told to the peer."""
        return int(self.clock.seconds() * 1000)

    def peer_clock_ms(self) -> int | None:
        """What the peer's clock shows now, or a little less: as much as what it told last was on its way.  None: it
        tells nothing."""
        if self._peer_clock is None:
            return None
        told, heard = self._peer_clock
        return told + self.clock_ms() - heard

    def sent_seconds(self, sent_ms: int | None) -> float:
        """When a message was sent that says so in :meth:`clock_ms`: on this end's clock, in seconds; never later than
        now, which stands for a message that does not say."""
        now = self.clock.seconds()
        return now if sent_ms is None else min(now, sent_ms / 1000)

    def peer_ready(self, hello: Hello) -> None:
        """The peer has said its hello.  Raise StreamError to refuse it."""

    def messages_received(self, messages: list[Flat]) -> Deferred[Any] | None:
        """Messages arrived, pings left out.  A Deferred pauses the peer until it fires."""
        return None

    def peer_lost(self, reason: Failure) -> None:
        """The connection is gone; called once, also when no hello was said."""

    # IConversation.

    def stream_opened(self, stream: XmlStream) -> None:
        self.stream = stream
        stream.send(attrs.evolve(self.hello, clock_ms=self.clock_ms()).open_tag())
        self._ping = LoopingCall(self._say_ping)
        self._ping.clock = self.clock
        self._ping.start(PING_SECONDS, now=False)
        self._hello_call = self.clock.callLater(HELLO_SECONDS, self._no_hello)

    def events_received(self, events: list[Event]) -> Deferred[Any] | None:
        if self.peer_hello is None:
            root = events.pop(0)
            assert isinstance(root, Start)
            hello = read_hello(root.name, root.attributes)
            if hello.role not in self.expected:
                raise StreamError("unknown-message", f"a {hello.role!r} where one of {sorted(self.expected)} belongs")
            certified = _certified_roles(self.stream.transport)
            if certified is not None and hello.role not in certified.union(*map(_relayed, certified)):
                raise StreamError(
                    "unknown-message", f"it says {hello.role!r}, its certificate says {sorted(certified)}"
                )
            self.peer_hello = hello
            self._hello_call.cancel()
            self._set_clock(hello.clock_ms)
            self.peer_ready(hello)
        starts: list[Start] = []
        for event in events:
            if isinstance(event, Start) and event.name == "ping":
                self._set_clock(Ping.from_attributes(event.attributes).clock_ms)
            elif not isinstance(event, End):
                starts.append(event)
        if len(starts) * 2 != len(events) and any(event.depth == 1 for event in events):
            self.stream.finish()  # the peer closed its root: it is leaving
        return self.elements_received(starts) if starts else None

    def elements_received(self, elements: list[Start]) -> Deferred[Any] | None:
        """Elements arrived; by default read into messages.  Among them are runs of fast-path elements
        (:class:`lcc.protocols.xmlfeed.FastElements`) where ``feed`` was told of spellings: by default those of the
        vocabulary."""
        return self.messages_received(list(self.vocabulary.messages(elements)))

    def stream_failed(self, error: StreamError) -> None:
        _log.warn("Dropping {peer}: {error}", peer=self.describe(), error=str(error))
        self.stream.abort()

    def stream_resumed(self) -> None:
        """The transport's buffer has drained."""

    def peer_finished(self) -> None:
        self.stream.abort()

    def stream_closed(self, reason: Failure) -> None:
        if self._ping is not None and self._ping.running:
            self._ping.stop()
        if self._hello_call is not None and self._hello_call.active():
            self._hello_call.cancel()
        self.peer_lost(reason)

    def describe(self) -> str:
        """Who this is, for the log."""
        if self.peer_hello is None:
            return "a peer without a hello"
        return f"{self.peer_hello.role} {self.peer_hello.name}"

    def _say_ping(self) -> None:
        self.say(Ping(self.clock_ms()))

    def _set_clock(self, clock_ms: int | None) -> None:
        if clock_ms is not None:
            self._peer_clock = (clock_ms, self.clock_ms())

    def _no_hello(self) -> None:
        _log.warn("No hello within {seconds} seconds; dropping the connection", seconds=HELLO_SECONDS)
        self.stream.abort()


class PeerFactory(Factory):
    """Makes a :class:`Peer` for each connection.

    :param make: gives the peer; None: the connection is refused.
    """

    noisy = False

    def __init__(self, make: Callable[[], Peer | None]) -> None:
        self._make = make

    def buildProtocol(self, address: object) -> XmlStream | None:
        peer = self._make()
        return None if peer is None else peer.build_stream()


def _relayed(role: str) -> frozenset[str]:
    """The roles whose messages this one passes on."""
    return frozenset(["uns", *NOTIFIERS]) if role == "fe_uns" else frozenset()


def _certified_roles(transport: Any) -> frozenset[str] | None:
    """The roles in the certificate of who is at the other end; None: no certificate says any."""
    handle = getattr(transport, "getHandle", lambda: None)()
    shown = getattr(handle, "get_peer_certificate", None)
    if shown is None:
        return None  # it is no connection over TLS
    # Late: it loads OpenSSL (lcc.services.lean).
    from lcc.transport.tls.certificates import roles_of

    certificate = shown(as_cryptography=True)
    return None if certificate is None else roles_of(certificate) or None
