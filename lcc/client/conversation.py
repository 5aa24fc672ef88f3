"""A provider's end of a conversation with a UNS that stays open: a login, then set after set.

*Owns* one connection to the UNS's port of providers, or of gateways.

*Strategy.*  The UNS judges: whether the password is right, the set may come, each URL.  What it says of the set is
handed on as it comes; who cannot take it lets the UNS wait, which keeps it on its disk.

*Failures.*  A connection that ends before the verdict is :class:`NoVerdict`: the set may have been accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import ERRORS, StreamError, code
from lcc.interfaces import IConversation
from lcc.protocols.cp_uns import (
    InitAccepted,
    InitRejected,
    SetAccepted,
    SetBegun,
    SetRejected,
    UnsMessage,
    UrlFault,
)
from lcc.protocols.cp_uns_client import ClientReader, init, reply_feed, set_end
from lcc.protocols.xmlfeed import Event
from lcc.transport.stream import StreamLimits, XmlStream

T = TypeVar("T")
_STALL_SECONDS = 60.0


class Refused(Exception):
    """The UNS, or who speaks in its place, does not take it; nothing was accepted.

    :ivar code: of the error table.
    """

    def __init__(self, number: int, text: str = "") -> None:
        self.code = number
        self.text = text or ERRORS[number].text
        super().__init__(f"{number} {self.text}")


def refused(name: str, detail: str = "") -> Refused:
    """The error of this name."""
    return Refused(code(name), f"{ERRORS[code(name)].text}: {detail}" if detail else "")


class NoVerdict(Exception):
    """The UNS went away when it had all of the set: nobody knows whether it was accepted."""


class Outcome(Generic[T]):
    """What becomes of something: for whoever asks, before or after; perhaps nobody."""

    def __init__(self) -> None:
        self._waiting: list[Deferred[T]] = []
        self._ended: T | Exception | None = None

    def get(self) -> Deferred[T]:
        """Fires with it, or fails."""
        if isinstance(self._ended, Exception):
            return fail(self._ended)
        if self._ended is not None:
            return succeed(self._ended)
        self._waiting.append(Deferred())
        return self._waiting[-1]

    def end(self, ended: T | Exception) -> None:
        """This is it; what comes later counts no more."""
        if self._ended is not None:
            return
        self._ended = ended
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.called:
                continue
            if isinstance(ended, Exception):
                each.errback(ended)
            else:
                each.callback(ended)


@implementer(IConversation)
class Conversation:
    """See :mod:`lcc.client.conversation`.

    :param address: of the client that a gateway speaks for; empty: none.
    :param freed: called when the connection is gone.
    :ivar login: the greeting, or Refused.
    :ivar begun: order number of the set that was begun, or Refused; a UNS tells it to gateways only.
    :ivar verdict: of that set: accepted, Refused, or NoVerdict.  It may be refused before its end.
    :ivar is_open: sets can be submitted over it.
    :ivar since: when it was made, by the clock.
    """

    def __init__(
        self, clock: IReactorTime, pid: int, password: str, address: str, freed: Callable[[Conversation], object]
    ) -> None:
        self.login: Outcome[InitAccepted] = Outcome()
        self.begun: Outcome[int] = Outcome()
        self.verdict: Outcome[SetAccepted] = Outcome()
        self.is_open = True
        self.since = clock.seconds()
        self._clock = clock
        self._said = pid, password, address
        self._freed = freed
        self._reader = ClientReader()
        self._stream: XmlStream | None = None
        self._on_fault: Callable[[UrlFault], object] = lambda fault: None
        self._ended = False
        """All of the set was sent."""
        self._room: Deferred[None] | None = None

    def factory(self) -> Factory[Any]:
        """For the connection."""
        limits = StreamLimits(stall_timeout_seconds=_STALL_SECONDS)
        factory: Factory[Any] = Factory.forProtocol(lambda: XmlStream(self, self._clock, reply_feed(), limits))
        factory.noisy = False
        return factory

    # For who submits a set.

    def begin(self, head: str, on_fault: Callable[[UrlFault], object]) -> None:
        """Begin a set.

        :param head: its start tag.
        :param on_fault: takes each URL that is refused.
        """
        self.begun, self.verdict = Outcome(), Outcome()
        self._on_fault = on_fault
        self._ended = False
        self._send(head)
        if not self.is_open:
            self._fail(refused("try-later", "the UNS closed the connection"))

    def write(self, elements: str) -> None:
        """The next elements."""
        self._send(elements)

    def room(self) -> Deferred[None] | None:
        """Fires when more can be sent; None: it can."""
        if self._stream is None or self._stream.writable or not self.is_open:
            return None
        if self._room is None:
            self._room = Deferred()
        return self._room

    def end(self) -> None:
        """That was the whole set."""
        self._ended = True
        self._send(set_end())

    def keep_alive(self) -> None:
        """Say something that means nothing: a UNS drops who says nothing for long.  Only between two sets."""
        self._send("\n")

    def pause(self) -> None:
        """Hear nothing of the UNS for now."""
        if self._stream is not None:
            self._stream.pause_reading()

    def resume(self) -> None:
        """Undo :meth:`pause`."""
        if self._stream is not None:
            self._stream.resume_reading()

    def drop(self) -> None:
        """Cut the connection; a set that was not ended is given up."""
        self.is_open = False
        if self._stream is not None:
            self._stream.abort()

    def close(self) -> None:
        """End the connection; nothing is under way."""
        self.is_open = False
        if self._stream is not None:
            self._stream.close()

    def _send(self, text: str) -> None:
        if self._stream is not None:
            self._stream.send(text)

    # IConversation.

    def stream_opened(self, stream: XmlStream) -> None:
        self._stream = stream
        pid, password, address = self._said
        stream.send(init(pid, password, address=address))
        if not self.is_open:
            stream.abort()

    def events_received(self, events: list[Event]) -> None:
        for message in self._reader.events(events):
            self._message(message)
        stream = self._stream
        if stream is not None and stream.feed.waiting:
            stream.next_document()

    def stream_failed(self, error: StreamError) -> None:
        self.drop()

    def stream_resumed(self) -> None:
        self._give_room()

    def peer_finished(self) -> None:
        self.is_open = False
        if self._stream is not None:
            self._stream.close()

    def stream_closed(self, reason: Failure) -> None:
        self.is_open = False
        self._fail(refused("try-later", "the UNS closed the connection"), NoVerdict())
        self._give_room()
        self._freed(self)

    # Inside.

    def _message(self, message: UnsMessage) -> None:
        match message:
            case InitAccepted():
                self.login.end(message)
            case InitRejected(code=number, text=text) | SetRejected(code=number, text=text):
                self.is_open = False  # the UNS closes
                self._fail(Refused(number, text))
            case UrlFault():
                self._on_fault(message)
            case SetBegun(order=order):
                self.begun.end(order)
            case SetAccepted():
                self.verdict.end(message)

    def _fail(self, error: Exception, after_end: Exception | None = None) -> None:
        """
        :param after_end: where all of the set was sent.
        """
        if self._ended and after_end is not None:
            error = after_end
        for outcome in (self.login, self.begun, self.verdict):
            outcome.end(error)
        self._give_room()

    def _give_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.callback(None)
