"""The front end's content user API as a service (``twistd lcc-fe-cu``): only wiring."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, succeed

from lcc.config import Config
from lcc.model.frontend.places import SubLcc
from lcc.roles.cu.front.cache import FrontCache
from lcc.roles.cu.front.robots import FrontRobots
from lcc.roles.cu.front.subs import Subs
from lcc.roles.cu.questions import Questions
from lcc.roles.sub_databases import SubDatabases
from lcc.services.common import AtStop, RoleOptions, RoleService
from lcc.services.cu import QUESTIONS_PER_CONNECTION, CuParts, build_hub, build_with
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.telemetry import watched
from lcc.storage.database.database import DatabaseService
from lcc.storage.database.migrations import TASKS
from lcc.storage.database.place import front_end_place, place_beside
from lcc.storage.hub.subscribers import HubStore
from lcc.storage.tasks.orders import order_robots


class Options(RoleOptions):
    """The options of ``lcc-fe-cu``."""

    role = "fe-cu"
    summary = "The content user API of an LCC that consists of several: serves all their caches as one."


def build(config: Config, environment: Environment) -> RoleService:
    """The services of the front end's content user API; its settings are ``[cu]``.

    :raises ConfigError: no database of the front end, or a hub without an address.
    """
    place = front_end_place(config)
    reactor, questions_max = environment.reactor, QUESTIONS_PER_CONNECTION * config.cu.connections_max
    database = environment.database(
        place.url, place.home, reactor, config.database, random=environment.chance, series=place.series
    )
    databases = SubDatabases(
        lambda url: environment.database(url, config.home, reactor, config.database, random=environment.chance),
        lambda url: place_beside(url, config.home, config.database, TASKS),
        lambda place: environment.database(
            place.url, place.home, reactor, config.database, random=environment.chance, series=place.series
        ),
    )
    front = Questions(database, questions_max)
    subs = Subs(front, databases, reactor, questions_max)

    def order(sub: SubLcc, origins: Sequence[str]) -> Deferred[None]:
        tables = databases.tasks_of(sub)
        return succeed(None) if tables is None else tables.write(order_robots, origins, int(environment.now()))

    cache = FrontCache(front, subs, FrontRobots(subs, order, reactor))
    hub, hub_service = (
        build_hub(config, environment, cache, HubStore(database, several=True)) if config.cu.hub else (None, None)
    )
    return build_with(
        "fe_cu",
        config,
        environment,
        cache,
        subs.content_address,
        CuParts(front, subs, database, hub=hub),
        (DatabaseService(database), databases, AtStop(subs.stop)),
        () if hub_service is None else (hub_service,),
    )


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    # Packages are made by threads, whose heaps would each grow to its peak.
    environment = environment or real_environment(one_heap=True)
    role = build(options.config, environment)
    return watched(role, options.config, environment, "cu.metrics", role)
