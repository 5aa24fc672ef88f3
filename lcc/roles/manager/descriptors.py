"""The manager's ends of what a worker writes to: its output, and its descriptor 3.

The reactor reads both, slowly where there is much.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from twisted.internet.abstract import FileDescriptor
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from lcc.transport.stream import XmlStream

_READ_BYTES = 65536
PACED_BYTES = 1 << 20
"""After so much output of a job nothing of it is read for :data:`PACE_SECONDS`, so that one that floods does not have
the manager for itself."""
PACE_SECONDS = 0.05
SEND_SECONDS = 0.05
"""Between two tries to send answers that a worker does not read."""
UNSENT_BYTES_MAX = 256 * 1024
"""Answers that a worker does not read: with more, nothing is read of it either."""


class Output(FileDescriptor):
    """Reads what a worker writes."""

    def __init__(
        self, reactor: Any, descriptor: int, wrote: Callable[[bytes], object], closed: Callable[[], object]
    ) -> None:
        super().__init__(reactor)
        self._clock = reactor
        self._descriptor = descriptor
        self._wrote = wrote
        self._closed = closed
        self._unpaced_bytes = 0
        self._pause_call: Any = None
        self.connected = 1
        self.startReading()

    def fileno(self) -> int:
        return self._descriptor

    def doRead(self) -> Any:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            return ConnectionDone()
        self._wrote(data)
        self._unpaced_bytes += len(data)
        if self._unpaced_bytes >= PACED_BYTES:
            self._unpaced_bytes = 0
            self.stopReading()
            self._pause_call = self._clock.callLater(PACE_SECONDS, self._go_on)
        return None

    def _go_on(self) -> None:
        self._pause_call = None
        self.startReading()

    def connectionLost(self, reason: Failure) -> None:
        if self._descriptor < 0:
            return
        self.stopReading()
        if self._pause_call is not None:
            self._pause_call.cancel()
        os.close(self._descriptor)
        self._descriptor = -1
        self._closed()


class Descriptor(FileDescriptor):
    """This end of a worker's descriptor 3.

    As a transport it differs from Twisted's in one thing: what the worker does not read is no reason not to read what
    it has said.  A worker may write its requests, take no notice of the answers, and exit.  (Twisted's ends a
    connection whose other end is closed as soon as it cannot write to it, and forgets what is still to be read.)
    """

    def __init__(self, reactor: Any, connection: socket.socket, stream: XmlStream) -> None:
        super().__init__(reactor)
        connection.setblocking(False)
        self._clock = reactor
        self._connection = connection
        self._stream = stream
        self._unsent = bytearray()
        self._send_call: Any = None
        self._closing = False
        self._full = False
        self.connected = 1
        stream.makeConnection(self)
        self.startReading()

    def fileno(self) -> int:
        return self._connection.fileno()

    # The reactor.

    def doRead(self) -> Any:
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            data = b""  # it has left answers unread; all its requests are read by now
        if data:
            self._stream.dataReceived(data)
            return None
        return ConnectionDone()

    def readConnectionLost(self, reason: Failure) -> None:
        self.stopReading()
        self._stream.readConnectionLost()

    def connectionLost(self, reason: Failure) -> None:
        if self.fileno() >= 0:
            self.stopReading()
            if self._send_call is not None:
                self._send_call.cancel()
            self._connection.close()
            self._stream.connectionLost(reason)

    # The stream.

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """The stream itself is told."""

    def unregisterProducer(self) -> None:
        """It is not told any longer; nor would it mind."""

    def write(self, data: bytes) -> None:
        self._unsent += data
        if self._send_call is None:
            self._send()

    def loseConnection(self, _connDone: object = None) -> None:
        self._closing = True
        self.stopReading()
        if self._send_call is None:
            self._send_call = self._clock.callLater(0, self._send)

    def abortConnection(self) -> None:
        """Close it at once."""
        self._unsent.clear()
        self.loseConnection()

    def _send(self) -> None:
        self._send_call = None
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            # Not by way of the reactor: it would watch for the other end's closing, too.
            self._send_call = self._clock.callLater(SEND_SECONDS, self._send)
            if len(self._unsent) > UNSENT_BYTES_MAX and not self._full:
                self._full = True
                self._stream.pauseProducing()
            return
        except OSError:
            self._unsent.clear()  # nobody reads it any longer
        if self._closing:
            self.connectionLost(connectionDone)
        elif self._full:
            self._full = False
            self._stream.resumeProducing()
