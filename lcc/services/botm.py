"""The robot multiplexer as a service (``twistd lcc-botm``): only wiring."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.internet.interfaces import IProtocolFactory

from lcc.config import Config
from lcc.roles.botm.engine import BotMaster
from lcc.roles.botm.relay import Relay
from lcc.services.common import RoleOptions, reactor_or_global
from lcc.storage.content import ContentFolder
from lcc.storage.durable import DurableCounter
from lcc.transport.links import LockService, PortService, RetryPolicy, link_service


class Options(RoleOptions):
    """The options of ``lcc-botm``."""


class _Content(Service):
    """Opens the content folder at start, if there is one; the engine's timers and connections end at stop."""

    def __init__(self, content: ContentFolder | None, stop: Callable[[], None]) -> None:
        self._content = content
        self._stop = stop

    def startService(self) -> None:
        if self._content is not None:
            self._content.open()
        super().startService()

    def stopService(self) -> None:
        self._stop()
        super().stopService()


def build(config: Config, reactor: Any) -> MultiService:
    """The BOT-M's services; they start in this order."""
    settings = config.botm
    run = os.urandom(8).hex()
    policy = RetryPolicy(random.random)
    port: IProtocolFactory
    link: IProtocolFactory
    if settings.serves == "botms":
        relay = Relay(settings, reactor, run, frozenset(["botm" if settings.parent else "qm"]))
        owned = _Content(None, relay.stop)
        port, link = relay.branch_factory(), relay.link_factory(policy.good_hello)
    else:

        def open_counter(path: Path) -> DurableCounter:
            return DurableCounter(path, settings.names_block)

        content = ContentFolder(config.under_home(settings.content), open_counter)
        engine = BotMaster(settings, reactor, content, run)
        owned = _Content(content, engine.stop)
        port, link = engine.robot_factory(), engine.link_factory(policy.good_hello)
    services = MultiService()
    for service in (
        LockService(config.home / "botm.lock"),
        owned,
        PortService(reactor, config.endpoint(settings.listen), port),
        link_service(reactor, config.endpoint(settings.parent or settings.connect), link, policy),
    ):
        service.setServiceParent(services)
    return services


def makeService(options: Options, reactor: Any = None) -> MultiService:
    """For ``twistd``."""
    return build(options.config, reactor_or_global(reactor))
