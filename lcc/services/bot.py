"""The robot as a service (``twistd lcc-bot``): only wiring."""

from __future__ import annotations

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred

from lcc.config import Config
from lcc.roles.bot.console import BotCommands
from lcc.roles.bot.engine import Robot
from lcc.roles.bot.listening import ListeningRobot, TypistFactory
from lcc.roles.bot.metrics import BotMetrics
from lcc.services.common import RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.disk.content_folder import AttemptFolder
from lcc.storage.disk.fetch_sinks import NamedFolder
from lcc.transport.links import PortService, RetryPolicy, link_service
from lcc.transport.wires import endpoint


class Options(RoleOptions):
    """The options of ``lcc-bot``."""

    role = "bot"
    summary = "The robot of an LCC: fetches URLs."

    optFlags = [["listen", "l", "run interactively: accept fetch commands on [bot] listen, without a BOT-M"]]


class _Fetching(Service):
    """At stop, ends the fetches and closes connections to web servers."""

    def __init__(self, robot: Robot | ListeningRobot) -> None:
        self._robot = robot

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self._robot.close()


def build(config: Config, environment: Environment) -> RoleService:
    """The robot's services; started in this order."""
    settings, reactor = config.bot, environment.reactor
    attempts = AttemptFolder(config.under_home(settings.content), environment.disk, environment.lock)
    fetchers = environment.fetchers(reactor, settings)
    robot = Robot(
        settings.name,
        settings.concurrency,
        reactor,
        fetchers,
        attempts.sink,
        environment.token(),
        str(attempts.path),
        attempts.owner,
        settings.deadline,
        attempts,
    )
    policy = RetryPolicy(environment.chance.random)
    services = RoleService("bot", BotCommands(robot), BotMetrics(robot))
    for service in (
        _Fetching(robot),
        link_service(
            reactor,
            endpoint(config, "bot.connect"),
            robot.upstream_factory(policy.good_hello),
            policy,
            environment.pipes,
        ),
    ):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def build_listening(config: Config, environment: Environment) -> MultiService:
    """The listening robot's services."""
    settings, reactor = config.bot, environment.reactor
    files = NamedFolder(config.under_home(settings.listen_files), environment.disk)
    robot = ListeningRobot(reactor, environment.fetchers(reactor, settings), files.sink)
    port = PortService(reactor, endpoint(config, "bot.listen"), TypistFactory(robot))
    services = MultiService()
    for service in (_Fetching(robot), port):
        service.setServiceParent(services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    config, environment = options.config, environment or real_environment()
    if options["listen"]:
        return build_listening(config, environment)
    role = build(config, environment)
    return watched(role, config, environment, "bot.metrics", role)
