"""The machines of one LCC, with everybody it talks to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred

from lcc.config import BotConfig, Config, WatchedConfig, parse_config
from lcc.fetchers.http import HttpFetcher
from lcc.interfaces import IContentSink, IFetcher
from lcc.model import Fetched, FetchOrder, Provider
from lcc.protocols.cp_uns import CpMessage, SetBegin
from lcc.roles.uns import session as uns_session
from lcc.services import bot, botm, cu, manager, qm, scheduler, spider, uns
from lcc.services.environment import Environment
from lcc.storage.providers.providers import add_provider
from lcc.storage.providers.watched import find_or_make_watched
from lcc.testing.simulated.database import DatabaseServer, SimulatedDatabase
from lcc.testing.simulated.network import Network
from lcc.testing.simulated.packages import DiskContentPorts, ReactorThreads
from lcc.testing.simulated.process import Machine, Process
from lcc.testing.simulated.timeline import Timeline

from . import crawl
from .crawl import SPIDER_NAMES, SPIDERS, CrawlWorld
from .follower import Copy, Follower
from .notifier import Notifier, WatchedSite
from .publisher import Publisher
from .sites import Place, Site
from .spoken import Spoken
from .tasks import CONFIGURATION, MANAGER_NAMES, MANAGERS, SCHEDULER, TASK_SITE, TaskSite, TaskSiteServer, TaskWorld
from .web import LinkedSite, LinkedSiteServer, Web
from .workers import SimulatedWorkers

DATABASE, QM, CENTRAL, CU, USER = "10.0.0.2", "10.0.0.1", "10.0.0.5", "10.0.0.8", "10.0.0.9"
WATCHED = "10.2.0.1"
"""The notifier, and the web server of the site that it watches."""
NOTIFIER_SHARE = 0.4
"""Of the worlds, those with a notifier."""
UNSES = ("10.0.0.3", "10.0.0.4")
BOTMS = ("10.0.0.6", "10.0.0.7")

FAR_SHARE, FAR_SECONDS = 0.4, 0.25
"""Of the worlds with a central BOT-M, those where it is so far from the queue manager."""

COMMON = """
home = "/home/{name}"
timezone = "UTC"
slots = 24
slot_seconds = 10
mimetypes = ["text/*"]
[tls]
insecure = true
[database]
retries = 4
[uns]
name = "{name}"
listen = "tcp:9000"
listen_notifiers = "{listen_notifiers}"
listen_gateway = ""
connect = "tcp:10.0.0.1:9001"
answer_timeout = 2.0
idle_timeout = 20
login_timeout = 10
database_timeout = 5
spool_max_bytes = 400000
[qm]
listen = "tcp:9001"
listen_botm = "tcp:9002"
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
housekeeping_period = 30
[botm]
name = "{name}"
serves = "{serves}"
machine = {machine}
listen = "tcp:9003"
connect = "tcp:10.0.0.1:9002"
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
connect = "tcp:{botm}:9003"
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
content = "http://10.0.0.5:9004"
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


