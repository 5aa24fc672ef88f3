"""The manager of jobs as a service (``twistd lcc-manager``): only wiring."""

from __future__ import annotations

import os
import pwd
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.client.content import ContentClient
from lcc.config import Config, ManagerConfig, content_source
from lcc.domain.tasks.kinds import KindSettings, parse_kinds
from lcc.errors import ConfigError
from lcc.roles.manager.console import ManagerCommands
from lcc.roles.manager.content import Contents
from lcc.roles.manager.engine import Manager
from lcc.roles.manager.metrics import ManagerMetrics
from lcc.roles.manager.remains import WorkersLock, enter_run, sweep
from lcc.roles.manager.starting import MARK, Place, Workers, usual_path
from lcc.services.common import HomeService, RoleOptions, RoleService
from lcc.services.process.environment import Environment, real_environment
from lcc.services.process.manhole import add_console
from lcc.services.process.telemetry import watched
from lcc.storage.disk.durable import make_folder_durably, write_durably
from lcc.storage.disk.file_system import Disk
from lcc.transport.links import RetryPolicy, link_service
from lcc.transport.wires import certificate_files, endpoint
from lcc.workers.builtin import BUILTIN
from lcc.workers.executables import barred_at
from lcc.workers.folders import clear

_log = Logger()

_LOCK_SECONDS = 0.1
_SCRATCH_MODE = 0o700
_SCRATCH_MODE_OF_ROOT = 0o711
"""Workers, which are somebody else then, name files below it."""


class Options(RoleOptions):
    """The options of ``lcc-manager``."""

    role = "manager"
    summary = "The manager of an LCC: runs the jobs of the scheduler in worker processes."


class _Jobs(Service):
    """Makes sure that nothing of an earlier run is left; then starts the engine, and its link."""

    def __init__(
        self, engine: Manager, link: IService, client: ContentClient, config: Config, environment: Environment
    ) -> None:
        self._client = client
        self._engine = engine
        self._link = link
        self._config = config
        self._environment = environment
        self._folder = config.under_home(config.manager.folder)
        self._told = False

    def startService(self) -> None:
        """
        :raises OSError: the folder cannot be used.
        """
        super().startService()
        make_folder_durably(self._folder, self._environment.disk)
        self._begin()

    def stopService(self) -> Deferred[Any]:
        super().stopService()
        stopped = [maybeDeferred(self._link.stopService)] if self._link.running else []
        return DeferredList([*stopped, self._client.close()], consumeErrors=True)

    def _begin(self, _: object = None) -> None:
        if self.running:
            environment, engine = self._environment, self._engine
            over = enter_run(self._folder / "runs", self._place(), engine.run, environment.disk)
            engine.start(over).addCallback(self._connect).addErrback(_cannot_start)

    def _place(self) -> str:
        return self._environment.boot_id()

    def _connect(self, _: object) -> None:
        if self.running:
            self._link.startService()


class _RealJobs(_Jobs):
    """With real processes."""

    def __init__(
        self,
        engine: Manager,
        link: IService,
        client: ContentClient,
        config: Config,
        environment: Environment,
        workers: Workers,
        lock: WorkersLock,
    ) -> None:
        super().__init__(engine, link, client, config, environment)
        self._workers = workers
        self._lock = lock
        self._token = ""
        self._waiting = LoopingCall(self._look)
        self._waiting.clock = environment.reactor

    def stopService(self) -> Deferred[Any]:
        if self._waiting.running:
            self._waiting.stop()
        self._lock.release()
        return super().stopService()

    def _begin(self, _: object = None) -> None:
        self._token = _token(self._folder, self._environment)
        self._workers.open(_place(self._config, self._folder, self._token, self._environment.disk))
        self._waiting.start(_LOCK_SECONDS).addErrback(_cannot_start)

    def _place(self) -> str:
        boot = super()._place()
        return boot and f"{boot} {self._lock.file}"

    def _look(self) -> None:
        if self._lock.acquire():
            self._waiting.stop()
            # Those whose shepherd was killed together with launcher and manager.
            swept = self._environment.in_thread(sweep, f"{MARK}={self._token}/")
            swept.addCallback(lambda _: self._environment.in_thread(clear, self._workers.scratch))
            swept.addCallback(super()._begin).addErrback(_cannot_start)
        elif not self._told:
            self._told = True
            _log.info("Waiting until the jobs of the last run have ended")


def _cannot_start(failure: Failure) -> None:
    _log.failure("The manager cannot start", failure=failure)


