"""A manager in this process, with real workers, and its scheduler played by the test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.endpoints import UNIXServerEndpoint

from lcc.config import parse_config
from lcc.model.tasks import JobResult, JobState
from lcc.protocols.endings import EndingReader
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.jobs import (
    UP,
    Ending,
    EndingsRecorded,
    Heard,
    Heartbeat,
    Kill,
    RunJob,
    write_args,
)
from lcc.roles.peer import Peer, PeerFactory
from lcc.services.manager import build
from lcc.services.process.environment import real_environment
from tests.support.waiting import until

CHARS_MAX = 1 << 26
BIN = Path(sys.executable).parent


class PlayedScheduler(Peer):
    """The scheduler's end of a connection: notes what it hears, and acknowledges it."""

    def __init__(self, rig: Rig) -> None:
        hello = Hello(role="scheduler", name="scheduler", run="played")
        super().__init__(reactor, hello, frozenset(["manager"]), UP)  # type: ignore[arg-type]  # a module
        self.rig = rig
        self.reader: EndingReader | None = None

    def peer_ready(self, hello: Hello) -> None:
        self.rig.hellos.append(hello)
        self.rig.links.append(self)

    def messages_received(self, messages: list[Flat]) -> None:
        for message in messages:
            if self.reader is not None:
                result = self.reader.add(message)
                if result is not None:
                    self.rig.results.append(result)
                    if self.rig.records:
                        self.say(EndingsRecorded(self.reader.number))
                    self.reader = None
            elif isinstance(message, Ending):
                self.reader = EndingReader(message, CHARS_MAX)
            else:
                self.rig.heard.append(message)
                if isinstance(message, Heartbeat) and self.rig.hears:
                    self.say(Heard(message.number))

    def peer_lost(self, reason: object) -> None:
        if self in self.rig.links:
            self.rig.links.remove(self)


class Rig:
    """
    :param user: as whom workers run, if this is root: by default root, since Python may be where nobody else can
        read it.
    :ivar results: endings and commits, in the order in which they came.
    :ivar hellos: of those that have connected.
    :ivar records: it acknowledges endings.
    :ivar hears: it answers heartbeats.
    """

    def __init__(self, settings: str = "", user: str = "root") -> None:
        # Not pytest's own folder, which is closed to the user as whom workers run.
        self.folder = Path(tempfile.mkdtemp(prefix="lcc-"))
        self.folder.chmod(0o755)
        self.workers = self.folder / "workers"
        self.workers.mkdir()
        self.text = f"""home = "home"
[manager]
workers = ["{self.workers}"]
host = "here"
user = "{user}"
{settings}
"""
        self.environment = real_environment(reactor)
        self.links: list[PlayedScheduler] = []
        self.heard: list[Flat] = []
        self.results: list[JobResult] = []
        self.hellos: list[Hello] = []
        self.records = self.hears = True
        self.service: Any = None
        self.process: subprocess.Popen[bytes] | None = None
        self._port: Any = None
        self._last = 0

    @property
    def runs(self) -> list[str]:
        """That have connected."""
        return [hello.run for hello in self.hellos]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def engine(self) -> Any:
        return self.service.commands.engine

    async def listen(self) -> None:
        self.home.mkdir(exist_ok=True, mode=0o700)
        factory = PeerFactory(lambda: PlayedScheduler(self))
        self._port = await UNIXServerEndpoint(reactor, str(self.home / "scheduler.sock")).listen(factory)

    async def start(self) -> None:
        if self._port is None:
            await self.listen()
        self.service = build(parse_config(self.text, self.folder), self.environment)
        self.service.startService()
        await until(lambda: self.links)

    async def start_process(self) -> subprocess.Popen[bytes]:
        """Start it as a process of its own."""
        if self._port is None:
            await self.listen()
        (self.folder / "lcc.toml").write_text(self.text)
        with (self.folder / "manager.log").open("ab") as log:
            self.process = subprocess.Popen(
                [BIN / "twistd", "-n", "--pidfile=", "lcc-manager", "--config", self.folder / "lcc.toml"],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        await until(lambda: self.links)
        return self.process

    def log(self) -> str:
        return (self.folder / "manager.log").read_text()

    async def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            await until(lambda: self.process is None or self.process.poll() is not None)
        if self.service is not None:
            service, self.service = self.service, None
            await service.stopService()
        await until(lambda: not self.links)

    async def close(self) -> None:
        await self.stop()
        if self._port is not None:
            await self._port.stopListening()
        shutil.rmtree(self.folder)

    def worker(self, name: str, text: str) -> str:
        """Make an executable; ``sleep 3001`` in it becomes that of :func:`sleeping`."""
        text = re.sub(r"sleep (3\d\d\d)\b(?!\.)", lambda found: sleeping(int(found[1])).replace("\0", " "), text)
        path = self.workers / name
        path.write_text(text)
        path.chmod(0o755)
        return name

    def shell(self, body: str, name: str = "work.sh") -> str:
        return self.worker(name, f"#!/bin/sh\n{body}\n")

    def python(self, body: str, name: str = "work.py") -> str:
        return self.worker(name, f"#!/usr/bin/env python3\n{body}\n")

    def give(self, command: str, *args: str, **more: Any) -> RunJob:
        """Have a job run; gives its order."""
        self._last += 1
        values = {"id": self._last, "attempt": 1, "task": 0, "kind": "command", "lease_seconds": 60, **more}
        order = RunJob(command=command, args=write_args(args), **values)
        self.links[-1].say(order)
        return order

    def kill(self, order: RunJob, reason: str = "", *, silent: bool = False) -> None:
        self.links[-1].say(Kill(order.id, order.attempt, reason, silent))

    async def ended(self, order: RunJob) -> JobResult:
        """How it ended."""
        found: list[JobResult] = []

        def look() -> bool:
            found[:] = [each for each in self.results if each.id == order.id and each.attempt == order.attempt]
            found[:] = [each for each in found if each.state is not JobState.RUNNING]
            return bool(found)

        await until(look)
        assert len(found) == 1
        return found[0]

    async def run(self, command: str, *args: str, **more: Any) -> JobResult:
        return await self.ended(self.give(command, *args, **more))

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.heard if type(message) is kind]


def alive(pid: int) -> bool:
    """Whether a process exists, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def sleeping(seconds: int) -> str:
    """The command line of a sleep that nobody else runs, also not the same test elsewhere on this machine."""
    return f"sleep\0{seconds}.{os.getpid()}"


def with_mark(text: str) -> list[int]:
    """Processes with this in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line and alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def launchers(*modules: str) -> list[int]:
    """Those of managers in this process that have these modules; what they have forked looks as they do."""
    found = with_mark("\0".join(["lcc.workers.launcher", *modules]))
    return [pid for pid in found if f"\nPPid:\t{os.getpid()}\n" in Path(f"/proc/{pid}/status").read_text()]


Make = Callable[..., Rig]
