"""Metrics port and supervisor notification (systemd) of a process.

One of each per process, whatever roles run in it; neither runs unless configured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.application.service import MultiService
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from lcc.config import Config, is_local_endpoint, unix_socket_path
from lcc.metrics.supervisor import Supervisor
from lcc.services.common import RoleService
from lcc.services.process.environment import Environment
from lcc.transport.links import PortService
from lcc.transport.wires import endpoint, wire_of

if TYPE_CHECKING:
    from lcc.metrics.watched import Process

_log = Logger()

LOOK_SECONDS = 1.0
SHARE_OF_WATCHDOG = 3.0
"""Notifications within the supervisor's watchdog time."""


def watched(
    services: MultiService, config: Config, environment: Environment, setting: str, *roles: RoleService
) -> MultiService:
    """Add metrics port and supervisor notification to a process, if configured.

    :param services: of the process; what is added starts last and stops first.
    :param setting: table and key of the endpoint of its metrics.
    :returns: the same services.
    """
    text = wire_of(config, setting).text(config)
    supervisor = environment.supervisor
    if text or supervisor is not None:
        # Late: a process without metrics does without these imports.
        from lcc.metrics.watched import Process, Watched

        process = Process([Watched(role.name, role.metrics, _ports_of(role)) for role in roles], environment.reactor)
        watching = WatchService(process, supervisor, environment.reactor)
        watching.setServiceParent(services)
        if text:
            from lcc.metrics.site import build_site

            near = is_local_endpoint(text) and not unix_socket_path(text)
            site = build_site(process, config.metrics, near, environment.reactor, environment.now)
            PortService(environment.reactor, endpoint(config, setting), site, setting).setServiceParent(watching)
    return services


def _ports_of(role: RoleService) -> list[PortService]:
    return [service for service in role if isinstance(service, PortService) and service.setting]


class WatchService(MultiService):
    """Checks the health of the process every second, and notifies its supervisor.

    :param supervisor: None: there is none.
    """

    def __init__(self, process: Process, supervisor: Supervisor | None, reactor: Any) -> None:
        super().__init__()
        self._process = process
        self._supervisor = supervisor
        self._told = ""
        self._ready = False
        self._loop = LoopingCall(self._look)
        self._loop.clock = reactor

    def startService(self) -> None:
        super().startService()
        self._process.start()
        supervisor = self._supervisor
        if supervisor is not None:
            wanted = supervisor.watchdog_seconds / SHARE_OF_WATCHDOG
            self._loop.start(min(LOOK_SECONDS, wanted) if wanted else LOOK_SECONDS)

    def stopService(self) -> Any:
        if self._loop.running:
            self._loop.stop()
        if self._supervisor is not None:
            self._supervisor.tell(STOPPING="1", STATUS="stopping")
        self._process.stop()
        for service in self:
            if isinstance(service, PortService):
                service.factory.drop_all()  # type: ignore[attr-defined]  # it is a LimitedFactory
        return super().stopService()

    def _look(self) -> None:
        try:
            self._tell()
        except Exception:
            _log.failure(
                "Cannot report status to the supervisor"
            )  # then its supervisor does not hear that it is well

    def _tell(self) -> None:
        supervisor = self._supervisor
        assert supervisor is not None
        found = [(role, each) for role, conditions in self._process.conditions().items() for each in conditions]
        failing = [(role, each) for role, each in found if not each.holds]
        words: dict[str, str] = {}
        is_ready = self._ready or not failing
        if is_ready and not self._ready:
            words["READY"] = "1"
        status = "; ".join(f"{role}: {each.fault}" for role, each in failing) or "ready"
        if status != self._told:
            words["STATUS"] = status
        if supervisor.watchdog_seconds and all(each.holds for _, each in found if each.alive):
            words["WATCHDOG"] = "1"
        if words and supervisor.tell(**words):
            self._ready, self._told = is_ready, status
