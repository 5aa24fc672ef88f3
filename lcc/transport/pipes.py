"""Connections within one process: bytes as over a UNIX socket, without the kernel.

Roles that share a process (``twistd lcc``) meet here.  A pipe stands in for a UNIX socket and has its path for a
name: a port listens on both (:class:`lcc.transport.links.PortService`), and a link takes the pipe if the port is in
its own process (:mod:`lcc.transport.pipe_endpoints`).  So pipes need no setting, and other processes use the socket.

To a protocol a :class:`PipeEnd` is what Twisted's transport of a UNIX socket is: the same bytes, back-pressure and
reasons for a lost connection (``tests/transport/test_pipes.py`` compares them).  Its buffer and its producer are
Twisted's own (:class:`~twisted.internet.abstract.FileDescriptor`), :class:`Pipes` is its reactor, and what would be
in the kernel is a list of bytes that the other end has not read.

What is saved are system calls and the events of the poll, and turns: all pipes together are one delayed call, which
moves bytes in rounds.  Nothing is delivered within the call that writes it, nor within the round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet.abstract import FileDescriptor
from twisted.internet.address import UNIXAddress
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
)
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.logger import Logger
from twisted.python.failure import Failure

_log = Logger()

UNREAD_BYTES_MAX = 65536
"""What an end takes that its protocol has not read.  The rest waits in the writer's buffer, which pauses its producer
when it holds more than as much again."""
ROUNDS_MAX = 4
"""Of one turn; the rest waits for the next one.  A result goes from a robot to the queue manager in two rounds, and
the next order back in two: what has come in one turn is one batch all the way, and no socket is polled in between."""

_DONE, _LOST = Failure(ConnectionDone()), Failure(ConnectionLost())


class Soon:
    """A call in the next round: of :class:`~twisted.internet.interfaces.IDelayedCall` what a stream needs."""

    __slots__ = ("_args", "_function")

    def __init__(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._function: Callable[..., object] | None = function
        self._args = args

    def active(self) -> bool:
        """It is neither made nor cancelled."""
        return self._function is not None

    def cancel(self) -> None:
        """Do not make it."""
        self._function = None

    def make(self) -> None:
        """Make it, unless it was cancelled."""
        function, self._function = self._function, None
        if function is not None:
            function(*self._args)


class Pipes:
    """All pipes of a process: who listens, and what moves the bytes.

    :param clock: the reactor.
    :ivar ports: the path that each port stands for -> the factory of its protocols.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self.ports: dict[str, IProtocolFactory] = {}
        self._calls: list[Soon] = []
        self._due: list[PipeEnd] = []
        self._has_turn = False
        """A turn is planned, or under way."""

    def call_soon(self, function: Callable[..., object], *args: Any) -> Soon:
        """Call this in the next round, before anything is delivered."""
        soon = Soon(function, args)
        self._calls.append(soon)
        if not self._has_turn:
            self._plan_turn()
        return soon

    def plan(self, end: PipeEnd) -> None:
        """This end has something to read or to write."""
        self._due.append(end)
        if not self._has_turn:
            self._plan_turn()

    def _plan_turn(self) -> None:
        self._has_turn = True
        self._clock.callLater(0, self._turn)

    def _turn(self) -> None:
        rounds = 0
        try:
            while (self._calls or self._due) and rounds < ROUNDS_MAX:
                rounds += 1
                self._round()
        finally:
            self._has_turn = False
            if self._calls or self._due:
                self._plan_turn()

    def _round(self) -> None:
        calls, self._calls = self._calls, []
        ends, self._due = self._due, []
        for act in (*(call.make for call in calls), *(end.act for end in ends)):
            try:
                act()
            except Exception:
                _log.failure("A protocol failed")


