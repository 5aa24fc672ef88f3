"""What became of open polls is noted before the next ones are due, on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lcc.domain.keys import url_key
from lcc.model.tasks import JobSpec, JobState, TaskState
from lcc.storage.tasks.orders import TASK_RESUME, TASK_SET, TASK_SUSPEND
from lcc.storage.tasks.polling.polls import LOOK_SECONDS, Asked, Poll, polls_to_do
from tests.support.databases import result_of
from tests.support.plans import Explaining
from tests.support.tasks import NOW, Tasks, task_database

FEED = "http://a/feed"
KEY = url_key(7, FEED, "")
SOON = NOW + LOOK_SECONDS
DAY = 86400


@pytest.fixture
def tasks(backend: Any) -> Iterator[Tasks]:
    database = task_database(backend)
    yield Tasks(database)
    database.blocking.close()


def poll(tasks: Tasks, now: int = NOW, kind: str = "feed") -> int:
    """A task whose first poll is open."""
    task = tasks.add(now, every=DAY, spec=JobSpec(kind, args=(FEED,)))
    assert tasks.ask([Asked(each, 7, KEY) for each in tasks.due_polls(now)], now) == 1
    return task


def to_look_at(tasks: Tasks, now: int = SOON) -> list[Poll]:
    return result_of(tasks.store.polls_to_do(now, 10, 0)).looks


def note(tasks: Tasks, asked: Asked, now: int = SOON) -> None:
    result_of(tasks.store.note_polls([], [asked], [], now))


def look(tasks: Tasks, now: int = SOON, **found: Any) -> None:
    [open_poll] = to_look_at(tasks, now)
    note(tasks, Asked(open_poll, 7, KEY, **found), now)


def own(tasks: Tasks, *columns: str) -> tuple[Any, ...]:
    [row] = tasks.database.query(f"SELECT {', '.join(columns)} FROM tasks WHERE polled = 1")
    return tuple(row)


def test_an_error(tasks: Tasks) -> None:
    task = poll(tasks)
    due = tasks.task(task).due_time
    assert to_look_at(tasks, SOON - 1) == []
    [open_poll] = to_look_at(tasks)
    for _ in range(2):  # the second time it was done already
        note(tasks, Asked(open_poll, 7, KEY, fault="404 no", code=404))
    found = tasks.task(task)
    assert (found.failures, found.message, found.last_state) == (1, "404 no", JobState.TEMPORARY)
    assert (found.since_time, found.due_time, found.state) == (SOON, due, TaskState.ACTIVE)
    assert own(tasks, "asked_time", "look_time", "seen") == (None, None, 0) and to_look_at(tasks) == []


def test_a_page_that_is_gone(tasks: Tasks) -> None:
    task = poll(tasks)
    look(tasks, fault="410 gone", code=410, gone=True)
    found = tasks.task(task)
    assert (found.state, found.due_time, found.message) == (TaskState.SUSPENDED, None, "410 gone")


def test_one_that_waits(tasks: Tasks) -> None:
    poll(tasks)
    now, seconds = SOON, []
    while now < NOW + 500:
        look(tasks, now, wait=True)
        [(look_time,)] = tasks.database.query("SELECT look_time FROM tasks")
        assert to_look_at(tasks, look_time - 1) == []
        seconds.append(look_time - now)
        now = look_time
    assert seconds[:6] == [2, 4, 8, 16, 32, 64] and set(seconds[6:]) == {64}


def test_nothing_new(tasks: Tasks) -> None:
    """It is counted when the next one is due, as the time between them is not known before."""
    task = poll(tasks)
    tasks.database.now(lambda txn: txn.execute("UPDATE tasks SET asked_order = 5"))
    look(tasks, unchanged=True)
    assert own(tasks, "asked_time", "look_time", "asked_order") == (NOW, None, 0)
    assert tasks.task(task).last_state is None
    tasks.database.now(
        lambda txn: txn.execute("UPDATE tasks SET failures = 3, since_time = 5, look_time = ?", [SOON])
    )
    look(tasks, unchanged=True)
    found = tasks.task(task)
    assert (found.failures, found.since_time, found.last_state) == (0, None, JobState.COMPLETED)
    assert own(tasks, "asked_time", "look_time") == (NOW, None)
    assert tasks.database.query("SELECT SUM(unchanged) FROM jobsdone") == [(None,)]


@pytest.mark.parametrize("code", [503, 404])
def test_a_robots_txt_has_another_period_at_once(tasks: Tasks, code: int) -> None:
    result_of(tasks.store.poll_robots(["http://a/"], NOW))
    [each] = tasks.due_polls(NOW)
    assert each.task.when.every_seconds == 30
    tasks.ask([Asked(each, 7, KEY)], NOW)
    look(tasks, fault=f"{code} no", code=code)
    found = tasks.task(each.task.id)
    assert found.due_time == NOW + {503: 60, 404: DAY}[code] and found.failures == (code == 503)


def test_what_was_changed_meanwhile(tasks: Tasks) -> None:
    task = poll(tasks)
    [open_poll] = to_look_at(tasks)
    tasks.order(TASK_SET, task, spec={"args": ["http://a/other"]})
    assert to_look_at(tasks) == []
    note(tasks, Asked(open_poll, 7, KEY, fault="404 no"))
    assert tasks.task(task).failures == 0
    tasks.order(TASK_SUSPEND, task)
    tasks.order(TASK_RESUME, task)
    assert to_look_at(tasks) == []


def test_many_that_have_found_nothing_new_are_noted_together(tasks: Tasks) -> None:
    """What is noted of each is the same as if it had been alone."""
    urls = [f"http://a/{number}" for number in range(5)]
    numbers = [tasks.add(NOW, every=DAY, spec=JobSpec("feed", args=(url,))) for url in urls]
    keys = dict(zip(numbers, (url_key(7, url, "") for url in urls), strict=True))
    assert tasks.ask([Asked(each, 7, keys[each.task.id]) for each in tasks.due_polls(NOW)], NOW) == 5
    own = "SELECT id, pid, urlkey, asked_time, look_time, due_time, started_time, failures, message FROM tasks"
    before = {row[0]: row[1:] for row in tasks.database.query(own)}
    assert {row[:4] for row in before.values()} == {(7, key, NOW, SOON) for key in keys.values()}
    then = NOW + 2 * DAY
    tasks.database.now(lambda txn: txn.execute("UPDATE tasks SET due_time = ?", [then]))
    due = {each.task.id: each for each in tasks.due_polls(then)}
    asked = [Asked(due[number], 7, keys[number], unchanged=True) for number in numbers[:3]]
    asked.append(Asked(due[numbers[3]], 8, keys[numbers[3]], unchanged=True))  # it is another provider's by now
    asked.append(Asked(due[numbers[4]], 7, keys[numbers[4]], fault="404 no", code=404))
    assert tasks.ask(asked, then) == 5 and tasks.ask(asked, then) == 0  # the second time it was done already
    for number in numbers:
        pid, key, *times, failures, message = next(iter(tasks.database.query(f"{own} WHERE id = ?", [number])))[1:]
        assert (pid, bytes(key)) == (8 if number == numbers[3] else 7, keys[number])
        assert times == [then, then + LOOK_SECONDS, tasks.task(number).due_time, then]
        assert (failures, message) == ((1, "404 no") if number == numbers[4] else (0, ""))
    assert tasks.database.query("SELECT SUM(unchanged) FROM jobsdone") == [(4,)]
    assert [each.number for each in result_of(tasks.store.outbox(0, 100))] == list(range(1, 11))


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_they_are_found_along_an_index(tasks: Tasks) -> None:
    for number in range(300):
        tasks.add(every=DAY, spec=JobSpec("feed", args=(f"{FEED}{number}",)))
    tasks.database.query("ANALYZE TABLE tasks")

    def explained(txn: Any) -> Any:
        explaining = Explaining(txn)
        polls_to_do(explaining, NOW - 1, 10, 10)
        return explaining.plans

    looks, due, since = tasks.database.now(explained)
    assert looks[1:4] == ("tasks", "range", "tasks_look") and due[1:4] == ("tasks", "range", "tasks_due")
    assert since[1] == "tasknotices"
