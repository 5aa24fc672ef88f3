"""Metrics of a manager, and whether it can do its work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from zope.interface import implementer

from lcc.domain.tasks.kinds import ANY
from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading, counter, gauge
from lcc.roles.manager.engine import Manager

CONNECTED = gauge("lcc_manager_scheduler_connected", "1: connected to the scheduler")
PAUSED = gauge("lcc_manager_paused", "1: takes no new jobs")
RUNNING = gauge("lcc_manager_jobs_running", "Jobs that run, by kind (*: kinds without limits of their own)", "kind")
LIMIT = gauge("lcc_manager_jobs_limit", "Jobs that may run at once, by kind", "kind")
ENDED = counter("lcc_manager_jobs_ended", "Jobs that have ended, by kind and state", "kind", "state")
CPU = counter("lcc_manager_jobs_cpu_seconds", "CPU time of jobs that have ended, by kind", "kind")
ENDINGS = gauge("lcc_manager_endings_waiting", "Endings of jobs not yet recorded by the scheduler")
EXECUTABLES = gauge("lcc_manager_executables", "Executables in the folders of workers that jobs may run")
UNSAFE = gauge("lcc_manager_executables_refused", "Executables in the folders of workers that are not safe to run")


@implementer(IRoleMetrics)
class ManagerMetrics:
    """Metrics and conditions of a manager."""

    background: Sequence[Any] = ()

    def __init__(self, engine: Manager) -> None:
        self._engine = engine

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        manager = self._engine
        running = Counter(job.order.kind if job.order.kind in manager.kinds else ANY for job in manager.jobs)
        yield CONNECTED(manager.connected)
        yield PAUSED(bool(manager.paused_words))
        yield RUNNING.by({kind: running[kind] for kind in manager.kinds})
        yield LIMIT.by({kind: limits.jobs for kind, limits in manager.kinds.items()})
        yield ENDED.by(manager.counts)
        yield CPU.by(manager.cpu_seconds)
        yield ENDINGS(len(manager.endings))
        yield EXECUTABLES(len(manager.commands))
        yield UNSAFE(len(manager.faults))

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        manager = self._engine
        yield Condition(
            "scheduler",
            "" if manager.connected else "not connected to the scheduler",
            "check that it runs, and [manager] connect",
        )
        yield Condition(
            "not-paused",
            f"takes no jobs: {manager.paused_words}" if manager.paused_words else "",
            "resume() at its console (lcc-admin console manager)",
        )
