"""The push server as a service (``twistd lcc-push``): only wiring."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.application.service import MultiService
from twisted.internet.defer import DeferredList, maybeDeferred
from twisted.web.resource import Resource

from lcc.config import Config
from lcc.domain.push.websub import is_url
from lcc.errors import ConfigError
from lcc.fetchers.guarded_client import GuardedClient
from lcc.interfaces import IFetcher
from lcc.model.push.pushes import PushClaim
from lcc.roles.notifier import NotifierLink
from lcc.roles.proof_files import ProofFiles, fetch_settings
from lcc.roles.push.callbacks import Callbacks
from lcc.roles.push.console import PushCommands
from lcc.roles.push.engine import PushServer
from lcc.roles.push.gateway import Gateway
from lcc.roles.push.metrics import PushMetrics
from lcc.roles.push.sets import SetIntake
from lcc.roles.push.sets_web import resources
from lcc.roles.push.subscriber import Subscriber
from lcc.roles.push.web import build_site
from lcc.services.common import AtStop, HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import Database, DatabaseService
from lcc.storage.database.migrations import MAIN, PUSH, TASKS
from lcc.storage.database.place import place_of
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.push.requests import SetRequests
from lcc.storage.push.store import PushStore
from lcc.transport.links import PortService, RetryPolicy, client_endpoint, link_service
from lcc.transport.wires import endpoint

ASK_SECONDS = 5.0
"""A push waits so long for its order number at most."""


class Options(RoleOptions):
    """The options of ``lcc-push``."""

    role = "push"
    summary = "The push server of an LCC: IndexNow of sites, WebSub of feeds, sets that providers submit by HTTP."


class _Engine(MultiService):
    """Starts the engine, and once it has claimed its tables, the link to the UNS."""

    def __init__(
        self, engine: PushServer, main: Database, fetcher: IFetcher, config: Config, environment: Environment
    ) -> None:
        super().__init__()
        self._push = engine
        self._main = main
        self._fetcher = fetcher
        self._config = config
        self._environment = environment
        engine.claimed = self._claimed

    def startService(self) -> None:
        super().startService()
        self._main.start()
        self._push.start()
        if self._push.sets is not None:
            self._push.sets.start()

    def stopService(self) -> Any:
        self._push.stop()
        if self._push.sets is not None:
            self._push.sets.stop()
        return DeferredList([self._main.stop(), self._fetcher.close(), maybeDeferred(super().stopService)])

    def _claimed(self, claim: PushClaim) -> None:
        if not self.running:
            return
        environment = self._environment
        policy = RetryPolicy(environment.chance.random)
        link = NotifierLink(
            "push",
            self._config.push.name,
            claim.epoch,
            environment.token(),
            environment.reactor,
            policy.good_hello,
            ask_seconds=ASK_SECONDS,
        )
        self._push.draws.link = link
        link_service(
            environment.reactor, endpoint(self._config, "push.connect"), link.factory(), policy, environment.pipes
        ).setServiceParent(self)


def _client(config: Config, reactor: Any) -> GuardedClient:
    settings = config.push
    return GuardedClient(
        reactor,
        attrs.evolve(config.bot, connect_timeout=settings.connect_timeout, dns_cache=0.0),
        at_once=settings.checks_at_once,
        deadline_seconds=settings.deadline,
        allow_private=settings.allow_private,
    )


def _subscriber(
    config: Config,
    store: PushStore,
    tasks: Database,
    client: GuardedClient,
    environment: Environment,
    engine: PushServer,
) -> Subscriber:
    """
    :raises ConfigError: it cannot be reached, or hubs are not named as they should.
    """
    settings = config.push
    if not is_url(settings.url) or "?" in settings.url:
        raise ConfigError(
            [f"push.url: {settings.url!r} is not the URL of a server, such as https://push.example.org/"]
        )
    try:
        return Subscriber(
            settings, store.subscriptions, tasks, client, environment.now, environment.token, engine.counters
        )
    except ValueError as error:
        raise ConfigError([f"push.hubs: {error}"]) from None


def build(config: Config, environment: Environment) -> RoleService:
    """The push server's services; started in this order, stopped in reverse.

    :raises ConfigError: no endpoint to listen on.
    """
    settings, reactor = config.push, environment.reactor
    if not settings.listen:
        raise ConfigError(["push.listen: must be set to an endpoint, such as tcp:9700:interface=127.0.0.1"])
    place = place_of(config, PUSH)
    database = environment.database(
        place.url, place.home, reactor, config.database, random=environment.chance, series=place.series
    )
    main = database
    if place.series != MAIN:
        main = environment.database(
            config.database.url, config.home, reactor, config.database, random=environment.chance
        )
    fetcher = environment.fetchers(reactor, fetch_settings(config.bot, settings))["http"]
    files = ProofFiles(fetcher, settings)
    store = PushStore(database)
    engine = PushServer(settings, store, main, files, reactor, environment.now, reactor.stop)
    others: dict[bytes, Resource] = {}
    further: list[Any] = []
    if settings.url:
        tables, client = database, _client(config, reactor)
        tasks = place_of(config, TASKS)
        if tasks.series != MAIN:
            tables = environment.database(
                tasks.url, tasks.home, reactor, config.database, random=environment.chance, series=tasks.series
            )
            further.append(DatabaseService(tables, "tasks"))
        further.append(AtStop(client.close))
        engine.subscriber = _subscriber(config, store, tables, client, environment, engine)
        others[b"websub"] = Callbacks(engine)
    gateway = endpoint(config, "push.connect_gateway")
    if gateway:
        to_uns = client_endpoint(reactor, gateway, environment.pipes)
        engine.sets = SetIntake(
            Gateway(to_uns.connect, reactor, settings.sets_at_once),
            SetRequests(store),
            engine.ask,
            reactor,
            environment.now,
            settings,
        )
        others |= resources(engine, engine.sets)
    metrics = PushMetrics(engine, database.counts, DatabaseProbe(database.interact, reactor))
    services = RoleService("push", PushCommands(engine), metrics)
    for service in (
        HomeService(config.home, environment.disk),
        environment.lock(config.home / "push.lock"),
        DatabaseService(database),
        *further,
        _Engine(engine, main, fetcher, config, environment),
        PortService(reactor, endpoint(config, "push.listen"), build_site(engine, reactor, others), "push.listen"),
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "push.metrics", role)
