"""The scheduler's store: tasks, jobs, their logs and effects, which nobody else writes.

Owns ``tasks``, ``jobs``, ``joblogs``, ``jobsdone``, ``resources``, ``tasknotices``, ``robots``, ``managers``,
``sitemaps``, ``sitemapurls``; carries out ``taskorders``.

Strategy: every write is a bounded transaction in the writer thread, in the order of the calls.  Each checks that no
newer scheduler has claimed the tables (``schedulerfence``).  Each may be run again: an attempt of a job is started,
and ended, only once, a commit has its number, a follow-up its key.

Failures: an unreachable database is retried for some seconds, then the caller's Deferred fails with
StoreUnavailable, and the caller repeats the call; after a newer scheduler has claimed the tables it fails with Busy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.interfaces import IItemStore, ITaskRules
from lcc.model.tasks import (
    Assigned,
    DueJob,
    JobResult,
    ManagerStatus,
    Recorded,
    Resource,
    RunningJob,
    StartedJob,
    TaskClaim,
)
from lcc.storage.database.bisecting import NOT_OF_ONE, bisected, in_words
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.clock_steps import bound_waits
from lcc.storage.tasks.feeds.item_purge import Place, purge_items
from lcc.storage.tasks.housekeeping import purge_page
from lcc.storage.tasks.jobs.due import make_due_jobs, running_jobs, start_jobs
from lcc.storage.tasks.jobs.due_work import DueWork, due_work
from lcc.storage.tasks.jobs.endings import Ended, lose_attempts, record_endings, refused, set_job_aside, suspend_task
from lcc.storage.tasks.jobs.text_jobs import TextRow, WantedText, forget_texts, make_text_jobs
from lcc.storage.tasks.managers import managers, save_managers
from lcc.storage.tasks.orders import CarriedOut, carry_out_orders, refuse_order
from lcc.storage.tasks.outbox import Answer, OutboxSet, answer_sets, outbox, outbox_since, part_set
from lcc.storage.tasks.polling.listed import part_listed
from lcc.storage.tasks.polling.polls import (
    Asked,
    Found,
    Noted,
    Poll,
    PollsToDo,
    make_found_jobs,
    note_polls,
    polls_of_pages,
    polls_position,
    polls_to_do,
    save_position,
)
from lcc.storage.tasks.polling.robots import AskedBySite, asked_said, note_epoch, poll_robots, untold_asked
from lcc.storage.tasks.polling.sitemaps import gone_sites, held_sitemaps, retract_gone
from lcc.storage.tasks.views import resources
from lcc.storage.tasks.write import TaskWrite, claim_run

_log = Logger()
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
        self._means = rules, items
        self._jobs_max = jobs_max
        self._run = -1  # claim() makes it valid
        self.repeated = 0
        """How often a transaction was run again: what it has made may be known from the tables only."""
        self.newest_notice = 0
        """No set in the outbox has a greater number."""

    def claim(self) -> Deferred[TaskClaim]:
        """Become the one that may write."""

        def claimed(claim: TaskClaim) -> TaskClaim:
            self._run, self.newest_notice = claim.run, claim.notices
            return claim

        return self._database.write(claim_run).addCallback(claimed)

    def _write(self, now: int, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(write, *args)`` in one :class:`TaskWrite`."""
        runs = 0

        def work(txn: Txn) -> T:
            nonlocal runs
            runs += 1
            self.repeated += runs > 1
            write = TaskWrite(txn, self._run, now, self._jobs_max)
            result = function(write, *args)
            # Before the commit: whoever looks for it too early looks again.
            self.newest_notice = max(self.newest_notice, write.value("notice"))
            write.save()
            return result

        return self._database.write(work)

    def bound_waits(self, after: int, now: int) -> Deferred[int | None]:
        """As :func:`lcc.storage.tasks.clock_steps.bound_waits`."""
        return self._write(now, bound_waits, self._rules, after)

    def due_work(
        self, now: int, after: tuple[int, int], orders_max: int, tasks_max: int, jobs_max: int
    ) -> Deferred[DueWork]:
        """As :func:`lcc.storage.tasks.jobs.due_work.due_work`."""
        return self._database.interact(due_work, now, after, orders_max, tasks_max, jobs_max)

    async def make_due_jobs(self, tasks: Sequence[int], now: int) -> list[DueJob]:
        """As :func:`lcc.storage.tasks.jobs.due.make_due_jobs`; a task for which that is not possible is suspended."""

        async def suspend(task: int, error: Exception) -> list[DueJob]:
            await self.suspend_task(task, error, now)
            return []

        made = await bisected(tasks, lambda some: self._write(now, make_due_jobs, some), suspend)
        return [job for each in made for job in each]

    def suspend_task(self, task: int, error: Exception, now: int) -> Deferred[None]:
        """Something of this task cannot be done; it is suspended."""
        _log.failure("Task {task} is suspended: the scheduler cannot handle it", Failure(error), task=task)
        return self._write(now, suspend_task, task, f"The scheduler cannot handle it: {in_words(error)}")

    def running_jobs(self) -> Deferred[list[RunningJob]]:
        """As :func:`lcc.storage.tasks.jobs.due.running_jobs`."""
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

    async def start_jobs(self, chosen: Sequence[Assigned], now: int) -> list[StartedJob]:
        """As :func:`lcc.storage.tasks.jobs.due.start_jobs`; a job that cannot be started ends as a permanent
        error."""

        async def set_aside(one: Assigned, error: Exception) -> list[StartedJob]:
            await self._set_job_aside(one.job.id, error, now)
            return []

        started = await bisected(chosen, lambda some: self._write(now, start_jobs, some), set_aside)
        return [job for each in started for job in each]

    def _set_job_aside(self, job: int, error: Exception, now: int) -> Deferred[None]:
        _log.failure("Job {job} is set aside: the scheduler cannot handle it", Failure(error), job=job)
        return self._write(now, set_job_aside, job, f"The scheduler cannot handle it: {in_words(error)}")

    async def record_endings(self, results: Sequence[JobResult], now: int) -> Ended:
        """As :func:`lcc.storage.tasks.jobs.endings.record_endings`; what cannot be recorded is a permanent error of
        its job."""

        async def refuse(result: JobResult, error: Exception) -> Ended:
            return await self._refuse(result, error, now)

        ended = await bisected(results, lambda some: self._write(now, record_endings, *self._means, some), refuse)
        return Ended(
            [recorded for each in ended for recorded in each.recorded], [job for each in ended for job in each.made]
        )

    async def _refuse(self, result: JobResult, error: Exception, now: int) -> Ended:
        why = f"Effects refused: {in_words(error)}"
        for with_logs in (True, False):
            try:
                instead = refused(result, why, with_logs)
                return await self._write(now, record_endings, *self._means, [instead])
            except NOT_OF_ONE:
                raise
            except Exception as further:
                error = further
        await self._set_job_aside(result.id, error, now)
        return Ended([Recorded(result.id, result.attempt, False, True)], [])

    async def lose_attempts(self, lost: Sequence[tuple[int, int]], why: str, now: int) -> list[tuple[int, int]]:
        """As :func:`lcc.storage.tasks.jobs.endings.lose_attempts`."""

        async def set_aside(one: tuple[int, int], error: Exception) -> list[tuple[int, int]]:
            await self._set_job_aside(one[0], error, now)
            return [one]

        found = await bisected(lost, lambda some: self._write(now, lose_attempts, self._rules, some, why), set_aside)
        return [each for some in found for each in some]

    def note_progress(self, told: Sequence[tuple[int, int, int, str]], now: int) -> Deferred[None]:
        """Running jobs have told something: (job, attempt, process id or 0, status or empty)."""
        return self._write(now, _note_progress, list(told))

    async def carry_out_orders(self, orders: Sequence[int], now: int) -> CarriedOut:
        """As :func:`lcc.storage.tasks.orders.carry_out_orders`; one that cannot be carried out is answered with an
        error."""

        async def refuse(order: int, error: Exception) -> CarriedOut:
            if not isinstance(error, ValueError):
                _log.failure("Cannot carry out order {order}", Failure(error), order=order)
            return await self._write(now, refuse_order, order, in_words(error))

        done = await bisected(orders, lambda some: self._write(now, carry_out_orders, self._rules, some), refuse)
        whole = CarriedOut()
        for each in done:
            whole.add(each)
        return whole

    def polls_to_do(self, now: int, looks_max: int, due_max: int) -> Deferred[PollsToDo]:
        """As :func:`lcc.storage.tasks.polling.polls.polls_to_do`."""
        return self._database.interact(polls_to_do, now, looks_max, due_max)

    def polls_of_pages(self, keys: Sequence[bytes]) -> Deferred[list[Poll]]:
        """As :func:`lcc.storage.tasks.polling.polls.polls_of_pages`."""
        return self._database.interact(polls_of_pages, list(keys))

    def polls_position(self) -> Deferred[int | None]:
        """As :func:`lcc.storage.tasks.polling.polls.polls_position`."""
        return self._database.select(polls_position)

    async def make_found_jobs(self, found: Sequence[Found], now: int) -> list[DueJob]:
        """As :func:`lcc.storage.tasks.polling.polls.make_found_jobs`; a task for which that is not possible is
        suspended."""

        async def suspend(each: Found, error: Exception) -> list[DueJob]:
            await self.suspend_task(each.poll.task.id, error, now)
            return []

        made = await bisected(found, lambda some: self._write(now, make_found_jobs, some), suspend)
        return [job for each in made for job in each]

    def save_position(self, change: int, now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.polling.polls.save_position`."""
        return self._write(now, save_position, change)

    def note_polls(
        self, found: Sequence[Found], looked: Sequence[Asked], asked: Sequence[Asked], now: int
    ) -> Deferred[Noted]:
        """As :func:`lcc.storage.tasks.polling.polls.note_polls`."""
        return self._write(now, note_polls, self._rules, list(found), list(looked), list(asked))

    def outbox(self, after: int, limit: int) -> Deferred[list[OutboxSet]]:
        """As :func:`lcc.storage.tasks.outbox.outbox`."""
        return self._database.select(outbox, after, limit)

    def outbox_since(self) -> Deferred[int | None]:
        """As :func:`lcc.storage.tasks.outbox.outbox_since`."""
        return self._database.select(outbox_since)

    def answer_sets(self, answers: Sequence[Answer], now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.outbox.answer_sets`."""
        return self._write(now, answer_sets, list(answers))

    def part_set(self, number: int, parts: Sequence[Sequence[Mapping[str, str]]], now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.outbox.part_set`."""
        return self._write(now, part_set, number, parts)

    def part_listed(self, number: int, own: Collection[str], why: str, now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.polling.listed.part_listed`."""
        return self._write(now, part_listed, self._rules, number, own, why)

    def read(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(txn, *args)``, which only reads."""
        return self._database.interact(function, *args)

    def make_text_jobs(
        self, wanted: Sequence[WantedText], positions: Mapping[str, int], now: int
    ) -> Deferred[list[DueJob] | None]:
        """As :func:`lcc.storage.tasks.jobs.text_jobs.make_text_jobs`."""
        return self._write(now, make_text_jobs, list(wanted), dict(positions))

    def forget_texts(self, texts: Sequence[TextRow], now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.jobs.text_jobs.forget_texts`."""
        return self._write(now, forget_texts, list(texts))

    def purge_items(self, now: int, kept_seconds: int, after: Place) -> Deferred[Place | None]:
        """As :func:`lcc.storage.tasks.feeds.item_purge.purge_items`."""
        return self._write(now, purge_items, kept_seconds, after)

    def poll_robots(self, origins: Sequence[str], now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.polling.robots.poll_robots`."""
        return self._write(now, poll_robots, self._rules, list(origins))

    def gone_sites(self) -> Deferred[list[int]]:
        """As :func:`lcc.storage.tasks.polling.sitemaps.gone_sites`."""
        return self._database.select(gone_sites)

    def held_sitemaps(self) -> Deferred[tuple[int, int]]:
        """As :func:`lcc.storage.tasks.polling.sitemaps.held_sitemaps`."""
        return self._database.select(held_sitemaps)

    def retract_gone(self, now: int) -> Deferred[int]:
        """As :func:`lcc.storage.tasks.polling.sitemaps.retract_gone`."""
        return self._write(now, retract_gone, self._rules)

    def untold_asked(self, after: str, limit: int) -> Deferred[list[AskedBySite]]:
        """As :func:`lcc.storage.tasks.polling.robots.untold_asked`."""
        return self._database.select(untold_asked, after, limit)

    def note_epoch(self, epoch: str, now: int) -> Deferred[bool]:
        """As :func:`lcc.storage.tasks.polling.robots.note_epoch`."""
        return self._write(now, note_epoch, epoch)

    def asked_said(self, said: Sequence[AskedBySite], now: int) -> Deferred[None]:
        """As :func:`lcc.storage.tasks.polling.robots.asked_said`."""
        return self._write(now, asked_said, list(said))

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
