"""A connection whose whole input is the content, and the book of connections that are open."""

from __future__ import annotations

from typing import Any, Protocol

from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from lcc.errors import FetchError
from lcc.fetchers.steps import Steps


class Abortable(Protocol):
    """A protocol that can be ended."""

    def abort(self) -> None:
        """Close the connection at once."""


class Connections:
    """The connections of one fetcher, so that it can tell when all are gone."""

    def __init__(self) -> None:
        self._open: set[Abortable] = set()
        self._closing = False
        self._waiting: list[Deferred[None]] = []

    def made(self, connection: Abortable) -> None:
        """There is a connection."""
        self._open.add(connection)
        if self._closing:
            connection.abort()

    def lost(self, connection: Abortable) -> None:
        """It is gone."""
        self._open.discard(connection)
        self._check()

    def close(self) -> Deferred[None]:
        """Abort all; fires when they are gone."""
        self._closing = True
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        for connection in list(self._open):
            connection.abort()
        self._check()
        return done

    def _check(self) -> None:
        if self._closing and not self._open:
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done.callback(None)


class Taking(Protocol):
    """Where content goes (:class:`lcc.fetchers.base.Task`)."""

    wire_bytes: int

    def write(self, data: bytes) -> None:
        """Take the next bytes.  Raises FetchError."""


class Download(protocol.Protocol):
    """Takes the content until the server closes the connection.

    :param task: gets the content.
    :ivar done: fires when the server has closed the connection in order; fails with FetchError.  Cancelling it cuts
        the connection.
    """

    def __init__(self, clock: Any, idle_seconds: float, task: Taking, connections: Connections, steps: Steps) -> None:
        self.done: Deferred[None] = Deferred(lambda _: self.abort())
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._task = task
        self._connections = connections
        self._steps = steps
        self._fault: FetchError | None = None
        self._last = 0.0
        self._begun = False
        self._timer: Any = None

    def send(self, data: bytes) -> None:
        """Ask the server for something."""
        self.transport.write(data)  # type: ignore[union-attr]  # it is connected

    def abort(self) -> None:
        """Cut the connection."""
        if self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # it is connected

    def drop(self) -> None:
        """Nobody wants it any longer: cut it, if it is still there; ``done`` is not waited for."""
        self.done.addErrback(lambda _: None)
        self.abort()

    def connectionMade(self) -> None:
        self._connections.made(self)
        self._last = self._clock.seconds()
        self._timer = self._clock.callLater(self._idle_seconds, self._check_idle)

    def dataReceived(self, data: bytes) -> None:
        if self._fault is not None:
            return
        self._last = self._clock.seconds()
        if not self._begun:
            self._begun = True
            self._steps.tell("first-byte")
        self._task.wire_bytes += len(data)
        try:
            self._task.write(data)
        except FetchError as error:
            self._fail(error)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._connections.lost(self)
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self.done.called:
            return
        if self._fault is not None:
            self.done.errback(self._fault)
        elif reason.check(ConnectionDone):
            self.done.callback(None)
        else:
            self.done.errback(FetchError("early-eof", reason.getErrorMessage()[:200]))

    def _check_idle(self) -> None:
        left = self._last + self._idle_seconds - self._clock.seconds()
        if left > 0:
            self._timer = self._clock.callLater(left, self._check_idle)
        else:
            self._fail(FetchError("idle-timeout"))

    def _fail(self, error: FetchError) -> None:
        self._fault = error
        self.abort()
