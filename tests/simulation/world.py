"""Machines, the network between them, and the processes on them: what runs, and what is started again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from twisted.application.service import MultiService

from lcc.config import BotConfig, Config, parse_config
from lcc.interfaces import IFetcher
from lcc.model import Provider
from lcc.services.process.environment import Environment
from lcc.storage.providers.providers import add_provider
from lcc.testing.simulated.database import DatabaseServer, SimulatedDatabase
from lcc.testing.simulated.network import Network
from lcc.testing.simulated.process import Machine, Process
from lcc.testing.simulated.timeline import Timeline

from .sites import Site

Fetchers = Callable[[Any, BotConfig], dict[str, IFetcher]]


class World:
    """What there is on one timeline.

    :ivar roles: name -> how to start the process.
    :ivar machine_of: name -> address of its machine.
    :ivar databases: address -> server.  A URL names the server first: ``sqlite:/10.0.0.2/lcc.db``.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.network = Network(timeline)
        self.machines: dict[str, Machine] = {}
        self.roles: dict[str, Callable[[], Process]] = {}
        self.machine_of: dict[str, str] = {}
        self.databases: dict[str, DatabaseServer] = {}
        self._starting: set[str] = set()

    # What there is.

    def add_database(self, address: str, name: str = "database") -> DatabaseServer:
        """A database server.

        :param name: of its source of chance.
        """
        server = self.databases[address] = DatabaseServer(self.timeline, self.network, address, name)
        return server

    def add_process(
        self, name: str, address: str, build: Callable[[Process], Any], fetchers: Fetchers = lambda *_: {}
    ) -> None:
        """A process, which is started later.

        :param build: makes its service.
        """
        machine = self.machines.get(address)
        if machine is None:
            machine = self.machines[address] = Machine(self.timeline, self.network, address)
        self.machine_of[name] = address

        def start() -> Process:
            cell: list[Process] = []
            process = Process(
                machine, name, lambda environment: build(cell[0]), self._database, fetchers, self._ended
            )
            cell.append(process)
            process.start()
            return process

        self.roles[name] = start

    def _database(self, process: Process, url: str, home: Path, *args: Any, **named: Any) -> SimulatedDatabase:
        server = self.databases[url.removeprefix("sqlite:/").partition("/")[0]]
        return SimulatedDatabase(server, process, url, home, *args, **named)

    def add_site(self, site: Site, database: DatabaseServer) -> None:
        """A site, and its provider: its name is known, and it is told which provider it is."""
        self.network.names[site.name] = (site.address,)
        password = sha256(bytes(16) + site.password.encode()).hexdigest()
        provider = Provider(
            0,
            (site.root,),
            f"sha256${'00' * 16}${password}",
            hours=site.hours,
            bandwidth_bytes=site.bandwidth_bytes,
            interval_seconds=site.interval_seconds,
            files_max=site.files_max,
            space_max_bytes=site.space_max_bytes,
            priority=site.priority,
            full_sets=None,
            allow_private=True,
        )
        site.pid = database.now(add_provider, provider)

    # What runs.

    @property
    def processes(self) -> dict[str, Process]:
        """Those that run, by name."""
        return {name: process for machine in self.machines.values() for name, process in machine.processes.items()}

    def start_all(self) -> None:
        """Start everything that is to run and does not."""
        for name in self.roles:
            self.start(name)

    def start(self, name: str) -> None:
        """Start a process, unless it runs, or its machine does not."""
        machine = self.machines[self.machine_of[name]]
        if machine.is_up and name not in machine.processes:
            self.roles[name]()

    def start_later(self, name: str, seconds: float) -> None:
        """As a supervisor does it."""
        if name not in self._starting:
            self._starting.add(name)
            self.timeline.call_later(seconds, None, self._start_now, name)

    def _start_now(self, name: str) -> None:
        self._starting.discard(name)
        self.start(name)

    def _ended(self, process: Process) -> None:
        self.start_later(process.name, 1.0)

    def close(self) -> None:
        """It is over."""
        for process in list(self.processes.values()):
            process.die()
        for database in self.databases.values():
            database.close()


def configured(text: str, **values: Any) -> Config:
    """The configuration that this text is, with these values."""
    return _parsed(text.format(**values))


@lru_cache(1000)
def _parsed(text: str) -> Config:
    return parse_config(text, Path("/"))


def make(module: ModuleType, config: Config, environment: Environment) -> MultiService:
    """As ``twistd`` does it."""
    options = module.Options()
    options.config = config
    if "listen" not in options:
        options["listen"] = False
    service: MultiService = module.makeService(options, environment)
    return service
