"""What a queue manager does for a front end: it reports the vital statistics of its LCC, and moves providers."""

from __future__ import annotations

from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.config import Config
from lcc.model.frontend.places import SubLcc, SubState, Vitals
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.moves.moving import Moving
from lcc.roles.qm.surveyor import Surveyor
from lcc.roles.sub_databases import SubDatabases
from lcc.services.process.environment import Environment
from lcc.storage.database.database import Database, DatabaseService
from lcc.storage.database.migrations import TASKS
from lcc.storage.database.place import front_end_place, place_beside
from lcc.storage.fe.sublccs import report_vitals
from lcc.storage.queue.store import QueueStore
from lcc.storage.views.vitals import vitals

_log = Logger()


class _Again(Service):
    """Does something at once, then again and again."""

    def __init__(self, what: Surveyor[Vitals] | Moving) -> None:
        self._what = what

    def startService(self) -> None:
        super().startService()
        self._what.start()

    def stopService(self) -> None:
        super().stopService()
        self._what.stop()


def sublcc_services(
    config: Config, environment: Environment, engine: QmEngine, store: QueueStore, database: Database
) -> tuple[IService, ...]:
    """What reports to the front end and moves providers; nothing, if this is no sub-LCC.

    :param database: of the LCC.
    """
    settings, reactor = config.fe, environment.reactor
    if not settings.name:
        return ()
    place = front_end_place(config)
    front = environment.database(
        place.url, place.home, reactor, config.database, random=environment.chance, series=place.series, lean=True
    )
    told = [False]

    async def report() -> Vitals:
        found = await database.interact(vitals, int(environment.now()))
        known = await front.write(report_vitals, settings.name, found)
        if not known and not told[0]:
            _log.warn(
                "The front end knows no sub-LCC {name} ([fe] name): run lcc-admin fe add there", name=settings.name
            )
        told[0] = not known
        return found

    reporter = Surveyor(
        lambda: Deferred.fromCoroutine(report()), reactor, settings.report_interval, "Cannot report to the front end"
    )
    databases = SubDatabases(
        lambda url: environment.database(
            url, config.home, reactor, config.database, random=environment.chance, lean=True
        ),
        lambda url: place_beside(url, config.home, config.database, TASKS),
        lambda place: environment.database(
            place.url,
            place.home,
            reactor,
            config.database,
            random=environment.chance,
            series=place.series,
            lean=True,
        ),
    )
    own = SubLcc(0, settings.name, SubState.OPEN, (), False, "", "", config.database.url, 0, 0, 0, 0)
    moving = Moving(settings.name, engine, store, database, front, databases, lambda: databases.tasks_of(own))
    return DatabaseService(front, "of the front end"), databases, _Again(reporter), _Again(moving)
