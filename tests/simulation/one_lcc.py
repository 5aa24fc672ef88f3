"""The processes of one LCC, each role on a machine of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import attrs
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred

from lcc.config import BotConfig, Config
from lcc.fetchers.http import HttpFetcher
from lcc.interfaces import IContentSink, IFetcher
from lcc.model import Fetched, FetchOrder
from lcc.services import bot, botm, cu, push, qm, rs, uns
from lcc.services.process.environment import Environment
from lcc.storage.disk.content_paths import content_path
from lcc.testing.simulated.packages import DiskContentPorts, ReactorThreads
from lcc.testing.simulated.process import Machine, Process

from . import crawl, newcomers, pushers
from .world import World, configured, make

ROLES = ("qm", "uns1", "uns2", "central", "botm1", "botm2", "bot1a", "bot1b", "bot2a", "cu", "rs", "push")
FAR_SECONDS = 0.25
"""How long all takes on the way between a queue manager and a central BOT-M that is far from it."""

COMMON = """
home = "/home/{name}"
timezone = "UTC"
slots = 24
slot_seconds = {slot_seconds}
mimetypes = ["text/*"]
[tls]
insecure = true
public_certificate = "/tls/public.pem"
public_key = "/tls/public.key"
[database]
url = "{url}"
retries = 4
[uns]
name = "{name}"
proxies = [{proxies}]
listen = "{wire}:9000"
listen_notifiers = "{listen_notifiers}"
listen_gateway = "{listen_gateway}"
connect = "{wire}:{qm}:9001"
answer_timeout = 2.0
idle_timeout = 20
login_timeout = 10
database_timeout = 5
spool_max_bytes = 400000
notifier_sets_max = {notifier_sets_max}
[qm]
listen = "{wire}:9001"
listen_botm = "{wire}:9002"
absorb_batch = {absorb_batch}
mass_deletion_share = {mass_deletion_share}
mass_deletion_floor = 0
absorb_ahead = 100
record_batch = {record_batch}
read_ahead = {read_ahead}
run_rows = {run_rows}
delete_window = 3
lease = 40
retry_initial = 2
retry_maximum = 20
hold_initial = 2
hold_maximum = 15
quantum_urls = {quantum_urls}
hours_margin = 5
delete_grace = 5
attempts_max = 4
hold_attempts_max = 6
housekeeping_period = {housekeeping_period}
tombstones_kept = {tombstones_kept}
[botm]
name = "{name}"
serves = "{serves}"
machine = {machine}
listen = "{wire}:9003"
connect = "{wire}:{qm}:9002"
parent = "{parent}"
content = "/content"
content_listen = "tcp:9004"
content_url = "{content_url}"
names_block = 20
orders_max = 100
sync_interval = 5
content_idle_timeout = 15
[bot]
name = "{name}"
connect = "{wire}:{botm}:9003"
content = "/content"
concurrency = 3
connect_timeout = 3
idle_timeout = 4
deadline = 12
keepalive = 6
[cu]
listen = "tcp:8080"
listen_xml = ""
without_token = "content"
content = "http://{central}:9004"
wait_max = 20
idle_timeout = 40
"""


class WatchedFetcher:
    """The robot's own fetcher for http; what it begins is told to the promises."""

    def __init__(self, inner: HttpFetcher, begins: Callable[[FetchOrder], None]) -> None:
        self._inner = inner
        self._begins = begins

    def fetch(self, order: FetchOrder, sink: IContentSink, follow: Callable[[str, str], str]) -> Deferred[Fetched]:
        self._begins(order)
        return self._inner.fetch(order, sink, follow)

    def close(self) -> Deferred[None]:
        return self._inner.close()


def proof_fetchers(reactor: Any, settings: BotConfig) -> dict[str, IFetcher]:
    """Those of a registration server, and of a push server."""
    return {"http": HttpFetcher(reactor, settings, reactor.nameResolver)}


