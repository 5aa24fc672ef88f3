"""The scheduler's store: tasks, jobs, their logs and effects, which nobody else writes.

Owns ``tasks``, ``jobs``, ``joblogs``, ``jobsdone``, ``resources``, ``tasknotices``, ``robots``, ``managers``; carries
out ``taskorders``.

Strategy: every write is a bounded transaction in the writer thread, in the order of the calls.  Each checks that no
newer scheduler has claimed the tables (``schedulerfence``).  Each may be run again: an attempt of a job is started,
and ended, only once, a commit has its number, a follow-up its key.

Failures: an unreachable database is retried for some seconds, then the caller's Deferred fails with
StoreUnavailable, and the caller repeats the call; after a newer scheduler has claimed the tables it fails with Busy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from lcc.interfaces import IItemStore, ITaskRules
from lcc.model.tasks import DueJob, JobResult, ManagerStatus, Resource, RunningJob, StartedJob, TaskClaim
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.due import due_jobs, make_due_jobs, next_task_due, running_jobs, start_jobs
from lcc.storage.tasks.effects import EffectsRefused
from lcc.storage.tasks.endings import Ended, lose_attempts, record_endings, without_effects
from lcc.storage.tasks.housekeeping import purge_page
from lcc.storage.tasks.item_purge import Place, purge_items
from lcc.storage.tasks.managers import managers, save_managers
from lcc.storage.tasks.orders import CarriedOut, carry_out_orders
from lcc.storage.tasks.outbox import OutboxSet, forget_sets, outbox
from lcc.storage.tasks.polls import (
    Asked,
    Found,
    Poll,
    ask,
    due_polls,
    make_found_jobs,
    polls_of_pages,
    polls_position,
)
from lcc.storage.tasks.robots import poll_robots
from lcc.storage.tasks.text_jobs import WantedText, make_text_jobs
from lcc.storage.tasks.views import resources
from lcc.storage.tasks.write import TaskWrite, claim_run

T = TypeVar("T")


class TaskStore:
    """See :mod:`lcc.storage.tasks.store`.

    :param rules: when tasks are due.
    :param items: stores what jobs collect.
    :param jobs_max: jobs that may be open at once.
    """

    def __init__(self, database: Database, rules: ITaskRules, items: IItemStore, jobs_max: int) -> None:
        self._database = database
        self._rules = rules
        self._items = items
        self._jobs_max = jobs_max
        self._run = -1  # claim() makes it valid

    def claim(self) -> Deferred[TaskClaim]:
        """Become the one that may write."""

        def claimed(claim: TaskClaim) -> TaskClaim:
            self._run = claim.run
            return claim

        return self._database.write(claim_run).addCallback(claimed)

    def _write(self, now: int, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(write, *args)`` in one :class:`TaskWrite`."""

        def work(txn: Txn) -> T:
            write = TaskWrite(txn, self._run, now)
            result = function(write, *args)
            write.save()
            return result

        return self._database.write(work)

    def make_due_jobs(self, now: int, limit: int) -> Deferred[list[DueJob]]:
        """As :func:`lcc.storage.tasks.due.make_due_jobs`."""

        def make(write: TaskWrite) -> list[DueJob]:
            # A negative LIMIT is none at all to SQLite, and an error to MySQL.
            return make_due_jobs(write, max(0, min(limit, self._jobs_max - write.value("open"))))

        return self._write(now, make)

    def next_task_due(self) -> Deferred[int | None]:
        """As :func:`lcc.storage.tasks.due.next_task_due`."""
        return self._database.select(next_task_due)

    def due_jobs(self, after: tuple[int, int], now: int, limit: int) -> Deferred[list[DueJob]]:
        """As :func:`lcc.storage.tasks.due.due_jobs`."""
        return self._database.select(due_jobs, after, now, limit)

    def running_jobs(self) -> Deferred[list[RunningJob]]:
        """As :func:`lcc.storage.tasks.due.running_jobs`."""
        return self._database.select(running_jobs)

    def resources(self) -> Deferred[list[Resource]]:
        """All that have rows."""
        return self._database.select(resources)

    def managers(self) -> Deferred[list[ManagerStatus]]:
        """As :func:`lcc.storage.tasks.managers.managers`."""
        return self._database.interact(managers)

    def save_managers(
        self, changed: Sequence[ManagerStatus], heard: Sequence[str], now: int, kept_seconds: int
    ) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.managers.save_managers`."""
        return self._write(now, save_managers, list(changed), list(heard), kept_seconds)

    def start_jobs(self, chosen: Sequence[tuple[DueJob, str, str]], now: int) -> Deferred[list[StartedJob]]:
        """As :func:`lcc.storage.tasks.due.start_jobs`."""
        return self._write(now, start_jobs, list(chosen))

    async def record_endings(self, results: Sequence[JobResult], now: int) -> Ended:
        """As :func:`lcc.storage.tasks.endings.record_endings`; effects that cannot be make their job a permanent
        error."""
        results = list(results)
        while True:
            try:
                return await self._write(now, record_endings, self._rules, self._items, results, self._jobs_max)
            except EffectsRefused as refused:
                results = [
                    without_effects(result, str(refused)) if result.id == refused.job else result
                    for result in results
                ]

    def lose_attempts(self, lost: Sequence[tuple[int, int]], why: str, now: int) -> Deferred[list[tuple[int, int]]]:
        """As :func:`lcc.storage.tasks.endings.lose_attempts`."""
        return self._write(now, lose_attempts, self._rules, list(lost), why)

    def note_progress(self, told: Sequence[tuple[int, int, int, str]], now: int) -> Deferred[None]:
        """Running jobs have told something: (job, attempt, process id or 0, status or empty)."""
        return self._write(now, _note_progress, list(told))

    def carry_out_orders(self, now: int, limit: int) -> Deferred[CarriedOut]:
        """As :func:`lcc.storage.tasks.orders.carry_out_orders`."""
        return self._write(now, carry_out_orders, self._rules, limit)

    def has_orders(self) -> Deferred[bool]:
        """Whether there is an open order."""
        sql = "SELECT 1 FROM taskorders WHERE done_time IS NULL LIMIT 1"
        return self._database.select(lambda txn: txn.one(sql) is not None)

    def due_polls(self, now: int, limit: int) -> Deferred[list[Poll]]:
        """As :func:`lcc.storage.tasks.polls.due_polls`."""
        return self._database.select(due_polls, now, limit)

    def polls_of_pages(self, keys: Sequence[bytes]) -> Deferred[list[Poll]]:
        """As :func:`lcc.storage.tasks.polls.polls_of_pages`."""
        return self._database.interact(polls_of_pages, list(keys))

    def polls_position(self) -> Deferred[int | None]:
        """As :func:`lcc.storage.tasks.polls.polls_position`."""
        return self._database.select(polls_position)

    def make_found_jobs(
        self, found: Sequence[Found], now: int, position: int | None = None
    ) -> Deferred[list[DueJob]]:
        """As :func:`lcc.storage.tasks.polls.make_found_jobs`."""
        return self._write(now, make_found_jobs, list(found), position)

    def ask(self, asked: Sequence[Asked], now: int) -> Deferred[int]:
        """As :func:`lcc.storage.tasks.polls.ask`."""
        return self._write(now, ask, self._rules, list(asked))

    def outbox(self, after: int, limit: int) -> Deferred[list[OutboxSet]]:
        """As :func:`lcc.storage.tasks.outbox.outbox`."""
        return self._database.select(outbox, after, limit)

    def forget_sets(self, numbers: Sequence[int], now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.outbox.forget_sets`."""
        return self._write(now, forget_sets, list(numbers))

    def read(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(txn, *args)``, which only reads."""
        return self._database.interact(function, *args)

    def make_text_jobs(
        self, wanted: Sequence[WantedText], positions: Mapping[str, int], now: int
    ) -> Deferred[list[DueJob]]:
        """As :func:`lcc.storage.tasks.text_jobs.make_text_jobs`."""
        return self._write(now, make_text_jobs, list(wanted), dict(positions))

    def purge_items(self, now: int, kept_seconds: int, after: Place) -> Deferred[Place | None]:
        """As :func:`lcc.storage.tasks.item_purge.purge_items`."""
        return self._write(now, purge_items, kept_seconds, after)

    def poll_robots(self, origins: Sequence[str], now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.robots.poll_robots`."""
        return self._write(now, poll_robots, self._rules, list(origins))

    def purge_page(self, now: int, jobs_kept_seconds: int, statistics_kept_days: int) -> Deferred[bool]:
        """As :func:`lcc.storage.tasks.housekeeping.purge_page`."""
        return self._write(now, purge_page, jobs_kept_seconds, statistics_kept_days)


def _note_progress(write: TaskWrite, told: Sequence[tuple[int, int, int, str]]) -> None:
    for job, attempt, process, status in told:
        where = "WHERE id = ? AND attempt = ? AND state = 'running'"
        if process:
            write.txn.execute(f"UPDATE jobs SET process = ? {where}", [process, job, attempt])
        if status:
            values = [status, write.now, job, attempt]
            write.txn.execute(f"UPDATE jobs SET message = ?, updated_time = ? {where}", values)
