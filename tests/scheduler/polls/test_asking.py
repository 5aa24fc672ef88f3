"""Polls: what is asked of the queue, when, and what becomes of it, on the tables of a real queue."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import fail

from lcc.errors import code, entry_for
from lcc.model.tasks import JobState, TaskState
from lcc.roles.notifier import NotifierRefused
from lcc.roles.scheduler import polls
from lcc.storage.providers.providers import order_removal
from lcc.storage.tasks import orders
from lcc.storage.tasks.views import statistics
from tests.scheduler.polls.polling import FEED, Polling, given, notice, worker
from tests.support.databases import DirectDatabase, result_of
from tests.support.logs import LoggedErrors

DELAYS = (120, 240, 480, 960, 1920, 3600, 3600)


def test_errors(bench: Polling) -> None:
    task = bench.feed()
    bench.outbox()
    [row] = bench.queue.rows()
    bench.queue.record(bench.queue.failed(row, 404, "no such page"), now=int(bench.now()))
    bench.pass_time(1300, 10)
    found = bench.tasks.task(task)
    assert found.failures == 1 and found.message == "404 Not Found: no such page" and found.since_time is not None
    assert found.state is TaskState.ACTIVE and bench.outbox() == [FEED]
    bench.fetch()
    manager = worker(bench)
    bench.pass_time(2)
    job, _ = given(manager)
    manager.end(job)
    assert bench.tasks.task(task).failures == 0
    bench.until_asked()
    [row] = bench.queue.rows()
    bench.queue.record(bench.queue.failed(row, 410), now=int(bench.now()))
    bench.pass_time(700, 10)
    found = bench.tasks.task(task)
    assert found.state is TaskState.SUSPENDED and found.message == f"410 {entry_for(410).text}"
    assert bench.outbox() == [] and found.due_time is None


def test_an_error_is_known_long_before_the_next_poll(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed(every=86400)
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    manager.end(given(manager)[0])
    bench.until_asked(3600)
    [row] = bench.queue.rows()
    bench.queue.record(bench.queue.failed(row, 403, "no"), now=int(bench.now()))
    due = bench.tasks.task(task).due_time
    bench.pass_time(3)
    found = bench.tasks.task(task)
    assert (found.failures, found.last_state) == (1, JobState.TEMPORARY) and found.message.startswith("403 ")
    # It is polled when it was to be, and counted once; what is over is known as soon.
    assert found.due_time == due and bench.outbox() == []
    bench.until_asked(3600)
    assert bench.tasks.task(task).failures == 1
    bench.confirm()
    bench.pass_time(3)
    found = bench.tasks.task(task)
    assert (found.failures, found.last_state, found.since_time) == (0, JobState.COMPLETED, None)
    bench.until_asked(3600)
    [row] = bench.queue.rows()
    bench.queue.record(bench.queue.failed(row, 410), now=int(bench.now()))
    bench.pass_time(3)
    assert bench.tasks.task(task).state is TaskState.SUSPENDED
    [day, *_] = bench.database.blocking.select(statistics, 0)
    assert day.unchanged <= 1


@pytest.mark.parametrize("ahead_seconds", [-7200, 7200])
def test_the_queue_is_on_a_host_with_another_clock(bench: Polling, ahead_seconds: int) -> None:
    bench.ahead_seconds = ahead_seconds
    manager = worker(bench)
    task = bench.feed()
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    manager.end(given(manager)[0])
    for _ in range(2):
        bench.until_asked()
        bench.confirm()
        bench.pass_time(3)
    bench.until_asked()
    assert bench.tasks.task(task).failures == 0
    [day, *_] = bench.database.blocking.select(statistics, 0)
    assert day.unchanged == 2
    bench.fail(403, "no")
    bench.pass_time(3)
    found = bench.tasks.task(task)
    assert found.failures == 1 and found.message.startswith("403 ")
    # It is not that of the next poll.
    bench.until_asked()
    bench.pass_time(30)
    assert bench.tasks.task(task).failures == 1
    bench.confirm()
    bench.pass_time(70, 10)
    assert bench.tasks.task(task).failures == 0


def test_an_open_poll_is_looked_at_more_and_more_seldom(bench: Polling) -> None:
    task = bench.feed(every=86400)
    bench.outbox()
    looks: set[int] = set()
    for _ in range(600):
        bench.pass_time(1)
        [(look_time,)] = bench.database.query("SELECT look_time FROM tasks")
        looks.add(look_time)
    assert 10 <= len(looks) <= 17
    [row] = bench.queue.rows()
    bench.queue.record(bench.queue.failed(row, 403), now=int(bench.now()))
    bench.pass_time(64)
    assert bench.tasks.task(task).failures == 1
    assert bench.database.query("SELECT look_time FROM tasks") == [(None,)]


@pytest.mark.parametrize("status", [404, 403])
def test_a_site_without_robots_txt_does_not_fail(bench: Polling, status: int) -> None:
    task = bench.feed("http://www.example.org/robots.txt", kind="robots")
    bench.outbox()
    [row] = bench.queue.rows()
    bench.queue.record(bench.queue.failed(row, status), now=int(bench.now()))
    bench.pass_time(1300, 10)
    found = bench.tasks.task(task)
    assert (found.failures, found.last_state) == (0, JobState.COMPLETED)
    assert found.message.startswith(f"no robots.txt, all may be fetched: {status}")


def test_a_robots_txt_that_could_not_be_read_is_soon_asked_for_again(bench: Polling) -> None:
    result_of(bench.engine.store.poll_robots(["http://site/"], int(bench.now())))
    waited, began = [], 0.0
    for _ in range(9):
        bench.until_asked(5)
        waited.append(bench.now() - began)
        began = bench.now()
        [row] = bench.queue.rows()
        bench.queue.record(bench.queue.failed(row, code("address-forbidden")), now=int(bench.now()))
    # Each delay is twice the one before, an hour at most.
    assert 55 <= waited[1] <= 70
    assert all(abs(seconds - expected) < 10 for seconds, expected in zip(waited[2:], DELAYS, strict=True)), waited
    bench.until_asked(5)
    [row] = bench.queue.rows()
    bench.queue.record(bench.queue.failed(row, 404), now=int(bench.now()))
    bench.pass_time(80_000, 600)
    assert bench.outbox() == []


def test_a_site_that_may_not_be_watched_is_asked_for_more_and_more_seldom(bench: Polling) -> None:
    """A feed that names a thousand hosts of one domain keeps nobody busy."""
    bench.queue.database.now(lambda txn: txn.execute("DELETE FROM proots"))
    bench.refused = NotifierRefused(code("limit"), "200 providers of site are watched since an hour")
    result_of(bench.engine.store.poll_robots(["http://site/"], int(bench.now())))
    bench.pass_time(3 * 3600, 10)
    [(failures, message)] = bench.database.query("SELECT failures, message FROM tasks WHERE kind = 'robots'")
    assert 7 <= failures <= 10 and message.startswith("1003 200 providers")
    assert bench.taken() == []
    bench.refused = None
    bench.until_asked(60)


def test_what_waits_in_the_queue_is_not_put_there_twice(bench: Polling) -> None:
    bench.feed()
    assert bench.outbox() == [FEED]
    bench.pass_time(4000, 10)
    assert bench.outbox() == []
    bench.fetch()
    manager = worker(bench)
    bench.pass_time(2)
    given(manager)


def test_a_poll_that_vanished(bench: Polling) -> None:
    task = bench.feed()
    sets = bench.taken()
    assert [(each.root, each.source, each.pid) for each in sets] == [("http://site/", "polled", bench.queue.pid)]
    bench.pass_time(1300, 10)
    assert bench.tasks.task(task).message == "Its last poll was not answered"
    assert bench.outbox() == [FEED]


def test_the_uns_is_away_or_refuses(bench: Polling) -> None:
    bench.room = False
    task = bench.feed()
    assert bench.outbox() == []
    bench.room = True
    bench.refused = NotifierRefused(code("try-later"), "later")
    bench.queue.database.now(lambda txn: txn.execute("DELETE FROM proots"))
    bench.pass_time(2)
    assert bench.outbox() == [] and bench.tasks.task(task).failures == 0
    bench.refused = NotifierRefused(code("bad-url"), "no")
    bench.pass_time(2)
    assert bench.tasks.task(task).failures == 1
    bench.refused = None


def test_a_poll_that_waits_for_the_uns_has_not_failed(bench: Polling) -> None:
    task = bench.feed()
    bench.room = False
    bench.pass_time(5000, 10)
    bench.room = True
    bench.pass_time(700, 10)
    assert bench.tasks.task(task).failures == 0
    assert bench.outbox() == [FEED]


@pytest.mark.parametrize("url", ["", "ftp://site/x", "http://", "no url"])
def test_what_is_no_url_is_suspended(bench: Polling, url: str) -> None:
    bench.queue.database.now(lambda txn: txn.execute("DELETE FROM proots"))
    task = bench.feed(url)
    found = bench.tasks.task(task)
    assert found.state is TaskState.SUSPENDED and found.message == "It is no http or https URL"


def test_a_poll_that_a_person_wants(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed(every=86400)
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    order = bench.order(orders.TASK_POLL, task)
    bench.pass_time(2)
    assert bench.tasks.answer(order) == {"task": task, "job": 1}
    manager.end(given(manager)[0])
    for _ in range(2):  # the second time after one that has found nothing new
        bench.order(orders.TASK_POLL, task)
        bench.pass_time(2)
        assert bench.outbox() == [FEED]
        bench.confirm()
        bench.pass_time(5)
    assert manager.given() == [] and bench.outbox() == []


def test_one_that_cannot_be_asked_for_keeps_no_others_waiting(bench: Polling) -> None:
    """Neither one whose site the UNS cannot look up now, nor one that is no URL."""
    bench.refused = NotifierRefused(code("try-later"), "later")
    tasks = [bench.add(every=600, kind="feed", command="", args=(url,)) for url in ("http://b/", "no url", FEED)]
    bench.pass_time(1)
    assert bench.outbox() == [FEED]
    assert [bench.tasks.task(task).failures for task in tasks] == [0, 1, 0]


def test_a_site_is_asked_for_once_however_many_pages_of_it_are_polled(bench: Polling) -> None:
    asked: list[str] = []
    watch = bench._watch
    bench.polls._watch = lambda root: asked.append(root) or watch(root)  # type: ignore[func-returns-value]  # None
    for name in ("http://a/1", "http://a/2", "http://b/1"):
        bench.add(every=600, kind="feed", command="", args=(name,))
    bench.pass_time(1)
    assert asked == ["http://a/", "http://b/"] and len(bench.outbox()) == 3


def test_a_fragment_is_no_part_of_the_page(bench: Polling) -> None:
    bench.queue.send(1, notice(FEED, "application/rss+xml"))
    bench.fetch()
    manager = worker(bench)
    bench.feed(f"{FEED}#top")
    given(manager)


def test_a_uns_that_does_not_answer_is_asked_once(bench: Polling) -> None:
    asked: list[str] = []

    def watch(root: str) -> Any:
        asked.append(root)
        return fail(NotifierRefused(code("try-later"), "no answer"))

    for number in range(4):
        bench.feed(f"http://site{number}/feed.xml")
    bench.outbox()
    bench.polls._watch = watch
    bench.database.now(lambda txn: txn.execute("UPDATE tasks SET due_time = 0"))
    bench.pass_time(1)
    assert len(asked) == 1


def test_a_poll_that_cannot_be_handled_is_suspended(
    bench: Polling, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    bad = bench.feed(every=600)
    good = bench.feed("http://site/other.xml", every=600)
    bench.outbox()
    judge = polls._judge

    def explode(asks: Any, *others: Any) -> Any:
        if asks.poll.task.id == bad:
            raise RuntimeError("it explodes")
        return judge(asks, *others)

    monkeypatch.setattr(polls, "_judge", explode)
    bench.fetch()
    bench.pass_time(1300, 10)
    assert bench.tasks.task(bad).state is TaskState.ACTIVE  # it has an open job: news was found
    for job in worker(bench).given():
        bench.managers[-1].end(job)
    bench.pass_time(1300, 10)
    found = bench.tasks.task(bad)
    assert found.state is TaskState.SUSPENDED and "it explodes" in found.message
    assert bench.tasks.task(good).state is TaskState.ACTIVE and "http://site/other.xml" in bench.outbox()
    assert logged_errors.flush(f"Task {bad} is suspended")


@pytest.mark.parametrize("kind", ["feed", "robots"])
def test_a_removed_provider_is_not_made_again_by_its_polls(bench: Polling, kind: str) -> None:
    watched: list[str] = []
    watch = bench._watch
    bench.polls._watch = lambda root: watched.append(root) or watch(root)  # type: ignore[func-returns-value]  # None
    task = bench.feed(kind=kind)
    assert bench.outbox() == [FEED] and watched == []
    bench.fetch()
    manager = bench.manager(any=5)
    bench.pass_time(2)
    job, _ = given(manager)
    manager.end(job)
    bench.queue.database.now(order_removal, bench.queue.pid)
    bench.pass_time(1300, 10)
    assert bench.outbox() == [] and watched == []
    if kind == "robots":  # the scheduler has made it
        assert bench.database.query("SELECT COUNT(*) FROM tasks") == [(0,)]
        return
    found = bench.tasks.task(task)
    assert found.state is TaskState.SUSPENDED and found.message == f"Provider {bench.queue.pid} was removed"
    # Somebody wants it all the same: it is watched by a new one.
    bench.queue.pid += 1
    bench.order(orders.TASK_RESUME, task)
    bench.pass_time(1300, 10)
    assert watched[0] == "http://site/" and bench.tasks.task(task).state is TaskState.ACTIVE


def test_many_polls_that_cannot_be_asked_for_now_do_not_spin(bench: Polling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polls, "_BATCH", 2)
    bench.queue.database.now(lambda txn: txn.execute("DELETE FROM proots"))
    bench.refused = NotifierRefused(code("try-later"), "later")
    for number in range(5):
        bench.feed(f"http://site/{number}")
    assert bench.outbox() == []
    bench.refused = None
    bench.pass_time(2)
    assert len(bench.outbox()) == 5


def test_all_polls_of_a_second_are_read_and_written_together(bench: Polling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question wakes a thread, and that is what a poll would cost most of."""
    asked: list[str] = []
    do = DirectDatabase._do

    def counted(database: DirectDatabase, access: Any, function: Any, args: Any) -> Any:
        asked.append(function.__name__)
        return do(database, access, function, args)

    for number in range(5):
        bench.feed(f"http://site/{number}")
    assert len(bench.outbox()) == 5
    bench.fetch()
    bench.pass_time(2)
    manager = worker(bench)
    for job in manager.given():
        manager.end(job)
    now = int(bench.now())
    bench.database.now(lambda txn: txn.execute("UPDATE tasks SET due_time = ?", [now + 100]))
    bench.pass_time(99, 1)
    # Neither what has gone from sitemaps is looked at, nor is it written that a manager is there.
    monkeypatch.setattr(bench.polls, "_ticks", 0)
    monkeypatch.setattr(bench.engine.manager_table, "_write_at", 1e9)
    monkeypatch.setattr(DirectDatabase, "_do", counted)
    bench.pass_time(0.5)
    asked.clear()
    bench.pass_time(1)
    assert asked == ["due_work", "polls_to_do", "read_round", "work"] and len(bench.made) == 10
    asked.clear()
    bench.pass_time(1)
    assert asked == ["due_work", "polls_to_do", "last_change"]
