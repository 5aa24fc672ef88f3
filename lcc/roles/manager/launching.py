"""Starts workers: through the launcher, a process of its own that forks a shepherd for each (:mod:`lcc.workers`).

There is one launcher for executables, and one for each set of modules that workers in Python of our own need: their
*template*, which has imported these.  A launcher is started when it is first needed, and again when it has died; what
it had started runs on.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from twisted.internet.abstract import FileDescriptor
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory, ProcessProtocol, connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from lcc.transport.stream import XmlStream
from lcc.workers.launch import LEASE, REQUEST_BYTES_MAX, Launch, Report
from lcc.workers.linux import boot_seconds, marked, send_signal

_log = Logger()

_READ_BYTES = 65536
PACED_BYTES = 1 << 20
"""After so much output of a job nothing of it is read for :data:`PACE_SECONDS`, so that one that floods does not have
the manager for itself."""
PACE_SECONDS = 0.05
SEND_SECONDS = 0.05
"""Between two tries to send answers that a worker does not read."""
UNSENT_BYTES_MAX = 256 * 1024
"""Answers that a worker does not read: with more, nothing is read of it either."""
DRAIN_SECONDS = 60.0
"""When all processes of a job have ended their ends of its pipes are closed, and what they said is read.  If not,
because somebody else has got hold of one, it is not waited for any longer."""
_LINE_BYTES_MAX = 65536
_ERROR_LINE_BYTES_MAX = 2000


class LaunchedJob(Protocol):
    """What a launcher tells of a job: :class:`lcc.roles.manager.job.RunningJob`."""

    def started(self, pid: int) -> None:
        """The worker runs."""

    def wrote(self, data: bytes) -> None:
        """It has written this to its standard output or error."""

    def build_descriptor(self, closed: Callable[[], object]) -> XmlStream:
        """The protocol at this end of its descriptor 3.

        :param closed: called when that is closed.
        """

    def fault(self, text: str) -> None:
        """Not all that it said could be read."""

    def ended(self, report: Report) -> None:
        """All its processes have ended, or it could not be started; the last that is told."""


class Launcher:
    """
    :param lock: descriptor of the lock that launchers and shepherds inherit.
    :param preload: modules of the template; none: it only starts executables.
    :param in_thread: runs what blocks.
    """

    def __init__(
        self,
        reactor: Any,
        lock: Callable[[], int],
        preload: tuple[str, ...],
        in_thread: Callable[..., Any],
    ) -> None:
        self._reactor = reactor
        self._lock = lock
        self._preload = preload
        self._in_thread = in_thread
        self._requests: socket.socket | None = None
        self._process: Any = None

    def start(self, launch: Launch, mark: str, job: LaunchedJob) -> LaunchedProcess:
        """Start a job's worker.

        :param mark: what begins one of its environment variables, and no other job's: by it, its processes are found
            if its shepherd is gone.
        :raises OSError: that is not possible now.
        """
        request = launch.to_bytes()
        if len(request) > REQUEST_BYTES_MAX:
            raise OSError(errno.E2BIG, "arguments and environment are too long")
        own: list[socket.socket] = []
        theirs: list[Any] = []
        reading = writing = -1
        try:
            reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            os.set_blocking(writing, True)
            for _ in range(2):
                here, there = socket.socketpair()
                own.append(here)
                theirs.append(there)
            self._send(request, [writing, *(each.fileno() for each in theirs)])
            process = LaunchedProcess(self._reactor, job, mark, self._in_thread)
            process.begin(reading, own.pop(0), own[0])
            reading = -1
            return process
        finally:
            for each in (*own, *theirs):
                each.close()
            for number in (reading, writing):
                if number >= 0:
                    os.close(number)

    def stop(self) -> None:
        """Let it end; its shepherds end their jobs when they lose the manager, or as they are told."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def _send(self, request: bytes, descriptors: list[int]) -> None:
        for _ in range(2):
            if self._requests is None:
                self._spawn()
            assert self._requests is not None
            try:
                socket.send_fds(self._requests, [request], descriptors)
                return
            except (BrokenPipeError, ConnectionError):
                self._requests.close()  # it has died
                self._requests = None
        raise OSError(errno.ECHILD, "the launcher of workers dies")

    def _spawn(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here.setblocking(False)
        for each in (here, there):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * REQUEST_BYTES_MAX)
        with there:
            environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
            arguments = [sys.executable, "-s", "-P", "-m", "lcc.workers.launcher"]
            arguments += [*self._preload]
            protocol = _LauncherProtocol(lambda: self._died(here))
            self._process = self._reactor.spawnProcess(
                protocol,
                sys.executable,
                arguments,
                environment,
                "/",
                childFDs={0: there.fileno(), 1: self._lock(), 2: "r"},
            )
        self._requests = here

    def _died(self, requests: socket.socket) -> None:
        if self._requests is requests:
            self._requests = None
            requests.close()


