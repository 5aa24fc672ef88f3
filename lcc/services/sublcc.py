"""What a queue manager does for a front end: it reports the vital statistics of its LCC."""

from __future__ import annotations

from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.config import Config
from lcc.model.frontend import Vitals
from lcc.roles.qm.surveyor import Surveyor
from lcc.services.environment import Environment
from lcc.storage.database.database import Database, DatabaseService
from lcc.storage.database.place import front_end_place
from lcc.storage.fe.sublccs import report_vitals
from lcc.storage.views.vitals import vitals

_log = Logger()


class _Reporting(Service):
    """Reports at once, then again and again."""

    def __init__(self, reporter: Surveyor[Vitals]) -> None:
        self._reporter = reporter

    def startService(self) -> None:
        super().startService()
        self._reporter.start()

    def stopService(self) -> None:
        super().stopService()
        self._reporter.stop()


def reporting_services(config: Config, environment: Environment, database: Database) -> tuple[IService, ...]:
    """What reports to the front end; nothing, if this is no sub-LCC.

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
    return DatabaseService(front, "of the front end"), _Reporting(reporter)
