"""Feeds as commands and the monitor show them: records; what one waits for, and what became of its last poll."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lcc.domain.wording import duration, number, utc
from lcc.insight.hub_words import say_hubs
from lcc.insight.why_words import say
from lcc.model.feed_options import FeedOptions, read_feed_args
from lcc.model.tasks import Job, JobState, Task, TaskState
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.item_views import StoredFeed, count_items, feeds_of
from lcc.storage.tasks.views import job_log, jobs_page

_LATEST = 2**62
_LOG_ROWS = 50


def feed_record(task: Task, feed: StoredFeed | None) -> dict[str, Any]:
    """What there is to know of a feed, for JSON."""
    try:
        url, options = read_feed_args(task.spec.args)
    except ValueError:
        url, options = " ".join(task.spec.args), FeedOptions()
    info = json.loads(feed.record) if feed else {}
    return {
        "id": task.id,
        "url": url,
        "title": info.get("title", ""),
        "kind": info.get("kind", ""),
        "state": task.state.value,
        "every_seconds": task.when.every_seconds,
        "auto": task.auto,
        "least_seconds": task.least_seconds,
        "most_seconds": task.most_seconds,
        "plugin": options.plugin,
        "full_content": options.full_content,
        "links": options.links,
        "listed": options.listed,
        "allow_private": options.allow_private,
        "options": dict(options.own),
        "created_time": task.created_time,
        "due_time": task.due_time,
        "started_time": task.started_time,
        "ended_time": task.ended_time,
        "last_state": None if task.last_state is None else task.last_state.value,
        "failures": task.failures,
        "since_time": task.since_time,
        "message": task.message,
        "moved_from": task.moved_from,
        "read_time": feed.read_time if feed else None,
        "changed_time": (feed.changed_time or None) if feed else None,
        "identity": feed.policy if feed else "",
    }


def feed_facts(txn: Txn, task: Task) -> dict[str, Any]:
    """What a feed waits for, and what became of its last poll; ``page``, what the cache says of its document
    (:func:`lcc.insight.why.explain`), is for the caller to add."""
    jobs = jobs_page(txn, _LATEST, task.id, (), "", 1)
    feed = feeds_of(txn, [task.id]).get(task.id)
    url = task.spec.args[0] if task.spec.args else ""
    items, item_bytes = count_items(txn, task.id)
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
        "moved_from": task.moved_from,
        **_read(feed),
        "items": items,
        "item_bytes": item_bytes,
        "job": _job(txn, jobs[0]) if jobs else None,
    }


def _read(feed: StoredFeed | None) -> dict[str, Any]:
    if feed is None:
        return {"read_time": None, "changed_time": None}
    return {"read_time": feed.read_time, "changed_time": feed.changed_time or None}


def _job(txn: Txn, job: Job) -> dict[str, Any]:
    log = job_log(txn, job.id, _LOG_ROWS)
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
    for line in say_hubs(record.get("hubs", ()), now):
        yield f"  {line}"
    yield "its document:"
    for line in say(record["page"]):
        yield f"  {line}"


def _task(record: dict[str, Any], now: int) -> Iterator[str]:
    if record["moved_from"]:
        yield f"moved for good, from {record['moved_from']}"
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
        yield f"failed {_times(record['failures'])}{since}: {record['message']}"
    elif record["message"] and record["state"] == TaskState.ACTIVE.value and not _is_of_job(record):
        yield record["message"]
    if record["read_time"]:
        changed = record["changed_time"]
        news = f"{duration(now - changed)} ago" if changed else "never"
        items = f"{number(record['items'], 'item')} of {number(record['item_bytes'], 'byte')}"
        yield f"read {duration(now - record['read_time'])} ago; new or changed items: {news}; kept: {items}"


def _is_of_job(record: dict[str, Any]) -> bool:
    """The message is that of its last job, which is told with that."""
    return record["job"] is not None and record["job"]["message"] == record["message"]


def _times(failures: int) -> str:
    return "once" if failures == 1 else f"{failures} times in a row"


def _last_job(job: dict[str, Any], now: int) -> Iterator[str]:
    where = f" on {job['host']}" if job["host"] else ""
    yield f"last job {job['id']}: {job['state']}{where}, attempt {job['attempt']}"
    if job["message"]:
        yield f"  {job['message']}"
    if job["state"] != JobState.COMPLETED.value and job["due_time"]:
        yield f"  tried again in {duration(job['due_time'] - now)}"
    for row in job["log"]:
        yield f"  {utc(row['time'])} {row['level']}: {row['text'][:500]}"
