"""What a feed waits for, and what became of its last poll: the record, and its words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lcc.admin.context import Admin
from lcc.domain.wording import duration, utc
from lcc.insight.why import explain
from lcc.insight.why_words import say
from lcc.model.tasks import Job, JobState, Task, TaskState
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.item_views import StoredFeed, count_items, feeds_of
from lcc.storage.tasks.views import job_log, jobs_page

_LATEST = 2**62
_LOG_ROWS = 50


def why_record(admin: Admin, tasks: BlockingDatabase, database: BlockingDatabase, task: Task) -> dict[str, Any]:
    """All that is known of a feed."""
    jobs = tasks.interact(jobs_page, _LATEST, task.id, (), "", 1)
    feed = tasks.interact(feeds_of, [task.id]).get(task.id)
    url = task.spec.args[0] if task.spec.args else ""
    return {
        "id": task.id,
        "url": url,
        "state": task.state.value,
        "every_seconds": task.when.every_seconds,
        "auto": task.auto,
        "due_time": task.due_time,
        "failures": task.failures,
        "since_time": task.since_time,
        "message": task.message,
        **_read(feed),
        "items": tasks.interact(count_items, task.id),
        "job": _job(tasks, jobs[0]) if jobs else None,
        "page": database.interact(explain, admin.config, admin.now(), url),
    }


def _read(feed: StoredFeed | None) -> dict[str, Any]:
    if feed is None:
        return {"read_time": None, "changed_time": None}
    return {"read_time": feed.read_time, "changed_time": feed.changed_time or None}


def _job(tasks: BlockingDatabase, job: Job) -> dict[str, Any]:
    log = tasks.interact(job_log, job.id, _LOG_ROWS)
    return {
        "id": job.id,
        "state": job.state.value,
        "attempt": job.attempt,
        "host": job.host,
        "started_time": job.started_time,
        "ended_time": job.ended_time,
        "due_time": job.due_time,
        "message": job.message,
        "log": [{"time": each.row.time, "level": each.row.level, "text": each.row.text} for each in log],
    }


def say_why(record: dict[str, Any], now: int) -> Iterator[str]:
    """The same for people; details are indented."""
    yield f"feed {record['id']}: {record['url']}"
    for line in _task(record, now):
        yield f"  {line}"
    job = record["job"]
    if job is None:
        yield "  no worker has read it yet"
    else:
        for line in _last_job(job, now):
            yield f"  {line}"
    yield "its document:"
    for line in say(record["page"]):
        yield f"  {line}"


def _task(record: dict[str, Any], now: int) -> Iterator[str]:
    period = f"every {duration(record['every_seconds'])}"
    yield f"polled {period}{', which follows from what polls find' if record['auto'] else ''}"
    if record["state"] == TaskState.SUSPENDED.value:
        yield f"suspended{': ' + record['message'] if record['message'] else ''}"
    elif record["due_time"] is None:
        yield "being polled or read now"
    elif record["due_time"] <= now:
        yield f"due since {duration(now - record['due_time'])}: the scheduler polls it as soon as it runs"
    else:
        yield f"next poll in {duration(record['due_time'] - now)}"
    if record["failures"]:
        since = f" since {utc(record['since_time'])}" if record["since_time"] else ""
        yield f"failed {record['failures']} times in a row{since}: {record['message']}"
    if record["read_time"]:
        changed = record["changed_time"]
        news = f"{duration(now - changed)} ago" if changed else "never"
        yield f"read {duration(now - record['read_time'])} ago; new or changed items: {news}; {record['items']} items"


def _last_job(job: dict[str, Any], now: int) -> Iterator[str]:
    where = f" on {job['host']}" if job["host"] else ""
    yield f"last job {job['id']}: {job['state']}{where}, attempt {job['attempt']}"
    if job["message"]:
        yield f"  {job['message']}"
    if job["state"] != JobState.COMPLETED.value and job["due_time"]:
        yield f"  tried again in {duration(job['due_time'] - now)}"
    for row in job["log"]:
        yield f"  {utc(row['time'])} {row['level']}: {row['text'][:500]}"
