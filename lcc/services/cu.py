"""The content user API as a service (``twistd lcc-cu``): only wiring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs
from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred

from lcc.client.content import ContentClient
from lcc.config import CU_SOCKET, Config, content_source, unix_socket_path
from lcc.domain.push.websub import is_url
from lcc.errors import ConfigError
from lcc.fetchers.guarded_client import GuardedClient
from lcc.roles.access import WITHOUT_TOKEN
from lcc.roles.cu.cache import Cache, OneLcc
from lcc.roles.cu.console import CuCommands, CuEngine, Waiting
from lcc.roles.cu.hub.engine import ASKS_AT_ONCE, Hub
from lcc.roles.cu.metrics import CuMetrics
from lcc.roles.cu.packages.production import Where, Workshop, content_ports, package_threads
from lcc.roles.cu.questions import Questions
from lcc.roles.cu.readership import Readership
from lcc.roles.cu.watcher import ChangeWatcher
from lcc.roles.cu.web.site import build_site
from lcc.roles.cu.xml.session import XmlUsers
from lcc.services.common import AtStop, HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import Database, DatabaseService
from lcc.storage.database.migrations import HUB, MAIN, TASKS
from lcc.storage.database.place import place_of
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.hub.subscribers import HubStore
from lcc.storage.tasks.orders import order_robots
from lcc.storage.views.readers import note_readings
from lcc.transport.links import PortService
from lcc.transport.ports.limited import LimitedFactory
from lcc.transport.wires import certificate_files, endpoint, endpoints

QUESTIONS_PER_CONNECTION = 4


class Options(RoleOptions):
    """The options of ``lcc-cu``."""

    role = "cu"
    summary = "The content user API of an LCC: serves the cache to content users."


class WorkshopService(Service):
    """Starts and stops the packager."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def startService(self) -> None:
        super().startService()
        self._workshop.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self._workshop.stop()


def build(config: Config, environment: Environment) -> RoleService:
    """The services of the content user API; started in this order, stopped in reverse."""
    settings, reactor = config.cu, environment.reactor
    database = environment.database(
        config.database.url, config.home, reactor, config.database, random=environment.chance
    )
    # One request at a time for each connection; the rest is room for requests whose clients are gone.
    questions = Questions(database, QUESTIONS_PER_CONNECTION * settings.connections_max)
    place = place_of(config, TASKS)
    tables, tasks = None, questions
    if place.series != MAIN:
        # A file of their own.
        tables = environment.database(
            place.url, place.home, reactor, config.database, random=environment.chance, series=place.series
        )
        tasks = Questions(tables, QUESTIONS_PER_CONNECTION * settings.connections_max)
    watcher = ChangeWatcher(questions, reactor)
    readership = Readership(lambda readings: database.write(note_readings, readings), reactor, environment.now)

    def order(origins: Sequence[str]) -> Deferred[None]:
        return (tables or database).write(order_robots, origins, int(environment.now()))

    cache = OneLcc(questions, watcher, tasks, order)
    hub, hub_services = _hub(config, environment, cache) if settings.hub else (None, ())
    return build_with(
        "cu",
        config,
        environment,
        cache,
        content_source(config, settings.content),
        CuParts(questions, watcher, database, hub, readership),
        (
            DatabaseService(database),
            *([DatabaseService(tables, "tasks")] if tables is not None else []),
            AtStop(watcher.stop),
        ),
        (_ReadershipService(readership), *hub_services),
    )


@attrs.frozen
class CuParts:
    """What the interfaces need beside the cache.

    :ivar questions: to the database.
    :ivar watcher: of those who wait for the next change.
    :ivar database: of content users.
    :ivar readership: notes who reads; None: nobody does.
    """

    questions: Questions
    watcher: Waiting
    database: Database
    hub: Hub | None = None
    readership: Readership | None = None


