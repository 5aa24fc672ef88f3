"""Endings of jobs: their effects, what becomes of the job, when its task is due next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import attrs

from lcc.interfaces import IItemStore, ITaskRules
from lcc.model.polled import PolledContent
from lcc.model.tasks import (
    MESSAGE_CHARS_MAX,
    NOBODY,
    Asking,
    DueJob,
    Effects,
    Job,
    JobResult,
    JobState,
    LogRow,
    Recorded,
    Task,
    TaskState,
)
from lcc.storage.database.tables.key_ranges import provider_of
from lcc.storage.tasks.jobs.effects import apply_effects
from lcc.storage.tasks.polling.polls import after_poll, not_skipped
from lcc.storage.tasks.rows import JOBS, TASKS, is_open, is_polled, job_of, task_of
from lcc.storage.tasks.write import TaskWrite

OUTPUT_LEVEL = "output"
"""In a log: the end of what a worker has written."""
END_LEVEL = "end"
"""In a log: how an attempt has ended."""
_FAILED = (JobState.TEMPORARY, JobState.PERMANENT, JobState.LOST)
_COUNTED = {
    JobState.COMPLETED: "completed",
    JobState.TEMPORARY: "temporary",
    JobState.PERMANENT: "permanent",
    JobState.LOST: "lost",
}


class Ended(NamedTuple):
    """What came of a batch of endings.

    :ivar recorded: one for each, in order.
    :ivar made: follow-ups.
    """

    recorded: list[Recorded]
    made: list[DueJob]


def record_endings(write: TaskWrite, rules: ITaskRules, items: IItemStore, results: Sequence[JobResult]) -> Ended:
    """Record how attempts have ended, or what they commit.

    :raises ValueError: one of them has effects that cannot be.
    """
    ended = Ended([], [])
    for result in results:
        row = _running(write, result.id, result.attempt)
        others = row is not None and result.manager not in ("", row.job.manager)
        if row is None or others or (result.commit and result.commit <= row.job.commits):
            ended.recorded.append(Recorded(result.id, result.attempt, True, not result.commit))
            continue
        result = _as_killed(result, row.killed)
        if result.state in (JobState.RUNNING, JobState.COMPLETED):
            page = row.given.key if row.given else ""
            made = apply_effects(write, rules, row.job, row.scope, row.asking, result.effects, items, page)
            ended.made.extend(made)
        _log(write, result)
        if result.commit:
            write.txn.execute(
                "UPDATE jobs SET commits = ?, updated_time = ? WHERE id = ?", [result.commit, write.now, result.id]
            )
        else:
            end_attempt(write, rules, row.job, result)
        ended.recorded.append(Recorded(result.id, result.attempt, False, not result.commit))
    return ended


def lose_attempts(
    write: TaskWrite, rules: ITaskRules, lost: Sequence[tuple[int, int]], why: str
) -> list[tuple[int, int]]:
    """These attempts (job and attempt) are lost: their managers are not heard any longer.

    :returns: those that were still running.
    """
    found = []
    for number, attempt in lost:
        row = _running(write, number, attempt)
        if row is not None:
            seconds = float(max(0, write.now - (row.job.started_time or write.now)))
            result = JobResult(number, attempt, JobState.LOST, message=why, seconds=seconds)
            result = _as_killed(result, row.killed)
            _log(write, result)
            end_attempt(write, rules, row.job, result)
            found.append((number, attempt))
    return found


def _as_killed(result: JobResult, killed: str) -> JobResult:
    """What was to end is not tried again, however it has ended.

    :param killed: why it was; empty: it was not.
    """
    if not killed or result.state not in (JobState.TEMPORARY, JobState.LOST):
        return result
    message = f"{killed}; {result.message}"[:MESSAGE_CHARS_MAX]
    return attrs.evolve(result, state=JobState.PERMANENT, message=message)


def end_attempt(write: TaskWrite, rules: ITaskRules, job: Job, result: JobResult) -> None:
    """An attempt is over: the job is tried again, or has ended."""
    row = write.txn.one(f"{TASKS.select} WHERE id = ?", [job.task]) if job.task else None
    task = None if row is None else task_of(row)
    if task is not None and result.state is JobState.COMPLETED and is_polled(job.spec):
        task = _after_poll(write, rules, task, job)
    following = None if task is None else _next_due(write, rules, task, job)
    retry = None
    if result.state in (JobState.TEMPORARY, JobState.LOST) and (task is None or task.state is TaskState.ACTIVE):
        before = None if task is None else following
        retry = rules.retry_due(job.id, job.attempt, write.now, before, result.retry_after_seconds)
    _save_job(write, job, result, retry)
    kind = job.spec.kind
    write.count(kind, seconds=result.seconds, cpu_seconds=result.cpu_seconds)
    if retry is not None:
        write.count(kind, retried=1)
        if task is not None:
            write.txn.execute("UPDATE tasks SET message = ? WHERE id = ?", [result.message, task.id])
        return
    write.opened(-1)
    write.count(kind, **{_COUNTED[result.state]: 1})
    if task is not None:
        _save_task(write, task, job, result, following)
        if result.state in (JobState.TEMPORARY, JobState.LOST):
            read_again(write, job)


def read_again(write: TaskWrite, job: Job) -> None:
    """What a job of a poll should have read, and has not, is read when the next poll is due, changed or not."""
    if is_polled(job.spec):
        write.txn.execute("UPDATE tasks SET seen = 0 WHERE id = ?", [job.task])


def _after_poll(write: TaskWrite, rules: ITaskRules, task: Task, job: Job) -> Task:
    """The task, after a worker has read what a poll has found."""
    sql = "SELECT polls, items, input FROM tasks, jobs WHERE tasks.id = ? AND jobs.id = ?"
    history, items, given = write.txn.query(sql, [task.id, job.id])[0]
    max_age = PolledContent.from_json(given).max_age if given else 0
    history, after = after_poll(write.txn, rules, task, history, items > 0, task.when.every_seconds, max_age)
    write.txn.execute(
        "UPDATE tasks SET polls = ?, every_seconds = ? WHERE id = ?", [history, after.when.every_seconds, task.id]
    )
    return after


def _next_due(write: TaskWrite, rules: ITaskRules, task: Task, job: Job) -> int | None:
    if task.state is not TaskState.ACTIVE:
        return None
    started = task.started_time if task.started_time is not None else write.now
    try:
        due = rules.next_due(task.when, task.id, started, job.scheduled_time, task.last_state is None)
        return not_skipped(write.txn, rules, task, due) if is_polled(job.spec) else due
    except ValueError:
        return None  # beyond the last year of the calendar


def _save_job(write: TaskWrite, job: Job, result: JobResult, retry: int | None) -> None:
    going_on = is_open(result.state, retry)
    values: dict[str, Any] = {
        "state": result.state.value,
        "due_time": retry,
        "ended_time": None if going_on else write.now,
        "updated_time": write.now,
        "message": result.message,
        "exit_code": result.exit_code,
        "ended_signal": result.signal,
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
        "memory_bytes": result.memory_bytes,
    }
    if not going_on:
        values["opentask"] = None
    assignments = ", ".join(f"{name} = ?" for name in values)
    write.txn.execute(f"UPDATE jobs SET {assignments} WHERE id = ?", [*values.values(), job.id])


def _save_task(write: TaskWrite, task: Task, job: Job, result: JobResult, following: int | None) -> None:
    failed = result.state in _FAILED
    since = (task.since_time if task.since_time is not None else write.now) if failed else None
    write.txn.execute(
        "UPDATE tasks SET due_time = ?, ended_time = ?, last_state = ?, since_time = ?, failures = ?, message = ?"
        " WHERE id = ?",
        [
            *(following, write.now, result.state.value, since),
            *(task.failures + 1 if failed else 0, result.message, task.id),
        ],
    )


class _Row(NamedTuple):
    job: Job
    scope: str
    asking: Asking
    given: PolledContent | None
    killed: str


def _running(write: TaskWrite, number: int, attempt: int) -> _Row | None:
    """The job, if this attempt is the one that runs."""
    sql = f"SELECT {', '.join(JOBS.columns)}, scope, connorder, input, killed FROM jobs WHERE id = ?"
    row = write.txn.one(sql, [number])
    if row is None:
        return None
    job = job_of(row)
    if job.state is not JobState.RUNNING or job.attempt != attempt:
        return None
    scope, order, text, killed = row[len(JOBS.columns) :]
    given = PolledContent.from_json(text) if text else None
    # The number was drawn for the provider of the document (lcc.storage.tasks.polling.polls).
    asking = Asking(provider_of(bytes.fromhex(given.key)), order) if given and order else NOBODY
    return _Row(job, scope, asking, given, killed)


def _log(write: TaskWrite, result: JobResult) -> None:
    for row in result.effects.logs:
        write.log(result.id, result.attempt, row)
    if result.output:
        write.log(result.id, result.attempt, LogRow(write.now, OUTPUT_LEVEL, result.output))
    if not result.commit:
        text = f"{result.state.value}: {result.message}" if result.message else result.state.value
        write.log(result.id, result.attempt, LogRow(write.now, END_LEVEL, text))


def refused(result: JobResult, why: str, with_logs: bool) -> JobResult:
    """The result of a job whose effects are refused: a permanent error of its own.

    :param with_logs: what it has logged, and its output, are kept.
    """
    logs = result.effects.logs if with_logs else ()
    output = result.output if with_logs else ""
    message = why[:MESSAGE_CHARS_MAX]
    effects = Effects(logs=logs)
    return attrs.evolve(result, state=JobState.PERMANENT, commit=0, message=message, output=output, effects=effects)


def end_waiting(write: TaskWrite, number: int, attempt: int, why: str) -> None:
    """An open job goes on no longer.  Its task is left as it is, but for what a poll has found and nobody has read:
    that is read when it is polled again."""
    write.txn.execute(
        "UPDATE tasks SET seen = 0 WHERE polled = 1 AND id = (SELECT task FROM jobs WHERE id = ?)", [number]
    )
    write.txn.execute(
        "UPDATE jobs SET state = ?, due_time = NULL, opentask = NULL, ended_time = ?, updated_time = ?, message = ?"
        " WHERE id = ?",
        [JobState.PERMANENT.value, write.now, write.now, why, number],
    )
    write.log(number, attempt, LogRow(write.now, END_LEVEL, why))
    write.opened(-1)


def set_job_aside(write: TaskWrite, number: int, why: str) -> None:
    """An open job that cannot be handled in any other way ends; its task is suspended."""
    why = why[:MESSAGE_CHARS_MAX]
    row = write.txn.one("SELECT task, attempt FROM jobs WHERE id = ? AND ended_time IS NULL", [number])
    if row is not None:
        end_waiting(write, number, row[1], why)
        suspend_task(write, row[0], why)


def suspend_task(write: TaskWrite, number: int, why: str) -> None:
    """A task is not carried out any longer, until a person resumes it."""
    sql = "UPDATE tasks SET state = ?, due_time = NULL, look_time = NULL, message = ? WHERE id = ?"
    write.txn.execute(sql, [TaskState.SUSPENDED.value, why[:MESSAGE_CHARS_MAX], number])
