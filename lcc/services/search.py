"""The search server as a service (``twistd lcc-search``): only wiring."""

from __future__ import annotations

import os
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred, DeferredList

from lcc.client.addresses import AddressError
from lcc.client.cache import CacheClient
from lcc.config import Config
from lcc.errors import ConfigError
from lcc.model.spider.links import ExtractionLimits
from lcc.roles.extraction import ExtractionPool, spawn_by
from lcc.search.interfaces import INDEX, LOCK, REBUILD
from lcc.services.common import HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import DatabaseService
from lcc.storage.disk.file_system import Disk
from lcc.transport.links import PortService
from lcc.transport.wires import endpoint, leaves_machine

_NAME_DIGITS = 16
"""Enough of the hash of a token to know it again."""
WORKERS_MAX = 4
"""Processes that read texts, unless the configuration says how many."""


class Options(RoleOptions):
    """The options of ``lcc-search``."""

    role = "search"
    summary = "The search server of an LCC: an index of its pages, and a page to search them."


class _Searching(Service):
    """Starts and stops the engine and its workers."""

    def __init__(self, engine: Any, pool: ExtractionPool, client: CacheClient) -> None:
        self._engine = engine
        self._pool = pool
        self._client = client

    def startService(self) -> None:
        super().startService()
        self._pool.start()
        self._engine.start()

    def stopService(self) -> Deferred[Any]:
        super().stopService()
        stopped = self._engine.stop()
        return DeferredList([stopped, self._pool.stop(), self._client.close()], consumeErrors=True)


def token_of(config: Config, disk: Disk) -> str | None:
    """The token for ``lcc-cu``; None: without.

    :raises ConfigError: it cannot be read.
    """
    if not config.search.token_file:
        return None
    path = config.under_home(config.search.token_file)
    try:
        text = disk.read(path).decode("ascii", "replace")
    except OSError as error:
        raise ConfigError([f"search.token_file: {path}: {error.strerror}"]) from None
    return text.partition("\n")[0].strip()


def cache_client(config: Config, token: str | None, reactor: Any) -> CacheClient:
    """Reads pages from ``lcc-cu``.

    :raises ConfigError: its address or token cannot be used.
    """
    settings = config.search
    try:
        address = settings.cache.replace("{home}", str(config.home))
        return CacheClient(reactor, address, token, connections_max=settings.queries_at_once + 10)
    except AddressError as error:
        raise ConfigError([f"search.cache or search.token_file: {error}"]) from None


def wants_rebuild(folder: Path, disk: Disk) -> bool:
    """Whether an operator wants a new index."""
    try:
        return any(name == REBUILD for name, _ in disk.names(folder))
    except FileNotFoundError:
        return False


def build(config: Config, environment: Environment) -> RoleService:
    """The search server's services; started in this order, stopped in reverse.

    :raises ConfigError: no endpoint to listen on; what the extra ``lcc[search]`` installs is missing.
    """
    settings, reactor = config.search, environment.reactor
    listen = config.endpoint(settings.listen)
    if not listen:
        raise ConfigError(["search.listen: must be set to an endpoint, such as tcp:9800:interface=127.0.0.1"])
    if find_spec("tantivy") is None:
        raise ConfigError(
            ["search.listen: tantivy is not installed: pip install 'dist/lcc-….whl[search]', or leave it empty"]
        )
    if (
        not settings.open
        and leaves_machine(listen)
        and not listen.startswith(("tls:", "ssl:"))
        and not config.tls.insecure
    ):
        raise ConfigError(
            [
                f"search.listen = {listen!r}: tokens and passwords would be sent in clear text: use tls:…, or "
                f"tcp:PORT:interface=127.0.0.1 behind a TLS proxy, or set open = true, or insecure = true in [tls]"
            ]
        )
    # Late: they need the extra.
    from lcc.roles.search.console import SearchCommands
    from lcc.roles.search.engine import SearchServer
    from lcc.roles.search.index import SearchIndex
    from lcc.roles.search.metrics import SearchMetrics
    from lcc.roles.search.pages.site import build_site
    from lcc.roles.search.readers import Readers

    folder, disk = config.under_home(settings.folder), environment.disk
    limits = ExtractionLimits(
        links=1,
        document_bytes=settings.page_bytes,
        page_chars=settings.text_chars,
        page_seconds=settings.page_seconds,
        memory_bytes=settings.worker_memory_bytes,
    )
    workers = settings.workers or min(WORKERS_MAX, os.cpu_count() or 1)
    pool = ExtractionPool(reactor, spawn_by(reactor, limits, module="lcc.search.worker"), limits, workers, "search")
    token = token_of(config, disk)
    client = cache_client(config, token, reactor)
    read_as = "" if token is None else sha256(token.encode()).hexdigest()[:_NAME_DIGITS]
    index = SearchIndex(
        folder / INDEX, settings.memory_bytes, environment.in_thread, settings.queries_at_once, read_as
    )
    engine = SearchServer(
        settings,
        index,
        client,
        pool,
        lambda: environment.in_thread(wants_rebuild, folder, disk),
        lambda: environment.in_thread(disk.remove, folder / REBUILD),
        reactor,
        environment.now,
    )
    services = RoleService("search", SearchCommands(engine), SearchMetrics(engine))
    database = None
    if not settings.open:
        # Those who may search, and nothing else.
        database = environment.database(
            config.database.url, config.home, reactor, config.database, random=environment.chance
        )
    readers = Readers(settings, database, environment.in_thread, environment.token, reactor)
    secure = listen.startswith(("tls:", "ssl:")) or settings.url.startswith("https:")
    site = build_site(engine, readers, client, environment.token, secure, environment.in_thread, reactor)
    for service in (
        HomeService(config.home, disk),
        environment.lock(folder / LOCK),
        *([DatabaseService(database)] if database is not None else []),
        _Searching(engine, pool, client),
        PortService(reactor, endpoint(config, "search.listen"), site, "search.listen"),
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    # Threads write the index, and their heaps would not shrink.
    environment = environment or real_environment(one_heap=True)
    role = build(options.config, environment)
    return watched(role, options.config, environment, "search.metrics", role)
