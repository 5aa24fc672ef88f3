"""The queue manager as a service (``twistd lcc-qm``): only wiring."""

from __future__ import annotations

import random
import time
from typing import Any

from twisted.application.service import MultiService, Service

from lcc.config import Config
from lcc.domain.rules import QueueRules
from lcc.domain.timeslots import TimeSlots
from lcc.roles.qm.engine import QmEngine
from lcc.services.common import HomeService, RoleOptions, reactor_or_global
from lcc.storage.database import Database, DatabaseService
from lcc.storage.queue import QueueStore
from lcc.transport.links import LockService, PortService


class Options(RoleOptions):
    """The options of ``lcc-qm``."""


class _Engine(Service):
    """Starts the engine; drops its peers and timers at stop."""

    def __init__(self, engine: QmEngine) -> None:
        self.engine = engine

    def startService(self) -> None:
        self.engine.start()
        super().startService()

    def stopService(self) -> None:
        super().stopService()
        self.engine.stop()


def build(config: Config, reactor: Any) -> MultiService:
    """The queue manager's services; they start in this order and stop in the reverse one."""
    settings = config.qm
    chance = random.Random()
    database = Database(config.database.url, config.home, reactor, config.database, random=chance)
    timeslots = TimeSlots(config.slots, config.slot_seconds, config.timezone)
    store = QueueStore(database, QueueRules.configured(settings, timeslots), settings)
    engine = QmEngine(store, settings, reactor, time.time, chance.random, reactor.stop, timeslots)
    services = MultiService()
    port = PortService(reactor, config.endpoint(settings.listen), engine.factory(for_uns=True))
    for service in (
        HomeService(config.home),
        LockService(config.home / "qm.lock"),
        DatabaseService(database),
        _Engine(engine),
        port,
    ):
        service.setServiceParent(services)
    if settings.listen_botm:
        engine.upkeep.intake.port = port  # without another one, BOT-Ms need it, whatever happens
        botm_port = PortService(reactor, config.endpoint(settings.listen_botm), engine.factory(for_uns=False))
        botm_port.setServiceParent(services)
    return services


def makeService(options: Options, reactor: Any = None) -> MultiService:
    """For ``twistd``."""
    return build(options.config, reactor_or_global(reactor))
