"""The robot as a service (``twistd lcc-bot``): only wiring."""

from __future__ import annotations

import os
import random
import re
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.config import Config
from lcc.fetchers.registry import build_fetchers
from lcc.roles.bot.engine import Robot
from lcc.roles.bot.listening import ListeningRobot, TypistFactory
from lcc.services.common import RoleOptions, reactor_or_global
from lcc.storage.content import AttemptFolder
from lcc.storage.named import NamedFolder
from lcc.transport.links import PortService, RetryPolicy, link_service

_log = Logger()

_LOCAL = re.compile(r"unix:|tcp6?:.*interface=(?:127\.[0-9.]+|localhost|\\:\\:1)(?::|\Z)")
"""Endpoints that are reached from this machine only."""


class Options(RoleOptions):
    """The options of ``lcc-bot``."""

    optFlags = [["listen", "l", "connect to nobody: wait on [bot] listen for a person who types what to fetch"]]


class _Fetching(Service):
    """Ends the fetches and closes the connections to web servers at stop."""

    def __init__(self, robot: Robot | ListeningRobot) -> None:
        self._robot = robot

    def stopService(self) -> Deferred[None]:
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


def build_listening(config: Config, reactor: Any) -> MultiService:
    """The listening robot's services."""
    settings = config.bot
    files = NamedFolder(config.under_home(settings.listen_files))
    robot = ListeningRobot(reactor, build_fetchers(reactor, settings), files.sink)
    endpoint = config.endpoint(settings.listen)
    if not _LOCAL.match(endpoint):
        _log.warn("{endpoint} may be reached from elsewhere: whoever does has URLs fetched here", endpoint=endpoint)
    services = MultiService()
    for service in (_Fetching(robot), PortService(reactor, endpoint, TypistFactory(robot))):
        service.setServiceParent(services)
    return services


def makeService(options: Options, reactor: Any = None) -> MultiService:
    """For ``twistd``."""
    make = build_listening if options["listen"] else build
    return make(options.config, reactor_or_global(reactor))
