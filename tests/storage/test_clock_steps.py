"""What waits when the wall clock of the scheduler's host is set back, in its tables, on each backend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lcc.model.tasks import JobSpec, JobState, Task, When
from lcc.storage.tasks import clock_steps
from tests.support.databases import result_of
from tests.support.tasks import NOW, Tasks, task_database

DAY, YEAR = 86400, 365 * 86400


@pytest.fixture
def tasks(backend: Any) -> Iterator[Tasks]:
    database = task_database(backend)
    yield Tasks(database)
    database.blocking.close()


def bound(tasks: Tasks, now: int) -> int:
    """Bound what waits; how many pages that took."""
    pages, after = 1, result_of(tasks.store.bound_waits(0, now))
    while after is not None:
        pages, after = pages + 1, result_of(tasks.store.bound_waits(after, now))
    return pages


def wait(task: Task) -> int:
    assert task.due_time is not None
    return task.due_time - NOW


def test_tasks_and_jobs_are_pulled_in(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_steps, "PAGE_ROWS", 2)
    ahead = NOW + YEAR
    numbers = [tasks.add(ahead, every=3600) for _ in range(5)]
    daily = tasks.add(ahead, when=When(at="06:30"))
    right = tasks.add(NOW, when=When(at="06:30"))
    *ended, failed, waiting = tasks.make(ahead)
    for job in tasks.start(*ended, now=ahead):
        tasks.end(job, now=ahead)
    [running] = tasks.start(failed, now=ahead)
    tasks.end(running, JobState.TEMPORARY, now=ahead)
    retry = (tasks.job(failed.id).due_time or 0) - ahead
    assert 60 < retry < 80 and len(tasks.due(ahead)) == 1
    assert bound(tasks, NOW) > 2
    waits = [wait(tasks.task(number)) for number in numbers[:3]]
    assert all(3600 <= each < 7200 for each in waits) and len(set(waits)) == 3, "spread"
    assert 0 < wait(tasks.task(daily)) <= DAY and tasks.task(daily).due_time == tasks.task(right).due_time
    assert tasks.job(failed.id).due_time == NOW + retry
    assert [job.id for job in tasks.due(NOW)] == [waiting.id], "what was due is due"
    assert tasks.task(numbers[0]).started_time == tasks.job(ended[0].id).ended_time == NOW
    before = tasks.database.now(lambda txn: txn.query("SELECT id, due_time FROM tasks ORDER BY id"))
    bound(tasks, NOW)
    bound(tasks, NOW - 1000)
    bound(tasks, NOW)
    after = tasks.database.now(lambda txn: txn.query("SELECT id, due_time FROM tasks ORDER BY id"))
    assert all(late is None or late <= early for (_, early), (_, late) in zip(before, after, strict=True))


def test_what_was_read_or_gone_is_no_later_than_now(tasks: Tasks) -> None:
    task, ahead = tasks.add(), NOW + DAY

    def spoil(txn: Any) -> None:
        txn.insert(
            "feeds", ("task", "policy", "record", "read_time", "changed_time"), [(task, "", "{}", ahead, ahead)]
        )
        txn.execute("INSERT INTO sitemaps VALUES (?, ?, 'urlset', 2, 1, 0, 0, 1, 9, 8, ?, 0)", [task, task, ahead])
        columns = ("origin", "rules", "allow", "fetched_time", "checked_time", "status", "task", "named_time")
        txn.insert("robots", columns, [("http://a.example", "", "all", 0, 0, 0, task, ahead)])

    tasks.database.now(spoil)
    bound(tasks, NOW)
    sql = "SELECT feeds.read_time, changed_time, gone_time, named_time FROM feeds, sitemaps, robots"
    assert tasks.database.now(lambda txn: txn.query(sql)) == [(NOW, NOW, NOW, NOW)]


def test_hours_that_a_feed_does_not_wish(tasks: Tasks) -> None:
    spec = JobSpec("feed", args=("http://a.example/feed",))
    task = tasks.add(every=3600, spec=spec, auto=True)
    hour = NOW // 3600 % 24
    skipped = [(hour + more) % 24 for more in range(1, 10)]
    record = json.dumps({"skip_hours": skipped})

    def spoil(txn: Any) -> None:
        columns = ("task", "policy", "record", "read_time", "changed_time")
        txn.insert("feeds", columns, [(task, "", record, 0, 0)])
        txn.execute("UPDATE tasks SET due_time = ? WHERE id = ?", [NOW + YEAR, task])

    tasks.database.now(spoil)
    bound(tasks, NOW)
    due = tasks.task(task).due_time or 0
    assert due - NOW < DAY and due // 3600 % 24 not in skipped
    bound(tasks, NOW)
    assert tasks.task(task).due_time == due


def test_statistics_of_days_to_come_count_for_today(tasks: Tasks) -> None:
    task = tasks.add(every=60)
    for now in (NOW, NOW + YEAR):
        tasks.database.now(lambda txn, now=now: txn.execute("UPDATE tasks SET due_time = ?", [now]))
        [due] = tasks.make(now)
        [job] = tasks.start(due, now=now)
        tasks.end(job, now=now, seconds=2.0)
    for _ in range(2):
        bound(tasks, NOW)
        found = tasks.database.now(lambda txn: txn.query("SELECT day, completed, seconds FROM jobsdone"))
        assert found == [(NOW // DAY, 2, 4.0)]
    assert tasks.task(task).started_time == NOW
