"""The tables of tasks, asked in plain calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer

from lcc.domain.tasks.rules import TaskRules
from lcc.interfaces import IItemStore
from lcc.model.tasks import (
    Assigned,
    DueJob,
    Effects,
    ItemsStored,
    Job,
    JobNotice,
    JobResult,
    JobSpec,
    JobState,
    StartedJob,
    Task,
    When,
)
from lcc.storage.database.migrations import MAIN, TASKS
from lcc.storage.tasks.jobs.due_work import DueWork
from lcc.storage.tasks.jobs.endings import Ended
from lcc.storage.tasks.orders import ORDERS, CarriedOut, order_task
from lcc.storage.tasks.polling.polls import Asked, Poll
from lcc.storage.tasks.polling.robots import robots_known
from lcc.storage.tasks.store import TaskStore
from lcc.storage.tasks.views import get_job, get_task, job_log
from lcc.storage.tasks.write import TaskWrite
from tests.support.databases import Backend, DirectDatabase, result_of

NOW = 1_780_000_000


@implementer(IItemStore)
class SomeItems:
    """Counts items; one that is ``bad`` is refused, one that is a URL is notified of."""

    def __init__(self) -> None:
        self.stored: list[str] = []

    def store(
        self, txn: Any, task: int, job: int, page: str, items: Sequence[str], now: int, listed: bool = False
    ) -> ItemsStored:
        if "bad" in items:
            raise ValueError("item 1 is bad")
        self.stored += items
        urls = [item for item in items if item.startswith("http")]
        return ItemsStored(len(items), 0, tuple(JobNotice(url, "listed" if listed else "feed") for url in urls))


def task_database(backend: Backend) -> DirectDatabase:
    """The tables of tasks on this backend."""
    return DirectDatabase(backend.url, backend.home, TASKS if backend.kind == "sqlite" else MAIN)


def sqlite_tasks(folder: Path) -> DirectDatabase:
    """The same on SQLite."""
    return DirectDatabase("sqlite:tasks.sqlite", folder, TASKS)


class Tasks:
    """A store of tasks."""

    def __init__(self, database: DirectDatabase, jobs_max: int = 1000) -> None:
        self.database = database
        self.items = SomeItems()
        self.jobs_max = jobs_max
        self.store = self.another_store()
        result_of(self.store.claim())

    def another_store(self) -> TaskStore:
        return TaskStore(self.database, TaskRules(), self.items, self.jobs_max)  # type: ignore[arg-type]  # stands in

    def add(self, now: int = NOW, every: int = 3600, spec: JobSpec | None = None, **more: Any) -> int:
        """A task with this period, or ``when``."""
        when = more.pop("when", When(every_seconds=every))
        task = Task(0, spec or JobSpec(command="true", args=("a", "b c")), when, **more)
        number, order = self.database.now(order_task, task, now)
        self.carry_out(now)
        assert self.answer(order) == {"task": number}
        return number

    def order(self, kind: str, target: int = 0, now: int = NOW, **body: Any) -> dict[str, Any]:
        """Give an order; its answer."""
        number = self.database.now(ORDERS.give, kind, target, body, now)
        self.carry_out(now)
        return self.answer(number)

    def answer(self, number: int) -> dict[str, Any]:
        answer = self.database.blocking.interact(ORDERS.answer, number)
        assert answer is not None
        return answer

    def carry_out(self, now: int = NOW) -> CarriedOut:
        orders = self.due_work(now).orders
        self.last = result_of(Deferred.fromCoroutine(self.store.carry_out_orders(orders, now)))
        return self.last

    def last_killed(self) -> list[tuple[int, int, str]]:
        """What the last orders have ended."""
        return self.last.killed

    def make(self, now: int = NOW, limit: int = 100) -> list[DueJob]:
        due = self.due_work(now).tasks[:limit]
        return result_of(Deferred.fromCoroutine(self.store.make_due_jobs(due, now)))

    def due_work(self, now: int, after: tuple[int, int] = (0, 0)) -> DueWork:
        """What there is to do."""
        return result_of(self.store.due_work(now, after, 100, 100, 100))

    def due_polls(self, now: int) -> list[Poll]:
        """Polls that are due."""
        return result_of(self.store.polls_to_do(now, 0, 100)).due

    def ask(self, asked: Sequence[Asked], now: int) -> int:
        """Put polls into the queue; how many were put there."""
        return len(result_of(self.store.note_polls([], [], asked, now)).sets)

    def start(self, *jobs: DueJob, now: int = NOW, manager: str = "m") -> list[StartedJob]:
        chosen = [Assigned(job, manager, "r1", "host") for job in jobs]
        return result_of(Deferred.fromCoroutine(self.store.start_jobs(chosen, now)))

    def end(self, job: StartedJob, state: JobState = JobState.COMPLETED, now: int = NOW, **more: Any) -> Ended:
        return self.record(JobResult(job.id, job.attempt, state, **more), now=now)

    def commit(self, job: StartedJob, number: int, effects: Effects, now: int = NOW) -> Ended:
        return self.record(JobResult(job.id, job.attempt, JobState.RUNNING, number, effects=effects), now=now)

    def record(self, *results: JobResult, now: int = NOW) -> Ended:
        return result_of(Deferred.fromCoroutine(self.store.record_endings(results, now)))

    def due(self, now: int, after: tuple[int, int] = (0, 0)) -> list[DueJob]:
        return self.due_work(now, after).jobs

    def task(self, number: int) -> Task:
        task = self.database.blocking.select(get_task, number)
        assert task is not None
        return task

    def job(self, number: int) -> Job:
        job = self.database.blocking.select(get_job, number)
        assert job is not None
        return job

    def log(self, number: int) -> list[tuple[int, str, str]]:
        rows = self.database.blocking.select(job_log, number)
        return [(each.attempt, each.row.level, each.row.text) for each in rows]

    def run(self, now: int = NOW) -> StartedJob:
        """The one job that is due, started."""
        [job] = self.make(now) or self.due(now)
        [started] = self.start(job, now=now)
        return started

    def no_robots_txt(self, *origins: str) -> None:
        """These sites have none: hints of them need not wait."""
        columns = ("origin", "rules", "allow", "fetched_time", "checked_time", "status", "task")
        rows = [(origin, "", "all", 0, NOW, 404, 0) for origin in origins]
        self.database.now(lambda txn: txn.insert("robots", columns, rows))

    def counters(self) -> dict[str, int]:
        return dict(self.database.query("SELECT name, value FROM schedulerfence"))


def robots_known_as(tasks: Tasks, text: str, allow: str, status: int, now: int = NOW) -> None:
    """What became of the robots.txt of the first site."""
    [(task,)] = tasks.database.query("SELECT MIN(task) FROM robots")
    run = tasks.counters()["run"]

    def work(txn: Any) -> None:
        write = TaskWrite(txn, run, now, 1000)
        robots_known(write, TaskRules(), task, text, allow, status)
        write.save()

    tasks.database.now(work)
