"""All roles in one process (``twistd lcc``).

The roles share nothing but the process: they meet over the same endpoints, files and database as they would as
separate processes.  Where an endpoint is a UNIX socket of another role here, as by default, their stream is a pipe
(:mod:`lcc.transport.pipes`); the socket is for other processes.
"""

from __future__ import annotations

import attrs
from twisted.application.service import MultiService

from lcc.config import Config
from lcc.services import bot, botm, cu, manager, push, qm, rs, scheduler, search, spider, uns, web
from lcc.services.common import HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.transport.pipes import Pipes


class Options(RoleOptions):
    """The options of ``lcc``."""

    summary = "All roles of an LCC in one process."


def build(config: Config, environment: Environment) -> MultiService:
    """The services of all roles.

    They may start in any order; in this one nobody has to try twice.  They stop in the reverse order, so that nothing
    new comes in while the others finish.
    """
    everything, _ = _build(config, environment)
    return everything


def _build(config: Config, environment: Environment) -> tuple[MultiService, list[RoleService]]:
    environment = attrs.evolve(environment, pipes=Pipes(environment.reactor))
    everything = MultiService()
    HomeService(config.home, environment.disk).setServiceParent(everything)
    usual = (qm, botm, bot, cu, uns, scheduler, manager, spider)
    asked_for = (
        (rs, config.rs.listen),
        (web, config.web.listen),
        (push, config.push.listen),
        (search, config.search.listen),
    )
    chosen = (*usual, *(role for role, listen in asked_for if listen))
    roles = [role.build(config, environment) for role in chosen]
    for services in roles:
        services.setServiceParent(everything)
    add_console(everything, config, environment.reactor, config.manhole.listen, *roles)
    return everything, roles


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    config, environment = options.config, environment or real_environment()
    everything, roles = _build(config, environment)
    return watched(everything, config, environment, "metrics.listen", *roles)
