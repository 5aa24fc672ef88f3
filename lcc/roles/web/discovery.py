"""Which feeds a web page has: found by a process of its own, as strangers' markup may take minutes, or all memory.

The process is ``lcc-admin feed discover``: it fetches the page once, as a robot does, from a public address.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from lcc.config import Config
from lcc.workers.launch import python_process

AT_ONCE_MAX = 3
SECONDS_MAX = 60.0
MEMORY_BYTES_MAX = 1 << 30
"""Address space of the process."""
_OUTPUT_BYTES_MAX = 1 << 20
_ERRORS_BYTES_MAX = 4000


class NotDiscovered(Exception):
    """It cannot be said which feeds a page has; why, and what to do, for people."""


def discovery_command(config: Config) -> tuple[list[str], dict[str, str]]:
    """Command and environment of the process; what follows is the URL."""
    named = ["--config", str(config.source.absolute())] if config.source else []
    return python_process("lcc.admin.cli", *named, "feed", "discover", "--json", "--")


class _Process(ProcessProtocol):
    """
    :ivar ended: fires with what it has written: output, errors.
    :ivar killed: by a signal.
    """

    killed = False

    def __init__(self) -> None:
        self.ended: Deferred[tuple[bytes, bytes]] = Deferred()
        self._output = self._errors = b""

    def outReceived(self, data: bytes) -> None:
        self._output += data
        if len(self._output) > _OUTPUT_BYTES_MAX:
            self.kill()

    def errReceived(self, data: bytes) -> None:
        self._errors = (self._errors + data)[:_ERRORS_BYTES_MAX]

    def kill(self) -> None:
        with suppress(ProcessExitedAlready):
            self.transport.signalProcess("KILL")  # type: ignore[union-attr]  # an IProcessTransport

    def processEnded(self, reason: Failure) -> None:
        self.killed = getattr(reason.value, "signal", None) is not None
        self.ended.callback((self._output, self._errors))


class Discovery:
    """
    :param command: as :func:`discovery_command`.
    """

    def __init__(self, reactor: Any, command: tuple[Sequence[str], dict[str, str]]) -> None:
        self._reactor = reactor
        self._command, self._environment = command
        self._running: set[_Process] = set()

    async def feeds_of(self, url: str) -> list[dict[str, str]]:
        """The feeds that a page names, or that it is: ``url``, ``kind`` and ``title`` of each.

        :raises NotDiscovered: the page cannot be fetched, or not be read; or too many are looked at.
        """
        if len(self._running) >= AT_ONCE_MAX:
            raise NotDiscovered(f"{AT_ONCE_MAX} pages are being searched: try again in a minute")
        process = _Process()
        command = [*self._command, url]
        started = self._reactor.spawnProcess(process, command[0], command, self._environment)
        limit = (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX)
        with suppress(OSError):  # it has ended already
            resource.prlimit(started.pid, resource.RLIMIT_AS, limit)
        timer = self._reactor.callLater(SECONDS_MAX, process.kill)
        self._running.add(process)
        try:
            output, errors = await process.ended
        finally:
            self._running.discard(process)
            if timer.active():
                timer.cancel()
        if timer.called:
            raise NotDiscovered(f"the page could not be read within {SECONDS_MAX:.0f} seconds")
        if errors:
            raise NotDiscovered(errors.decode("utf-8", "replace").strip())
        if process.killed:
            raise NotDiscovered("the process that read the page was killed")
        return [json.loads(line) for line in output.decode().splitlines()]

    def stop(self) -> None:
        """End those that run."""
        for process in list(self._running):
            process.kill()
