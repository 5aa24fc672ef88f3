"""When a poll starts a worker: what has changed is read once, on the tables of a real queue."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from lcc.model import Source
from lcc.model.tasks import Effects, JobState
from lcc.roles.scheduler import polls
from lcc.storage.queue.maintenance.repair import JUMP
from lcc.storage.tasks import orders
from lcc.storage.tasks.polling.poll_results import Page, changed_pages
from lcc.storage.tasks.views import statistics
from tests.scheduler.polls.polling import FEED, Polling, given, notice, worker
from tests.support.databases import result_of


def test_a_worker_starts_only_where_something_has_changed(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed()
    assert bench.outbox() == [FEED] and manager.given() == []
    bench.fetch()
    bench.pass_time(2)
    job, content = given(manager)
    assert (job.task, job.kind, job.command) == (task, "feed", "")
    assert (content.url, content.machine, content.file) == (FEED, 1, bench.queue.file)
    assert content.content_type == "application/rss+xml; charset=utf-8"
    bench.pass_time(700)
    assert bench.outbox() == []  # one job at a time
    manager.end(job, effects=Effects(items=("one",)))
    found = bench.tasks.task(task)
    assert found.last_state is JobState.COMPLETED and found.due_time is not None
    # Unchanged, again and again: no job, no row but of the statistics.
    jobs = bench.database.query("SELECT COUNT(*) FROM jobs")
    for _ in range(3):
        bench.until_asked()
        bench.confirm()
    bench.until_asked()
    assert manager.given() == [] and bench.database.query("SELECT COUNT(*) FROM jobs") == jobs
    [day] = bench.database.blocking.select(statistics, 0)
    assert (day.completed, day.unchanged, day.items) == (1, 3, 1)
    assert bench.tasks.task(task).failures == 0
    # New content: within a second or two.
    bench.fetch()
    bench.pass_time(2)
    given(manager)


def test_changes_after_the_database_was_put_back_are_read_at_once(
    bench: Polling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers have jumped: what lies between is not looked through (seed 14t)."""
    reads: list[int] = []

    def counted(txn: Any, after: int, last: int) -> tuple[int, list[Page]]:
        reads.append(after)
        assert len(reads) < 20, "it looks through numbers that were never given"
        return changed_pages(txn, after, last)

    manager = worker(bench)
    bench.feed()
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    job, _ = given(manager)
    manager.end(job)
    jump = "UPDATE counters SET value = value + ? WHERE name = 'change'"
    bench.queue.database.now(lambda txn: txn.execute(jump, [JUMP]))
    bench.until_asked()
    bench.fetch()
    monkeypatch.setattr(polls, "changed_pages", counted)
    bench.pass_time(3)
    given(manager)
    assert reads


def test_a_page_that_the_site_told_is_polled_as_well(bench: Polling) -> None:
    bench.queue.send(1, notice(FEED, "application/rss+xml"))
    bench.fetch()
    manager = worker(bench)
    bench.feed()
    # It is there: it is read at once.
    _, content = given(manager)
    assert content.file == bench.queue.file


def test_news_while_its_worker_runs(bench: Polling) -> None:
    manager = worker(bench)
    bench.feed()
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    job, _ = given(manager)
    bench.queue.send(0, notice(FEED), source=Source.POLLED)
    bench.fetch()
    bench.pass_time(5)
    assert manager.given() == []
    manager.end(job)
    bench.pass_time(1300, 10)
    _, content = given(manager)
    assert content.file == bench.queue.file


