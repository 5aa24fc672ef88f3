"""The machines of one LCC, or of several behind a front end, with everybody they talk to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from types import ModuleType
from typing import Any

import attrs
from twisted.application.service import Service

from lcc.config import WatchedConfig
from lcc.domain.registration.sites import host_of
from lcc.protocols.cp_uns import CpMessage, SetBegin
from lcc.roles.uns import session as uns_session
from lcc.services import manager, scheduler, spider
from lcc.storage.database.migrations import PUSH
from lcc.storage.providers.watched import find_or_make_watched
from lcc.storage.push.keys import decide_key
from lcc.storage.push.requests import request_id
from lcc.testing.simulated.database import DatabaseServer
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Timeline
from lcc.testing.simulated.tls import SimulatedTls

from . import crawl
from .by_http import SetsByHttp
from .crawl import SPIDER_NAMES, SPIDERS, CrawlWorld
from .follower import Copy, Follower
from .front import HOSTS as FRONT
from .front import SUB_CONFIGURATION, FrontEnd, MoveOperator
from .newcomers import Newcomer, NewcomersTools
from .notifier import Notifier, WatchedSite
from .one_lcc import Lcc, LccSettings
from .publisher import Publisher
from .pushers import PORT as PUSH_PORT
from .pushers import WATCHED as WATCHED_SITES
from .pushers import PushedPages, PushingSite, PushingSiteServer
from .sites import Place, Site
from .spoken import Spoken
from .tasks import CONFIGURATION, MANAGER_NAMES, MANAGERS, SCHEDULER, TASK_SITE, TaskSite, TaskSiteServer, TaskWorld
from .web import LinkedSite, LinkedSiteServer, Web
from .workers import SimulatedWorkers
from .world import World, make

USER = "10.0.0.9"
WATCHED = "10.2.0.1"
"""The notifier, and the web server of the site that it watches."""
TROUBLE_SECONDS, SHORT_SECONDS = 60.0, 25.0
"""How long things go wrong."""
SHORT_SHARE = 0.6
"""Of the worlds of one LCC without tasks and spiders, those that are troubled for the shorter time."""
NOTIFIER_SHARE = 0.4
"""Of the worlds, those with a notifier."""
TLS_SHARE = 0.3
"""Of the worlds, those whose connections are over TLS: all but those to web servers and ``lcc-cu``."""
CLOCKS_SHARE = 0.3
"""Of the worlds, those whose machines have wall clocks that disagree, by seconds, minutes, or up to a day."""
QUOTA_SHARE = 0.25
"""Of the providers, those with a quota of files or of bytes, where there are no other sources of pages."""
NEWCOMERS_SHARE = 0.25
"""Of the worlds without a scheduler, those with sites that register."""
PUSH_SHARE = 0.3
"""Of the worlds without moves and spiders, those with a push server."""
BY_HTTP_SHARE = 0.4
"""Of the providers in such a world, those that tell some of their sets by HTTP."""
COMING_SHARE = 2 / 3
"""Of the time in which things go wrong, that in which they come."""
TIGHT_BYTES = 2_000
"""What is left of some quotas in the beginning."""
FAR_SHARE = 0.4
"""Of the worlds with a central BOT-M, those where it is far from the queue manager."""


class System(World):
    """LCCs and their world.

    :param plain: sites tell of their pages in fast-path elements.
    :param with_tasks: there are a scheduler, managers and tasks; and fewer sites.
    :param with_spiders: there are spiders, sites that link to each other, and a scheduler without tasks.
    :param with_moves: there are several LCCs behind a front end, and providers move between them.
    :ivar trouble_seconds: how long things go wrong.
    """

    def __init__(
        self,
        timeline: Timeline,
        plain: bool = False,
        with_tasks: bool = False,
        with_spiders: bool = False,
        with_moves: bool = False,
    ) -> None:
        super().__init__(timeline)
        self.plain = plain
        may_be_short = not (with_tasks or with_spiders or with_moves)
        is_short = may_be_short and timeline.random("length").random() < SHORT_SHARE
        self.trouble_seconds = SHORT_SECONDS if is_short else TROUBLE_SECONDS
        self.sites: list[Site] = []
        self.linked: list[LinkedSite] = []
        """Sites that spiders find."""
        self.watched: list[WatchedSite] = []
        """Sites that a notifier lists, and no provider tells of."""
        self.copy = Copy()
        self.newcomers: list[Newcomer] = []
        """Sites that register; those that do not give up are among the others, too."""
        self.newcomer_answered: Callable[[Newcomer, int], None] = lambda newcomer, pid: None
        self.checks: list[Callable[[], object]] = []
        """Called in turn, each when a check of a registration begins."""
        self.making: list[Callable[[Lcc], object]] = []
        """Called in turn, each when a provider of a newcomer has just been made, before anybody hears of it."""
        self.pushing: list[Site] = []
        """Sites that push; some of them are among the others, too."""
        self.storing: list[Callable[[], object]] = []
        """Called in turn, each when the push server has just written its tables, before it hears of that."""
        self.set_accepted: Callable[[Site, Place], None] = lambda site, place: None
        self.notice_accepted: Callable[[str, int], None] = lambda epoch, number: None
        self.orders: dict[tuple[int, int], list[int]] = {}
        """(provider, its connection) -> the order numbers of the sets that began there."""
        self._begin_of_a_set = uns_session.Session._begin
        uns_session.Session._begin = lambda *args: self._watch_begin(*args)  # type: ignore[method-assign]
        over_tls = timeline.random("tls").random() < TLS_SHARE
        self.tls = SimulatedTls(timeline) if over_tls else None
        self.tasks: TaskWorld | None = None
        self.crawl: CrawlWorld | None = None
        self.front: FrontEnd | None = None
        self.operator: MoveOperator | None = None
        chance = timeline.random("system")
        has_scheduler = with_tasks or with_spiders
        with_notifier = timeline.random("notifier").random() < NOTIFIER_SHARE
        has_pushes = not (with_spiders or with_moves) and timeline.random("pushes").random() < PUSH_SHARE
        more = crawl.CONFIGURATION if with_spiders else SUB_CONFIGURATION if with_moves else ""
        more += WATCHED_SITES if has_pushes else ""
        listens = with_notifier or has_scheduler or has_pushes
        settings = self._settings(chance, has_scheduler or with_moves, listens, more)
        settings = attrs.evolve(settings, has_gateway=has_pushes)
        if with_moves:
            settings = attrs.evolve(settings, proxies=FRONT.unses)
            self.lccs = [Lcc(self, settings, number) for number in range(1, 1 + chance.choice((2, 2, 3)))]
            self.front = FrontEnd(self, self.lccs)
        else:
            self.lccs = [Lcc(self, settings)]
        self._entries = list(self.lcc.hosts.unses if self.front is None else FRONT.unses)
        users = self.lcc.hosts.cu if self.front is None else FRONT.cu
        self.add_process("user", USER, lambda process: Follower(self.copy, process, users, self.front is not None))
        sites = chance.choice((1, 2, 3, 4, 5, 5, 12))
        if has_scheduler:
            sites = 1 + sites % 2
        # What spiders find and notifiers list counts, too, and these do not come back once there is room.
        self.may_have_quotas = not (with_spiders or with_notifier or has_pushes)
        for number in range(1, 1 + sites):
            self._add_site(number)
        if with_notifier:
            self._add_watched(1 + sites)
        if has_pushes:
            self._add_pushes()
        if not has_scheduler and timeline.random("newcomers").random() < NEWCOMERS_SHARE:
            self._add_newcomers()
        if self.front is not None:
            self.operator = MoveOperator(self.front, [*self.sites, *self.watched])
        if has_scheduler:
            self._add_tasks(1 + sites + with_notifier, with_tasks)
        if with_spiders:
            self._add_spiders(2 + sites + with_notifier)
        self._set_clocks()

    def _set_clocks(self) -> None:
        """Each machine has an idea of its own of what time it is."""
        chance = self.timeline.random("clocks")
        if chance.random() >= CLOCKS_SHARE:
            return
        usual = chance.choice(((3.0,), (3.0, 300.0), (3.0, 300.0, 20_000.0, 86_400.0)))
        if self.newcomers and self.front is not None:
            usual = (3.0,)  # a sub-LCC whose clock is behind by more than [fe] stale gets no new providers
        for machine in self.machines.values():
            machine.clock_usual = chance.choice((0.0, chance.uniform(-1, 1))) * chance.choice(usual)
            machine.clock_ahead = machine.clock_usual
        if self.tasks is not None:
            self.tasks.clock_ahead = self.machines[SCHEDULER].clock_usual

    def _settings(self, chance: Random, needs_central: bool, listens: bool, more: str) -> LccSettings:
        batches = {"absorb_batch": chance.choice((3, 7, 50)), "record_batch": chance.choice((1, 3, 50))}
        runs = self.timeline.random("runs")
        batches["run_rows"] = runs.choice((1, 2, 16))
        batches["quantum_urls"] = runs.choice((3, 3, 20))
        batches["read_ahead"] = runs.choice((4, 20))
        share = self.timeline.random("deletions").choice((0.0, 0.0, 0.5, 1.0))
        # Managers and other sub-LCCs ask one content port for all content.
        has_central = chance.random() < 0.7 or needs_central
        is_far = has_central and self.timeline.random("place").random() < FAR_SHARE
        return LccSettings(has_central, is_far, listens, batches, share, more, over_tls=self.tls is not None)

    @property
    def lcc(self) -> Lcc:
        """The only one, or the first one."""
        return self.lccs[0]

    @property
    def database(self) -> DatabaseServer:
        """Of the only LCC."""
        return self.lcc.database

    def lcc_at(self, address: str) -> Lcc:
        """That to which this machine belongs."""
        return next(lcc for lcc in self.lccs if address.startswith(f"{lcc.hosts.net}."))

    # What there is.

    def _add_site(self, number: int) -> None:
        site = Site(self.timeline, number, f"10.1.0.{number}", self.plain)
        chance = site.chance
        if chance.random() < 0.3:
            first = chance.randrange(24)
            site.hours = f"{first}-{(first + chance.randint(3, 12)) % 24}"
        if chance.random() < 0.3:
            site.bandwidth_bytes = chance.choice((4_000, 20_000, 200_000))
        intervals = self.timeline.random(f"interval {number}")
        if intervals.random() < 0.3:
            site.interval_seconds = intervals.choice(
                (0.2, 1.0, 2.5) if self.front is None or site.hours else (1.0, 8.0)
            )
        quotas = self.timeline.random(f"quotas {number}")
        if self.may_have_quotas and quotas.random() < QUOTA_SHARE:
            if quotas.random() < 0.5:
                site.files_max = quotas.choice((3, 6, 12, 60))
            else:
                site.space_max_bytes = quotas.choice((9_000, 40_000, 500_000, site.size_bytes + TIGHT_BYTES))
        site.priority = chance.choice((0, 0, 1, 2))
        self.add_site(site, self._home_of(site).database)
        if self.front is not None:
            self.front.count_connections_apart(site)
        self.sites.append(site)
        build = partial(self._publisher, site)
        self.add_process(f"site{number}", site.address, build)

    def _add_newcomers(self) -> None:
        (self.lcc if self.front is None else self.front).add_registrations()
        server = self.lcc.hosts.rs if self.front is None else FRONT.rs
        for number in range(1, 1 + self.timeline.random("newcomers").choice((2, 3, 5))):
            newcomer = Newcomer(self.timeline, number, f"10.1.1.{number}", COMING_SHARE * self.trouble_seconds)
            self.network.names[newcomer.name] = (newcomer.address,)
            self.newcomers.append(newcomer)
            if not newcomer.gives_up:
                self.sites.append(newcomer)
            self.add_process(newcomer.process, newcomer.address, partial(self._newcomers_tools, newcomer, server))

    def _newcomers_tools(self, newcomer: Newcomer, server: str, process: Process) -> Service:
        return NewcomersTools(
            newcomer,
            process,
            self._entries,
            lambda *args: self.set_accepted(*args),
            over_tls=self.tls is not None,
            server=server,
            checks=self._check_begins,
            answered=self._registered,
        )

    def _check_begins(self) -> None:
        if self.checks:
            self.checks.pop(0)()

    def provider_appears(self, lcc: Lcc) -> None:
        """A newcomer's provider is in the tables of an LCC."""
        if self.making:
            self.making.pop(0)(lcc)

    def _registered(self, newcomer: Newcomer, pid: int) -> None:
        self.newcomer_answered(newcomer, pid)
        if not newcomer.pid and self.front is not None:
            newcomer.pid = pid
            self.front.count_connections_apart(newcomer)
        newcomer.pid = pid

    def _home_of(self, site: Site) -> Lcc:
        """Where it is made."""
        return self.lcc if self.front is None else self.timeline.random(f"home {site.name}").choice(self.lccs)

    def _add_watched(self, number: int) -> None:
        site = WatchedSite(self.timeline, number, WATCHED)
        self._watch(site)
        self.watched.append(site)
        chance = self.timeline.random("spoken")
        for each in (site, *self.sites[: chance.randint(0, 1)]):
            each.spoken = Spoken(each, self.timeline.random(f"spoken {each.pid}"), is_told=each is not site)
            site.spoken_of.append(each)
        self.add_process("notifier", site.address, partial(self._notifier, site))

    def _add_pushes(self) -> None:
        """A push server, sites that only push, and one that does so besides telling sets."""
        chance = self.timeline.random("push server")
        unknown_sites = chance.choice(("register", "approve"))
        self.lcc.add_pushes(uns=chance.choice(self.lcc.hosts.unses), unknown_sites=unknown_sites)
        self.pushing = self.sites[: chance.randint(0, 1)]
        for site in self.sites:
            if chance.random() < BY_HTTP_SHARE:
                site.by_http = SetsByHttp(site, f"http://{self.lcc.hosts.push}:{PUSH_PORT}", self._order_of_request)
        for number in range(1, 1 + chance.randint(1, 3)):
            site = PushingSite(self.timeline, number, f"20.0.5.{number}")  # no private address: nobody has allowed it
            self.network.names[site.name] = (site.address,)
            self.pushing.append(site)
            self.add_process(site.process, site.address, partial(PushingSiteServer, site))
        for number, each in enumerate(self.pushing):
            each.pushed = PushedPages(each, self.timeline, number, self.lcc.hosts.push)
        if unknown_sites == "approve":
            self.timeline.call_later(chance.expovariate(1 / 6.0), None, self._approve, chance)

    def _order_of_request(self, pid: int, key: str) -> int:
        sql = "SELECT connorder FROM setrequest WHERE id = ?"
        rows = self.database.connection(PUSH).execute(sql, [request_id(pid, key)]).fetchall()
        return int(rows[0][0]) if rows else 0

    def _approve(self, chance: Random) -> None:
        """The operator approves of sites that wait for that."""
        for site in self.pushing:
            self.database.now(decide_key, host_of(site.root), True, 0, series=PUSH)
        self.timeline.call_later(chance.expovariate(1 / 6.0), None, self._approve, chance)

    @property
    def found(self) -> list[Site]:
        """Sites that become providers by what is noticed of them."""
        return [*self.linked, *(site for site in self.pushing if isinstance(site, PushingSite))]

    def _watch(self, site: Site) -> None:
        self.network.names[site.name] = (site.address,)
        settings = WatchedConfig(interval=0.5)  # short enough for runs of more than one
        database = self._home_of(site).database
        site.pid = database.now(find_or_make_watched, site.root, settings)
        allowed = "UPDATE pidb SET allow_private = 1 WHERE pid = ?"  # as an operator would say for such an address
        database.now(lambda txn: txn.execute(allowed, [site.pid]))
        site.interval_seconds = settings.interval

    def _add_tasks(self, number: int, is_busy: bool) -> None:
        site = TaskSite(self.timeline, number, TASK_SITE)
        self._watch(site)
        self.add_process("tasksite", TASK_SITE, lambda process: TaskSiteServer(site, process))
        tasks = self.tasks = TaskWorld(self.timeline, self.database, site, is_busy)
        chance = self.timeline.random("managers")
        settings = {
            "uns": chance.choice(self.lcc.hosts.unses),
            "content": self.lcc.hosts.central,
            "retries": chance.choice((1, 2, 3)),
            "retry_initial": chance.choice((1, 1, 2)),
            "ready_max": chance.choice((10, 20_000)),
            "seconds": chance.choice((9, 9, 25)),
        }

        def run(module: ModuleType, process: Process) -> Service:
            config = self.lcc.config(process.name, CONFIGURATION, **settings)
            environment = attrs.evolve(process.environment, starter=lambda _: SimulatedWorkers(tasks.hall, process))
            return make(module, config, environment)

        self.add_process("scheduler", SCHEDULER, partial(run, scheduler))
        for name, address in list(zip(MANAGER_NAMES, MANAGERS, strict=True))[: chance.choice((1, 1, 2, 3))]:
            self.add_process(name, address, partial(run, manager))

    def _add_spiders(self, number: int) -> None:
        chance = self.timeline.random("spiders")
        linked = [self._add_linked(number + index, f"w{index}.example") for index in range(chance.randint(2, 4))]
        outside = self._add_linked(number + len(linked), "outside.example")
        web = Web(self.timeline, linked, self.sites, outside)
        self.linked = [*linked, outside]
        for site in self.linked:
            self.add_process(site.name, site.address, partial(LinkedSiteServer, web, site))
        self.crawl = CrawlWorld(self.timeline, self.database, web)
        settings = {"window": chance.choice((1, 3, 100)), "pages_at_once": chance.choice((1, 4, 500))}
        for name, address in list(zip(SPIDER_NAMES, SPIDERS, strict=True))[: chance.randint(1, 2)]:
            self.lcc.add_role(name, address, spider, uns=chance.choice(self.lcc.hosts.unses), **settings)

    def _add_linked(self, number: int, name: str) -> LinkedSite:
        site = LinkedSite(self.timeline, number, name, f"10.4.0.{number}")
        site.interval_seconds = crawl.INTERVAL_SECONDS
        self.network.names[name] = (site.address,)
        return site

    def _notifier(self, site: WatchedSite, process: Process) -> Service:
        accepted = lambda *args: self.notice_accepted(*args)  # noqa: E731  # set later
        return Notifier(site, process, self._entries, accepted, self._errors_of, over_tls=self.tls is not None)

    def _errors_of(self, pid: int) -> list[tuple[int, str]]:
        sql = "SELECT number, url FROM urlerrs WHERE pid = ?"
        database = self.database if self.front is None else self.front.home(pid).database
        return list(database.connection().execute(sql, [pid]))

    @property
    def all_sites(self) -> list[Site]:
        """Those of providers, and those that are watched."""
        return [*self.sites, *self.watched, *([] if self.tasks is None else [self.tasks.site]), *self.found]

    def site_of(self, pid: int, url: str) -> Site | None:
        """Of a provider, which may be watched only since now, or under another number; None: it carries content of
        another sub-LCC."""
        found = next((site for site in self.found if url.startswith(site.root)), None)
        if found is not None:
            found.pid = pid
            return found
        if self.front is not None and self.front.is_content(url):
            return None
        return next(site for site in self.all_sites if site.pid == pid)

    def find_linked(self) -> None:
        """The providers of linked sites are what the tables say: these may have been put back."""
        for site in self.linked:
            sql = "SELECT r.pid FROM proots r JOIN pidb p ON p.pid = r.pid WHERE r.root = ? AND p.removed = 0"
            rows = self.database.connection().execute(sql, [site.root]).fetchall()
            site.pid = rows[0][0] if rows else 0

    def _publisher(self, site: Site, process: Process) -> Service:
        return Publisher(
            site, process, self._entries, lambda *args: self.set_accepted(*args), over_tls=self.tls is not None
        )

    def _watch_begin(self, session: uns_session.Session, begin: SetBegin, rest: list[CpMessage]) -> Any:
        """Note a set's order number, which nobody tells its provider."""

        async def watched() -> None:
            await begun
            self.orders.setdefault((session.pid, session.number), []).append(session._order)

        begun = self._begin_of_a_set(session, begin, rest)
        return watched()

    def order_of(self, site: Site, place: Place) -> int:
        """The order number of a set; 0: its UNS has not read that it begins."""
        if place.order:
            return place.order
        orders = self.orders.get((site.pid, place.connection), [])
        return orders[place.index] if place.index < len(orders) else 0

    def close(self) -> None:
        super().close()
        uns_session.Session._begin = self._begin_of_a_set  # type: ignore[method-assign]
        if self.tls is not None:
            self.tls.end()
