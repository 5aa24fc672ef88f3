"""The queue manager as a service (``twistd lcc-qm``): only wiring."""

from __future__ import annotations

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred

from lcc.config import Config
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.mimetypes import ANY, MimePatterns
from lcc.domain.notices.rules import QueueRules
from lcc.model.survey import Survey
from lcc.roles.qm.console import QmCommands
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.metrics import QmMetrics
from lcc.roles.qm.surveyor import LAG_SECONDS, Surveyor
from lcc.services.common import HomeService, RoleService
from lcc.services.options import QmOptions
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.services.sublcc import sublcc_services
from lcc.storage.database.database import DatabaseService
from lcc.storage.database.probe import DatabaseProbe
from lcc.storage.queue.store import QueueStore
from lcc.storage.views.survey import survey
from lcc.transport.links import PortService
from lcc.transport.ports.limited import LimitedFactory
from lcc.transport.wires import endpoint

Options = QmOptions


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


def build(config: Config, environment: Environment) -> RoleService:
    """The queue manager's services; started in this order, stopped in reverse."""
    settings = config.qm
    reactor, chance = environment.reactor, environment.chance
    database = environment.database(config.database.url, config.home, reactor, config.database, random=chance)
    timeslots = TimeSlots(config.slots, config.slot_seconds, config.timezone)
    taken = MimePatterns(config.mimetypes)
    store = QueueStore(database, QueueRules.configured(settings, timeslots, taken), settings)
    mimetypes = "" if ANY in taken.patterns else " ".join(taken.patterns)
    engine = QmEngine(store, settings, reactor, environment.now, chance.random, reactor.stop, timeslots, mimetypes)
    watch = config.metrics

    def look() -> Deferred[Survey]:
        return database.interact(
            survey, int(environment.now()), watch.providers_shown, LAG_SECONDS, timeslots.closed_spans
        )

    surveyor, probe = Surveyor(look, reactor, watch.survey_interval), DatabaseProbe(database.interact, reactor)
    metrics = QmMetrics(engine, database.counts, surveyor, probe)
    services = RoleService(
        "qm", QmCommands(engine), metrics, lambda: Deferred.fromCoroutine(engine.say_that_it_stops())
    )

    def limited(for_uns: bool, what: str) -> LimitedFactory:
        limits = settings.connections_max, what, settings.connections_per_address
        return LimitedFactory(engine.factory(for_uns), *limits)

    pipes = environment.pipes
    port = PortService(reactor, endpoint(config, "qm.listen"), limited(True, "UNSes and BOT-Ms"), "qm.listen", pipes)
    for service in (
        HomeService(config.home, environment.disk),
        environment.lock(config.home / "qm.lock"),
        DatabaseService(database),
        _Engine(engine),
        port,
        *sublcc_services(config, environment, engine, store, database),
    ):
        service.setServiceParent(services)
    if settings.listen_botm:
        engine.intake.port = port  # without another one, BOT-Ms need it, whatever happens
        botm_port = PortService(
            reactor, endpoint(config, "qm.listen_botm"), limited(False, "BOT-Ms"), "qm.listen_botm", pipes
        )
        botm_port.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "qm.metrics", role)
