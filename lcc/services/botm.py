"""The robot multiplexer as a service (``twistd lcc-botm``): only wiring."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.application.service import MultiService, Service

from lcc.config import Config
from lcc.roles.botm.engine import BotMaster
from lcc.services.common import RoleOptions, reactor_or_global
from lcc.storage.content import ContentFolder
from lcc.storage.durable import DurableCounter
from lcc.transport.links import LockService, PortService, RetryPolicy, link_service


class Options(RoleOptions):
    """The options of ``lcc-botm``."""


class _Content(Service):
    """Opens the content folder at start; the engine's timers end at stop."""

    def __init__(self, content: ContentFolder, stop: Callable[[], None]) -> None:
        self._content = content
        self._stop = stop

    def startService(self) -> None:
        self._content.open()
        super().startService()

    def stopService(self) -> None:
        self._stop()
        super().stopService()


def build(config: Config, reactor: Any) -> MultiService:
    """The BOT-M's services; they start in this order."""
    settings = config.botm

    def open_counter(path: Path) -> DurableCounter:
        return DurableCounter(path, settings.names_block)

    content = ContentFolder(config.under_home(settings.content), open_counter)
    engine = BotMaster(settings, reactor, content, os.urandom(8).hex())
    policy = RetryPolicy(random.random)
    services = MultiService()
    for service in (
        LockService(config.home / "botm.lock"),
        _Content(content, engine.stop),
        PortService(reactor, config.endpoint(settings.listen), engine.robot_factory()),
        link_service(reactor, config.endpoint(settings.connect), engine.link_factory(policy.good_hello), policy),
    ):
        service.setServiceParent(services)
    return services


def makeService(options: Options, reactor: Any = None) -> MultiService:
    """For ``twistd``."""
    return build(options.config, reactor_or_global(reactor))
