"""Tasks that are due become jobs; jobs that are due are given to managers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lcc.model.tasks import Assigned, DueJob, Job, JobSpec, JobState, RunningJob, StartedJob
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.rows import JOB_COLUMNS, JOBS, SPEC, job_of, new_job_values
from lcc.storage.tasks.write import TaskWrite

_DUE = ("id", "due_time", "attempt", "kind", "command", "resource", "hosts")
SELECT_DUE = f"SELECT {', '.join(_DUE)} FROM jobs"
_RUNNING = "SELECT id, attempt, kind, resource, manager, run, started_time, killed FROM jobs WHERE state = ?"


def due_job(row: tuple[Any, ...]) -> DueJob:
    """The job of a row of these columns."""
    *others, hosts = row
    return DueJob._make((*others, tuple(json.loads(hosts))))


def insert_job(
    write: TaskWrite, job: Job, scope: str, dedup: bytes | None = None, job_input: str = "", order: int = 0
) -> DueJob:
    """A new, pending job.

    :param scope: within which the keys of its follow-ups are unique; empty: itself.
    :param order: order number of the asking that it is of.
    """
    write.txn.insert("jobs", JOB_COLUMNS, [new_job_values(job, scope or f"job/{job.id}", dedup, job_input, order)])
    write.opened(1)
    spec = job.spec
    assert job.due_time is not None
    return DueJob(job.id, job.due_time, 0, spec.kind, spec.command, spec.resource, spec.on)


def make_due_jobs(write: TaskWrite, tasks: Sequence[int]) -> list[DueJob]:
    """Each of these tasks gets its job, if it is due; as many of them as there is room for."""
    sql = f"SELECT due_time, id, {', '.join(SPEC)} FROM tasks WHERE id IN ({{in}}) AND polled = 0 AND due_time <= ?"
    made = []
    rows = sorted(write.txn.query_in(sql, tasks, (), [write.now]), key=lambda row: row[:2])
    for due, task, kind, command, args, resource, hosts, _data in rows[: write.room]:
        spec = JobSpec(kind, command, tuple(json.loads(args)), resource, tuple(json.loads(hosts)))
        job = Job(write.next("job"), spec, task, scheduled_time=due, due_time=write.now, updated_time=write.now)
        made.append(insert_job(write, job, f"task/{task}"))
        write.txn.execute("UPDATE tasks SET due_time = NULL WHERE id = ?", [task])
    return made


def running_jobs(txn: Txn) -> list[RunningJob]:
    """Those that managers had when the scheduler ended."""
    return [RunningJob(*row) for row in txn.query(_RUNNING, [JobState.RUNNING.value])]


def start_jobs(write: TaskWrite, chosen: Sequence[Assigned]) -> list[StartedJob]:
    """Begin the next attempt of these jobs.

    :returns: those that still wait, as they were chosen; what is not there was killed or changed meanwhile.
    """
    txn = write.txn
    wanted = {job.id: job for job, *_ in chosen}
    for job, manager, run, host in chosen:
        txn.execute(
            "UPDATE jobs SET state = ?, attempt = attempt + 1, commits = 0, due_time = NULL, started_time = ?,"
            " updated_time = ?, manager = ?, run = ?, host = ?, process = 0, exit_code = NULL, ended_signal = 0"
            " WHERE id = ? AND attempt = ? AND due_time IS NOT NULL",
            [JobState.RUNNING.value, write.now, write.now, manager, run, host, job.id, job.attempt],
        )
    sql = f"SELECT {', '.join(JOBS.columns)}, input FROM jobs WHERE id IN ({{in}}) AND state = 'running'"
    rows = [row for row in txn.query_in(sql, sorted(wanted)) if job_of(row).attempt == wanted[row[0]].attempt + 1]
    jobs = {row[0]: (job_of(row), row[-1]) for row in rows}
    tasks = sorted({job.task for job, _ in jobs.values()} - {0})
    txn.execute_in("UPDATE tasks SET started_time = ? WHERE id IN ({in})", tasks, [write.now])
    used = sorted({job.spec.resource for job, _ in jobs.values()} - {""})
    txn.execute_in("UPDATE resources SET started_time = ? WHERE name IN ({in})", used, [write.now])
    data = dict(txn.query_in("SELECT id, data FROM tasks WHERE id IN ({in})", tasks))
    return [
        StartedJob(job.id, job.attempt, job.task, job.spec, data.get(job.task, job.spec.data), given)
        for job, given in (jobs[each.id] for each, *_ in chosen if each.id in jobs)
    ]
