"""The database is away, or loses its answers; and what cannot be handled is set aside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.task import deferLater

from lcc.errors import StoreUnavailable
from lcc.model.tasks import Assigned, Effects, FollowUp, JobResult, JobSpec, JobState, StartedJob
from lcc.protocols import jobs
from lcc.protocols.endings import write_ending
from lcc.storage.tasks import orders
from tests.support.databases import DirectDatabase
from tests.support.logs import LoggedErrors
from tests.support.roles.scheduler import Bench
from tests.support.tasks import SomeItems


def _away(*_: object) -> None:
    raise StoreUnavailable("away")


def test_the_database_is_away_for_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    bench.add(every=10**6)

    with monkeypatch.context() as patch:
        for name in ("write", "select", "interact"):
            patch.setattr(bench.database.blocking, name, _away)
        manager.end(job, effects=Effects(items=("one",)))
        bench.pass_time(100)
        assert bench.engine.trouble == "away" and manager.peer.of(jobs.EndingsRecorded) == []
    bench.pass_time(2)
    assert bench.tasks.items.stored == ["one"] and bench.engine.trouble == ""
    assert len(manager.given()) == 1


@pytest.mark.parametrize("write", range(8))
def test_commits_whose_answers_are_lost(tmp_path: Path, write: int) -> None:
    """Whichever write it is: each job is done once, and its effects are."""
    bench = Bench(tmp_path)
    for _ in range(3):
        bench.add(every=10**6)
    failing = _FailingOnce(bench.database, write)
    bench.start()
    manager = bench.manager()
    done: list[int] = []
    for _ in range(20):
        bench.pass_time(1)
        for job in manager.given():
            assert job.attempt == 1
            done.append(job.id)
            manager.end(job, effects=Effects(items=(f"item {job.id}",)))
        manager.peer.heard = []
    assert failing.failed
    assert len(done) == 3 and len(set(done)) == 3
    assert sorted(bench.tasks.items.stored) == sorted(f"item {job}" for job in done)
    assert bench.tasks.counters()["open"] == 0 and bench.engine.roster.running_count == 0
    bench.engine.stop()
    bench.database.blocking.close()


class _FailingOnce:
    """The nth write is committed, but its answer is lost."""

    def __init__(self, database: DirectDatabase, number: int) -> None:
        self.failed = False
        self._left = number
        self._write = database.write
        database.write = self._do  # type: ignore[method-assign]  # in its place
        self._database = database

    def _do(self, function: object, *args: object) -> object:
        self._left -= 1
        if self._left == -1:
            self.failed = True
            self._database.fail_after = 1
        return self._write(function, *args)  # type: ignore[arg-type]  # whatever it is given


def test_a_transaction_that_is_run_again_because_its_answer_was_lost(bench: Bench) -> None:
    manager = bench.manager(command=10, follow=10)
    task = bench.add(every=10**6)
    bench.pass_time(2)
    [job] = manager.given()
    added = FollowUp(JobSpec("follow", "true"))
    bench.database.lose = 1
    manager.end(job, effects=Effects(followups=(added,)))
    bench.pass_time(2)
    [follow] = manager.given()  # though the second run has added none
    assert (follow.kind, bench.state(job.id)) == ("follow", JobState.COMPLETED)
    for kind, target in ((orders.JOB_KILL, follow.id), (orders.TASK_REMOVE, task)):
        if kind == orders.TASK_REMOVE:
            bench.order(orders.JOB_RERUN, job.id)
            bench.pass_time(2)
            [follow] = manager.given()
        bench.order(kind, target)
        bench.database.lose = 1
        bench.pass_time(2)
        assert manager.peer.of(jobs.Kill)[-1].id == follow.id


def test_a_job_that_is_killed_before_it_could_start_frees_its_resource(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        bench.add(resource="site", every=10**6)
    bench.pass_time(2)

    with monkeypatch.context() as patch:
        patch.setattr(bench.database.blocking, "write", _away)
        manager = bench.manager()
    assert manager.given() == [] and bench.engine.trouble == "away"
    bench.order(orders.JOB_KILL, 1)
    bench.pass_time(2)
    [job] = manager.given()
    assert job.id == 2 and bench.state(1) is JobState.PERMANENT


def test_the_interval_of_a_resource_begins_when_the_start_is_committed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.order(orders.RESOURCE_SET, name="site", interval_seconds=60)
    for _ in range(2):
        bench.add(resource="site", every=10**6)
    bench.pass_time(2)

    with monkeypatch.context() as patch:
        patch.setattr(bench.database.blocking, "write", _away)
        manager = bench.manager()
        bench.pass_time(40)
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job)
    bench.pass_time(50)
    assert manager.given() == [], "it was chosen long before"
    bench.pass_time(20)
    assert len(manager.given()) == 1


@pytest.mark.parametrize("order", [False, True], ids=["nothing else", "an order"])
def test_the_interval_of_a_resource_begins_when_the_job_goes_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, order: bool
) -> None:
    """The start is written for 40 seconds; the table has the time when that began."""
    bench.order(orders.RESOURCE_SET, name="site", interval_seconds=60)
    for _ in range(2):
        bench.add(resource="site", every=10**6)
    bench.pass_time(2)
    start_jobs = bench.engine.store.start_jobs

    async def slowly(chosen: Sequence[Assigned], now: int) -> list[StartedJob]:
        await deferLater(bench.clock, 40)  # type: ignore[arg-type]  # the test's clock tells time only
        return await start_jobs(chosen, now)

    with monkeypatch.context() as patch:
        patch.setattr(bench.engine.store, "start_jobs", slowly)
        manager = bench.manager()
        bench.pass_time(38)
        assert manager.given() == []
        bench.pass_time(4)
    [job] = manager.given()
    manager.end(job)
    if order:  # then resources are read again
        bench.order(orders.RESOURCE_SET, name="other", interval_seconds=60)
    bench.pass_time(50)
    assert manager.given() == []
    bench.pass_time(20)
    assert len(manager.given()) == 1


def test_a_job_that_is_killed_before_its_start_is_known_to_be_committed(bench: Bench) -> None:
    bench.add(every=10**6)
    bench.pass_time(2)
    bench.database.fail_after = 1
    manager = bench.manager()
    assert manager.given() == [] and bench.engine.trouble
    bench.order(orders.JOB_KILL, 1)
    bench.pass_time(2)
    [job] = manager.given()
    [kill] = manager.peer.of(jobs.Kill)
    assert (kill.id, kill.attempt) == (job.id, job.attempt)


def test_a_newer_scheduler_has_claimed_the_tables(bench: Bench, logged_errors: LoggedErrors) -> None:
    bench.manager()
    newer = bench.another()
    newer.start()
    bench.add()
    bench.pass_time(3)
    assert bench.stopped == 1 and logged_errors.flush("a newer scheduler")
    newer.stop()


def test_a_job_whose_ending_waits_frees_its_resource(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its manager comes back and does not name it: it has ended, and that was reported."""
    for _ in range(2):
        bench.add(resource="site", every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()

    with monkeypatch.context() as patch:
        for name in ("write", "select", "interact"):
            patch.setattr(bench.database.blocking, name, _away)
        manager.end(job)
        manager.lose()
        manager = bench.manager()
        bench.pass_time(5)
    bench.pass_time(2)
    assert bench.state(job.id) is JobState.COMPLETED
    assert len(manager.given()) == 1


def test_a_follow_up_whose_commit_was_not_heard_of_is_given_out(bench: Bench) -> None:
    bench.add(every=10**6)
    manager = bench.manager(command=10, follow=10)
    bench.pass_time(2)
    [job] = manager.given()
    bench.database.fail_after = 1
    manager.end(job, effects=Effects(followups=(FollowUp(JobSpec("follow", "true")),)))
    bench.pass_time(3)
    assert [each.kind for each in manager.given()] == ["follow"]


def test_a_commit_that_is_refused_when_its_manager_has_gone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()

    with monkeypatch.context() as patch:
        patch.setattr(bench.database.blocking, "write", _away)
        manager.end(job, JobState.RUNNING, commit=1, effects=Effects(items=("bad",)))
        manager.lose()
    bench.pass_time(3)
    assert bench.state(job.id) is JobState.PERMANENT and bench.engine.roster.running_count == 0


def test_an_ending_that_cannot_be_recorded_is_its_jobs_own_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    tasks = [bench.add(every=3600) for _ in range(4)]
    manager = bench.manager()
    bench.pass_time(2)
    given = manager.given()
    store = SomeItems.store

    def explode(self: SomeItems, txn: Any, task: int, job: int, page: str, items: Any, *rest: Any) -> Any:
        if "bomb" in items:
            raise RuntimeError("it explodes")
        return store(self, txn, task, job, page, items, *rest)

    monkeypatch.setattr(SomeItems, "store", explode)
    for number, job in enumerate(given):
        items = ("bomb",) if number == 1 else (f"item {number}",)
        result = JobResult(job.id, 1, JobState.COMPLETED, effects=Effects(items=items))
        for message in write_ending(number + 1, result):
            manager.peer.say(message)
    bench.settle()
    assert [bench.state(job.id) for job in given] == [
        *(JobState.COMPLETED, JobState.PERMANENT, JobState.COMPLETED, JobState.COMPLETED),
    ]
    assert bench.tasks.job(given[1].id).message == "Effects refused: RuntimeError: it explodes"
    assert bench.tasks.items.stored == ["item 0", "item 2", "item 3"]
    assert bench.tasks.task(tasks[1]).due_time is not None and manager.peer.of(jobs.EndingsRecorded)[-1].number == 4
    assert bench.engine.roster.running_count == 0


def test_a_job_whose_task_cannot_be_read_is_set_aside(bench: Bench, logged_errors: LoggedErrors) -> None:
    """Its row is damaged: with whatever it ends, that is an error of its own, and its task is suspended."""
    damaged, healthy = bench.add(every=10), bench.add(every=10)
    manager = bench.manager()
    bench.pass_time(2)
    first, second = manager.given()
    bench.database.now(lambda txn: txn.execute("UPDATE tasks SET args = '[' WHERE id = ?", [damaged]))
    manager.end(first)
    manager.end(second)
    assert bench.state(first.id) is JobState.PERMANENT and bench.state(second.id) is JobState.COMPLETED
    assert "cannot handle it" in bench.tasks.job(first.id).message
    state = bench.database.query("SELECT state FROM tasks WHERE id = ?", [damaged])
    assert state == [("suspended",)] and bench.tasks.counters()["open"] == 0
    assert logged_errors.flush("is set aside")
    bench.pass_time(30)
    assert [job.task for job in manager.given()] == [healthy]


def test_a_due_task_that_cannot_be_read_is_suspended(bench: Bench, logged_errors: LoggedErrors) -> None:
    bench.engine.pause()
    damaged, healthy = bench.add(every=3600), bench.add(every=3600)
    bench.pass_time(2)
    bench.database.now(lambda txn: txn.execute("UPDATE tasks SET args = '[', due_time = 1 WHERE id = ?", [damaged]))
    bench.database.now(lambda txn: txn.execute("DELETE FROM jobs WHERE task = ?", [damaged]))
    bench.add()
    bench.engine.resume()
    bench.pass_time(3)
    assert logged_errors.flush(f"Task {damaged} is suspended")
    state, message = bench.database.query("SELECT state, message FROM tasks WHERE id = ?", [damaged])[0]
    assert state == "suspended" and "cannot handle it" in message and bench.tasks.task(healthy)


def test_an_order_that_cannot_be_carried_out_is_answered_with_its_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("it explodes")

    monkeypatch.setitem(orders._HANDLERS, orders.RESOURCE_SET, explode)
    numbers = [
        bench.order(orders.JOB_ADD, spec=attrs.asdict(JobSpec(command="true")), after_seconds=0),
        bench.order(orders.RESOURCE_SET, name="site", interval_seconds=30),
        bench.order(orders.JOB_ADD, spec=attrs.asdict(JobSpec(command="true")), after_seconds=0),
    ]
    bench.pass_time(2)
    answers = [bench.tasks.answer(number) for number in numbers]
    assert answers == [{"job": 1}, {"error": "RuntimeError: it explodes"}, {"job": 2}]
    assert logged_errors.flush(f"Cannot carry out order {numbers[1]}")


def test_a_step_that_fails_does_not_stop_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("it explodes")

    monkeypatch.setattr(bench.engine.store, "purge_page", explode)
    monkeypatch.setattr(bench.engine.store, "note_progress", explode)
    bench.add(every=600)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.say(jobs.JobStatus(job.id, 1, "half"))
    bench.pass_time(1)
    manager.end(job)
    bench.pass_time(1300, 5)
    assert len(manager.given()) == 1 and bench.state(job.id) is JobState.COMPLETED
    assert logged_errors.flush("Cannot forget old jobs") and logged_errors.flush("Cannot note what jobs say")
