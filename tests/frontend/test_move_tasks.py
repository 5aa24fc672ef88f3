"""Tasks of feeds and sitemaps of providers that move, where each sub-LCC has a scheduler; on each database."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, formatEvent

from lcc.model.frontend.moves import MoveState
from lcc.model.tasks import Assigned, JobResult, JobSpec, JobState, Task, TaskState, When
from lcc.storage.fe import moves
from lcc.storage.tasks.orders import order_task
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, MakeFront, Sub, publish
from tests.support.databases import Backend, result_of

ITEMS = 450


@pytest.fixture
def front(make_front: MakeFront, backend: Backend) -> Front:
    made = make_front()
    for sub in made.subs:
        sub.add_scheduler(backend.url)
    return made


def run(front: Front, sub: Sub, sql: str, *values: Any) -> None:
    assert sub.tasks is not None
    sub.tasks.now(lambda txn: txn.execute(sql, list(values)))


def add_task(front: Front, sub: Sub, pid: int, kind: str, url: str, **more: Any) -> int:
    assert sub.tasks is not None
    task = Task(0, JobSpec(kind=kind, args=(url,)), When(every_seconds=3600), **more)
    number, _ = sub.tasks.now(order_task, task, NOW)
    sub.carry_out()
    key = pid.to_bytes(4, "big") + bytes([number]) * 12 + bytes(4)
    sql = (
        "UPDATE tasks SET pid = ?, urlkey = ?, started_time = ?, seen = 7, seen_digest = ?, polls = 'x' WHERE id = ?"
    )
    run(front, sub, sql, pid, key, NOW - 600, b"d" * 16, number)
    return number


def collect(front: Front, sub: Sub, pid: int) -> None:
    """A feed with items, a sitemap with a document, texts; robots.txt; and the feed of somebody else."""
    feed = add_task(front, sub, pid, "feed", "http://site.example/feed.xml")
    site = add_task(front, sub, pid, "sitemap", "http://site.example/index.xml")
    document = add_task(front, sub, pid, "sitemap", "http://site.example/map.xml", state=TaskState.SUSPENDED)
    add_task(front, sub, pid, "robots", "http://site.example/robots.txt")
    add_task(front, sub, pid + 50, "feed", "http://other.example/feed.xml")
    run(front, sub, "INSERT INTO feeds VALUES (?, 'id', '{}', 5, 6)", feed)
    for number in range(ITEMS):
        run(
            front,
            sub,
            "INSERT INTO feeditems (task, identity, change_number, digest, digest_before, flaps, link, published,"
            " found_time, changed_time, seen_time, size_bytes, record, pid)"
            " VALUES (?, ?, ?, ?, ?, 0, NULL, NULL, 1, 2, 3, 4, ?, ?)",
            *(feed, number.to_bytes(16, "big"), 1000 + number, b"\xff" * 16, b"", f'{{"n":{number}}}', pid),
        )
    for task in (site, document):
        run(front, sub, "INSERT INTO sitemaps VALUES (?, ?, 'urlset', 2, 0, 0, 0, ?, 9, 8, 0, 0)", task, site, pid)
        run(front, sub, "INSERT INTO sitemapurls VALUES (?, 3, ?, ?)", task, b"\x78\x9c\x00", b"")
    text = "INSERT INTO texts VALUES (?, 'md5', 'title', 'en', 'lxml', 0, 5, 'some text')"
    run(front, sub, text, pid.to_bytes(4, "big") + b"t" * 16)
    run(front, sub, text, (pid + 50).to_bytes(4, "big") + b"t" * 16)


def seen(sub: Sub, pid: int) -> list[Any]:
    """What a scheduler has of a provider, without ids."""
    tasks = "FROM tasks WHERE pid = ? AND kind <> 'robots'"
    of = f"IN (SELECT id {tasks})"
    return [
        sub.of_tasks(
            f"SELECT kind, args, state, every_seconds, started_time, urlkey, polls {tasks} ORDER BY id", pid
        ),
        sub.of_tasks(f"SELECT policy, record, read_time FROM feeds WHERE task {of}", pid),
        sub.of_tasks(
            f"SELECT identity, digest, record, pid FROM feeditems WHERE task {of} ORDER BY change_number", pid
        ),
        sub.of_tasks(
            "SELECT t.args, u.args, s.urls, s.pid, s.connorder FROM sitemaps s JOIN tasks t ON t.id = s.task"
            " JOIN tasks u ON u.id = s.site WHERE t.pid = ? ORDER BY t.id",
            pid,
        ),
        sub.of_tasks(f"SELECT bucket, listed, gone FROM sitemapurls WHERE task {of} ORDER BY task", pid),
        sub.of_tasks("SELECT text FROM texts WHERE urlkey >= ? AND urlkey < ?", *_range(pid)),
    ]


def _range(pid: int) -> tuple[bytes, bytes]:
    return pid.to_bytes(4, "big") + bytes(16), (pid + 1).to_bytes(4, "big") + bytes(16)


def test_tasks_do_not_wait_for_a_clock_of_the_source_that_was_ahead(front: Front) -> None:
    pid = publish(front)
    source, dest = front.subs
    feed = add_task(front, source, pid, "feed", "http://site.example/feed.xml")
    run(front, source, "UPDATE tasks SET started_time = ? WHERE id = ?", NOW + 86_400, feed)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    [[due]] = dest.of_tasks("SELECT due_time FROM tasks WHERE pid = ? AND kind = 'feed'", pid)
    assert due <= NOW + front.clock.seconds() + 3600


def test_tasks_go_along_with_what_their_workers_have_collected(front: Front, logged: list[LogEvent]) -> None:
    pid = publish(front)
    source, dest = front.subs
    add_task(front, dest, 150, "feed", "http://third.example/")  # ids here are others
    collect(front, source, pid)
    before = seen(source, pid)
    assert [len(each) for each in before] == [3, 1, ITEMS, 2, 2, 1]
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    front.go(2)
    assert seen(dest, pid) == before
    assert [len(each) for each in seen(source, pid)] == [0] * 6
    assert source.of_tasks("SELECT pid FROM tasks") == [(pid + 50,)]
    told = [formatEvent(event) for event in logged]
    assert [text for text in told if "tasks of provider" in text] == [f"3 tasks of provider {pid} move here"]
    assert source.of_tasks("SELECT COUNT(*) FROM texts") == [(1,)]
    due = dest.of_tasks("SELECT due_time, asked_time, seen, seen_digest FROM tasks WHERE pid = ? ORDER BY id", pid)
    assert due == [(NOW + 3000, None, 0, b"d" * 16)] * 2 + [(None, None, 0, b"d" * 16)]
    assert dest.of_tasks("SELECT COUNT(*) FROM taskorders WHERE answer LIKE '%error%'") == [(0,)]


@pytest.mark.parametrize("at", range(1, 36, 5))
def test_whoever_is_killed_adds_each_once(front: Front, at: int) -> None:
    pid = publish(front)
    collect(front, front.sub(1), pid)
    before = seen(front.sub(1), pid)
    front.order(pid, 2)
    for number, sub in enumerate(front.subs):
        sub.killed.at = (sub.killed.count + at) * (-1 if (at + number) % 2 else 1)
    front.go_until(MoveState.DONE)
    front.go(2)
    assert front.kills
    assert seen(front.sub(2), pid) == before


def test_a_job_that_runs_is_waited_for(front: Front) -> None:
    pid = publish(front)
    source = front.sub(1)
    feed = add_task(front, source, pid, "feed", "http://site.example/feed.xml")
    waiting = add_task(front, source, pid, "feed", "http://site.example/other.xml")
    scheduler = source.scheduler
    assert scheduler is not None
    now = NOW + 10
    run(front, source, "UPDATE tasks SET polled = 0, due_time = ? WHERE id IN (?, ?)", NOW, feed, waiting)
    due = result_of(scheduler.due_work(now, (0, 0), 100, 100, 100)).tasks
    jobs = result_of(Deferred.fromCoroutine(scheduler.make_due_jobs(due, now)))
    first = next(job for job in jobs if job.id)
    (started,) = result_of(Deferred.fromCoroutine(scheduler.start_jobs([Assigned(first, "m", "r", "h")], now)))
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.go(5)
    assert front.move().state is MoveState.FREEZING
    assert source.of_tasks("SELECT state FROM jobs ORDER BY id") == [("running",), ("permanent-error",)]
    done = JobResult(started.id, started.attempt, JobState.COMPLETED)
    result_of(Deferred.fromCoroutine(scheduler.record_endings([done], now + 20)))
    front.go_until(MoveState.DONE)
    front.go(1)
    assert front.sub(2).of_tasks("SELECT COUNT(*) FROM tasks WHERE pid = ?", pid) == [(2,)]


def test_tasks_of_a_provider_that_stays_go_on(front: Front) -> None:
    pid = publish(front)
    source = front.sub(1)
    feed = add_task(front, source, pid, "feed", "http://site.example/feed.xml")
    front.holding.add("b")  # its content does not come
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.go(1)
    assert source.of_tasks("SELECT due_time FROM tasks WHERE id = ?", feed) == [(None,)]
    front.database.now(moves.cancel_move, pid, "no", NOW)
    front.go(2)
    assert source.of_tasks("SELECT due_time FROM tasks WHERE id = ?", feed) == [(NOW + 3000,)]


def test_a_destination_without_a_scheduler_takes_no_tasks(make_front: MakeFront, backend: Backend) -> None:
    front = make_front()
    front.sub(1).add_scheduler(backend.url)
    pid = publish(front)
    add_task(front, front.sub(1), pid, "feed", "http://site.example/feed.xml")
    front.order(pid, 2)
    move = front.go_until(MoveState.CANCELLED)
    assert move.why == f"provider {pid} has 1 tasks, and its destination has no scheduler"


@pytest.mark.long("mariadb")
def test_tasks_that_have_yet_to_arrive_move_on(front: Front) -> None:
    """The scheduler of the destination is down, and the provider goes back: its tasks wait for that scheduler."""
    pid = publish(front)
    source, dest = front.subs
    collect(front, source, pid)
    before = seen(source, pid)
    scheduler, dest.scheduler = dest.scheduler, None
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    front.order(pid, 1)
    front.go(15)
    assert front.move(2).state is not MoveState.DONE
    dest.scheduler = scheduler
    front.go_until(MoveState.DONE, 2)
    front.go(2)
    assert seen(source, pid) == before
    assert [len(each) for each in seen(dest, pid)] == [0] * 6
