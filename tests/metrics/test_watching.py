"""What a process tells its supervisor, and when, on a clock of the test's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.task import Clock
from zope.interface import implementer

from lcc.interfaces import IRoleMetrics
from lcc.metrics.supervisor import Supervisor
from lcc.metrics.watched import Process, Watched
from lcc.model.metrics import Condition, Reading
from lcc.services.process.telemetry import WatchService
from tests.support.logs import LoggedErrors


@implementer(IRoleMetrics)
@attrs.define
class Role:
    """One whose conditions the test sets."""

    waits: str = ""
    broken: str = ""
    fails: bool = False
    background: tuple[()] = ()

    def readings(self) -> Iterator[Reading]:
        yield from ()

    def conditions(self) -> Iterator[Condition]:
        if self.fails:
            raise RuntimeError("planted")
        yield Condition("other", self.waits, "wait")
        yield Condition("itself", self.broken, "start it again", alive=True)


class Heard:
    """The supervisor's end."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(str(path))

    def __call__(self) -> list[str]:
        words: list[str] = []
        while True:
            try:
                words += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return words


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[Heard]:
    heard = Heard(tmp_path / "notify")
    yield heard
    heard.socket.close()


def started(tmp_path: Path, role: Role, watchdog_seconds: float = 0.0) -> tuple[WatchService, Clock]:
    clock: Any = Clock()
    process = Process([Watched("qm", role, ())], clock)
    service = WatchService(process, Supervisor(str(tmp_path / "notify"), watchdog_seconds), clock)
    service.startService()
    return service, clock


def test_ready_is_said_once_and_only_when_it_is(tmp_path: Path, heard: Heard) -> None:
    role = Role(waits="its database is away")
    service, clock = started(tmp_path, role)
    assert heard() == ["STATUS=qm: its database is away"]
    clock.pump([1.0] * 300)
    assert heard() == [], "nobody wants to hear that it still waits"
    role.waits = ""
    clock.advance(1)
    assert heard() == ["READY=1", "STATUS=ready"]
    role.waits = "away again"
    clock.advance(1)
    role.waits = ""
    clock.advance(1)
    assert heard() == ["STATUS=qm: away again", "STATUS=ready"]
    service.stopService()
    assert heard() == ["STOPPING=1", "STATUS=stopping"]
    assert not clock.getDelayedCalls()


def test_what_was_not_taken_is_said_again(tmp_path: Path, heard: Heard) -> None:
    full = Supervisor(str(tmp_path / "notify"))
    while full.tell(STATUS="somebody else"):  # it is behind
        pass
    service, clock = started(tmp_path, Role())
    clock.pump([1.0] * 3)
    assert "READY=1" not in heard()
    clock.advance(1)
    assert heard() == ["READY=1", "STATUS=ready"]
    service.stopService()


def test_the_watchdog_hears_of_a_process_that_waits_but_not_of_a_broken_one(
    tmp_path: Path, heard: Heard, logged_errors: LoggedErrors
) -> None:
    role = Role(waits="its database is away")
    service, clock = started(tmp_path, role, watchdog_seconds=1.5)
    heard()
    clock.pump([0.5] * 6)
    assert heard() == ["WATCHDOG=1"] * 6
    role.broken = "it does not turn"
    clock.pump([0.5] * 6)
    assert heard() == ["STATUS=qm: its database is away; qm: it does not turn"]
    role.broken, role.fails = "", True
    clock.pump([0.5] * 2)
    assert heard() == []
    assert len(logged_errors.flush("planted")) == 2
    role.fails = False
    clock.advance(0.5)
    assert "WATCHDOG=1" in heard()
    service.stopService()
