"""What a scheduler shows and takes at the console."""

from __future__ import annotations

import attrs

from lcc.domain.wording import Lines, duration, more, number
from lcc.roles.pausing import PausingCommands
from lcc.roles.scheduler.engine import Scheduler
from lcc.roles.scheduler.managers import Manager

MANAGERS_SHOWN = 20


class SchedulerCommands(PausingCommands[Scheduler]):
    """The commands of a scheduler."""

    PAUSED = "no jobs are given out until resume(); what runs goes on and is recorded"
    RESUMED = "jobs are given out again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine = self.engine
        state = f"run {engine.run_number}" if engine.run_number else "waits for the database"
        if engine.paused_since is not None:
            state = f"PAUSED for {duration(engine.now() - engine.paused_since)}, gives out no jobs"
        lines: Lines = [
            ("scheduler", state),
            ("database", f"waited for: {engine.trouble}" if engine.trouble else "answers"),
        ]
        managers = [*engine.roster.connected, *engine.roster.missing]
        lines += [("manager", self._manager(each)) for each in managers[:MANAGERS_SHOWN]] or [("manager", "none")]
        lines += more(MANAGERS_SHOWN, len(managers), "manager")
        oldest = engine.ready.oldest_due_time
        waits = "" if oldest is None else f", the first for {duration(engine.now() - oldest)}"
        running, due = engine.roster.running_count, len(engine.ready)
        lines.append(("jobs", f"{running:,} running, {due:,} due and waiting{waits}"))
        lines.append(("endings", f"{number(engine.endings_waiting, 'ending')} wait to be recorded"))
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in attrs.asdict(engine.counters).items())
        lines.append(("since start", ", ".join(counts)))
        return lines

    def _manager(self, manager: Manager) -> str:
        jobs = number(len(manager.jobs), "job")
        if manager.lost_time is not None:
            return f"{manager}: LOST for {duration(self.engine.now() - manager.lost_time)}, had {jobs}"
        kinds = ", ".join(f"{limits.jobs} {kind}" for kind, limits in sorted(manager.kinds.items())) or "nothing"
        paused = f"; paused: {manager.paused}" if manager.paused else ""
        return f"{manager}: {jobs}; takes {kinds}{paused}"
