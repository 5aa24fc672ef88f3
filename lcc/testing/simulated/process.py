"""Machines and the processes on them: what may be killed, frozen, or lose its power."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from lcc.config import BotConfig
from lcc.errors import Busy
from lcc.interfaces import IFetcher
from lcc.services.process.environment import Environment
from lcc.testing.simulated.disk import SimulatedDisk
from lcc.testing.simulated.network import Network
from lcc.testing.simulated.reactor import SimulatedReactor
from lcc.testing.simulated.timeline import Event, Timeline

_log = Logger()


class Machine:
    """A host: an address, a disk, processes.

    :ivar boot: counts its boots.
    :ivar booted: when the last one was: its processes' timers count from there.
    :ivar clock_ahead: what its wall clock shows more than the timeline's, in seconds.
    :ivar clock_usual: the same when nobody has set it.
    """

    def __init__(self, timeline: Timeline, network: Network, address: str) -> None:
        self.timeline = timeline
        self.network = network
        self.address = address
        self.disk = SimulatedDisk(timeline.random(f"disk {address}"))
        self.boot = 1
        self.booted = timeline.now - timeline.random(f"boot {address}").choice((1.0, 100.0, 1e6))
        self.clock_ahead = self.clock_usual = 0.0
        self.processes: dict[str, Process] = {}
        self.locks: dict[str, Process] = {}
        self.is_up = True

    def power_cut(self) -> None:
        """Everything stops at once; what was not synced may be lost."""
        self.is_up = False
        for process in list(self.processes.values()):
            process.die(silently=True)
        self.network.machine_vanished(self.address)
        self.disk.power_cut()
        self.boot += 1

    def power_on(self) -> None:
        """The machine runs again; processes are to be started."""
        self.is_up = True
        self.booted = self.timeline.now - 1.0
        self.network.machine_returned(self.address)


class _Lock(Service):
    """In place of a lock file."""

    def __init__(self, process: Process, path: Path) -> None:
        self._process = process
        self._path = str(path)

    def startService(self) -> None:
        locks = self._process.machine.locks
        holder = locks.get(self._path)
        if holder is not None and holder.alive:
            raise Busy(f"{self._path} is locked: another process of this role is running in this folder")
        locks[self._path] = self._process
        super().startService()

    def stopService(self) -> None:
        super().stopService()
        self._process.machine.locks.pop(self._path, None)


class Process:
    """One process, from its start to its end.

    :param name: of what runs; the same name may run again later on its machine.
    :param make: gives its service, from its environment (a role's ``makeService``).
    :param database: as :attr:`lcc.services.process.environment.Environment.database`, with the process in front.
    :param ended: called when it has ended by itself (it stopped its reactor, or could not start).
    :ivar started_time: when it was started, on the timeline.
    :ivar frozen_time: when it was stopped last, on the timeline.
    :ivar children: called when it has ended, however that was: processes that end with it.
    """

    starts = 0

    def __init__(
        self,
        machine: Machine,
        name: str,
        make: Callable[[Environment], Any],
        database: Callable[..., Any],
        fetchers: Callable[[Any, BotConfig], dict[str, IFetcher]],
        ended: Callable[[Process], None],
    ) -> None:
        timeline = machine.timeline
        self.machine = machine
        self.name = name
        self.address = machine.address
        self.timeline = timeline
        self.alive = True
        self.frozen = False
        self.started_time = timeline.now
        self.frozen_time = 0.0
        self._kept: list[tuple[Event, int]] = []
        self._ended = ended
        self._stopping: Deferred[Any] | None = None
        self.network = machine.network
        self.reactor = SimulatedReactor(machine.network, self, machine.booted, self.wants_to_end)
        chance = timeline.random(f"{machine.address} {name} {timeline.now}")
        self.chance = chance
        self.environment = Environment(
            reactor=self.reactor,
            now=lambda: timeline.now + machine.clock_ahead,
            chance=chance,
            token=lambda: f"{chance.getrandbits(64):016x}",
            disk=machine.disk,
            database=lambda *args, **named: database(self, *args, **named),
            lock=lambda path: _Lock(self, path),
            boot_id=lambda: f"boot{machine.boot}",
            fetchers=fetchers,
        )
        self._make = make
        self.service: Any = None
        self.children: list[Callable[[], object]] = []

    def start(self) -> None:
        """Begin to run."""
        self.machine.processes[self.name] = self
        self.timeline.call_later(0.0, self, self._start)

    def _start(self) -> None:
        try:
            self.service = self._make(self.environment)
            self.service.privilegedStartService()
            self.service.startService()
            self.reactor.begin()
        except (Busy, OSError, ValueError) as error:
            _log.warn("{name} could not start: {error}", name=self.name, error=str(error))
            self.die()
            self._ended(self)

    # Timeline's Owner.

    def happens(self, event: Event) -> bool:
        """As :meth:`lcc.testing.simulated.timeline.Owner.happens`."""
        if self.frozen and self.alive:
            self._kept.append((event, event.order))
            return False
        return self.alive

    # What may happen to it.

    def freeze(self) -> None:
        """Stop it in its tracks (SIGSTOP); the kernel goes on for it."""
        self.frozen = True
        self.frozen_time = self.timeline.now

    def thaw(self) -> None:
        """Let it go on (SIGCONT)."""
        if not self.frozen:
            return
        self.frozen = False
        kept, self._kept = self._kept, []
        for event, order in kept:
            if event.active() and event.order == order:  # else it was put off meanwhile
                self.timeline.move(event, self.timeline.now)

    def die(self, silently: bool = False) -> None:
        """End it at once (``kill -9``).

        :param silently: its machine is gone, too: nobody closes its connections.
        """
        if not self.alive:
            return
        self.alive = False
        self._kept.clear()
        if self.machine.processes.get(self.name) is self:
            del self.machine.processes[self.name]
        for path in [path for path, holder in self.machine.locks.items() if holder is self]:
            del self.machine.locks[path]
        children, self.children = self.children, []
        for child in children:
            child()
        self.network.process_died(self, silently)

    def stop(self) -> Deferred[Any]:
        """Ask it to end in order (SIGTERM).  Fires when it has."""
        if self._stopping is None:
            self._stopping = Deferred()
            self.timeline.call_later(0.0, self, self._stop)
        done: Deferred[Any] = Deferred()
        self._stopping.addCallback(done.callback)
        return done

    def _stop(self) -> None:
        stopping = maybeDeferred(self.service.stopService) if self.service is not None else maybeDeferred(bool)
        stopping.addBoth(self._stopped)

    def _stopped(self, _: Any) -> None:
        self.timeline.call_later(0.0, self, self._end)

    def _end(self) -> None:
        self.die()
        assert self._stopping is not None
        self._stopping.callback(None)

    def wants_to_end(self) -> None:
        """It has called ``reactor.stop()``."""
        self.stop().addCallback(lambda _: self._ended(self))
