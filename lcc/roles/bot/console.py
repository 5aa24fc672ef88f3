"""What a robot shows and takes at the console.  It only reads, but for :meth:`BotCommands.pause`."""

from __future__ import annotations

from lcc.domain.wording import Lines, duration, more
from lcc.roles.bot.engine import Robot
from lcc.roles.bot.job import Job
from lcc.roles.pausing import PausingCommands


class BotCommands(PausingCommands[Robot]):
    """The commands of a robot."""

    PAUSED = "no new orders until resume(); those here are finished"
    RESUMED = "orders are accepted again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        robot = self.engine
        running, waiting = robot.jobs
        stands = "PAUSED, accepts no new orders" if robot.paused else "accepts orders"
        return [
            ("robot", f"{robot.name}: {stands}"),
            ("BOT-M", "connected" if robot.connected else "disconnected: nothing is fetched"),
            ("fetches", f"{len(running)} of {robot.concurrency} at once, {len(waiting)} waiting"),
        ]

    def queue(self, limit: int) -> Lines:
        """As :mod:`lcc.console.commands` says: fetches."""
        running, waiting = self.engine.jobs
        lines: Lines = [("fetching", self._job(job)) for job in running[:limit]]
        lines += more(limit, len(running), "fetch")
        lines += [("waits", self._job(job)) for job in waiting[:limit]]
        lines += more(limit, len(waiting), "fetch")
        return lines or [("queue", "nothing is being fetched")]

    def provider(self, pid: int) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        running, waiting = self.engine.jobs
        lines: Lines = [("fetching", self._job(job)) for job in running if job.fetch.pid == pid]
        lines += [("waits", self._job(job)) for job in waiting if job.fetch.pid == pid]
        return lines or [("provider", f"nothing of {pid} is being fetched here")]

    def _job(self, job: Job) -> str:
        now = self.engine.clock_seconds()
        since, left = duration(now - job.begun), duration(job.lease_end - now)
        size = f", {job.size_bytes:,} bytes so far" if job.size_bytes else ""
        return f"provider {job.fetch.pid}, for {since}{size}, lease ends in {left}: {job.fetch.url}"
