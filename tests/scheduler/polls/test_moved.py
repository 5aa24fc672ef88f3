"""Feeds that move, and the periods of those that say how often to come, on the tables of a real queue."""

from __future__ import annotations

import json

import pytest

from lcc.insight.feed_why import feed_facts, say_why
from lcc.model.tasks import Effects
from lcc.storage.tasks import orders
from tests.scheduler.polls.polling import FEED, Polling, given, worker
from tests.support.databases import result_of

MOVED = "http://site/moved.xml"


def test_a_period_that_follows_from_the_polls(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed(every=3600)
    bench.database.now(
        lambda txn: txn.execute("UPDATE tasks SET auto = 1, least_seconds = 900, most_seconds = 86400")
    )
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    job, _ = given(manager)
    manager.end(job, effects=Effects(items=("one",)))
    assert bench.tasks.task(task).when.every_seconds == 1800
    for _ in range(12):
        bench.until_asked(100)
        bench.confirm()
    assert bench.tasks.task(task).when.every_seconds > 7200
    history = bench.database.query("SELECT polls FROM tasks")[0][0]
    assert 1 < len(history.split()) <= 10


def automatic(bench: Polling) -> None:
    sql = "UPDATE tasks SET auto = 1, least_seconds = 900, most_seconds = 86400"
    bench.database.now(lambda txn: txn.execute(sql))


def test_a_feed_that_has_moved_for_good_is_polled_there(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed(every=1000)
    bench.outbox()
    bench.fetch(moved=MOVED, url="http://site/temporary.xml")
    bench.pass_time(2)
    job, content = given(manager)
    assert (content.url, content.base) == (FEED, "http://site/temporary.xml")
    manager.end(job)
    assert bench.tasks.task(task).spec.args == (MOVED,)
    bench.until_asked()
    urls = [row.notice.curl for row in bench.queue.rows()]
    assert urls == [MOVED]
    bench.fetch()
    bench.pass_time(2)
    job, content = given(manager)
    assert (content.url, content.base) == (MOVED, "")
    manager.end(job)
    # Where it was is still said when its message is another one; until an operator gives it another URL.
    moved = bench.tasks.task(task)
    assert (moved.message, moved.moved_from) == ("", FEED)
    facts = bench.database.blocking.interact(feed_facts, moved)
    assert f"  moved for good, from {FEED}" in say_why(facts, 0)
    bench.order(orders.TASK_SET, task, spec={"args": [FEED]})
    bench.pass_time(2)
    assert bench.tasks.task(task).moved_from == ""


def test_a_feed_that_moves_back_is_fetched_there_again(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed()
    there = FEED
    for moved in (MOVED, FEED):
        # What is in the cache of the place that it moves to may be old, and say that it has moved.
        assert bench.outbox() == [there]
        bench.fetch(moved=moved)
        bench.pass_time(2)
        manager.end(given(manager)[0])
        there = moved
        assert bench.tasks.task(task).spec.args == (there,)
        for _ in range(200):
            bench.pass_time(10, 10)
            for job in manager.given():
                manager.end(job)
            if result_of(bench.engine.store.outbox(0, 1)):
                break
    assert bench.outbox() == [FEED] and bench.tasks.task(task).spec.args == (FEED,)


def test_an_unchanged_feed_that_has_moved_is_polled_there_at_once(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed(every=1000)
    bench.outbox()
    bench.fetch()
    bench.pass_time(2)
    job, _ = given(manager)
    manager.end(job)
    bench.until_asked()
    bench.confirm()
    bench.queue.database.now(lambda txn: txn.execute("UPDATE lccurl SET moved_url = ?", [MOVED]))
    bench.until_asked()
    assert [row.notice.curl for row in bench.queue.rows()] == [MOVED]
    found = bench.tasks.task(task)
    assert found.spec.args == (MOVED,) and f"{FEED} to {MOVED}" in found.message


@pytest.mark.parametrize(("kind", "moved"), [("robots", MOVED), ("feed", "ftp://site/x"), ("feed", f"{FEED}#top")])
def test_what_has_not_moved(bench: Polling, kind: str, moved: str) -> None:
    manager = bench.manager(any=5)
    task = bench.feed(kind=kind)
    bench.outbox()
    bench.fetch(moved=moved)
    bench.pass_time(2)
    given(manager)
    found = bench.tasks.task(task)
    assert (found.spec.args, found.moved_from) == ((FEED,), "")


def test_max_age_and_skipped_hours_are_respected(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed(every=3600)
    automatic(bench)
    bench.outbox()
    record = json.dumps({"skip_hours": [hour for hour in range(24) if hour != 5]})
    row = ("task", "policy", "record", "read_time", "changed_time")
    bench.database.now(lambda txn: txn.insert("feeds", row, [(task, "", record, 0, 0)]))
    headers = '["Content-Type","application/rss+xml","Cache-Control","private, Max-Age=7000","Link","a","link","b"]'
    bench.fetch(headers=headers)
    bench.pass_time(2)
    job, content = given(manager)
    assert content.max_age == 7000 and content.links == "a\nb"
    manager.end(job, effects=Effects(items=("one",)))
    found = bench.tasks.task(task)
    # News at each poll would have halved it.
    assert found.when.every_seconds == 7000
    assert found.due_time is not None and found.due_time % 86400 == 5 * 3600
    bench.until_asked(600)
    bench.confirm()
    bench.until_asked(600)
    assert 4.9 <= bench.now() % 86400 / 3600 <= 6.1