class PipeEnd(FileDescriptor):
    """One end of a pipe: the transport of a protocol.

    :param host, peer: the addresses of this end and of the other.
    :ivar other: the other end.
    :ivar when_lost: called once the connection is over here.
    """

    other: PipeEnd
    protocol: Any

    def __init__(self, pipes: Pipes, host: UNIXAddress, peer: UNIXAddress) -> None:
        super().__init__(cast(Any, pipes))  # as its reactor: what is asked of that is overridden below
        self._pipes = pipes
        self.when_lost: Callable[[], object] = lambda: None
        self._host = host
        self._peer = peer
        self._reading = False
        self._writing = False
        self._planned = False
        self._aborting = False
        self._closed = False
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._is_held_up = False
        """The other end has not taken all that was written."""
        self._is_end_of_input = False
        """Nothing comes after what is unread."""
        self._is_reset = False
        """After what is unread comes an error instead of the end: the other end was closed before it had read all."""

    @classmethod
    def pair(cls, pipes: Pipes, near: UNIXAddress, far: UNIXAddress) -> tuple[PipeEnd, PipeEnd]:
        """Both ends of a new pipe, with these addresses."""
        ends = cls(pipes, near, far), cls(pipes, far, near)
        ends[0].other, ends[1].other = ends[1], ends[0]
        return ends

    def begin(self, protocol: IProtocol) -> None:
        """The connection is made."""
        self.protocol = protocol
        self.connected = 1
        self.startReading()
        protocol.makeConnection(cast(Any, self))

    def refuse(self) -> None:
        """Nobody wants this connection, which has not begun."""
        self._closed = True
        self.disconnected = 1
        self.other._end_input()

    def call_soon(self, function: Callable[..., object], *args: Any) -> Soon:
        """Call this in the next round, before anything is delivered."""
        return self._pipes.call_soon(function, *args)

    def getHost(self) -> UNIXAddress:
        return self._host

    def getPeer(self) -> UNIXAddress:
        return self._peer

    def abortConnection(self) -> None:
        """Drop the connection; what still waits in the buffer is lost."""
        if self.disconnected or self._aborting:
            return
        self._aborting = True
        self.stopReading()
        self.stopWriting()
        self._pipes.call_soon(self.connectionLost, Failure(ConnectionAborted()))

    # What FileDescriptor has of its reactor.

    def startReading(self) -> None:
        self._reading = not (self._aborting or self._closed)
        self._plan()

    def stopReading(self) -> None:
        self._reading = False

    def startWriting(self) -> None:
        self._writing = not (self._aborting or self._closed)
        self._plan()

    def stopWriting(self) -> None:
        self._writing = False

    # What it has of those who derive from it.

    def writeSomeData(self, data: bytes) -> int | BaseException:
        """Write as much as the other end takes now.

        :return: the number of bytes, or why the connection is lost.
        """
        other = self.other
        if other._closed or self._writeDisconnected:
            return CONNECTION_LOST
        if self._aborting:
            return 0
        size = len(data)
        room = UNREAD_BYTES_MAX - other._unread_bytes
        self._is_held_up = size > room
        if self._is_held_up:
            size = room
            data = data[:room]
        if size:
            other._unread.append(bytes(data))  # of what may be a memoryview
            other._unread_bytes += size
            other._plan()
        return size

    def doRead(self) -> Exception | None:
        unread = self._unread
        if unread:
            data = unread[0] if len(unread) == 1 else b"".join(unread)
            unread.clear()
            self._unread_bytes = 0
            self.other._plan()
            self.protocol.dataReceived(data)
            return None
        if self._is_reset:
            self._is_reset = False
            return CONNECTION_LOST
        return CONNECTION_DONE

    def readConnectionLost(self, reason: Failure) -> None:
        if not IHalfCloseableProtocol.providedBy(self.protocol):
            self.connectionLost(reason)
            return
        try:
            self.protocol.readConnectionLost()
        except Exception:
            _log.failure("A protocol failed in readConnectionLost")
            self.connectionLost(Failure())

    def _closeWriteConnection(self) -> None:
        self.other._end_input()
        if not IHalfCloseableProtocol.providedBy(self.protocol):
            return
        try:
            self.protocol.writeConnectionLost()
        except Exception:
            _log.failure("A protocol failed in writeConnectionLost")
            self.connectionLost(Failure())

    def connectionLost(self, reason: Failure) -> None:
        if self._closed:
            return
        self._closed = True
        super().connectionLost(reason)
        other = self.other
        if self._unread or other._is_held_up:
            self._unread.clear()
            other._is_reset = True
        other._end_input()
        protocol = self.protocol
        del self.protocol
        try:
            protocol.connectionLost(reason)
        finally:
            self.when_lost()

    # What a reactor does with a descriptor.

    def act(self) -> None:
        """Read and write what can be; end the connection if that fails."""
        self._planned = False
        why: Any = None
        is_read = False
        try:
            if self._reading and self._is_readable:
                why = self.doRead()
                is_read = True
            if not why and self._writing and self._is_writable:
                why = self.doWrite()
                is_read = False
        except Exception as error:
            _log.failure("A protocol failed; dropping the connection")
            why = error
        if why:
            self._disconnect(why, is_read)
        self._plan()

    def _disconnect(self, why: Exception, is_read: bool) -> None:
        self.stopReading()
        if why is CONNECTION_DONE and is_read:
            self.readConnectionLost(_DONE)
            return
        self.stopWriting()
        self.connectionLost(_DONE if why is CONNECTION_DONE else _LOST if why is CONNECTION_LOST else Failure(why))

    @property
    def _is_readable(self) -> bool:
        return bool(self._unread) or self._is_end_of_input

    @property
    def _is_writable(self) -> bool:
        other = self.other
        return other._closed or other._unread_bytes < UNREAD_BYTES_MAX

    def _end_input(self) -> None:
        self._is_end_of_input = True
        self._plan()

    def _plan(self) -> None:
        if not self._planned and ((self._reading and self._is_readable) or (self._writing and self._is_writable)):
            self._planned = True
            self._pipes.plan(self)
