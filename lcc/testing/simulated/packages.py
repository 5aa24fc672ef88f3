"""Packages without threads and sockets: what makes them in a simulated content user server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lcc.roles.cu.packages.ports import BodyGone, BodyUnavailable, ContentPorts, Taking
from lcc.storage.disk.content_paths import content_path
from lcc.testing.simulated.process import Machine, Process


class ReactorThreads:
    """The threads of a simulated reactor, in place of those that make packages.

    :param most: of no meaning: each step happens at one moment.
    """

    def __init__(self, reactor: Any, most: int) -> None:
        self._threads = reactor.getThreadPool()

    def start(self) -> None:
        """They are there."""

    def stop(self) -> None:
        """None of them is kept."""

    def callInThreadWithCallback(self, *args: Any, **named: Any) -> None:
        """As of a real one."""
        self._threads.callInThreadWithCallback(*args, **named)


class DiskContentPorts(ContentPorts):
    """Reads the disks of the machines that have the content, if they can be reached, and a BOT-M runs there.

    What a content port costs in time is not simulated here; the roles that ask it themselves go over the network.

    :param machines: by id.
    :param botm: gives the name of the process that serves a machine's content.
    :param missed: called with machine and file of what could not be read.
    """

    def __init__(
        self,
        process: Process,
        machines: Mapping[int, Machine],
        botm: Callable[[int], str],
        missed: Callable[[int, int], object],
    ) -> None:
        super().__init__("", 0.0)
        self._process = process
        self._machines = machines
        self._botm = botm
        self._missed = missed

    def read(self, machine: int, file: int, length: int, into: Taking) -> None:
        """As of a real one."""
        try:
            into.write(self._content(machine, file, length))
        except (BodyGone, BodyUnavailable):
            self._missed(machine, file)
            raise

    def _content(self, machine: int, file: int, length: int) -> bytes:
        host = self._machines[machine]
        serving = host.processes.get(self._botm(machine))
        passes = self._process.network.passes(self._process.address, host.address)
        if not (host.is_up and passes) or serving is None or serving.frozen:
            raise BodyUnavailable(f"machine {machine} is unreachable")
        try:
            data = host.disk.read(f"/content/{content_path(file)}")
        except FileNotFoundError:
            raise BodyGone("it is not there") from None
        except OSError as error:
            raise BodyUnavailable(str(error)) from error
        if len(data) != length:
            raise BodyUnavailable(f"{len(data)} bytes instead of {length}")
        return data
