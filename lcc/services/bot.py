"""The robot as a service (``twistd lcc-bot``): only wiring."""

from __future__ import annotations

import os
import random
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred

from lcc.config import Config
from lcc.fetchers.registry import build_fetchers
from lcc.roles.bot.engine import Robot
from lcc.services.common import RoleOptions, reactor_or_global
from lcc.storage.content import AttemptFolder
from lcc.transport.links import RetryPolicy, link_service


class Options(RoleOptions):
    """The options of ``lcc-bot``."""


class _Fetching(Service):
    """Ends the fetches and closes the connections to web servers at stop."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot

    def stopService(self) -> Deferred[list[None]]:
        super().stopService()
        return self._robot.close()


def build(config: Config, reactor: Any) -> MultiService:
    """The robot's services; they start in this order."""
    settings = config.bot
    attempts = AttemptFolder(config.under_home(settings.content))
    fetchers = build_fetchers(reactor, settings)
    robot = Robot(settings.name, settings.concurrency, reactor, fetchers, attempts.sink, os.urandom(8).hex())
    policy = RetryPolicy(random.random)
    services = MultiService()
    for service in (
        _Fetching(robot),
        link_service(reactor, config.endpoint(settings.connect), robot.link_factory(policy.good_hello), policy),
    ):
        service.setServiceParent(services)
    return services


def makeService(options: Options, reactor: Any = None) -> MultiService:
    """For ``twistd``."""
    return build(options.config, reactor_or_global(reactor))
