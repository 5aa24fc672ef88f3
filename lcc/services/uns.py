"""The update notification server as a service (``twistd lcc-uns``): only wiring."""

from __future__ import annotations

import random
import secrets
from functools import partial
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from lcc.config import Config
from lcc.roles.uns.engine import Uns
from lcc.services.common import HomeService, RoleOptions, reactor_or_global
from lcc.storage.database import Database, DatabaseService
from lcc.storage.providers import ProviderReader
from lcc.storage.sessions import SessionStore, open_session_store
from lcc.storage.spool import Spool
from lcc.transport.links import LockService, PortService, RetryPolicy, link_service


class Options(RoleOptions):
    """The options of ``lcc-uns``."""


class _Engine(Service):
    """Opens the spool and the session store at start; cuts the connections at stop."""

    def __init__(self, uns: Uns, sessions: SessionStore) -> None:
        self.uns = uns
        self._sessions = sessions

    def startService(self) -> None:
        self.uns.start()
        self._sessions.start()
        super().startService()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        self.uns.stop()
        return self._sessions.stop()


def build(config: Config, reactor: Any) -> MultiService:
    """The UNS's services; they start in this order and stop in the reverse one."""
    settings = config.uns
    chance = random.Random()
    database = Database(config.database.url, config.home, reactor, config.database, random=chance)
    sessions = open_session_store(config, reactor, chance)
    spool = Spool(
        config.under_home(settings.spool), settings.name, settings.spool_max_bytes, partial(secrets.token_hex, 8)
    )
    policy = RetryPolicy(chance.random)
    uns = Uns(
        settings,
        config.mimetypes,
        spool,
        ProviderReader(database),
        sessions,
        reactor,
        lambda: int(reactor.seconds()),
        lambda function, *args: deferToThreadPool(reactor, reactor.getThreadPool(), function, *args),
        policy.good_hello,
        config.slots,
    )
    services = MultiService()
    for service in (
        HomeService(config.home),
        LockService(config.home / "uns.lock"),
        DatabaseService(database),
        _Engine(uns, sessions),
        link_service(reactor, config.endpoint(settings.connect), uns.forwarder, policy),
        PortService(reactor, config.endpoint(settings.listen), uns),
    ):
        service.setServiceParent(services)
    return services


def makeService(options: Options, reactor: Any = None) -> MultiService:
    """For ``twistd``."""
    return build(options.config, reactor_or_global(reactor))
