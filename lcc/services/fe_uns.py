"""The front end's proxy of UNSes as a service (``twistd lcc-fe-uns``): only wiring."""

from __future__ import annotations

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Protocol

from lcc.config import Config
from lcc.errors import ConfigError
from lcc.model.frontend.places import Placement, SubLcc
from lcc.protocols.hello import Hello
from lcc.roles.fe_uns.console import FeUnsCommands
from lcc.roles.fe_uns.engine import FeUns
from lcc.roles.fe_uns.metrics import FeUnsMetrics
from lcc.roles.fe_uns.notifiers.connection import RelayedNotifier
from lcc.roles.fe_uns.notifiers.relay import NotifierRelay
from lcc.roles.fe_uns.port import ProviderPort
from lcc.roles.fe_uns.sites import SiteHomes
from lcc.roles.fe_uns.uplinks import Uplinks
from lcc.roles.notifier import NotifierLink
from lcc.roles.notifier_port import NotifierPort, port_name
from lcc.roles.sub_databases import SubDatabases
from lcc.services.common import AtStop, HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import DatabaseService
from lcc.storage.database.gathering import Gathering
from lcc.storage.database.place import front_end_place
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import list_sublccs
from lcc.transport.links import PortService, RetryPolicy, client_endpoint, link_service
from lcc.transport.ports.connection_limits import ConnectionLimits, Place
from lcc.transport.wires import endpoint, endpoints, sublcc_endpoint, sublcc_notifiers


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


class _SubLink(NotifierLink):
    """The link of a notifier to a sub-LCC's port of notifiers, as if it were there.

    :raises ConfigError: its endpoint cannot be used.
    """

    def __init__(self, config: Config, environment: Environment, sub: SubLcc, hello: Hello) -> None:
        policy, self.sub = RetryPolicy(environment.chance.random), sub
        super().__init__(hello.role, hello.name, hello.epoch, hello.run, environment.reactor, policy.good_hello)
        text = sublcc_notifiers(config, sub.notifiers, hello.role)
        self._service = link_service(environment.reactor, text, self.factory(), policy, environment.pipes)
        self._service.startService()

    def close(self) -> None:
        super().close()
        self._service.stopService()


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

    databases = SubDatabases(
        lambda url: environment.database(
            url, config.home, reactor, config.database, random=environment.chance, lean=True
        )
    )

    uns = FeUns(
        settings,
        lambda: database.select(list_sublccs),
        asked.ask,
        Uplinks(uplink, reactor).connect,
        reactor,
        lambda: int(environment.now()),
    )
    probe = DatabaseProbe(database.interact, reactor)
    sites = SiteHomes(database, databases, config.fe.stale, lambda: int(environment.now()))
    relay = NotifierRelay(
        uns, lambda sub, hello: _SubLink(config, environment, sub, hello), sites.choose, settings.notifier_sets_max
    )
    limits = ConnectionLimits(settings.notifier_connections_max)

    def build_notifier(roles: frozenset[str], where: Place) -> Protocol:
        return RelayedNotifier(relay, roles, where).build_stream()

    def count_refused() -> None:
        uns.counters.notifier_connections_refused += 1

    notifier_ports = [
        PortService(
            reactor,
            text,
            NotifierPort(build_notifier, roles, limits, count_refused),
            port_name("fe_uns.listen_notifiers", roles),
            environment.pipes,
        )
        for text, roles in endpoints(config, "fe_uns.listen_notifiers")
    ]
    port = PortService(reactor, endpoint(config, "fe_uns.listen"), ProviderPort(uns), "fe_uns.listen")

    def drain() -> Deferred[None]:
        relay.stop()
        closed = DeferredList([each.close_port() for each in (port, *notifier_ports)])
        return closed.addCallback(lambda _: uns.stop())

    services = RoleService("fe_uns", FeUnsCommands(uns, relay), FeUnsMetrics(uns, database.counts, probe), drain)
    for service in (
        HomeService(config.home, environment.disk),
        DatabaseService(database),
        databases,
        _Engine(uns),
        AtStop(relay.drop_all),
        port,
        *notifier_ports,
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "fe_uns.metrics", role)
