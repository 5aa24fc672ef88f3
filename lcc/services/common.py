"""Shared by the services of all roles: options, configuration, home folder."""

from __future__ import annotations

import gc
import linecache
import os
import resource
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python import usage

from lcc.config import Config, load_config
from lcc.errors import ConfigError
from lcc.interfaces import IRoleMetrics
from lcc.services.process import jsonlog
from lcc.services.process.start_errors import report_start_errors
from lcc.storage.disk.durable import make_folder_durably
from lcc.storage.disk.file_system import Disk

_log = Logger()


_OPEN_FILES = 65536


def allow_open_files() -> None:
    """Raise the limit of open files, up to a sane number: the usual default (1024, for programs that use select) is
    less than the connections that a UNS serves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_YOUNG_OBJECTS = 10_000


def collect_garbage_rarely() -> None:
    """Collect garbage after ten thousand new objects instead of seven hundred, without what exists already.

    A batch of URLs is tens of thousands of tuples without a cycle: scanning them took a quarter of the queue
    manager's time."""
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    gc.freeze()


def tidy_memory() -> None:
    """What is to be done once the modules of a role are loaded."""
    linecache.clearcache()  # of the methods that attrs has written: a megabyte
    collect_garbage_rarely()


class BadConfiguration(usage.UsageError):
    """The configuration cannot be used."""

    next_step = "lcc-admin check"


class RoleOptions(usage.Options):
    """``--config FILE``.  Once the options are parsed, reads the configuration, raises the limit of open files and
    tunes the garbage collector.

    :cvar role: its name in the log.
    :cvar summary: for ``--help``.
    """

    role = "lcc"
    summary = ""
    longdesc = ""

    optParameters = [["config", "c", None, "configuration file; default: lcc.toml in the current folder, if any"]]
    config: Config

    @staticmethod
    def notes(program: str) -> list[str]:
        """Notes below the options, a sentence each."""
        return [
            f"{program} runs in the foreground until SIGTERM or Ctrl-C, twistd {program} in the background.",
            "lcc-admin config --defaults lists the settings of the configuration file.",
            "See doc/operating.md.",
            "Exit codes: 1 start failed; 2 invalid options or configuration.",
        ]

    def getSynopsis(self) -> str:
        name = Path(sys.argv[0]).name
        return f"Usage: {name} [options]" if name == self._program else super().getSynopsis()

    def getUsage(self, width: int | None = None) -> str:
        columns = width or 80
        notes = textwrap.fill(" ".join(self.notes(self._program)), columns)
        return f"\n{textwrap.fill(self.summary, columns)}\n\n{super().getUsage(width)}\n{notes}\n"

    @property
    def _program(self) -> str:
        return getattr(getattr(self, "parent", None), "subCommand", None) or f"lcc-{self.role}"

    def opt_version(self) -> None:
        """Show the version and exit."""
        from importlib.metadata import version

        print(f"{self._program}, version {version('lcc')}")
        raise SystemExit(0)

    def postOptions(self) -> None:
        path = self["config"]
        try:
            self.config = load_config(None if path is None else Path(path))
        except ConfigError as error:
            raise BadConfiguration(str(error)) from None
        allow_open_files()
        tidy_memory()
        parent: Any = getattr(self, "parent", None)
        if parent is not None and parent.get("pidfile") == "twistd.pid":
            # Two roles started in one folder would clash over the default.
            parent["pidfile"] = ""
        if parent is not None:
            elsewhere = parent.get("syslog") or parent.get("logfile") not in (None, "-")
            report_start_errors(parent.subCommand or self.role, to_terminal=bool(elsewhere))
        if parent is not None and self.config.log.format == "json" and not parent.get("logger"):
            if parent.get("syslog"):
                raise usage.UsageError('[log] format = "json" writes to standard output or a file, not to --syslog')
            jsonlog.choose(self.role, parent)
            parent["logger"] = jsonlog.FACTORY


class RoleService(MultiService):
    """All services of a role, started in the order in which they were added, stopped in reverse.

    :ivar name: of the role.
    :ivar commands: what it shows and takes at the console (:mod:`lcc.console.commands`).
    :ivar metrics: what it tells of itself (:mod:`lcc.metrics`).
    :param drain: called when the role is to stop, before any of its services does: brings to an end what others wait
        for, in bounded time.
    """

    name: str

    def __init__(
        self, name: str, commands: Any, metrics: IRoleMetrics, drain: Callable[[], Deferred[Any]] | None = None
    ) -> None:
        super().__init__()
        self.setName(name)
        self.commands = commands
        self.metrics = metrics
        self._drain = drain

    def startService(self) -> None:
        if os.geteuid() == 0:
            _log.warn(
                "{role} is running as root, which it does not need: a vulnerability in it would compromise this "
                "machine. "
                "Run it as a user of its own (doc/systemd.md)",
                role=self.name,
            )
        super().startService()

    def stopService(self) -> Deferred[Any]:
        # MultiService stops all its children at once.
        drained = succeed(None) if self._drain is None else maybeDeferred(self._drain)
        drained.addErrback(lambda failure: _log.failure("Cannot stop {role} cleanly", failure, role=self.name))
        return drained.addCallback(lambda _: MultiService.stopService(self))


class AtStop(Service):
    """Calls a function at stop."""

    def __init__(self, call: Callable[[], Deferred[None] | None]) -> None:
        self._call = call

    def stopService(self) -> Deferred[None] | None:
        super().stopService()
        return self._call()


class HomeService(Service):
    """Creates the home folder at start, for this user alone, unless it exists.

    Add it first: services start in the order in which they were added.
    """

    def __init__(self, home: Path, disk: Disk) -> None:
        self._home = home
        self._disk = disk

    def startService(self) -> None:
        make_folder_durably(self._home, self._disk)
        super().startService()
