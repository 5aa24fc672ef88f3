"""What systemd hears, over a real socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lcc.metrics.supervisor import STATUS_CHARS, Supervisor, supervisor_of


@pytest.mark.parametrize("abstract", [False, True])
def test_words_arrive(tmp_path: Path, abstract: bool) -> None:
    name = f"@lcc-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"\0{name[1:]}" if abstract else name)
        heard.settimeout(10)
        environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7", "HOME": "/"}
        supervisor = supervisor_of(environment, 7)
        assert supervisor is not None and supervisor.watchdog_seconds == 3.0
        assert environment == {"HOME": "/"}, "no child of this process is to be watched"
        supervisor.tell(READY="1", STATUS="all is well")
        assert heard.recv(4096) == b"READY=1\nSTATUS=all is well"
        # What a peer has said must not be a word of ours.
        supervisor.tell(STATUS="a\nREADY=1\r\n" + "b" * 1000)
        said = heard.recv(4096)
        assert said.startswith(b"STATUS=a READY=1 bbb") and b"\n" not in said and len(said) <= STATUS_CHARS + 7


def test_that_nobody_listens_is_no_fault(tmp_path: Path) -> None:
    Supervisor(str(tmp_path / "nobody")).tell(READY="1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
        full.bind(str(tmp_path / "full"))
        supervisor = Supervisor(str(tmp_path / "full"))
        for _ in range(5000):  # nobody reads: it must not wait
            supervisor.tell(WATCHDOG="1")


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"NOTIFY_SOCKET": ""}, None),
        ({"NOTIFY_SOCKET": "relative"}, None),
        ({"WATCHDOG_USEC": "1000"}, None),
        ({"NOTIFY_SOCKET": "/x"}, 0.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "500000"}, 0.5),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "500000", "WATCHDOG_PID": "8"}, 0.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}, 0.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "-1"}, 0.0),
    ],
)
def test_what_the_environment_says(environment: dict[str, str], seconds: float | None) -> None:
    supervisor = supervisor_of(environment, 7)
    assert (None if supervisor is None else supervisor.watchdog_seconds) == seconds
