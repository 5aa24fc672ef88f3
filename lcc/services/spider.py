"""The spider as a service (``twistd lcc-spider``): only wiring."""

from __future__ import annotations

import os
from typing import Any

from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred

from lcc.client.cache import CacheClient
from lcc.config import Config
from lcc.domain.spider.rules import FrontierRules
from lcc.errors import ConfigError
from lcc.model.spider.crawls import SpiderClaim
from lcc.model.spider.links import ExtractionLimits, StoreSettings
from lcc.roles.extraction import ExtractionPool, spawn_by
from lcc.roles.notifier import NotifierLink
from lcc.roles.spider.console import SpiderCommands
from lcc.roles.spider.engine import Spider
from lcc.roles.spider.keeping import Keeping
from lcc.roles.spider.metrics import SpiderMetrics
from lcc.roles.spider.sites import Sites
from lcc.roles.spider.web import build_site
from lcc.services.common import HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.spider.extractors.registry import extractors_by_type
from lcc.spider.stores.registry import stores_named
from lcc.storage.database.database import DatabaseService
from lcc.storage.database.migrations import SPIDER
from lcc.storage.database.place import place_of
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.spider.store import FrontierStore
from lcc.transport.links import PortService, RetryPolicy, link_service
from lcc.transport.wires import endpoint

TEXT_CHARS = 1_000_000
"""Of a page's text, where a store keeps that."""
LINK_CHARS = 200
"""Of a link's text, where there are stores."""
WORKERS_MAX = 4
"""Processes that extract links, unless the configuration says how many."""


class Options(RoleOptions):
    """The options of ``lcc-spider``."""

    role = "spider"
    summary = "The spider of an LCC: follows the links of cached pages, within crawls."


class _Engine(MultiService):
    """Starts the engine, and with each claim of the frontier the link to the UNS; what extracts links and keeps pages
    runs from the first crawl on."""

    def __init__(
        self,
        engine: Spider,
        pool: ExtractionPool,
        keeping: Keeping,
        client: CacheClient,
        config: Config,
        environment: Environment,
    ) -> None:
        super().__init__()
        self._spider = engine
        self._pool = pool
        self._keeping = keeping
        self._client = client
        self._config = config
        self._environment = environment
        self._epoch = ""
        self._link: IService | None = None
        self._is_pool_started = False
        engine.claimed = self._claimed
        engine.needed = self._needed

    def startService(self) -> None:
        super().startService()
        self._spider.start()

    def stopService(self) -> Deferred[Any]:
        stopped = self._spider.stop()
        if self._spider.teller.link is not None:
            self._spider.teller.link.close()
        parts = [stopped, maybeDeferred(super().stopService), self._pool.stop(), self._client.close()]
        return DeferredList(parts, consumeErrors=True).addCallback(lambda _: self._keeping.close())

    def _needed(self) -> None:
        if self.running and not self._is_pool_started:
            self._is_pool_started = True
            self._pool.start()

    def _claimed(self, claim: SpiderClaim) -> None:
        self._keeping.begin_again()
        settings, environment = self._config.spider, self._environment
        if not (settings.connect and self.running) or claim.epoch == self._epoch:
            return
        self._epoch = claim.epoch
        teller = self._spider.teller
        if self._link is not None and teller.link is not None:
            teller.link.close()
            self.removeService(self._link)
        policy = RetryPolicy(environment.chance.random)
        teller.link = NotifierLink(
            "spider", settings.name, claim.epoch, environment.token(), environment.reactor, policy.good_hello
        )
        self._link = link_service(
            environment.reactor,
            endpoint(self._config, "spider.connect"),
            teller.link.factory(),
            policy,
            environment.pipes,
        )
        self._link.setServiceParent(self)


def _first_line(config: Config, environment: Environment, path: str) -> str:
    return environment.disk.read(config.under_home(path)).decode().partition("\n")[0].strip()


def _crawl_port(config: Config, environment: Environment, database: Any, sites: Sites) -> PortService:
    """The HTTP interface of crawls.

    :raises ConfigError: it has no token.
    """
    settings, reactor = config.spider, environment.reactor
    try:
        token = _first_line(config, environment, settings.listen_token_file)
    except OSError as error:
        path = config.under_home(settings.listen_token_file)
        raise ConfigError(
            [f"spider.listen_token_file: {path}: {error.strerror}; write a token of your own into its first line"]
        ) from None
    site = build_site(database, settings, token, sites, reactor, environment.now)
    return PortService(reactor, endpoint(config, "spider.listen"), site, "spider.listen")


def _client(config: Config, environment: Environment) -> CacheClient:
    """Reads pages from ``lcc-cu``.

    :raises AddressError: an invalid address or token.
    """
    settings = config.spider
    token = None
    if settings.token_file:
        token = _first_line(config, environment, settings.token_file)
    address = settings.cache.replace("{home}", str(config.home))
    return CacheClient(environment.reactor, address, token)


def build_store(config: Config, database: Any) -> FrontierStore:
    """The frontier on this database."""
    settings = config.spider
    rules = FrontierRules(
        window=settings.window,
        failures_max=settings.failures_max,
        parked_seconds=round(settings.parked),
        parked_max_seconds=round(settings.parked_max),
        told_wait_seconds=max(1, round(settings.told_wait)),
        hosts_per_domain=settings.hosts_per_domain,
    )
    return FrontierStore(database, rules)


def build(config: Config, environment: Environment) -> RoleService:
    """The spider's services; started in this order, stopped in reverse.

    :raises ConfigError: a store, filter or extractor does not exist.
    """
    settings, reactor = config.spider, environment.reactor
    place = place_of(config, SPIDER)
    database = environment.database(
        place.url, place.home, reactor, config.database, random=environment.chance, series=place.series, lean=True
    )
    frontier = build_store(config, database)
    stores = stores_named(settings.stores)
    if settings.extractors:
        extractors_by_type(settings.extractors)
    limits = ExtractionLimits(
        links=settings.links_max,
        document_bytes=settings.page_bytes,
        text_chars=LINK_CHARS if stores else 0,
        page_seconds=settings.page_seconds,
        memory_bytes=settings.worker_memory_bytes,
        page_chars=TEXT_CHARS if any(store.wants_text for store in stores) else 0,
    )
    workers = settings.workers or min(WORKERS_MAX, os.cpu_count() or 1)
    if environment.extraction is None:
        spawn = spawn_by(reactor, limits, settings.extractors)
    else:
        spawn = environment.extraction(limits, settings.extractors)
    pool = ExtractionPool(reactor, spawn, limits, workers)
    keeping = Keeping(
        stores,
        frontier,
        config.under_home(settings.folder),
        environment.disk,
        StoreSettings(settings.segment_bytes),
        environment.in_thread,
        reactor.seconds,
    )
    client = _client(config, environment)
    engine = Spider(settings, frontier, client, pool, keeping, reactor, environment.now)
    metrics = SpiderMetrics(engine, database.counts, DatabaseProbe(database.interact, reactor))
    services = RoleService("spider", SpiderCommands(engine), metrics)
    for service in (
        HomeService(config.home, environment.disk),
        environment.lock(config.home / "spider.lock"),
        DatabaseService(database),
        _Engine(engine, pool, keeping, client, config, environment),
    ):
        service.setServiceParent(services)
    if settings.listen:
        _crawl_port(config, environment, database, engine.sites).setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    # Threads keep pages and ask the database, and their heaps would each grow to its peak.
    environment = environment or real_environment(one_heap=True)
    role = build(options.config, environment)
    return watched(role, options.config, environment, "spider.metrics", role)
