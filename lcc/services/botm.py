"""The robot multiplexer as a service (``twistd lcc-botm``): only wiring."""

from __future__ import annotations

from pathlib import Path

import attrs
from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocolFactory

from lcc.config import Config, content_address
from lcc.roles.botm.console import BotmCommands, RelayCommands
from lcc.roles.botm.content_port import ContentPort, content_factory
from lcc.roles.botm.engine import BotMaster
from lcc.roles.botm.metrics import BotmMetrics, RelayMetrics
from lcc.roles.botm.relay import Relay
from lcc.services.common import RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.disk.content_folder import ContentFolder
from lcc.storage.disk.content_sync import ContentSync
from lcc.storage.disk.durable import DurableCounter
from lcc.transport.http.client import HttpClient
from lcc.transport.links import PortService, RetryPolicy, link_service
from lcc.transport.ports.limited import LimitedFactory
from lcc.transport.wires import endpoint


class Options(RoleOptions):
    """The options of ``lcc-botm``."""

    role = "botm"
    summary = "The robot multiplexer of an LCC: distributes work to robots and stores content files."


class _Content(Service):
    """Opens the content folder at start; stops the engine and syncs the content at stop."""

    def __init__(self, content: ContentFolder, sync: ContentSync, engine: BotMaster) -> None:
        self._content = content
        self._sync = sync
        self._engine = engine

    def startService(self) -> None:
        self._content.open()
        self._sync.open(self._content.names_upto)
        self._engine.start()
        super().startService()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self._engine.stop()


class _Relaying(Service):
    """Closes the connections of BOT-Ms at stop."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def stopService(self) -> None:
        self._relay.stop()
        super().stopService()


class _Serving(Service):
    """Closes connections of and to content ports at stop."""

    def __init__(self, factory: LimitedFactory, http: HttpClient) -> None:
        self._factory = factory
        self._http = http

    def stopService(self) -> Deferred[None]:
        super().stopService()
        self._factory.drop_all()
        return self._http.close()


def build(config: Config, environment: Environment) -> RoleService:
    """The BOT-M's services; started in this order."""
    settings = attrs.evolve(config.botm, content_url=content_address(config))
    reactor = environment.reactor
    run = environment.token()
    policy = RetryPolicy(environment.chance.random)
    http = HttpClient(reactor, settings.content_connections_max, settings.content_idle_timeout)
    stall_seconds = settings.content_idle_timeout
    port: IProtocolFactory
    link: IProtocolFactory
    owned: Service
    commands: BotmCommands | RelayCommands
    metrics: BotmMetrics | RelayMetrics
    if settings.serves == "botms":
        relay = Relay(settings, reactor, run, frozenset(["botm" if settings.parent else "qm"]))
        owned, commands, metrics = _Relaying(relay), RelayCommands(relay), RelayMetrics(relay)
        port, link = relay.downstream_factory(), relay.upstream_factory(policy.good_hello)
        content_port = ContentPort(None, None, relay.content_of, http, reactor, stall_seconds)
    else:

        def open_counter(path: Path) -> DurableCounter:
            return DurableCounter(path, settings.names_block, environment.disk)

        content = ContentFolder(
            config.under_home(settings.content),
            open_counter,
            environment.disk,
            settings.content_reserve,
            environment.lock,
        )
        sync = ContentSync(content.path, environment.boot_id(), environment.disk)
        engine = BotMaster(settings, reactor, content, sync, environment.in_thread, run)
        owned, commands, metrics = _Content(content, sync, engine), BotmCommands(engine), BotmMetrics(engine, content)
        port, link = engine.downstream_factory(), engine.upstream_factory(policy.good_hello)
        content_port = ContentPort(content, engine, lambda _: "", http, reactor, stall_seconds)
    factory = content_factory(
        content_port,
        reactor,
        settings.content_connections_max,
        stall_seconds,
        settings.content_connections_per_address,
        environment.now,
    )
    limited = LimitedFactory(port, settings.robots_max, settings.serves, settings.robots_per_address)
    upper, pipes = "botm.parent" if settings.parent else "botm.connect", environment.pipes
    services = RoleService("botm", commands, metrics)
    for service in (
        environment.lock(config.home / "botm.lock"),
        owned,
        PortService(reactor, endpoint(config, "botm.listen"), limited, "botm.listen", pipes),
        link_service(reactor, endpoint(config, upper), link, policy, pipes),
        _Serving(factory, http),
    ):
        service.setServiceParent(services)
    if settings.content_listen:
        PortService(
            reactor, endpoint(config, "botm.content_listen"), factory, "botm.content_listen"
        ).setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "botm.metrics", role)
