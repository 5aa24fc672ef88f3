"""What people see of tasks and jobs: only read, by commands and the monitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lcc.model.tasks import Job, LogRow, Resource, Task, TaskState
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.rows import JOBS, TASKS, job_of, task_of

PAGE_ROWS = 1000


class Statistics(NamedTuple):
    """What jobs of a kind did on a day (days since 1970, UTC).

    :ivar unchanged: polls that found nothing new.
    """

    day: int
    kind: str
    completed: int
    temporary: int
    permanent: int
    lost: int
    retried: int
    unchanged: int
    seconds: float
    cpu_seconds: float
    items: int


class JobLogRow(NamedTuple):
    """A row of a job's log; ``level`` may also be ``output`` and ``end``."""

    attempt: int
    row: LogRow


def get_task(txn: Txn, number: int) -> Task | None:
    """The task of this id."""
    row = txn.one(f"{TASKS.select} WHERE id = ?", [number])
    return None if row is None else task_of(row)


def tasks_page(
    txn: Txn, after: int = 0, kind: str = "", limit: int = PAGE_ROWS, state: TaskState | None = None
) -> list[Task]:
    """Tasks with greater ids, in order.

    :param kind: only of this one; empty: of all.
    :param state: only in this one; None: in any.
    """
    conditions: list[str] = ["id > ?"]
    given: list[object] = [after]
    if kind:
        conditions.append("kind = ?")
        given.append(kind)
    if state is not None:
        conditions.append("state = ?")
        given.append(state.value)
    sql = f"{TASKS.select} WHERE {' AND '.join(conditions)} ORDER BY id LIMIT ?"
    return [task_of(row) for row in txn.query(sql, [*given, limit])]


def failing_tasks(txn: Txn, after: tuple[int, int] = (0, 0), limit: int = PAGE_ROWS) -> list[Task]:
    """Tasks whose last job failed, those first that fail for longest.

    :param after: since when the one before fails, and its id.
    """
    since, number = after
    select = f"{TASKS.select} WHERE since_time"
    rows = txn.query(f"{select} = ? AND id > ? ORDER BY id LIMIT ?", [since, number, limit])
    if len(rows) < limit:
        rows += txn.query(f"{select} > ? ORDER BY since_time, id LIMIT ?", [since, limit - len(rows)])
    return [task_of(row) for row in rows]


def get_job(txn: Txn, number: int) -> Job | None:
    """The job of this id."""
    row = txn.one(f"{JOBS.select} WHERE id = ?", [number])
    return None if row is None else job_of(row)


def jobs_page(
    txn: Txn, before: int, task: int = 0, states: Sequence[str] = (), kind: str = "", limit: int = PAGE_ROWS
) -> list[Job]:
    """Jobs with lower ids, the newest first.

    :param task: only of this one; 0: of all, and of none.
    :param states: only in one of these; empty: in any.
    """
    conditions, values = ["id < ?"], [before]
    given: list[object] = [*values]
    if task:
        conditions.append("task = ?")
        given.append(task)
    if states:
        conditions.append(f"state IN ({', '.join('?' * len(states))})")
        given += states
    if kind:
        conditions.append("kind = ?")
        given.append(kind)
    sql = f"{JOBS.select} WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?"
    return [job_of(row) for row in txn.query(sql, [*given, limit])]


def ended_jobs(
    txn: Txn, ended: tuple[int, int], before: tuple[int, int], states: Sequence[str], kind: str, limit: int
) -> list[Job]:
    """Jobs that ended in a time, those last.

    :param ended: the first second of that time, and the first one after it.
    :param before: when the job before the first one ended, and its id.
    :param states: only in one of these; empty: in any.
    :param kind: only of this one; empty: of all.
    """
    conditions = ["ended_time >= ?", "ended_time < ?", "ended_time <= ?", "(ended_time < ? OR id < ?)"]
    given: list[object] = [*ended, before[0], *before]
    if states:
        conditions.append(f"state IN ({', '.join('?' * len(states))})")
        given += states
    if kind:
        conditions.append("kind = ?")
        given.append(kind)
    sql = (
        f"{JOBS.select} {txn.by_index('jobs_ended')} WHERE {' AND '.join(conditions)}"
        " ORDER BY ended_time DESC, id DESC LIMIT ?"
    )
    return [job_of(row) for row in txn.query(sql, [*given, limit])]


def waiting_jobs(txn: Txn, after: tuple[int, int], limit: int = PAGE_ROWS) -> list[Job]:
    """Jobs that wait to be started, or to be tried again, those due first.

    :param after: due time and id of the one before the first.
    """
    due, number = after
    sql = f"{JOBS.select} WHERE due_time >= ? AND (due_time > ? OR id > ?) ORDER BY due_time, id LIMIT ?"
    return [job_of(row) for row in txn.query(sql, [due, due, number, limit])]


def job_log(txn: Txn, number: int, limit: int = PAGE_ROWS) -> list[JobLogRow]:
    """The log of a job, in order."""
    sql = "SELECT attempt, time, level, text FROM joblogs WHERE job = ? ORDER BY number LIMIT ?"
    return [JobLogRow(row[0], LogRow(*row[1:])) for row in txn.query(sql, [number, limit])]


def resources(txn: Txn) -> list[Resource]:
    """All that have an interval."""
    sql = "SELECT name, interval_seconds, started_time FROM resources ORDER BY name"
    return [Resource(*row) for row in txn.query(sql)]


def statistics(txn: Txn, since_day: int) -> list[Statistics]:
    """Each day's and kind's, from this day on."""
    sql = f"SELECT {', '.join(Statistics._fields)} FROM jobsdone WHERE day >= ? ORDER BY day, kind"
    return [Statistics(*row) for row in txn.query(sql, [since_day])]
