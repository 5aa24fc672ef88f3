"""What a manager shows and takes at the console.  It only reads, but for :meth:`ManagerCommands.pause`."""

from __future__ import annotations

from lcc.domain.tasks.kinds import ANY
from lcc.domain.wording import Lines, duration, more
from lcc.roles.manager.engine import Manager
from lcc.roles.manager.job import RunningJob
from lcc.roles.pausing import PausingCommands

SHOWN = 20


class ManagerCommands(PausingCommands[Manager]):
    """The commands of a manager."""

    PAUSED = "no new jobs until resume(); those that run go on"
    RESUMED = "jobs are accepted again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        manager = self.engine
        why = manager.paused_words
        lines: Lines = [
            ("manager", f"{manager.settings.name}: {f'takes no jobs: {why}' if why else 'takes jobs'}"),
            ("scheduler", "connected" if manager.connected else "disconnected: jobs run on, endings are kept"),
        ]
        for kind, limits in manager.kinds.items():
            name = "other kinds" if kind == ANY else kind
            lines.append(("kind", f"{name}: {limits.jobs} at once, {limits.seconds:g} seconds"))
        lines.append(("workers", f"{len(manager.commands):,} executables"))
        for why in list(manager.faults.values())[:SHOWN]:
            lines.append(("not run", why))
        lines += self.queue(SHOWN)
        lines.append(("endings", f"{len(manager.endings):,} not recorded yet"))
        return lines

    def queue(self, limit: int) -> Lines:
        """As :mod:`lcc.console.commands` says: jobs."""
        jobs = self.engine.jobs
        lines: Lines = [("job", self._job(job)) for job in jobs[:limit]]
        return [*lines, *more(limit, len(jobs), "job")] or [("job", "none")]

    def _job(self, job: RunningJob) -> str:
        order = job.order
        what = order.command or order.kind
        if not job.pid:
            return f"{order.id}: {what}, waiting"
        since = duration(self.engine.clock_seconds() - job.started_seconds)
        status = f": {job.status}" if job.status else ""
        return f"{order.id}: {what}, process {job.pid}, for {since}{status}"
