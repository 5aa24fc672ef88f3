"""Metrics of a scheduler, and whether it can do its work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lcc.domain.wording import duration
from lcc.model.metrics import Condition, Reading, counter, gauge, not_paused
from lcc.roles.metrics import DatabaseRoleMetrics
from lcc.roles.scheduler.engine import Scheduler

MISSING_SECONDS = 60.0
"""A manager that is away for so long is missed."""
WAITING_SECONDS = 900.0
"""A due job that has waited for so long for a manager is told of."""

RUN = gauge("lcc_scheduler_run", "Run number of the scheduler; 0: it does not own the tables yet")
MANAGERS = gauge("lcc_scheduler_managers", "Managers: connected, missing", "state")
RUNNING = gauge("lcc_scheduler_jobs_running", "Jobs at managers, by kind", "kind")
WAITING = gauge("lcc_scheduler_jobs_waiting", "Due jobs in memory waiting for a manager, by kind", "kind")
OLDEST = gauge("lcc_scheduler_job_waiting_seconds", "Waiting time of the job that has been due longest; 0: none")
MADE = counter("lcc_scheduler_jobs_made", "Jobs of tasks that were due")
FOLLOWUPS = counter("lcc_scheduler_followups", "Jobs added by other jobs")
STARTED = counter("lcc_scheduler_jobs_started", "Attempts of jobs assigned to managers")
ENDED = counter("lcc_scheduler_jobs_ended", "Attempts that ended: completed, temporary, permanent, lost", "state")
LATE = counter("lcc_scheduler_endings_late", "Reports of earlier attempts, or duplicates: ignored")
ENDINGS_WAITING = gauge("lcc_scheduler_endings_waiting", "Reports waiting to be recorded")
POLLED = counter("lcc_scheduler_polls", "Polls put into the queue")
RETRACTED = counter("lcc_scheduler_urls_retracted", "URLs no longer listed in sitemaps, retracted")
SITEMAP_URLS_HELD = gauge(
    "lcc_scheduler_sitemap_urls_held", "URLs no longer listed in sitemaps, held until confirmed: too many at once"
)
ORDERS = counter("lcc_scheduler_orders", "Orders of commands and the monitor carried out")
NOTICES = counter("lcc_scheduler_notices", "Sets of notices answered by the UNS: accepted, refused", "answer")
PAUSED = gauge("lcc_scheduler_paused", "1: paused by an operator, gives out no jobs")


class SchedulerMetrics(DatabaseRoleMetrics[Scheduler]):
    """Metrics and conditions of a scheduler."""

    role = "scheduler"

    def role_readings(self) -> Iterator[Reading]:
        """What its own metrics show now."""
        engine, counts = self._engine, self._engine.counters
        oldest = engine.ready.oldest_due_time
        yield RUN(engine.run_number)
        yield MANAGERS.by({"connected": len(engine.roster.connected), "missing": len(engine.roster.missing)})
        yield RUNNING.by(dict(Counter(kind for _, kind in engine.roster.running())))
        yield WAITING.by(dict(engine.ready.waiting_by_kind))
        yield OLDEST(0 if oldest is None else max(0, engine.now() - oldest))
        yield MADE(counts.made)
        yield FOLLOWUPS(counts.followups)
        yield STARTED(counts.started)
        yield ENDED.by(
            {
                "completed": counts.completed,
                "temporary": counts.temporary,
                "permanent": counts.permanent,
                "lost": counts.lost,
            }
        )
        yield LATE(counts.late)
        yield ENDINGS_WAITING(engine.endings_waiting)
        yield POLLED(counts.polled)
        yield RETRACTED(counts.retracted)
        yield SITEMAP_URLS_HELD(counts.sitemap_urls_held)
        yield ORDERS(counts.orders)
        yield NOTICES.by({"accepted": counts.notified, "refused": counts.refused})
        yield PAUSED(engine.paused_since is not None)

    def role_conditions(self) -> Iterator[Condition]:
        """What it needs beside its database."""
        engine = self._engine
        yield Condition(
            "managers",
            self._managers_fault(),
            "start them (twistd lcc-manager), and see [manager] connect and [scheduler] listen",
        )
        yield Condition("jobs-given-out", self._waiting_fault(), "lcc-admin job list --state pending")
        yield not_paused("scheduler", engine.paused_since is not None, "it gives out no jobs")

    def _managers_fault(self) -> str:
        now = self._engine.now()
        away = [
            f"{manager} for {duration(now - manager.lost_time)}"
            for manager in self._engine.roster.missing
            if manager.lost_time is not None and now - manager.lost_time >= MISSING_SECONDS
        ]
        return f"lost managers: {', '.join(away[:5])}" if away else ""

    def _waiting_fault(self) -> str:
        oldest = self._engine.ready.oldest_due_time
        if oldest is None or self._engine.now() - oldest < WAITING_SECONDS:
            return ""
        waits = duration(self._engine.now() - oldest)
        return f"a job has waited for {waits}: no manager has room for it, its executable, or its host"