def _token(folder: Path, environment: Environment) -> str:
    """What names this manager's home: made once."""
    path = folder / "token"
    try:
        token = environment.disk.read(path).decode("ascii", "replace").strip()
    except FileNotFoundError:
        token = ""
    if not token.isalnum():
        token = environment.token()
        write_durably(path, f"{token}\n".encode(), environment.disk)
    return token


def _place(config: Config, folder: Path, token: str, disk: Disk) -> Place:
    """Where, and as whom, workers run.

    :raises ConfigError: the user is unknown, or a variable makes no sense.
    """
    settings = config.manager
    environment = dict(each.partition("=")[::2] for each in settings.environment)
    if not all(environment):
        raise ConfigError(['manager.environment: must be "NAME=value"'])
    user = group = None
    scratch = config.under_home(settings.scratch) if settings.scratch else folder / "jobs"
    if os.geteuid() == 0:
        try:
            entry = pwd.getpwnam(settings.user)
        except KeyError:
            raise ConfigError([f"manager.user = {settings.user!r}: no such user"]) from None
        user, group = entry.pw_uid, entry.pw_gid
        if not settings.scratch:
            # Home is for root alone: a worker could not name its own files.
            scratch = Path(tempfile.gettempdir()) / f"lcc-manager-{token}"
        _look_for_python(settings.user, user, group)
    mode = _SCRATCH_MODE if user is None else _SCRATCH_MODE_OF_ROOT
    disk.make_folder(scratch, mode)
    if not scratch.is_dir() or scratch.is_symlink() or scratch.stat().st_uid != os.geteuid():
        raise ConfigError([f"{scratch}: is not a folder of the manager's user"])
    scratch.chmod(mode)
    for each in settings.workers:
        disk.make_folder(config.under_home(each), 0o755)
    return Place(
        tuple(str(config.under_home(each)) for each in settings.workers),
        (os.geteuid(),),
        user,
        group,
        scratch,
        settings.path or usual_path(),
        environment,
        token,
    )


def _look_for_python(name: str, user: int, group: int) -> None:
    """Workers in Python of our own run in forks, but import what they need late."""
    with suppress(OSError):
        if barred_at(sys.executable, user, group):
            _log.warn(
                "Workers run as {name}, who cannot execute {python}: workers in Python, lcc-job and feeds will fail. "
                "Install the LCC where everybody can read it, or set [manager] user",
                name=name,
                python=str(Path(sys.executable).resolve()),
            )


def _usual(settings: ManagerConfig) -> KindSettings:
    return KindSettings(*(getattr(settings, name) for name in KindSettings._fields))


def build(config: Config, environment: Environment) -> RoleService:
    """The manager's services; started in this order.

    :raises ConfigError: a setting makes no sense on this machine.
    """
    settings, reactor, disk = config.manager, environment.reactor, environment.disk
    kinds, faults = parse_kinds(settings.kinds, _usual(settings))
    if faults:
        raise ConfigError([f"manager.kinds: {fault}" for fault in faults])
    folder = config.under_home(settings.folder)
    lock = WorkersLock(folder / "workers.lock")
    address = content_source(config, settings.content)
    client = ContentClient(reactor, address, certificates=certificate_files(config, "manager"))
    workers = Workers(reactor, lambda: lock.descriptor, environment.in_thread, BUILTIN)
    simulated = None if environment.starter is None else environment.starter(config)
    starter = simulated or workers
    engine = Manager(
        settings,
        kinds,
        starter,
        Contents(client, disk, lambda: starter.scratch, settings.content_bytes, environment.in_thread),
        folder,
        disk,
        reactor,
        environment.now,
        environment.in_thread,
        environment.token(),
        settings.host or socket.gethostname(),
    )
    policy = RetryPolicy(environment.chance.random)
    link = link_service(
        reactor,
        endpoint(config, "manager.connect"),
        engine.upstream_factory(policy.good_hello),
        policy,
        environment.pipes,
    )
    services = RoleService(
        "manager", ManagerCommands(engine), ManagerMetrics(engine), lambda: Deferred.fromCoroutine(engine.stop())
    )
    jobs = (
        _RealJobs(engine, link, client, config, environment, workers, lock)
        if simulated is None
        else _Jobs(engine, link, client, config, environment)
    )
    for service in (HomeService(config.home, disk), environment.lock(config.home / "manager.lock"), jobs):
        service.setServiceParent(services)
    add_console(services, config, reactor, settings.manhole, services)
    return services


def makeService(options: Options, environment: Environment | None = None) -> MultiService:
    """For ``twistd`` and the simulation."""
    environment = environment or real_environment()
    role = build(options.config, environment)
    return watched(role, options.config, environment, "manager.metrics", role)
