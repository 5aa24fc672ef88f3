"""The scheduler of periodic tasks as a service (``twistd lcc-scheduler``): only wiring."""

from __future__ import annotations

from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import DeferredList, maybeDeferred

from lcc.config import Config
from lcc.domain.tasks.due import JobRetries
from lcc.domain.tasks.items import ItemRules
from lcc.domain.tasks.rules import TaskRules
from lcc.model.tasks import TaskClaim
from lcc.roles.notifier import NotifierLink
from lcc.roles.scheduler.console import SchedulerCommands
from lcc.roles.scheduler.engine import Scheduler
from lcc.roles.scheduler.metrics import SchedulerMetrics
from lcc.roles.scheduler.notices import Notices
from lcc.roles.scheduler.polls import Polls
from lcc.roles.scheduler.texts import Texts
from lcc.roles.scheduler.watched_sites import WatchedSites
from lcc.services.common import HomeService, RoleService
from lcc.services.options import SchedulerOptions
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import Database, DatabaseService
from lcc.storage.database.migrations import MAIN, TASKS
from lcc.storage.database.place import place_of
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.tasks.feeds.items import ItemStore
from lcc.storage.tasks.store import TaskStore
from lcc.transport.links import PortService, RetryPolicy, link_service
from lcc.transport.ports.limited import LimitedFactory
from lcc.transport.wires import endpoint

Options = SchedulerOptions


class _Engine(MultiService):
    """Starts the engine, and once it has claimed its tables, the link to the UNS; drops both at stop."""

    def __init__(self, engine: Scheduler, main: Database, config: Config, environment: Environment) -> None:
        super().__init__()
        self.engine = engine
        self._config = config
        self._environment = environment
        self._main = main
        self._notices: Notices | None = None
        self._polls: Polls | None = None
        self._texts: Texts | None = None
        self._sites: WatchedSites | None = None
        engine.claimed = self._claimed

    def startService(self) -> None:
        super().startService()
        self._main.start()
        self.engine.start()

    def stopService(self) -> Any:
        self.engine.stop()
        for part in (self._sites, self._texts, self._polls, self._notices):
            if part is not None:
                part.stop()
        return DeferredList([self._main.stop(), maybeDeferred(super().stopService)])

    def _claimed(self, claim: TaskClaim) -> None:
        settings, environment = self._config.scheduler, self._environment
        if not (settings.connect and self.running) or self._notices is not None:
            return
        policy = RetryPolicy(environment.chance.random)
        link = NotifierLink(
            "scheduler", settings.name, claim.epoch, environment.token(), environment.reactor, policy.good_hello
        )
        engine = self.engine
        self._notices = Notices(link, engine.store, self._main, engine.now, engine.counters)
        told = self._notices.has_room, self._notices.made
        self._polls = Polls(engine, engine.store, self._main, *told, link.watch, link.draw)
        self._texts = Texts(engine.store, self._main, engine.now, engine.add)
        self._sites = WatchedSites(engine.store, self._main, engine.now, link.watch)
        engine.background += [self._notices.tick, self._polls.tick, self._texts.tick, self._sites.tick]
        link_service(
            environment.reactor,
            endpoint(self._config, "scheduler.connect"),
            link.factory(),
            policy,
            environment.pipes,
        ).setServiceParent(self)


def build_store(config: Config, database: Database) -> TaskStore:
    """The scheduler's store on this database."""
    settings = config.scheduler
    retries = JobRetries(settings.retries, settings.retry_initial)
    deletions = config.qm.mass_deletion_share, config.qm.mass_deletion_floor
    rules = TaskRules(retries, *deletions, config.slot_seconds)
    items = ItemStore(ItemRules(), settings.items_max, settings.items_bytes_max)
    return TaskStore(database, rules, items, settings.jobs_max)


def build(config: Config, environment: Environment) -> RoleService:
    """The scheduler's services; started in this order, stopped in reverse."""
    settings, reactor = config.scheduler, environment.reactor
    place = place_of(config, TASKS)
    database = environment.database(
        place.url, place.home, reactor, config.database, random=environment.chance, series=place.series, lean=True
    )
    main = database
    if place.series != MAIN:
        main = environment.database(
            config.database.url, config.home, reactor, config.database, random=environment.chance, lean=True
        )
    store = build_store(config, database)
    engine = Scheduler(settings, store, reactor, environment.now, environment.token(), reactor.stop)
    metrics = SchedulerMetrics(engine, database.counts, DatabaseProbe(database.interact, reactor))
    services = RoleService("scheduler", SchedulerCommands(engine), metrics)
    limits = settings.managers_max, "managers", settings.managers_per_address
    port = PortService(
        reactor,
        endpoint(config, "scheduler.listen"),
        LimitedFactory(engine.factory(), *limits),
        "scheduler.listen",
        environment.pipes,
    )
    for service in (
        HomeService(config.home, environment.disk),
        environment.lock(config.home / "scheduler.lock"),
        DatabaseService(database),
        _Engine(engine, main, config, environment),
        port,
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "scheduler.metrics", role)
