"""Sends what a request of the content port asks for, as fast as its connection takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.web.server import Request
from zope.interface import implementer

from lcc.transport.http.client import Watch

_log = Logger()

PIECE_BYTES = 1 << 16


@implementer(IPushProducer)
class PieceSender:
    """Sends pieces of an answer.

    It pushes: a pull producer would come to the global reactor (``HTTPChannel`` drives it by ``task.cooperate``).

    :param pieces: raises OSError if what was promised cannot be sent: only a connection that breaks says so.
    :param watch: of a client that takes nothing.
    :param close: called once, at the end.
    """

    def __init__(
        self, request: Request, pieces: Iterator[bytes], watch: Watch, close: Callable[[], None] = lambda: None
    ) -> None:
        self._request = request
        self._pieces = pieces
        self._watch = watch
        self._close = close
        self._paused = False
        self._over = False

    def start(self) -> None:
        """Begin."""
        self._watch.start(lambda: abort(self._request))
        self._request.notifyFinish().addBoth(lambda _: self.stopProducing())
        self._request.registerProducer(self, True)
        self.resumeProducing()

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        while not (self._paused or self._over):
            self._watch.moved()
            self._send_piece()

    def stopProducing(self) -> None:
        if not self._over:
            self._over = True
            self._watch.stop()
            self._close()

    def _send_piece(self) -> None:
        try:
            piece = next(self._pieces, None)
        except OSError as error:
            _log.error("Cannot read content: {error}", error=str(error))
            self.stopProducing()
            abort(self._request)
            return
        if piece is not None:
            self._request.write(piece)
        else:
            self.stopProducing()
            self._request.unregisterProducer()
            self._request.finish()


def is_over(request: Request) -> bool:
    """Its connection is gone."""
    return request.channel is None


def abort(request: Request) -> None:
    """Break the connection of a request."""
    if not is_over(request):
        request.channel.forceAbortClient()
