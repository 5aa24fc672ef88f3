"""The wall clock was set back: what lies ahead of it is pulled in, so that nothing waits for a moment that the wrong
clock has given it.

Nothing waits longer from then on than its rule has it wait at most: a task for its period, or the next time of day; a
job for the time that it had to wait when that began; a resource for its interval.  Nor does anything come earlier by
that: what is pulled in waits for all of it, from now.  All of this may be done at any time, and again: where no clock
was set, it changes nothing.
"""

from __future__ import annotations

from lcc.interfaces import ITaskRules
from lcc.model.tasks import REPEATED_SECONDS, JobState
from lcc.storage.tasks.polling.polls import not_skipped
from lcc.storage.tasks.rows import TASKS, is_polled, task_of
from lcc.storage.tasks.write import COUNTED, DAY_SECONDS, TaskWrite

PAGE_ROWS = 500
_PAST = (
    *(("tasks", each) for each in ("created_time", "ended_time", "since_time", "asked_time", "look_time")),
    *(("jobs", "ended_time"), ("resources", "started_time"), ("taskorders", "done_time"), ("heldnotices", "time")),
    *(("feeds", "read_time"), ("feeds", "changed_time"), ("sitemaps", "gone_time"), ("robots", "named_time")),
)
"""Columns of what has happened: it has happened now, at the latest."""


def bound_waits(write: TaskWrite, rules: ITaskRules, after: int) -> int | None:
    """Pull in what waits for too long: everything but tasks first, then tasks, a page of them at a time.

    :param after: id of the last task that was looked at; 0: none was.
    :returns: the next such; None: that was all.
    """
    if not after:
        _bound_past(write)
        _bound_jobs(write)
        _bound_days(write)
    sql = f"{TASKS.select} WHERE id > ? AND due_time > ? + every_seconds ORDER BY id LIMIT ?"
    tasks = [task_of(row) for row in write.txn.query(sql, [after, write.now, PAGE_ROWS])]
    for task in tasks:
        try:
            due = rules.due_by(task.when, task.id, task.started_time, write.now)
        except ValueError:
            continue  # beyond the last year of the calendar
        due = not_skipped(write.txn, rules, task, due) if is_polled(task.spec) else due
        if task.due_time is not None and due < task.due_time:
            write.txn.execute("UPDATE tasks SET due_time = ? WHERE id = ?", [due, task.id])
    return tasks[-1].id if len(tasks) == PAGE_ROWS else None


def _bound_past(write: TaskWrite) -> None:
    for table, column in _PAST:
        write.txn.execute(f"UPDATE {table} SET {column} = ? WHERE {column} > ?", [write.now, write.now])
    # What was done at a time of day is not repeated where the clock is set back by a little.
    values = [write.now, write.now, write.now + REPEATED_SECONDS]
    sql = "UPDATE tasks SET started_time = ? WHERE started_time > ? AND (every_seconds > 0 OR started_time > ?)"
    write.txn.execute(sql, values)


def _bound_jobs(write: TaskWrite) -> None:
    """Jobs that wait wait as long as they had to when that began: when they were made, or had failed."""
    now = write.now
    sql = (
        "UPDATE jobs SET due_time = due_time - updated_time + ?, updated_time = ?"
        " WHERE due_time > ? AND updated_time > ?"
    )
    write.txn.execute(sql, [now, now, now, now])
    sql = "UPDATE jobs SET started_time = ? WHERE state = ? AND started_time > ?"
    write.txn.execute(sql, [now, JobState.RUNNING.value, now])


def _bound_days(write: TaskWrite) -> None:
    """What was counted for days that have not come counts for today."""
    today = [write.now // DAY_SECONDS]
    sql = f"SELECT kind, {', '.join(COUNTED)} FROM jobsdone WHERE day > ?"
    for kind, *counts in write.txn.query(sql, today):
        write.count(kind, **dict(zip(COUNTED, counts, strict=True)))
    write.txn.execute("DELETE FROM jobsdone WHERE day > ?", today)