def test_what_no_worker_can_read_fails_until_it_changes(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed()
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    job, _ = given(manager)
    manager.end(job, JobState.PERMANENT, message="not a feed")
    since = bench.tasks.task(task).since_time
    for _ in range(2):
        bench.until_asked()
        bench.confirm()
    bench.until_asked()
    found = bench.tasks.task(task)
    assert (found.failures, found.message, found.since_time) == (1, "not a feed", since)
    assert since is not None and found.last_state is JobState.PERMANENT
    bench.fetch()
    bench.pass_time(2)
    job, _ = given(manager)
    manager.end(job)
    assert bench.tasks.task(task).failures == 0


def test_rerun_reads_it_again(bench: Polling) -> None:
    manager = worker(bench)
    bench.feed()
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    job, _ = given(manager)
    manager.end(job, JobState.PERMANENT, message="no feed")
    bench.order(orders.JOB_RERUN, job.id)
    bench.pass_time(3)
    again, _ = given(manager)
    assert again.id != job.id
    manager.end(again)
    # Not without its task, nor while that is suspended.
    for kind in (orders.TASK_SUSPEND, orders.TASK_REMOVE):
        bench.order(kind, job.task)
        order = bench.order(orders.JOB_RERUN, job.id)
        bench.pass_time(3)
        assert manager.given() == [] and "task 1" in bench.tasks.answer(order)["error"]


def test_what_was_suspended_before_it_was_read_is_read_afterwards(bench: Polling) -> None:
    task = bench.feed()
    bench.outbox()
    bench.fetch()
    bench.pass_time(3)
    bench.order(orders.TASK_SUSPEND, task)
    bench.pass_time(3)
    bench.order(orders.TASK_RESUME, task)
    manager = worker(bench)
    bench.pass_time(610, 10)
    job, _ = given(manager)
    assert job.task == task


def test_another_url_of_a_task_is_read_although_it_is_older(bench: Polling) -> None:
    older = "http://site/older.xml"
    bench.queue.send(1, notice(older, "application/rss+xml"))
    bench.fetch()
    manager = worker(bench)
    task = bench.feed()
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    manager.end(given(manager)[0])
    bench.order(orders.TASK_SET, task, spec={"args": [older]})
    bench.pass_time(1000, 10)
    job, content = given(manager)
    assert (job.task, content.url) == (task, older)
    assert bench.tasks.task(task).failures == 0


def lose_and_fetch_again(bench: Polling, **more: Any) -> None:
    """The content is lost, and fetched once more: the cache has a new change, of the same content."""
    bench.until_asked()
    bench.fetch(**more)
    for sql in (
        "UPDATE counters SET value = value + 1 WHERE name = 'change'",
        "UPDATE lccurl SET change_number = (SELECT value FROM counters WHERE name = 'change')",
    ):
        bench.queue.database.now(lambda txn, sql=sql: txn.execute(sql))
    bench.pass_time(5)


def test_content_that_was_lost_and_is_there_again_is_not_read_again(bench: Polling) -> None:
    """Seeds 56t (a machine lost power), 115t (the queue's tables were put back)."""
    manager = worker(bench)
    task = bench.feed()
    bench.outbox()
    bench.fetch(md5="1" * 32)
    bench.pass_time(2)
    manager.end(given(manager)[0])
    for _ in range(2):
        lose_and_fetch_again(bench, md5="1" * 32)
    bench.until_asked()
    assert manager.given() == [] and bench.tasks.task(task).failures == 0
    [day] = bench.database.blocking.select(statistics, 0)
    assert (day.completed, day.unchanged) == (1, 2)
    # As another type, or from elsewhere, it reads differently.
    bench.fetch(md5="1" * 32, url="http://site/elsewhere/")
    bench.pass_time(5)
    _, content = given(manager)
    assert content.base == "http://site/elsewhere/"


def test_a_robots_txt_that_is_there_again_is_read_again(bench: Polling) -> None:
    """While it was not there all was allowed."""
    manager = bench.manager(any=5)
    bench.feed("http://www.example.org/robots.txt", kind="robots")
    bench.outbox()
    bench.fetch(md5="1" * 32)
    bench.pass_time(2)
    manager.end(given(manager)[0], effects=Effects(items=("User-agent: *",)))
    bench.until_asked(600)
    bench.fail(404)
    bench.until_asked(600)
    bench.fetch(md5="1" * 32)
    manager = bench.manager(any=5)
    bench.pass_time(5)
    given(manager)


def test_an_unchanged_robots_txt_is_not_read_again(bench: Polling) -> None:
    manager = bench.manager(any=5)
    bench.feed("http://www.example.org/robots.txt", kind="robots")
    bench.outbox()
    bench.fetch(url=FEED)
    bench.pass_time(2)
    manager.end(given(manager)[0], effects=Effects(items=("User-agent: *",)))
    for _ in range(2):
        bench.until_asked(600)
        bench.confirm()
        bench.pass_time(5)
    assert bench.manager(any=5).given() == []


def test_other_options_are_heeded_at_the_next_poll(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed()
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    manager.end(given(manager)[0])
    bench.order(orders.TASK_SET, task, spec={"args": [FEED, "--plugin", "comments"]})
    bench.pass_time(1300, 10)
    job, _ = given(manager)
    assert json.loads(job.args) == [FEED, "--plugin", "comments"]


def test_another_url_is_given_while_the_first_one_is_looked_at(
    bench: Polling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found there is nothing that has been read of the other one."""
    manager = worker(bench)
    task = bench.feed()
    bench.outbox()
    bench.fetch()
    other = "http://site/other.xml"
    judge = polls._news

    def meanwhile(poll: Any, *others: Any) -> Any:
        monkeypatch.setattr(polls, "_news", judge)
        order = bench.order(orders.TASK_SET, task, spec={"args": [other]})
        result_of(Deferred.fromCoroutine(bench.engine.store.carry_out_orders([order], int(bench.now()))))
        return judge(poll, *others)

    monkeypatch.setattr(polls, "_news", meanwhile)
    bench.pass_time(2)
    assert manager.given() == [] and bench.database.query("SELECT seen FROM tasks") == [(0,)]
    assert bench.tasks.task(task).spec.args == (other,)


def test_other_pages_make_no_jobs(bench: Polling) -> None:
    bench.feed()
    bench.outbox()
    bench.fetch()
    manager = worker(bench)
    bench.pass_time(2)
    given(manager)
    for number in range(20):
        url = f"http://site/{number}"
        bench.queue.send(number + 2, notice(url, "text/html"))
    bench.fetch()
    bench.pass_time(3)
    assert manager.given() == []


def test_news_waits_while_too_many_jobs_are_open(bench: Polling) -> None:
    task = bench.feed()
    bench.outbox()
    sql = "UPDATE schedulerfence SET value = value + ? WHERE name = 'open'"
    bench.database.now(lambda txn: txn.execute(sql, [1000]))
    bench.fetch()
    manager = worker(bench)
    bench.pass_time(200, 5)
    assert manager.given() == [] and bench.tasks.task(task).due_time is not None
    bench.database.now(lambda txn: txn.execute(sql, [-1000]))
    bench.pass_time(120, 5)
    given(manager)
