"""Starts workers: through the launcher, a process of its own that forks a shepherd for each (:mod:`lcc.workers`).

There is one launcher for executables, and one for each set of modules that workers in Python of our own need: their
*template*, which has imported these.  A launcher is started when it is first needed, and again when it has died; what
it had started runs on.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory, ProcessProtocol, connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from lcc.roles.manager.descriptors import Descriptor, Output
from lcc.roles.manager.remains import sweep
from lcc.transport.stream import XmlStream
from lcc.workers.launch import LEASE, REQUEST_BYTES_MAX, Launch, Report, python_process
from lcc.workers.linux import boot_seconds

_log = Logger()

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
            command, environment = python_process("lcc.workers.launcher", *self._preload)
            protocol = _LauncherProtocol(lambda: self._died(here))
            self._process = self._reactor.spawnProcess(
                protocol,
                command[0],
                command,
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
        self._output: Output | None = None
        self._descriptor: Descriptor | None = None
        self._control: _Control | None = None
        self._unread: socket.socket | None = None

    def begin(self, reading: int, descriptor: socket.socket, control: socket.socket) -> None:
        """Take over these ends; ``control`` is the caller's to close."""
        reactor = self._reactor
        self._control = _Control(self)
        control.setblocking(False)
        self._unread = control.dup()
        # First, since it may fail, for want of descriptors; the others are then the reactor's alone.
        reactor.adoptStreamConnection(control.fileno(), socket.AF_UNIX, _Once(self._control))
        self._output = Output(reactor, reading, self._job.wrote, self._end_closed)
        self._descriptor = Descriptor(reactor, descriptor, self._job.build_descriptor(self._end_closed))

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
        self._read_last()
        if self._report is None:
            _log.error("The process that watches over a worker has died; ending what is left of that job")
            text = (
                "The process that watches over the worker was killed, or could not start; see the log of the manager"
            )
            self._in_thread(sweep, self._mark).addBoth(lambda _: self.reported(Report(refused=text, again=True)))

    def _read_last(self) -> None:
        """Read what it had said when writing to it failed: then the reactor reads no more."""
        unread, self._unread = self._unread, None
        if unread is None:
            return
        with unread, suppress(OSError):
            while self._report is None and (data := unread.recv(_LINE_BYTES_MAX)):
                assert self._control is not None
                self._control.dataReceived(data)

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
