"""How ``twistd`` processes are started: plainly, or forked from a process that has imported everything already.

A role needs a third of a second of processor time until it works, four fifths of it for imports.  Tests that restart
roles all the time save that.  What :class:`ForkServer` forks is a process like any other, with its own reactor, files
and log; only its modules, and the seed of its hashes, are those of the server.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Lock
from types import TracebackType
from typing import Any, Protocol

ROOT = Path(__file__).parents[3]
PLAIN_SHARE = 0.2
"""Of the starts of a test that forks most of them."""


class Process(Protocol):
    """As :class:`subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Start(Protocol):
    """A way to start ``twistd``.

    :param command: its path, and its arguments.
    :param log: what it writes is appended.
    """

    def __call__(
        self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str], /
    ) -> Process: ...


def plainly(command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]) -> Process:
    """As a shell does it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *command], cwd=folder, stdout=output, stderr=output, env=dict(environment)
        )


class ForkServer:
    """A context manager; :mod:`fork_server` is its program.

    What it has forked is killed when it ends.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.processes.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._lock = Lock()
        self._heard()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate()

    def __call__(self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]) -> Process:
        """As of :class:`Start`."""
        return Forked(
            self,
            self.ask(command=list(command), folder=str(folder), log=str(log), environment=dict(environment)),
        )

    def ask(self, **question: Any) -> Any:
        """What it answers."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            return self._heard()

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


class Forked:
    """A process that the server has forked; it is not a child of this one."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended.

        :raises subprocess.TimeoutExpired: it has not ended.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._handle, seconds):
            self.returncode = self._server.ask(ended=self.pid)
            os.close(self._handle)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """A process that has ended gets none."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _is_readable(handle: int, seconds: float | None) -> bool:
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else seconds * 1000))


class Mixed:
    """Some of the starts are plain ones, so that both are tried.

    :param plain_share: of all.
    :ivar counts: how many there were, ``plain`` and ``forked``.
    """

    def __init__(self, server: ForkServer, random: Random, plain_share: float) -> None:
        self.counts: Counter[str] = Counter()
        self._server = server
        self._random = random
        self._plain_share = plain_share

    def __call__(self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]) -> Process:
        """As of :class:`Start`."""
        is_plain = self._random.random() < self._plain_share
        self.counts["plain" if is_plain else "forked"] += 1
        return (plainly if is_plain else self._server)(command, folder, log, environment)


@contextmanager
def mixed(seed: int, plain_share: float) -> Iterator[Mixed]:
    """:class:`Mixed` with a server of its own."""
    with ForkServer() as server:
        yield Mixed(server, Random(seed), plain_share)
