"""The registration server as a service (``twistd lcc-rs``): only wiring."""

from __future__ import annotations

import attrs
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred

from lcc.config import Config
from lcc.domain.timezones import timezones_to_choose
from lcc.errors import ConfigError
from lcc.interfaces import IRegistrationStore
from lcc.roles.rs.assembly import Assembly, Means
from lcc.roles.rs.console import RsCommands
from lcc.roles.rs.metrics import RsMetrics
from lcc.roles.rs.web.site import build_site
from lcc.services.common import HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import Database, DatabaseService
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.providers.registrations import RegistrationStore
from lcc.transport.links import PortService
from lcc.transport.wires import endpoint


class Options(RoleOptions):
    """The options of ``lcc-rs``."""

    role = "rs"
    summary = "The registration server of an LCC: where sites register themselves."


class _Registering(Service):
    """Starts and stops the background work of the registration server."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    def startService(self) -> None:
        super().startService()
        self._assembly.registrar.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self._assembly.close()


def build(config: Config, environment: Environment) -> RoleService:
    """The services of the registration server; started in this order, stopped in reverse.

    :raises ConfigError: no endpoint to listen on.
    """
    database = environment.database(
        config.database.url, config.home, environment.reactor, config.database, random=environment.chance
    )
    return build_with("rs", config, environment, database, RegistrationStore(database, config.rs))


def build_with(
    name: str,
    config: Config,
    environment: Environment,
    database: Database,
    store: IRegistrationStore,
    *more: IService,
) -> RoleService:
    """The same for other registrations.

    :param name: of the role.
    :param database: of the registrations.
    :param more: services that the store needs.
    :raises ConfigError: no endpoint to listen on.
    """
    settings, reactor = attrs.evolve(config.rs, contact=config.rs.contact or config.bot.contact), environment.reactor
    if not settings.listen:
        raise ConfigError(["rs.listen: must be set to an endpoint, such as tcp:9500:interface=127.0.0.1"])
    means = Means(
        reactor,
        environment.now,
        environment.token,
        lambda path: environment.disk.read(config.under_home(path)).decode(),
        environment.in_thread,
        environment.fetchers,
    )
    assembly = Assembly(attrs.evolve(config, rs=settings), store, means)
    site = build_site(
        assembly.registrar,
        settings,
        environment.token,
        timezones_to_choose(),
        settings.url.startswith("https:"),
        reactor,
    )
    registrar = assembly.registrar
    metrics = RsMetrics(registrar, database.counts, DatabaseProbe(database.interact, reactor))
    services = RoleService(name, RsCommands(registrar), metrics)
    for service in (
        HomeService(config.home, environment.disk),
        environment.lock(config.home / f"{name}.lock"),
        DatabaseService(database),
        *more,
        _Registering(assembly),
        PortService(reactor, endpoint(config, "rs.listen"), site, "rs.listen"),
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "rs.metrics", role)
