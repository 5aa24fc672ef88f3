"""Runs a command as if a manager had started it: ``python as_job.py lcc-job show``.  Prints its effects, if it exits
with 0, and exits as it did."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from lcc.config import ManagerConfig
from lcc.domain.tasks.kinds import KindSettings
from lcc.protocols.jobs import RunJob
from lcc.protocols.worker import REQUESTS, WORKER_LIMITS, Refused
from lcc.protocols.xmlfeed import Start, XmlFeed
from lcc.roles.manager.conversation import Denied
from lcc.roles.manager.effects import Collected
from lcc.roles.manager.job import RunningJob
from lcc.storage.disk.file_system import DISK


class Owner:
    """The manager, as far as a job needs it."""

    def job_started(self, job: RunningJob, pid: int) -> None:
        pass

    def job_status(self, status: Any) -> None:
        pass

    def job_commits(self, job: RunningJob, new: Any, settled: Callable[[str], object]) -> None:
        settled("")

    def job_ended(self, job: RunningJob, new: Any) -> None:
        pass


def main(command: list[str]) -> int:
    folder = Path(tempfile.mkdtemp())
    limits = KindSettings(4, 300.0, 10.0, 0, 0, 0, 0, 0, 0)
    order = RunJob(7, 1, 3, "command", command[0], 60)
    clock = Clock()

    def effects() -> Collected:
        return Collected(folder / "effects", DISK, 1000, 1 << 20)

    job = RunningJob(Owner(), order, limits, clock, lambda: 0.0, effects, ManagerConfig())
    ends = socket.socketpair()
    here = socket.socket(fileno=fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 10))
    there = fcntl.fcntl(ends[1], fcntl.F_DUPFD_CLOEXEC, 10)
    for each in ends:
        each.close()
    os.dup2(there, 3)  # inheritable
    process = subprocess.Popen(command, env={**os.environ, "LCC_JOB_ID": "7"}, pass_fds=(3,))
    os.close(3)
    os.close(there)
    feed = XmlFeed(WORKER_LIMITS)
    while data := here.recv(65536):
        events = feed.receive(data)
        while events:
            for event in events:
                if isinstance(event, Start):
                    here.sendall(answer(job, event).encode() + b"\n")
            events = feed.next_document()
    code = process.wait()
    for piece in job._effects.pieces() if code == 0 else ():
        sys.stdout.write(piece.decode().replace("/><", "/>\n<"))
    return code


def answer(job: RunningJob, event: Start) -> str:
    try:
        said = job.asked(REQUESTS.read(event.name, event.attributes))
    except Denied as denied:
        return Refused(denied.code, str(denied)).to_xml()
    return str(said.result.to_xml()) if isinstance(said, Deferred) else said.to_xml()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