class System:
    """One LCC and its world.

    :param plain: sites tell of their pages in fast-path elements.
    :param with_tasks: there are a scheduler, managers and tasks; and fewer sites.
    :param with_spiders: there are spiders, sites that link to each other, and a scheduler without tasks.
    :ivar is_far: the queue manager is far from the central BOT-M.
    :ivar roles: name -> how to start it: machine, service module, configuration.
    :ivar restarting: processes that end by themselves, or are killed, are started again.
    """

    def __init__(
        self, timeline: Timeline, plain: bool = False, with_tasks: bool = False, with_spiders: bool = False
    ) -> None:
        self.timeline = timeline
        self.plain = plain
        chance = timeline.random("system")
        self.network = Network(timeline)
        self.database = DatabaseServer(timeline, self.network, DATABASE)
        self.machines: dict[str, Machine] = {}
        self.roles: dict[str, Callable[[], Process]] = {}
        self.machine_of: dict[str, str] = {}
        self.sites: list[Site] = []
        self.linked: list[LinkedSite] = []
        """Sites that spiders find."""
        self.watched: list[WatchedSite] = []
        """Sites that a notifier lists, and no provider tells of."""
        self.copy = Copy()
        self.fetch_begins: Callable[[FetchOrder], None] = lambda order: None
        self.set_accepted: Callable[[Site, Place], None] = lambda site, place: None
        self.notice_accepted: Callable[[str, int], None] = lambda epoch, number: None
        self.orders: dict[tuple[int, int], list[int]] = {}
        """(provider, its connection) -> the order numbers of the sets that began there."""
        self._begin_of_a_set = uns_session.Session._begin
        uns_session.Session._begin = lambda *args: self._watch_begin(*args)  # type: ignore[method-assign]
        self.wanted: set[str] = set()
        self._starting: set[str] = set()
        self._batches = {
            "absorb_batch": chance.choice((3, 7, 50)),
            "record_batch": chance.choice((1, 3, 50)),
        }
        runs = timeline.random("runs")
        self._batches["run_rows"] = runs.choice((1, 2, 16))
        self._batches["quantum_urls"] = runs.choice((3, 3, 20))
        self._batches["read_ahead"] = runs.choice((4, 20))
        self.mass_deletion_share = timeline.random("deletions").choice((0.0, 0.0, 0.5, 1.0))
        has_scheduler = with_tasks or with_spiders
        # Managers ask one content port for all content.
        self.with_central = chance.random() < 0.7 or has_scheduler
        sites = chance.choice((1, 2, 3, 4, 5, 5, 12))
        if has_scheduler:
            sites = 1 + sites % 2
        place = timeline.random("place")
        self.is_far = self.with_central and place.random() < FAR_SHARE
        if self.is_far:
            self.network.set_far(CENTRAL, QM, FAR_SECONDS)
        self._with_notifier = timeline.random("notifier").random() < NOTIFIER_SHARE
        self._listens = self._with_notifier or has_scheduler
        self._configuration = COMMON + (crawl.CONFIGURATION if with_spiders else "")
        self.tasks: TaskWorld | None = None
        self.crawl: CrawlWorld | None = None
        self.content_missed: Callable[[int, int], object] = lambda machine, file: None
        self._add_roles()
        for number in range(1, 1 + sites):
            self._add_site(number)
        if self._with_notifier:
            self._add_watched(1 + sites)
        if has_scheduler:
            self._add_tasks(1 + sites + self._with_notifier, with_tasks)
        if with_spiders:
            self._add_spiders(2 + sites + self._with_notifier)

    # What there is.

    def _add_roles(self) -> None:
        parent = f"tcp:{CENTRAL}:9003" if self.with_central else ""
        self._role("qm", QM, qm)
        for number, address in enumerate(UNSES, 1):
            self._role(f"uns{number}", address, uns)
        if self.with_central:
            self._role("central", CENTRAL, botm, serves="botms")
        for number, address in enumerate(BOTMS, 1):
            url = f"http://{address}:9004"
            self._role(f"botm{number}", address, botm, machine=number, parent=parent, content_url=url)
            for which in ("a", "b")[: 1 + (number == 1)]:
                self._role(f"bot{number}{which}", address, bot, botm=address)
        self._role("cu", CU, cu)
        self._process("user", USER, lambda process: Follower(self.copy, process, CU))

    def _values(self, **settings: Any) -> dict[str, Any]:
        """What :data:`COMMON` asks for."""
        values = {"serves": "bots", "machine": 1, "parent": "", "content_url": "", "botm": "10.0.0.6"}
        values["listen_notifiers"] = "tcp:9005" if self._listens else ""
        values |= {"uns": UNSES[0], "window": 100, "pages_at_once": 500}
        return {"mass_deletion_share": self.mass_deletion_share, **self._batches, **values, **settings}

    def _role(self, name: str, address: str, module: ModuleType, **settings: Any) -> None:
        text = self._configuration.format(**self._values(name=name, **settings))
        config = parse_config(text, Path("/"))
        self._process(name, address, lambda process: make(module, config, self._environment(process)))

    def _environment(self, process: Process) -> Environment:
        machines = {number: self.machines[address] for number, address in enumerate(BOTMS, 1)}
        return attrs.evolve(
            process.environment,
            extraction=crawl.extraction(process),
            package_threads=lambda most: ReactorThreads(process.reactor, most),
            content_ports=lambda where: DiskContentPorts(
                process, machines, "botm{}".format, lambda *file: self.content_missed(*file)
            ),
        )

    def _process(self, name: str, address: str, build: Callable[[Process], Any]) -> None:
        machine = self.machines.get(address)
        if machine is None:
            machine = self.machines[address] = Machine(self.timeline, self.network, address)
        self.machine_of[name] = address

        def start() -> Process:
            cell: list[Process] = []
            process = Process(
                machine, name, lambda environment: build(cell[0]), self._database, self._fetchers, self._ended
            )
            cell.append(process)
            process.start()
            return process

        self.roles[name] = start

    def _database(self, process: Process, *args: Any, **named: Any) -> SimulatedDatabase:
        return SimulatedDatabase(self.database, process, *args, **named)

    def _fetchers(self, reactor: Any, settings: BotConfig) -> dict[str, IFetcher]:
        fetcher: Any = WatchedFetcher(HttpFetcher(reactor, settings, reactor.nameResolver), self._begins)
        return {"http": fetcher}

    def _begins(self, order: FetchOrder) -> None:
        self.fetch_begins(order)

    def _add_site(self, number: int) -> None:
        site = Site(self.timeline, number, f"10.1.0.{number}", self.plain)
        self.network.names[site.name] = (site.address,)
        chance = site.chance
        if chance.random() < 0.3:
            first = chance.randrange(24)
            site.hours = f"{first}-{(first + chance.randint(3, 12)) % 24}"
        if chance.random() < 0.3:
            site.bandwidth_bytes = chance.choice((20_000, 200_000))
        intervals = self.timeline.random(f"interval {number}")
        if intervals.random() < 0.3:
            site.interval_seconds = intervals.choice((0.2, 1.0, 2.5))
        provider = Provider(
            0,
            (site.root,),
            f"sha256${'00' * 16}${_hash(site.password)}",
            hours=site.hours,
            bandwidth_bytes=site.bandwidth_bytes,
            interval_seconds=site.interval_seconds,
            priority=chance.choice((0, 0, 1, 2)),
            full_sets=None,
            allow_private=True,
        )
        site.pid = self.database.now(add_provider, provider)
        self.sites.append(site)
        build = partial(self._publisher, site)
        self._process(f"site{number}", site.address, build)

    def _add_watched(self, number: int) -> None:
        site = WatchedSite(self.timeline, number, WATCHED)
        self._watch(site)
        self.watched.append(site)
        chance = self.timeline.random("spoken")
        for each in (site, *self.sites[: chance.randint(0, 1)]):
            each.spoken = Spoken(each, self.timeline.random(f"spoken {each.pid}"), is_told=each is not site)
            site.spoken_of.append(each)
        self._process("notifier", site.address, partial(self._notifier, site))

    def _watch(self, site: Site) -> None:
        self.network.names[site.name] = (site.address,)
        settings = WatchedConfig(interval=0.5)  # short enough for runs of more than one
        site.pid = self.database.now(find_or_make_watched, site.root, settings)
        allowed = "UPDATE pidb SET allow_private = 1 WHERE pid = ?"  # as an operator would say for such an address
        self.database.now(lambda txn: txn.execute(allowed, [site.pid]))
        site.interval_seconds = settings.interval

    def _add_tasks(self, number: int, is_busy: bool) -> None:
        site = TaskSite(self.timeline, number, TASK_SITE)
        self._watch(site)
        self._process("tasksite", TASK_SITE, lambda process: TaskSiteServer(site, process))
        tasks = self.tasks = TaskWorld(self.timeline, self.database, site, is_busy)
        chance = self.timeline.random("managers")
        settings = {
            "uns": chance.choice(UNSES),
            "content": CENTRAL,
            "retries": chance.choice((1, 2, 3)),
            "retry_initial": chance.choice((1, 1, 2)),
            "ready_max": chance.choice((10, 20_000)),
            "seconds": chance.choice((9, 9, 25)),
        }

        def run(module: ModuleType, process: Process) -> Service:
            text = (self._configuration + CONFIGURATION).format(**self._values(name=process.name, **settings))
            environment = attrs.evolve(process.environment, starter=lambda _: SimulatedWorkers(tasks.hall, process))
            return make(module, parse_config(text, Path("/")), environment)

        self._process("scheduler", SCHEDULER, partial(run, scheduler))
        for name, address in list(zip(MANAGER_NAMES, MANAGERS, strict=True))[: chance.choice((1, 1, 2, 3))]:
            self._process(name, address, partial(run, manager))

    def _add_spiders(self, number: int) -> None:
        chance = self.timeline.random("spiders")
        linked = [self._add_linked(number + index, f"w{index}.example") for index in range(chance.randint(2, 4))]
        outside = self._add_linked(number + len(linked), "outside.example")
        web = Web(self.timeline, linked, self.sites, outside)
        self.linked = [*linked, outside]
        for site in self.linked:
            self._process(site.name, site.address, partial(LinkedSiteServer, web, site))
        self.crawl = CrawlWorld(self.timeline, self.database, web)
        settings = {"window": chance.choice((1, 3, 100)), "pages_at_once": chance.choice((1, 4, 500))}
        for name, address in list(zip(SPIDER_NAMES, SPIDERS, strict=True))[: chance.randint(1, 2)]:
            self._role(name, address, spider, uns=chance.choice(UNSES), **settings)

    def _add_linked(self, number: int, name: str) -> LinkedSite:
        site = LinkedSite(self.timeline, number, name, f"10.4.0.{number}")
        site.interval_seconds = crawl.INTERVAL_SECONDS
        self.network.names[name] = (site.address,)
        return site

    def _notifier(self, site: WatchedSite, process: Process) -> Service:
        return Notifier(site, process, list(UNSES), lambda *args: self.notice_accepted(*args), self._errors_of)

    def _errors_of(self, pid: int) -> list[tuple[int, str]]:
        sql = "SELECT number, url FROM urlerrs WHERE pid = ?"
        return list(self.database.connection().execute(sql, [pid]))

    @property
    def all_sites(self) -> list[Site]:
        """Those of providers, and those that are watched."""
        return [*self.sites, *self.watched, *([] if self.tasks is None else [self.tasks.site]), *self.linked]

    def site_of(self, pid: int, url: str) -> Site:
        """Of a provider, which may be watched only since now, or under another number."""
        linked = next((site for site in self.linked if url.startswith(site.root)), None)
        if linked is not None:
            linked.pid = pid
            return linked
        return next(site for site in self.all_sites if site.pid == pid)

    def find_linked(self) -> None:
        """The providers of linked sites are what the tables say: these may have been put back."""
        for site in self.linked:
            sql = "SELECT r.pid FROM proots r JOIN pidb p ON p.pid = r.pid WHERE r.root = ? AND p.removed = 0"
            rows = self.database.connection().execute(sql, [site.root]).fetchall()
            site.pid = rows[0][0] if rows else 0

    def _publisher(self, site: Site, process: Process) -> Service:
        return Publisher(site, process, list(UNSES), lambda *args: self.set_accepted(*args))

    def _watch_begin(self, session: uns_session.Session, begin: SetBegin, rest: list[CpMessage]) -> Any:
        """Note a set's order number, which nobody tells its provider."""

        async def watched() -> None:
            await begun
            self.orders.setdefault((session.pid, session.number), []).append(session._order)

        begun = self._begin_of_a_set(session, begin, rest)
        return watched()

    def order_of(self, site: Site, place: Place) -> int:
        """The order number of a set; 0: its UNS has not read that it begins."""
        orders = self.orders.get((site.pid, place.connection), [])
        return orders[place.index] if place.index < len(orders) else 0

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
        self.wanted.add(name)
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
        self.database.close()
        uns_session.Session._begin = self._begin_of_a_set  # type: ignore[method-assign]


def make(module: ModuleType, config: Config, environment: Environment) -> MultiService:
    """As ``twistd`` does it."""
    options = module.Options()
    options.config = config
    if "listen" not in options:
        options["listen"] = False
    service: MultiService = module.makeService(options, environment)
    return service


def _hash(password: str) -> str:
    import hashlib

    return hashlib.sha256(bytes(16) + password.encode()).hexdigest()