def build_with(
    role: str,
    config: Config,
    environment: Environment,
    cache: Cache,
    address: str | Callable[[int], str],
    parts: CuParts,
    before: Iterable[Service],
    between: Iterable[Service] = (),
) -> RoleService:
    """The services of the content user API over a cache; its settings are ``[cu]``.

    :param address: of the content port, or what gives it for each machine.
    :param before: services that are started before the ports, ``between`` just before them.
    """
    settings, reactor = config.cu, environment.reactor
    certificates = certificate_files(config, "cu")
    content = ContentClient(reactor, address, settings.content_connections_max, certificates=certificates)
    where = Where(
        config.under_home(config.botm.content),
        config.botm.machine if isinstance(address, str) else 0,
        address,
        config.under_home(settings.temporary),
        certificates,
    )
    workshop = Workshop(
        reactor,
        where,
        settings.packages_max,
        environment.now,
        settings.packages_per_user,
        environment.package_threads or package_threads,
        environment.content_ports or content_ports,
    )
    engine = CuEngine(parts.questions, parts.watcher, workshop, parts.hub)
    metrics = CuMetrics(engine, parts.database.counts, DatabaseProbe(parts.database.interact, reactor))
    services = RoleService(role, CuCommands(engine), metrics)
    for service in (
        HomeService(config.home, environment.disk),
        HomeService(where.temporary, environment.disk),
        *before,
        AtStop(content.close),
        WorkshopService(workshop),
        *between,
    ):
        service.setServiceParent(services)
    for name, text in _ports(config):
        without = _without_token(config, text)
        site = build_site(
            cache,
            content,
            workshop,
            settings,
            without,
            reactor,
            environment.now,
            parts.hub,
            parts.readership,
        )
        PortService(reactor, text, site, name).setServiceParent(services)
    if settings.listen_xml:
        users = XmlUsers(
            cache, content, settings, _without_token(config, settings.listen_xml), reactor, parts.readership
        )
        limited = LimitedFactory(
            users, settings.connections_max, "content users over XML", settings.connections_per_address
        )
        AtStop(users.drop_all).setServiceParent(services)
        PortService(reactor, endpoint(config, "cu.listen_xml"), limited, "cu.listen_xml").setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


class _ReadershipService(Service):
    """Starts and stops the notes of who reads."""

    def __init__(self, readership: Readership) -> None:
        self._readership = readership

    def startService(self) -> None:
        super().startService()
        self._readership.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self._readership.stop()


class _HubService(Service):
    """Starts and stops the hub."""

    def __init__(self, hub: Hub, client: GuardedClient) -> None:
        self._hub = hub
        self._client = client

    def startService(self) -> None:
        super().startService()
        self._hub.start()

    def stopService(self) -> None:
        super().stopService()
        self._hub.stop()
        self._client.close()


def _hub(config: Config, environment: Environment, cache: Cache) -> tuple[Hub, Sequence[Service]]:
    place = place_of(config, HUB)
    database = environment.database(
        place.url,
        place.home,
        environment.reactor,
        config.database,
        random=environment.chance,
        series=place.series,
        lean=True,
    )
    hub, service = build_hub(config, environment, cache, HubStore(database))
    return hub, (DatabaseService(database, "hub"), service)


def build_hub(config: Config, environment: Environment, cache: Cache, store: HubStore) -> tuple[Hub, Service]:
    """The hub of a cache, and what runs it.

    :raises ConfigError: it has no address.
    """
    settings, reactor = config.cu, environment.reactor
    # Whoever comes by another port may see more; deliveries do not know by which port one has come.
    least = min((_without_token(config, text) for _, text in _ports(config)), key=list(WITHOUT_TOKEN).index)
    if not is_url(settings.url):
        raise ConfigError(
            ["cu.hub: cu.url must be the URL of the HTTP interface, such as https://cache.example.org/"]
        )
    client = GuardedClient(
        reactor,
        attrs.evolve(config.bot, connect_timeout=settings.hub_deadline, dns_cache=60.0),
        at_once=settings.hub_deliveries + ASKS_AT_ONCE,
        deadline_seconds=settings.hub_deadline,
        allow_private=settings.hub_allow_private,
    )
    hub = Hub(
        settings,
        store,
        cache,
        client,
        least,
        reactor,
        environment.now,
        environment.token,
    )
    return hub, _HubService(hub, client)


def _ports(config: Config) -> list[tuple[str, str]]:
    """Names, as in metrics, and endpoint strings of the HTTP interface."""
    home = unix_socket_path(config.endpoint(CU_SOCKET))
    found, number = [], 0
    for text, _ in endpoints(config, "cu.listen"):
        if unix_socket_path(text) == home:
            found.append(("cu.listen:home", text))
        else:
            number += 1
            found.append(("cu.listen" if number == 1 else f"cu.listen:{number}", text))
    return found


def _without_token(config: Config, port: str) -> str:
    """What clients of this endpoint may see without a token."""
    return config.cu.without_token or ("content" if unix_socket_path(config.endpoint(port)) else "nothing")


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    # Packages are made by threads, whose heaps would each grow to its peak.
    environment = environment or real_environment(one_heap=True)
    role = build(options.config, environment)
    return watched(role, options.config, environment, "cu.metrics", role)
