"""The web monitor as a service (``twistd lcc-web``): only wiring."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred

from lcc.client.content import ContentClient
from lcc.config import Config
from lcc.errors import ConfigError
from lcc.insight.disks import database_disk
from lcc.roles.web.console import WebCommands
from lcc.roles.web.discovery import Discovery, discovery_command
from lcc.roles.web.engine import Monitor
from lcc.roles.web.fetching import Fetching
from lcc.roles.web.metrics import WebMetrics
from lcc.roles.web.pages.site import build_site
from lcc.roles.web.processes import TIMEOUT_SECONDS, Processes
from lcc.roles.web.state_file import StateFile
from lcc.services.common import AtStop, HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import Database, DatabaseService
from lcc.storage.database.migrations import HUB, MAIN, PUSH, SPIDER, TASKS
from lcc.storage.database.place import place_of
from lcc.transport.http.client import HttpClient, is_address
from lcc.transport.links import PortService
from lcc.transport.tls.certificates import Credentials
from lcc.transport.tls.contexts import ClientTls
from lcc.transport.wires import certificate_files, endpoint, leaves_machine

_LOCAL = re.compile(r"http://(?:127\.[0-9.]+|localhost|\[::1\])(?::\d+)?", re.ASCII).fullmatch
MACHINES_ASKED = 16
"""At once."""
RETRIES = 1
"""An unreachable database is reported at once."""
STATEMENT_SECONDS = 5.0
"""How long to wait beyond its time limit for a server that does not end a query itself."""


class Options(RoleOptions):
    """The options of ``lcc-web``."""

    role = "web"
    summary = "The web monitor of an LCC: shows its state in a browser."


class _Watching(Service):
    """Starts and stops polling."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def startService(self) -> None:
        super().startService()
        self._monitor.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        self._monitor.discovery.stop()
        return self._monitor.stop()


def build(config: Config, environment: Environment) -> RoleService:
    """The services of the web monitor; started in this order, stopped in reverse.

    :raises ConfigError: no endpoint to listen on, or passwords would leave this machine unencrypted.
    """
    settings, reactor = config.web, environment.reactor
    listen = config.endpoint(settings.listen)
    if not listen:
        raise ConfigError(["web.listen: must be set to an endpoint, such as tcp:9600:interface=127.0.0.1"])
    encrypted = listen.startswith(("tls:", "ssl:"))
    if leaves_machine(listen) and not encrypted and not config.tls.insecure:
        raise ConfigError(
            [
                f"web.listen = {listen!r}: passwords would be sent in clear text: use tls:…, or "
                f"tcp:PORT:interface=127.0.0.1 behind a TLS proxy, or set insecure = true in [tls]"
            ]
        )
    patience = attrs.evolve(
        config.database, retries=RETRIES, query_timeout=settings.query_timeout + STATEMENT_SECONDS
    )

    def opened(url: str, home: Path, series: str) -> Database:
        limit = settings.query_timeout
        return environment.database(
            url, home, reactor, patience, random=environment.chance, series=series, read_seconds=limit
        )

    database = opened(config.database.url, config.home, MAIN)
    # Files of their own, or tables among the others.
    tasks, frontier, push, hub = tables = [
        opened(*place) if place.series != MAIN else database
        for place in (place_of(config, series) for series in (TASKS, SPIDER, PUSH, HUB))
    ]
    fetching = Fetching(config, HttpClient(reactor, MACHINES_ASKED, TIMEOUT_SECONDS))
    content = ContentClient(reactor, fetching.address_of, MACHINES_ASKED, TIMEOUT_SECONDS)
    monitor = Monitor(
        config,
        database,
        tasks,
        frontier,
        push,
        hub,
        reactor,
        environment.now,
        lambda: database_disk(config, environment.disk),
        lambda *parts: StateFile(
            config.under_home(settings.samples) if settings.samples else None,
            environment.disk,
            environment.in_thread,
            *parts,
        ),
        _processes(config, environment),
        fetching,
        environment.token,
        environment.in_thread,
        Discovery(reactor, discovery_command(config)),
        content,
    )
    secure = encrypted or settings.url.startswith("https:")
    services = RoleService("web", WebCommands(monitor), WebMetrics(monitor))
    for service in (
        HomeService(config.home, environment.disk),
        DatabaseService(database),
        *(
            DatabaseService(each, name)
            for each, name in zip(tables, ("tasks", "frontier", "push", "hub"), strict=True)
            if each is not database
        ),
        AtStop(content.close),
        _Watching(monitor),
        PortService(
            reactor,
            endpoint(config, "web.listen"),
            build_site(monitor, environment.token, secure, reactor),
            "web.listen",
        ),
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def _processes(config: Config, environment: Environment) -> Processes:
    """
    :raises ConfigError: an invalid address, or one beyond this machine without TLS.
    """
    faults = []
    addresses = [text.replace("{home}", str(config.home)).rstrip("/") for text in config.web.watch]
    for address in addresses:
        if not is_address(address):
            faults.append(f"web.watch: {address!r} is not http://host:port, https://host:port or unix:/path")
        elif address.startswith("http:") and not config.tls.insecure and not _LOCAL(address):
            faults.append(
                f"web.watch: {address!r} is on another machine: its status could be forged; use https://…, or set "
                f"insecure = true in [tls]"
            )
    if faults:
        raise ConfigError(faults)
    tls = None
    if any(address.startswith("https:") for address in addresses):
        credentials = Credentials(certificate_files(config, "metrics"), environment.now)
        tls = ClientTls(credentials, frozenset(["metrics"]))
    http = HttpClient(environment.reactor, max(1, len(addresses)), TIMEOUT_SECONDS, tls=tls)
    return Processes(addresses, http, environment.now)


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "web.metrics", role)
