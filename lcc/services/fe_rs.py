"""The front end's registration server as a service (``twistd lcc-fe-rs``): only wiring."""

from __future__ import annotations

from twisted.application.service import MultiService

from lcc.config import Config
from lcc.roles.fe_rs.store import FrontRegistrationStore
from lcc.roles.sub_databases import SubDatabases
from lcc.services.common import RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.telemetry import watched
from lcc.services.rs import build_with
from lcc.storage.database.place import front_end_place


class Options(RoleOptions):
    """The options of ``lcc-fe-rs``."""

    role = "fe-rs"
    summary = "The registration server of an LCC that consists of several: where sites register themselves."


def build(config: Config, environment: Environment) -> RoleService:
    """The services of the front end's registration server; its settings are ``[rs]``.

    :raises ConfigError: no endpoint to listen on, or no database of the front end.
    """
    place = front_end_place(config)
    database = environment.database(
        place.url, place.home, environment.reactor, config.database, random=environment.chance, series=place.series
    )
    databases = SubDatabases(
        lambda url: environment.database(
            url, config.home, environment.reactor, config.database, random=environment.chance, lean=True
        )
    )
    store = FrontRegistrationStore(database, databases, config.rs, config.fe.stale, lambda: int(environment.now()))
    return build_with("fe_rs", config, environment, database, store, databases)


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "rs.metrics", role)
