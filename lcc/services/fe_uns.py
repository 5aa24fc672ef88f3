"""The front end's proxy of UNSes as a service (``twistd lcc-fe-uns``): only wiring."""

from __future__ import annotations

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IStreamClientEndpoint

from lcc.config import Config
from lcc.errors import ConfigError
from lcc.model.frontend import Placement
from lcc.roles.fe_uns.console import FeUnsCommands
from lcc.roles.fe_uns.engine import FeUns
from lcc.roles.fe_uns.metrics import FeUnsMetrics
from lcc.roles.fe_uns.port import ProviderPort
from lcc.roles.fe_uns.uplinks import Uplinks
from lcc.services.common import HomeService, RoleOptions, RoleService
from lcc.services.environment import Environment, real_environment
from lcc.services.manhole import add_console
from lcc.services.telemetry import watched
from lcc.storage.database.database import DatabaseService
from lcc.storage.database.gathering import Gathering
from lcc.storage.database.place import front_end_place
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import list_sublccs
from lcc.transport.links import PortService, client_endpoint
from lcc.transport.wires import endpoint, sublcc_endpoint


class Options(RoleOptions):
    """The options of ``lcc-fe-uns``."""

    role = "fe-uns"
    summary = "The proxy of UNSes of an LCC that consists of several: one address for their content providers."


class _Engine(Service):
    """Starts the engine; cuts its connections at stop."""

    def __init__(self, uns: FeUns) -> None:
        self._uns = uns

    def startService(self) -> None:
        super().startService()
        self._uns.start()

    def stopService(self) -> None:
        super().stopService()
        self._uns.close()


def build(config: Config, environment: Environment) -> RoleService:
    """The services of the proxy; started in this order, stopped in reverse.

    :raises ConfigError: no endpoint to listen on, or no database of the front end.
    """
    settings, reactor = config.fe_uns, environment.reactor
    if not settings.listen:
        raise ConfigError(["fe_uns.listen: must be set to an endpoint, such as tcp:9000"])
    place = front_end_place(config)
    database = environment.database(
        place.url, place.home, reactor, config.database, random=environment.chance, series=place.series, lean=True
    )
    asked: Gathering[int, Placement | None] = Gathering(lambda pids: database.select(placements, pids))

    def uplink(text: str) -> IStreamClientEndpoint:
        return client_endpoint(reactor, sublcc_endpoint(config, text, settings.connect_timeout), environment.pipes)

    uns = FeUns(
        settings,
        lambda: database.select(list_sublccs),
        asked.ask,
        Uplinks(uplink, reactor).connect,
        reactor,
        lambda: int(environment.now()),
    )
    probe = DatabaseProbe(database.interact, reactor)
    port = PortService(reactor, endpoint(config, "fe_uns.listen"), ProviderPort(uns), "fe_uns.listen")

    def drain() -> Deferred[None]:
        closed: Deferred[None] = port.close_port()
        return closed.addCallback(lambda _: uns.stop())

    services = RoleService("fe_uns", FeUnsCommands(uns), FeUnsMetrics(uns, database.counts, probe), drain)
    for service in (
        HomeService(config.home, environment.disk),
        DatabaseService(database),
        _Engine(uns),
        port,
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "fe_uns.metrics", role)