@attrs.frozen
class Hosts:
    """The addresses of an LCC's machines.

    :ivar net: what they all begin with.
    """

    net: str = "10.0.0"

    def _host(self, number: int) -> str:
        return f"{self.net}.{number}"

    @property
    def qm(self) -> str:
        return self._host(1)

    @property
    def database(self) -> str:
        return self._host(2)

    @property
    def unses(self) -> tuple[str, str]:
        return self._host(3), self._host(4)

    @property
    def central(self) -> str:
        return self._host(5)

    @property
    def botms(self) -> tuple[str, str]:
        return self._host(6), self._host(7)

    @property
    def cu(self) -> str:
        return self._host(8)

    @property
    def rs(self) -> str:
        return self._host(10)

    @property
    def push(self) -> str:
        return self._host(16)


@attrs.frozen
class LccSettings:
    """How an LCC is set up.

    :ivar has_central: there is a central BOT-M.
    :ivar is_far: the queue manager is far from it.
    :ivar listens: UNSes have a port of notifiers.
    :ivar batches: sizes of batches in the configuration.
    :ivar more: further tables of the configuration.
    :ivar proxies: addresses of the front end's.
    :ivar has_gateway: UNSes have a port of gateways.
    :ivar over_tls: wires between roles, and those of providers, are over TLS.
    """

    has_central: bool
    is_far: bool
    listens: bool
    batches: dict[str, int]
    mass_deletion_share: float
    more: str = ""
    proxies: tuple[str, ...] = ()
    over_tls: bool = False
    has_gateway: bool = False

    @property
    def wire(self) -> str:
        """What the endpoints of these wires begin with."""
        return "tls" if self.over_tls else "tcp"


def url_of(address: str, file: str) -> str:
    """The URL of a database at a server."""
    return f"sqlite:/{address}/{file}"