class _LauncherProtocol(ProcessProtocol):
    """What a launcher writes to its standard error goes into the log."""

    def __init__(self, died: Callable[[], object]) -> None:
        self._died = died
        self._rest = b""

    def errReceived(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:_ERROR_LINE_BYTES_MAX]
        for line in lines:
            _log.warn("Launcher of workers: {line}", line=line[:_ERROR_LINE_BYTES_MAX].decode("utf-8", "replace"))

    def processEnded(self, reason: Failure) -> None:
        self._died()


class LaunchedProcess:
    """The processes of one job, as this manager sees them: an output, a descriptor 3, and a shepherd."""

    def __init__(self, reactor: Any, job: LaunchedJob, mark: str, in_thread: Callable[..., Any]) -> None:
        self._reactor = reactor
        self._job = job
        self._mark = mark
        self._in_thread = in_thread
        self._report: Report | None = None
        self._open = 2
        self._drain_call: Any = None
        self._output: _Output | None = None
        self._descriptor: _Descriptor | None = None
        self._control: _Control | None = None

    def begin(self, reading: int, descriptor: socket.socket, control: socket.socket) -> None:
        """Take over these ends; ``control`` is the caller's to close."""
        reactor = self._reactor
        self._control = _Control(self)
        control.setblocking(False)
        # First, since it may fail, for want of descriptors; the others are then the reactor's alone.
        reactor.adoptStreamConnection(control.fileno(), socket.AF_UNIX, _Once(self._control))
        self._output = _Output(reactor, reading, self._job.wrote, self._end_closed)
        self._descriptor = _Descriptor(reactor, descriptor, self._job.build_descriptor(self._end_closed))

    def renew(self, until: float) -> None:
        """Its lease ends later: then, on the reactor's clock."""
        self.tell(f"{LEASE} {on_boot_clock(self._reactor, until)!r}")

    def tell(self, words: str) -> None:
        """Tell the shepherd."""
        if self._control is not None and self._control.transport is not None:
            self._control.transport.write(f"{words}\n".encode())

    def reported(self, report: Report) -> None:
        """The shepherd says this."""
        if report.pid:
            self._job.started(report.pid)
        elif self._report is None:
            self._report = report
            self._drain_call = self._reactor.callLater(DRAIN_SECONDS, self._drained)
            self._perhaps_end()

    def shepherd_gone(self) -> None:
        """It says nothing more."""
        if self._report is None:
            _log.error("The process that watches over a worker has died; ending what is left of that job")
            text = (
                "The process that watches over the worker was killed, or could not start; see the log of the manager"
            )
            self._in_thread(sweep, self._mark).addBoth(lambda _: self.reported(Report(refused=text, again=True)))

    def _end_closed(self) -> None:
        self._open -= 1
        self._perhaps_end()

    def _perhaps_end(self) -> None:
        if self._report is not None and not self._open:
            call, self._drain_call = self._drain_call, None
            if call is not None:
                call.cancel()
                self._end()

    def _drained(self) -> None:
        self._drain_call = None
        assert self._output is not None and self._descriptor is not None
        self._job.fault("its output, or descriptor 3, was still open when its processes had ended")
        self._output.connectionLost(connectionDone)
        self._descriptor.connectionLost(connectionDone)
        self._end()

    def _end(self) -> None:
        assert self._report is not None
        self._job.ended(self._report)


class _Output(FileDescriptor):
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


class _Descriptor(FileDescriptor):
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


class _Control(LineOnlyReceiver):
    """This end of a shepherd's socket."""

    delimiter = b"\n"
    MAX_LENGTH = _LINE_BYTES_MAX

    def __init__(self, process: LaunchedProcess) -> None:
        self._process = process

    def lineReceived(self, line: bytes) -> None:
        self._process.reported(Report.from_line(line))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._process.shepherd_gone()


class _Once(Factory):
    """Gives one protocol."""

    noisy = False

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol

    def buildProtocol(self, addr: object) -> Any:
        return self._protocol


def on_boot_clock(clock: IReactorTime, moment: float) -> float:
    """A moment of the reactor's clock on that of shepherds."""
    return boot_seconds() + moment - clock.seconds()


def sweep(mark: str, rounds_max: int = 1000) -> None:
    """Kill all processes whose environment has something that begins like this, until there are none.  It blocks."""
    for _ in range(rounds_max):
        found = [pid for pid in marked(mark.encode()) if send_signal(pid, 9)]
        if not found:
            return


class WorkersLock:
    """The lock that launchers and shepherds inherit: as long as one of an earlier run of this manager has it, a job
    of that run may have processes.

    :param path: of its file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """To be inherited."""
        return self._descriptor

    def acquire(self) -> bool:
        """Get it, unless somebody has it; then False.

        :raises OSError: its file cannot be made.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Keep it no longer; those that have inherited it do."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
