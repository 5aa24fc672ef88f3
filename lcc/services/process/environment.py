"""What roles are given: the reactor, clocks, randomness, the disk, the database.

No role reaches for these itself.  So the same services, built by the same functions, run under ``twistd`` and in a
simulation of many machines on one clock.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from twisted.application.service import IService
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from lcc.commands.boottime import use_boot_time
from lcc.config import BotConfig
from lcc.fetchers.registry import build_fetchers
from lcc.interfaces import IFetcher
from lcc.metrics.supervisor import Supervisor, own_supervisor
from lcc.services.process.garbage import collect_old_garbage
from lcc.services.process.heap import give_back_freed_memory
from lcc.services.process.second_signal import end_at_second_signal
from lcc.storage.disk.content_sync import boot_id
from lcc.storage.disk.file_system import DISK, Disk
from lcc.transport.links import LockService
from lcc.transport.pipes import Pipes

if TYPE_CHECKING:
    from lcc.config import Config
    from lcc.model.spider.links import ExtractionLimits
    from lcc.roles.cu.packages.ports import ContentPorts
    from lcc.roles.cu.packages.production import Where
    from lcc.roles.extraction import Spawn
    from lcc.roles.manager.engine import JobStarter
    from lcc.storage.database.database import Database


@attrs.frozen
class Environment:
    """The environment of one process.

    :ivar reactor: connects, listens, calls later, has threads.  Its ``seconds()`` are no time of day: they count from
        some moment on, and are never set.  All timers, leases and durations are measured on it.
    :ivar now: the wall clock: seconds since 1970.  It may be set at any moment, and is only for what is told or
        stored (hours, the times of sets, dates in answers).
    :ivar chance: for jitter and the like; not secret.
    :ivar token: gives 16 unguessable hexadecimal digits, never the same twice.
    :ivar disk: where files are kept.
    :ivar database: makes databases, called as the class :class:`~lcc.storage.database.database.Database`.
    :ivar lock: makes the service that holds this lock file.
    :ivar boot_id: names this boot of the machine (:func:`lcc.storage.disk.content_sync.boot_id`).
    :ivar fetchers: URL scheme -> fetcher, for this reactor and configuration.
    :ivar supervisor: has started this process and wants its status; None: nobody does.
    :ivar pipes: by which roles of this process meet; None: each has a process of its own.
    :ivar starter: starts the jobs of a manager, in place of real processes; None: these.
    :ivar extraction: starts what extracts links, by its limits and the names of the extractors, in place of real
        processes; None: these.
    :ivar package_threads: makes the threads that make packages, so many at most; None: real ones.
    :ivar content_ports: makes what reads content of other machines in these; None: over sockets.
    """

    reactor: Any
    now: Callable[[], float]
    chance: random.Random
    token: Callable[[], str]
    disk: Disk
    database: Callable[..., Database]
    lock: Callable[[Path], IService]
    boot_id: Callable[[], str]
    fetchers: Callable[[Any, BotConfig], dict[str, IFetcher]]
    supervisor: Supervisor | None = None
    pipes: Pipes | None = None
    starter: Callable[[Config], JobStarter] | None = None
    extraction: Callable[[ExtractionLimits, Sequence[str]], Spawn] | None = None
    package_threads: Callable[[int], Any] | None = None
    content_ports: Callable[[Where], ContentPorts] | None = None

    def in_thread(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Call a function that blocks, in a thread of the reactor."""
        return deferToThreadPool(self.reactor, self.reactor.getThreadPool(), function, *args)


def _database(*arguments: Any, **more: Any) -> Database:
    # Late: robots and BOT-Ms have none, and do without 2 MB.
    from lcc.storage.database.database import Database

    return Database(*arguments, **more)


def real_environment(reactor: Any = None, *, one_heap: bool = False) -> Environment:
    """The machine that this process runs on.

    :param reactor: None: the process's own, imported only now; and the process is set up.
    :param one_heap: as part of that, all threads share a heap, which shrinks again.
    """
    if reactor is None:
        from twisted.internet import reactor

        use_boot_time(reactor)
        end_at_second_signal(reactor)
        collect_old_garbage(reactor)
        if one_heap:
            give_back_freed_memory(reactor)
        # Files of this process are private to its user.  twistd's --umask, which comes later, wins.
        os.umask(0o077)
    return Environment(
        reactor=reactor,
        now=time.time,
        chance=random.Random(),
        token=lambda: secrets.token_hex(8),
        disk=DISK,
        database=_database,
        lock=LockService,
        boot_id=boot_id,
        fetchers=build_fetchers,
        supervisor=own_supervisor(),
    )
