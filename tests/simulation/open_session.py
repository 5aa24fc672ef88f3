"""A provider's program that stays connected, and tells several sets on one connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import StreamError
from lcc.interfaces import IConversation
from lcc.protocols.cp_uns import InitAccepted, InitRejected, SetAccepted, SetRejected
from lcc.protocols.cp_uns_client import ClientReader, init, reply_feed, set_begin, set_end, url_element
from lcc.protocols.xmlfeed import Event
from lcc.transport.stream import StreamLimits, XmlStream

ANSWER_SECONDS = 30.0


@implementer(IConversation)
class OpenSession:
    """The provider's end of one connection.

    :ivar welcome: fires with what the UNS tells; None: it does not let us in, or is gone.
    """

    def __init__(self, reactor: Any, pid: int, password: str) -> None:
        self.welcome: Deferred[InitAccepted | None] = Deferred()
        self._reactor = reactor
        self._init = init(pid, password)
        self._feed = reply_feed()
        self._reader = ClientReader()
        self._stream: XmlStream | None = None
        self._opened: Deferred[bool] | None = None
        self._answer: Deferred[bool | None] = Deferred()
        self._lost = False

    def build_stream(self) -> XmlStream:
        """The Twisted protocol."""
        return XmlStream(self, self._reactor, self._feed, StreamLimits(stall_timeout_seconds=ANSWER_SECONDS))

    def begin(self, full: bool, urlprefix: str) -> Deferred[bool]:
        """Begin a set.

        :returns: fires when its answer has begun, so that the set has its order number; False: the UNS is gone.
        """
        opened = self._opened = Deferred()
        self._answer = Deferred()
        if self._lost or self._stream is None:
            self._over()
        else:
            self._stream.send(set_begin(full, urlprefix))
            self._watch(self._answer)
        return opened

    def tell(self, elements: Iterable[dict[str, str]], whole: bool) -> Deferred[bool | None]:
        """Go on with it, to its end or not.

        :returns: fires with whether it is accepted; None: the UNS is gone.
        """
        if self._stream is not None:
            self._stream.send("".join(map(url_element, elements)) + (set_end() if whole else ""))
        return self._answer

    def drop(self) -> None:
        """End in the middle."""
        if self._stream is not None:
            self._stream.flush()
            self._stream.abort()

    def close(self) -> None:
        """End in order."""
        if self._stream is not None:
            self._stream.close()

    # IConversation.

    def stream_opened(self, stream: XmlStream) -> None:
        self._stream = stream
        stream.send(self._init)
        self._watch(self.welcome)

    def events_received(self, events: list[Event]) -> None:
        for message in self._reader.events(events):
            match message:
                case InitAccepted():
                    self.welcome.callback(message)
                case InitRejected():
                    self._over()
                case SetAccepted() | SetRejected():
                    self._begun()
                    if not self._answer.called:
                        self._answer.callback(isinstance(message, SetAccepted))
        if self._feed.inside_document:
            self._begun()
        elif self._feed.waiting and self._stream is not None:
            self._stream.next_document()

    def stream_failed(self, error: StreamError) -> None:
        self._over()

    def stream_resumed(self) -> None:
        """There is always room."""

    def peer_finished(self) -> None:
        self._over()

    def stream_closed(self, reason: Failure) -> None:
        self._over()

    # Inside.

    def _begun(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.callback(True)

    def _over(self) -> None:
        self._lost = True
        opened, self._opened = self._opened, None
        if not self.welcome.called:
            self.welcome.callback(None)
        if opened is not None:
            opened.callback(False)
        if not self._answer.called:
            self._answer.callback(None)
        self.drop()

    def _watch(self, awaited: Deferred[Any]) -> None:
        """End if it does not come."""
        call = self._reactor.callLater(ANSWER_SECONDS, self._over)

        def came(value: Any) -> Any:
            if call.active():
                call.cancel()
            return value

        awaited.addBoth(came)
