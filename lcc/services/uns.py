"""The update notification server as a service (``twistd lcc-uns``): only wiring."""

from __future__ import annotations

from typing import NoReturn

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IProtocolFactory
from twisted.python.failure import Failure

from lcc.config import Config
from lcc.domain.registered_domain import registered_domain
from lcc.errors import LccError
from lcc.roles.notifier_port import port_name
from lcc.roles.uns.console import UnsCommands
from lcc.roles.uns.engine import Uns
from lcc.roles.uns.metrics import UnsMetrics
from lcc.roles.uns.notifiers.connection import notifier_port
from lcc.roles.uns.port import ProviderPort
from lcc.services.common import HomeService, RoleService
from lcc.services.options import UnsOptions
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import DatabaseService
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.disk.spool import Spool
from lcc.storage.providers.providers import ProviderReader
from lcc.storage.providers.sessions import SessionStore, open_session_store
from lcc.storage.providers.watched import Asker, TooManyWatched, find_or_make_watched, watch_site
from lcc.transport.links import PortService, RetryPolicy, link_service
from lcc.transport.ports.connection_limits import ConnectionLimits
from lcc.transport.ports.proxy_protocol import BehindProxies, trusted_proxies
from lcc.transport.wires import endpoint, endpoints

Options = UnsOptions


class _Engine(Service):
    """Opens the spool and the session store at start; drops the link to the queue manager at stop."""

    def __init__(self, uns: Uns, sessions: SessionStore) -> None:
        self.uns = uns
        self._sessions = sessions

    def startService(self) -> None:
        self._sessions.start()
        self.uns.start()
        super().startService()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        self.uns.close()
        return self._sessions.stop()


def build(config: Config, environment: Environment) -> RoleService:
    """The UNS's services; started in this order, stopped in reverse."""
    settings = config.uns
    reactor = environment.reactor
    database = environment.database(
        config.database.url, config.home, reactor, config.database, random=environment.chance
    )
    sessions = open_session_store(config, reactor, environment.chance, environment.database)
    folder = config.under_home(settings.spool)
    spool = Spool(
        folder, settings.name, settings.spool_max_bytes, environment.token, environment.disk, settings.spool_reserve
    )
    policy = RetryPolicy(environment.chance.random)

    def watch(root: str, crawl_delay: float | None, private: bool, hours: str) -> Deferred[int]:
        def refused(failure: Failure) -> NoReturn:
            failure.trap(TooManyWatched)
            raise LccError("limit", failure.getErrorMessage())

        host = root.partition("://")[2].partition("/")[0]
        asker = Asker(registered_domain(host), int(environment.now()), private)
        if crawl_delay is None:
            return database.write(find_or_make_watched, root, config.watched, asker).addErrback(refused)
        return database.write(watch_site, root, config.watched, crawl_delay, hours, asker).addErrback(refused)

    uns = Uns(
        settings,
        config.mimetypes,
        spool,
        ProviderReader(database),
        sessions,
        reactor,
        lambda: int(environment.now()),
        environment.in_thread,
        policy.good_hello,
        config.slots,
        watch,
    )
    probe = DatabaseProbe(database.interact, reactor)
    providers: IProtocolFactory = ProviderPort(uns)
    if settings.proxies:
        providers = BehindProxies(providers, trusted_proxies(settings.proxies), reactor, settings.login_timeout)
    port = PortService(reactor, endpoint(config, "uns.listen"), providers, "uns.listen")
    limits = ConnectionLimits(settings.notifier_connections_max)
    notifier_ports = [
        PortService(
            reactor,
            text,
            notifier_port(uns.notifiers, roles, limits),
            port_name("uns.listen_notifiers", roles),
            environment.pipes,
        )
        for text, roles in endpoints(config, "uns.listen_notifiers")
    ]

    gateway_ports = [
        PortService(reactor, text, ProviderPort(uns, gateway=True), "uns.listen_gateway", environment.pipes)
        for text in filter(None, [endpoint(config, "uns.listen_gateway")])
    ]

    def drain() -> Deferred[None]:
        """Answer providers while queue manager, database and spool lock are still there."""
        closed = [each.close_port() for each in (port, *notifier_ports, *gateway_ports)]
        return DeferredList(closed).addCallback(lambda _: uns.stop())

    services = RoleService("uns", UnsCommands(uns), UnsMetrics(uns, database.counts, probe), drain)
    for service in (
        HomeService(config.home, environment.disk),
        environment.lock(config.home / "uns.lock"),
        DatabaseService(database),
        _Engine(uns, sessions),
        link_service(
            reactor, endpoint(config, "uns.connect"), uns.forwarder.upstream_factory(), policy, environment.pipes
        ),
        port,
        *notifier_ports,
        *gateway_ports,
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "uns.metrics", role)