class Lcc:
    """One LCC.

    :param number: 0: the only one; else of this sub-LCC, from 1 on.
    :ivar prefix: what the names of its processes begin with.
    :ivar database: its server.
    :ivar fetch_begins: called with what a robot begins to fetch.
    :ivar content_missed: called with machine and file of content that could not be read for a package.
    """

    def __init__(self, world: World, settings: LccSettings, number: int = 0) -> None:
        self.world = world
        self.settings = settings
        self.number = number
        self.hosts = hosts = Hosts(f"10.0.{number}")
        self.url = url_of(hosts.database, "lcc.db")
        self.prefix = f"{self.name}-" if number else ""
        self.database = world.add_database(hosts.database, f"{self.prefix}database")
        self.fetch_begins: Callable[[FetchOrder], None] = lambda order: None
        self.content_missed: Callable[[int, int], object] = lambda machine, file: None
        self._first_machine = 10 * number + 1
        if settings.is_far:
            world.network.set_far(hosts.central, hosts.qm, FAR_SECONDS)
        self._add_roles()

    @property
    def name(self) -> str:
        """As a sub-LCC: ``a``, ``b`` …"""
        return chr(ord("a") + self.number - 1)

    @property
    def upper(self) -> str:
        """Where BOT-Ms connect to."""
        return self.hosts.central if self.settings.has_central else self.hosts.qm

    @property
    def roles(self) -> list[str]:
        """The names of its processes."""
        names = [self.prefix + role for role in ROLES]
        return [name for name in names if name in self.world.roles]

    def process(self, role: str) -> Process | None:
        """A process of it that runs."""
        return self.world.processes.get(self.prefix + role)

    def machine_of(self, role: str) -> Machine:
        """The machine of a process."""
        return self.world.machines[self.world.machine_of[self.prefix + role]]

    @property
    def stores(self) -> dict[int, Machine]:
        """The machines that have content, by their numbers."""
        machines = self.world.machines
        return {number: machines[address] for number, address in enumerate(self.hosts.botms, self._first_machine)}

    def content(self, machine: int, file: int) -> bytes | None:
        """A content file; None: there is none."""
        host = self.stores.get(machine)
        return None if host is None else host.disk.paths_at(f"/content/{content_path(file)}")

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """From its tables as they are now."""
        return self.database.connection().execute(sql, parameters).fetchall()

    def add_registrations(self) -> None:
        """A registration server."""
        config = self.config(f"{self.prefix}rs", newcomers.CONFIGURATION)
        self.world.add_process(
            f"{self.prefix}rs", self.hosts.rs, lambda process: make(rs, config, process.environment), proof_fetchers
        )

    def add_pushes(self, **settings: Any) -> None:
        """A push server."""
        config = self.config("push", pushers.CONFIGURATION, **settings)
        self.world.add_process(
            "push", self.hosts.push, lambda process: make(push, config, process.environment), proof_fetchers
        )

    # Its processes.

    def _add_roles(self) -> None:
        hosts = self.hosts
        parent = f"{self.settings.wire}:{hosts.central}:9003" if self.settings.has_central else ""
        self.add_role("qm", hosts.qm, qm)
        for number, address in enumerate(hosts.unses, 1):
            self.add_role(f"uns{number}", address, uns)
        if self.settings.has_central:
            self.add_role("central", hosts.central, botm, serves="botms")
        for number, address in enumerate(hosts.botms, 1):
            machine, url = self._first_machine + number - 1, f"http://{address}:9004"
            self.add_role(f"botm{number}", address, botm, machine=machine, parent=parent, content_url=url)
            for which in ("a", "b")[: 1 + (number == 1)]:
                self.add_role(f"bot{number}{which}", address, bot, botm=address)
        self.add_role("cu", hosts.cu, cu)

    def add_role(self, role: str, address: str, module: ModuleType, **settings: Any) -> None:
        """A process of a role."""
        name = self.prefix + role
        config = self.config(name, **settings)

        def build(process: Process) -> MultiService:
            return make(module, config, self._environment(process))

        self.world.add_process(name, address, build, self._fetchers)

    def config(self, name: str, more: str = "", **settings: Any) -> Config:
        """The configuration of a process.

        :param more: further tables.
        """
        hosts = self.hosts
        values = {
            "name": name,
            "url": self.url,
            "sub": self.name if self.number else "",
            "proxies": ", ".join(f'"{address}"' for address in self.settings.proxies),
            "qm": hosts.qm,
            "central": hosts.central,
            "uns": hosts.unses[0],
            "botm": hosts.botms[0],
            "wire": self.settings.wire,
            "listen_notifiers": f"{self.settings.wire}:9005" if self.settings.listens else "",
            "listen_gateway": f"{self.settings.wire}:9008" if self.settings.has_gateway else "",
            "serves": "bots",
            "machine": 1,
            "parent": "",
            "content_url": "",
            "notifier_sets_max": 1000,
            "window": 100,
            "pages_at_once": 500,
            "slot_seconds": 10,
            "housekeeping_period": 30,
            "tombstones_kept": 180 * 86400,
            "mass_deletion_share": self.settings.mass_deletion_share,
            **self.settings.batches,
            **settings,
        }
        text = COMMON + self.settings.more + more
        return configured(text, **values)

    def _environment(self, process: Process) -> Environment:
        return attrs.evolve(
            process.environment,
            extraction=crawl.extraction(process),
            package_threads=lambda most: ReactorThreads(process.reactor, most),
            content_ports=lambda where: DiskContentPorts(
                process,
                self.stores,
                lambda machine: f"{self.prefix}botm{machine - self._first_machine + 1}",
                lambda *file: self.content_missed(*file),
            ),
        )

    def _fetchers(self, reactor: Any, settings: BotConfig) -> dict[str, IFetcher]:
        inner = HttpFetcher(reactor, settings, reactor.nameResolver)
        fetcher: Any = WatchedFetcher(inner, lambda order: self.fetch_begins(order))
        return {"http": fetcher}
