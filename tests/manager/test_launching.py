"""What a manager hears of its shepherds, with real sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import pytest_twisted
from twisted.internet import reactor
from twisted.internet.protocol import Protocol

from lcc.roles.manager.launching import LaunchedProcess
from lcc.workers.launch import Report
from tests.support.waiting import until


class Job:
    """What is told of it."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def started(self, pid: int) -> None:
        pass

    def wrote(self, data: bytes) -> None:
        pass

    def build_descriptor(self, closed: Callable[[], object]) -> Any:
        class Closing(Protocol):
            def readConnectionLost(self) -> None:
                assert self.transport is not None
                self.transport.loseConnection()

            def connectionLost(self, reason: Any = None) -> None:
                closed()

        return Closing()

    def fault(self, text: str) -> None:
        raise AssertionError(text)

    def ended(self, report: Report) -> None:
        self.reports.append(report)


class LastWords:
    """Readable at once; then, before anything else happens in this turn, a shepherd reports and is gone."""

    def __init__(self, shepherd: socket.socket) -> None:
        self._shepherd = shepherd
        self._reading, self._writing = os.pipe()
        os.write(self._writing, b"x")

    def fileno(self) -> int:
        return self._reading

    def doRead(self) -> None:
        reactor.removeReader(self)  # type: ignore[attr-defined]
        os.close(self._reading)
        os.close(self._writing)
        self._shepherd.sendall(Report(status=0).to_line())
        self._shepherd.close()

    def logPrefix(self) -> str:
        return "last words"

    def connectionLost(self, reason: Any) -> None:
        pass


@pytest_twisted.ensureDeferred
async def test_a_report_is_read_although_a_lease_was_just_being_written() -> None:
    job = Job()
    reading, output = os.pipe()
    descriptor, worker = socket.socketpair()
    control, shepherd = socket.socketpair()
    process = LaunchedProcess(reactor, job, "mark", lambda *_: None)
    process.begin(reading, descriptor, control)
    for end in (control, worker):
        end.close()
    os.close(output)
    # Both are ready in one turn, in this order.
    reactor.addReader(LastWords(shepherd))  # type: ignore[attr-defined]
    process.renew(reactor.seconds() + 60)  # type: ignore[attr-defined]
    await until(lambda: bool(job.reports))
    assert job.reports == [Report(status=0)]
