"""A site's own words: order numbers of polls, jobs and sets, and whose words they are, on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from lcc.domain.keys import url_key
from lcc.model.polled import PolledContent
from lcc.model.tasks import Effects, JobNotice, JobSpec, JobState, StartedJob
from lcc.storage.tasks.orders import TASK_RESUME, TASK_SET, TASK_SUSPEND
from lcc.storage.tasks.polling.polls import Asked, Found, Poll
from tests.support.databases import result_of
from tests.support.tasks import NOW, Tasks, task_database

FEED = "http://a/feed"
SPEC = JobSpec("feed", args=(FEED, "--full-content", "--listed"))
PID = 7
KEY = url_key(PID, FEED, "")


@pytest.fixture
def tasks(backend: Any) -> Iterator[Tasks]:
    database = task_database(backend)
    tasks = Tasks(database)
    tasks.no_robots_txt("http://a/", "http://b/")
    yield tasks
    database.blocking.close()


def due(tasks: Tasks, now: int = NOW) -> Poll:
    [poll] = tasks.due_polls(now)
    return poll


def ask(tasks: Tasks, order: int, now: int = NOW) -> Poll:
    """A poll begins; as it is known then."""
    assert tasks.ask([Asked(due(tasks, now), PID, KEY, order)], now) == 1
    [poll] = result_of(tasks.store.polls_of_pages([KEY]))
    return poll


def found(tasks: Tasks, poll: Poll, now: int = NOW) -> StartedJob:
    """The job of what it has found, started."""
    content = PolledContent(FEED, 1, 2, 3, "ab" * 16, KEY.hex())
    making = tasks.store.make_found_jobs([Found(poll, poll.seen + 1, content, poll.order)], now)
    [job] = tasks.start(*result_of(Deferred.fromCoroutine(making)), now=now)
    return job


def outbox(tasks: Tasks) -> list[tuple[int, str, int, list[str]]]:
    sets = result_of(tasks.store.outbox(0, 100))
    return [(each.pid, each.source, each.order, [url["c"] for url in each.urls]) for each in sets]


def listed(*urls: str, op: str = "update") -> Effects:
    return Effects(notices=tuple(JobNotice(url, "listed", op) for url in urls))


def test_the_number_goes_from_the_poll_to_its_job_and_to_its_sets(tasks: Tasks) -> None:
    tasks.add(spec=SPEC)
    poll = ask(tasks, 5)
    assert (poll.order, poll.pid) == (5, PID)
    job = found(tasks, poll)
    tasks.end(job, effects=listed("http://a/1", "http://b/2"))
    # Whether they are that provider's is known only when they are told: until then they are nobody else's.
    assert outbox(tasks)[1:] == [(PID, "listed", 5, ["http://a/1"]), (PID, "listed", 5, ["http://b/2"])]
    assert tasks.database.query("SELECT asked_order, asked_time FROM tasks") == [(0, None)]


def test_another_attempt_speaks_as_of_the_same_poll(tasks: Tasks) -> None:
    tasks.add(spec=SPEC)
    job = found(tasks, ask(tasks, 5))
    tasks.end(job, JobState.TEMPORARY)
    [again] = tasks.start(*tasks.due(NOW + 600), now=NOW + 600)
    tasks.commit(again, 1, listed("http://a/1"))
    tasks.commit(again, 1, listed("http://a/1"))
    tasks.end(again, effects=listed("http://a/2"))
    assert [each[2:] for each in outbox(tasks)[1:]] == [(5, ["http://a/1"]), (5, ["http://a/2"])]


@pytest.mark.parametrize("kind", [TASK_SET, TASK_RESUME])
def test_a_number_goes_with_its_provider(tasks: Tasks, kind: str) -> None:
    """Another URL, or a task that is resumed, may be another one's."""
    task = tasks.add(spec=SPEC)
    ask(tasks, 5)
    if kind == TASK_RESUME:
        tasks.order(TASK_SUSPEND, task)
    tasks.order(kind, task, **({"spec": {"args": ["http://b/feed", *SPEC.args[1:]]}} if kind == TASK_SET else {}))
    assert tasks.database.query("SELECT pid, asked_order FROM tasks") == [(0, 0)]


def test_who_speaks_for_nobody(tasks: Tasks) -> None:
    tasks.add(spec=SPEC)
    job = found(tasks, ask(tasks, 0))
    tasks.end(job, effects=listed("http://a/1"))
    ended = tasks.job(job.id)
    assert ended.state is JobState.PERMANENT and "--listed" in ended.message and len(outbox(tasks)) == 1
    # Nor does a job that was added by one that does.
    other = tasks.add(spec=JobSpec(command="true"))
    [started] = tasks.start(*tasks.make())
    assert started.task == other
    tasks.end(started, effects=listed("http://a/1"))
    assert "--listed" in tasks.job(started.id).message


def test_what_is_not_its_own_goes_on_as_a_hint(tasks: Tasks) -> None:
    tasks.add(spec=SPEC)
    job = found(tasks, ask(tasks, 5))
    effects = Effects(
        notices=(
            *listed("http://a/1", "http://a/docs/2").notices,
            JobNotice("http://a/docs/3", "listed", "delete"),
            JobNotice("http://a/docs/4", "listed", "recheck", "text/html"),
        )
    )
    tasks.end(job, effects=effects)
    [number] = [each.number for each in result_of(tasks.store.outbox(0, 100)) if each.order]
    for _ in range(2):  # the second time it was done already
        result_of(tasks.store.part_listed(number, ["http://a/1"], "not theirs", NOW))
    assert outbox(tasks)[1:] == [
        (PID, "listed", 5, ["http://a/1"]),
        (0, "feed", 0, ["http://a/docs/2", "http://a/docs/4"]),
    ]
    last = result_of(tasks.store.outbox(0, 100))[-1]
    assert [dict(url) for url in last.urls] == [
        {"c": "http://a/docs/2"},
        {"c": "http://a/docs/4", "m": "text/html", "op": "recheck"},
    ]
    assert [text for _, level, text in tasks.log(job.id) if level != "end"] == [
        "2 URLs go on as hints: not theirs",
        "1 URLs are neither deleted nor retracted: not theirs",
    ]


def test_hints_in_its_place_obey_robots_txt(tasks: Tasks) -> None:
    tasks.database.now(lambda txn: txn.execute("DELETE FROM robots"))
    tasks.add(spec=SPEC)
    tasks.end(found(tasks, ask(tasks, 5)), effects=listed("http://a/1"))
    number = result_of(tasks.store.outbox(0, 100))[-1].number
    result_of(tasks.store.part_listed(number, [], "not theirs", NOW))
    assert len(outbox(tasks)) == 1
    assert tasks.database.query("SELECT url, source FROM heldnotices") == [("http://a/1", "feed")]
