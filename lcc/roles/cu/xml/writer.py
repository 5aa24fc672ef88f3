"""Writing a long answer to a stream: more is made when what there is has left."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed

from lcc.transport.stream import XmlStream


class XmlWriter:
    """``write``, then wait for ``room()``.  Who does not read is dropped by the stream."""

    def __init__(self, stream: XmlStream) -> None:
        self._stream = stream
        self._waiting: Deferred[None] | None = None

    def write(self, text: str) -> None:
        """Send this at once, so that the transport can say whether it is too much."""
        self._stream.send(text)
        self._stream.flush()

    def room(self) -> Deferred[None]:
        """Fires when more can be sent.  One at a time may wait; it may be cancelled."""
        if self._stream.writable:
            return succeed(None)
        self._waiting = Deferred(self._cancelled)
        return self._waiting

    def resumed(self) -> None:
        """The stream has room again."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    def _cancelled(self, _: Deferred[None]) -> None:
        self._waiting = None
