"""Rows of ``tasks`` and ``jobs`` as values, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from lcc.model.feed_options import wants_texts
from lcc.model.tasks import POLLED_KINDS, Job, JobSpec, JobState, Task, TaskState, When
from lcc.storage.database.table import Table

SPEC = ("kind", "command", "args", "resource", "hosts", "data")
_TASK_SELF = (
    *("every_seconds", "at_time", "cron", "timezone", "state", "auto", "least_seconds", "most_seconds"),
    *("created_time", "due_time", "started_time", "ended_time", "last_state", "since_time", "failures", "message"),
    "moved_from",
)
TASKS = Table("tasks", ["id"], ("id", *SPEC, *_TASK_SELF))
"""The columns of :class:`lcc.model.tasks.Task`; there are more, for polled kinds
(:mod:`lcc.storage.tasks.polling.polls`)."""

_JOB_SELF = (
    *("task", "parent", "jobkey", "state", "attempt", "commits", "scheduled_time", "due_time", "started_time"),
    *("ended_time", "updated_time", "manager", "host", "process", "message", "exit_code", "ended_signal", "seconds"),
)
JOBS = Table("jobs", ["id"], ("id", *SPEC, *_JOB_SELF))
"""The columns of :class:`lcc.model.tasks.Job`."""
_JOB_REST = ("opentask", "scope", "dedup", "input", "connorder", "cpu_seconds", "memory_bytes", "items", "killed")
JOB_COLUMNS = (*JOBS.columns, *_JOB_REST)

DEDUP_BYTES = 16


def write_list(texts: Iterable[str]) -> str:
    """Texts as a column holds them: JSON."""
    return json.dumps(list(texts), separators=(",", ":"), ensure_ascii=False)


def _spec(values: tuple[Any, ...]) -> JobSpec:
    kind, command, args, resource, hosts, data = values
    return JobSpec(kind, command, tuple(json.loads(args)), resource, tuple(json.loads(hosts)), data)


def spec_values(spec: JobSpec) -> tuple[str, ...]:
    """The columns :data:`SPEC`."""
    return spec.kind, spec.command, write_list(spec.args), spec.resource, write_list(spec.on), spec.data


def task_of(row: tuple[Any, ...]) -> Task:
    """The task of a row of :data:`TASKS`."""
    # By position, as this is done twice for each poll: the columns are those of _TASK_SELF.
    own = row[1 + len(SPEC) :]
    every, at, cron, timezone, state, auto, least, most, created, due, started, ended, last = own[:-4]
    since, failures, message, moved_from = own[-4:]
    return Task(
        row[0],
        _spec(row[1 : 1 + len(SPEC)]),
        When(every, at, cron, timezone),
        TaskState(state),
        bool(auto),
        *(least, most, created, due, started, ended, JobState(last) if last else None),
        *(since, failures, message, moved_from or ""),
    )


def task_values(task: Task) -> tuple[Any, ...]:
    """The row of a task, as :data:`TASKS` has it."""
    when = task.when
    return (
        task.id,
        *spec_values(task.spec),
        *(when.every_seconds, when.at, when.cron, when.timezone),
        *(task.state.value, int(task.auto), task.least_seconds, task.most_seconds, task.created_time),
        *(task.due_time, task.started_time, task.ended_time, task.last_state.value if task.last_state else ""),
        *(task.since_time, task.failures, task.message, task.moved_from),
    )


def job_of(row: tuple[Any, ...]) -> Job:
    """The job of a row that begins with the columns of :data:`JOBS`."""
    self = row[1 + len(SPEC) : len(JOBS.columns)]
    task, parent, key, state, *others = self
    return Job(row[0], _spec(row[1 : 1 + len(SPEC)]), task, parent, key, JobState(state), *others)


def new_job_values(job: Job, scope: str, dedup: bytes | None, job_input: str, order: int) -> tuple[Any, ...]:
    """The row (:data:`JOB_COLUMNS`) of a new, pending job."""
    return (
        job.id,
        *spec_values(job.spec),
        *(job.task, job.parent, job.key, job.state.value, 0, 0, job.scheduled_time, job.due_time, None),
        *(None, job.updated_time, "", "", 0, job.message, None, 0, 0.0),
        *(job.task or None, scope, dedup, job_input, order, 0.0, 0, 0, ""),
    )


def dedup_of(scope: str, key: str) -> bytes:
    """What makes a follow-up the same as an earlier one."""
    return blake2b(f"{scope}\n{key}".encode(), digest_size=DEDUP_BYTES).digest()


def content_key(spec: JobSpec, after_seconds: int, at_time: int | None) -> str:
    """The key of a follow-up that names none: what it consists of."""
    return json.dumps([spec_values(spec), after_seconds, at_time], ensure_ascii=False)


def is_open(state: JobState, due_time: int | None) -> bool:
    """Whether a job in this state goes on."""
    return state in (JobState.PENDING, JobState.RUNNING) or due_time is not None


def derived_values(spec: JobSpec) -> dict[str, int]:
    """Columns of a task that follow from what it does."""
    return {"polled": int(is_polled(spec)), "texts": int(wants_texts(spec))}


def is_polled(spec: JobSpec) -> bool:
    """Whether the scheduler polls its URL through the queue."""
    return spec.kind in POLLED_KINDS and not spec.command
