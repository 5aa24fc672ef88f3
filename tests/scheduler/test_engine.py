"""The scheduler with managers that come, go, are lost, and say everything twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.logger import LogEvent, formatEvent

from lcc.errors import StoreUnavailable
from lcc.model.tasks import DATA_BYTES_MAX, Effects, FollowUp, JobResult, JobSpec, JobState
from lcc.protocols import jobs
from lcc.protocols.endings import write_ending
from lcc.storage.tasks import orders
from tests.scheduler.bench import Bench
from tests.support.databases import DirectDatabase
from tests.support.logs import LoggedErrors
from tests.support.tasks import NOW, SomeItems
from tests.support.transports import MemoryTransport


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    bench.start()
    yield bench
    bench.engine.stop()
    bench.database.blocking.close()


def test_a_task_is_carried_out_again_and_again(bench: Bench) -> None:
    manager = bench.manager()
    task = bench.add(every=600)
    bench.pass_time(2)
    [job] = manager.given()
    assert (job.task, job.attempt, job.kind, job.command, jobs.read_args(job.args)) == (
        task,
        1,
        "command",
        "true",
        ("a",),
    )
    assert job.lease_seconds == 60
    manager.say(jobs.Started(job.id, 1, 4711), jobs.JobStatus(job.id, 1, "half"))
    bench.pass_time(2)
    shown = bench.tasks.job(job.id)
    assert (shown.state, shown.pid, shown.message, shown.host) == (JobState.RUNNING, 4711, "half", "host1")
    manager.end(job, message="done", exit_code=0)
    assert bench.state(job.id) is JobState.COMPLETED
    assert manager.peer.of(jobs.EndingsRecorded)[-1].number == 1
    for _ in range(3):
        bench.pass_time(1210, 5)
        [job] = manager.given()
        manager.end(job)
    assert bench.engine.counters.completed == 4 and bench.engine.roster.running_count == 0


def test_a_task_never_has_two_jobs(bench: Bench) -> None:
    manager = bench.manager()
    bench.add(every=10)
    bench.pass_time(100)
    [job] = manager.given()
    manager.end(job)
    bench.pass_time(1)
    assert len(manager.given()) == 1


def test_jobs_wait_for_a_manager(bench: Bench) -> None:
    for _ in range(5):
        bench.add()
    bench.pass_time(3)
    assert len(bench.engine.ready) == 5
    manager = bench.manager(command=2)
    first = manager.given()
    assert len(first) == 2
    manager.end(first[0])
    assert len(manager.given()) == 1
    other = bench.manager("n", capacity=1, any=5)
    assert len(other.given()) == 1
    manager.heartbeat(paused="by hand")
    manager.end(first[1])
    assert manager.given() == []
    manager.heartbeat()
    assert len(manager.given()) == 1


def test_hosts_and_executables(bench: Bench) -> None:
    bench.add(on=("allow:host2",))
    bench.add(command="other")
    manager = bench.manager()
    bench.pass_time(2)
    assert manager.given() == []
    second = bench.manager("n", host="host2")
    assert [job.command for job in second.given()] == ["true"]
    manager.say(jobs.Has("other"))
    assert [job.command for job in manager.given()] == ["other"]
    manager.say(jobs.Has("other", gone=True))
    bench.add(command="other")
    bench.pass_time(2)
    assert manager.given() == []


def test_a_resource_is_used_by_one_job_at_a_time(bench: Bench) -> None:
    bench.order(orders.RESOURCE_SET, name="site", interval_seconds=30)
    for _ in range(3):
        bench.add(resource="site")
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    assert job.resource == "site"
    bench.pass_time(60)
    assert manager.given() == []
    manager.end(job)
    [job] = manager.given()
    bench.restart()
    manager = bench.manager(running={job.id: 1})
    bench.pass_time(5)
    assert manager.given() == []
    manager.number = 1
    manager.end(job)
    bench.pass_time(20)
    assert manager.given() == []
    bench.pass_time(10)
    assert len(manager.given()) == 1


def test_the_interval_of_a_resource_goes_with_it(bench: Bench) -> None:
    bench.order(orders.RESOURCE_SET, name="site", interval_seconds=86400)
    for _ in range(2):
        bench.add(resource="site")
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job)
    assert manager.given() == []
    bench.order(orders.RESOURCE_REMOVE, name="site")
    bench.pass_time(2)
    assert len(manager.given()) == 1


def test_a_lost_manager_loses_its_jobs_after_the_lease(bench: Bench) -> None:
    task = bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.lose()
    bench.pass_time(50)
    assert bench.state(job.id) is JobState.RUNNING
    bench.pass_time(12)
    assert bench.state(job.id) is JobState.LOST
    assert "manager m on host1 is lost" in bench.tasks.job(job.id).message
    other = bench.manager("n")
    bench.pass_time(100)
    [again] = other.given()
    assert (again.id, again.attempt) == (job.id, 2)
    # The first one's report comes after all: it does nothing, and is acknowledged.
    back = bench.manager(running={job.id: 1})
    assert [(each.id, each.attempt, each.silent) for each in back.peer.of(jobs.Kill)] == [(job.id, 1, True)]
    back.end(job, effects=Effects(data="late"))
    assert bench.state(job.id) is JobState.RUNNING and bench.tasks.task(task).spec.data == ""
    assert back.peer.of(jobs.EndingsRecorded)[-1].number == 1 and bench.engine.counters.late == 1
    other.end(again, effects=Effects(data="in time"))
    assert bench.tasks.task(task).spec.data == "in time"


def test_a_manager_that_comes_back_in_time_keeps_its_jobs(bench: Bench) -> None:
    bench.add()
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.lose()
    bench.pass_time(30)
    manager = bench.manager(running={job.id: 1})
    bench.pass_time(100)
    assert bench.state(job.id) is JobState.RUNNING and manager.peer.of(jobs.Kill) == []
    manager.end(job)
    assert bench.state(job.id) is JobState.COMPLETED


def test_a_job_that_never_arrived_is_lost_at_once(bench: Bench) -> None:
    bench.add()
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.lose()
    bench.manager()
    assert bench.state(job.id) is JobState.LOST
    assert "does not know it" in bench.tasks.job(job.id).message


def test_a_manager_that_hangs_is_lost(bench: Bench) -> None:
    bench.add()
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    bench.pass_time(62, silent=True)
    assert bench.state(job.id) is JobState.LOST and manager.peer.lost


def test_the_scheduler_begins_again_while_jobs_run(bench: Bench) -> None:
    for _ in range(3):
        bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    kept, gone, ended = manager.given()
    bench.restart()
    assert bench.engine.run_number == 3
    manager = bench.manager(running={kept.id: 1, ended.id: 1})
    manager.end(ended)
    bench.pass_time(59)
    assert [bench.state(job.id) for job in (kept, gone, ended)] == [
        *(JobState.RUNNING, JobState.RUNNING, JobState.COMPLETED),
    ]
    bench.pass_time(3)
    assert bench.state(gone.id) is JobState.LOST and bench.state(kept.id) is JobState.RUNNING
    manager.end(kept)
    assert bench.state(kept.id) is JobState.COMPLETED


def test_endings_that_are_said_twice_count_once(bench: Bench) -> None:
    task = bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    followups = (FollowUp(JobSpec(command="true")), FollowUp(JobSpec(command="true"), "", 60))
    effects = Effects(items=("one", "two"), followups=followups)
    result = JobResult(job.id, 1, JobState.COMPLETED, effects=effects)
    manager.say(*write_ending(1, result), *write_ending(1, result))
    assert bench.tasks.items.stored == ["one", "two"] and bench.engine.counters.followups == 2
    # The first one is due now.
    [followup] = manager.given()
    assert followup.task == 0 and bench.tasks.job(followup.id).parent == job.id
    bench.pass_time(60)
    assert len(manager.given()) == 1
    assert bench.tasks.task(task).last_state is JobState.COMPLETED


def test_a_commit_takes_effect_before_the_end(bench: Bench) -> None:
    bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job, JobState.RUNNING, commit=1, effects=Effects(items=("one",)))
    assert bench.tasks.items.stored == ["one"] and bench.state(job.id) is JobState.RUNNING
    manager.end(job, JobState.RUNNING, commit=2, effects=Effects(items=("bad",)))
    assert bench.state(job.id) is JobState.PERMANENT
    assert [each.silent for each in manager.peer.of(jobs.Kill)] == [True]
    assert bench.engine.roster.running_count == 0


def test_a_commit_that_cannot_be_read_ends_its_job_everywhere(bench: Bench) -> None:
    """Not at the scheduler only: the task's next job would run beside it."""
    bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job, JobState.RUNNING, commit=1, effects=Effects(data="x" * (DATA_BYTES_MAX + 1)))
    assert bench.state(job.id) is JobState.PERMANENT
    assert [(each.id, each.silent) for each in manager.peer.of(jobs.Kill)] == [(job.id, True)]


def test_orders_of_people(bench: Bench) -> None:
    task = bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    bench.order(orders.JOB_KILL, job.id)
    bench.pass_time(2)
    [kill] = manager.peer.of(jobs.Kill)
    assert (kill.id, kill.attempt, kill.reason, kill.silent) == (job.id, 1, "killed by an operator", False)
    manager.end(job, JobState.PERMANENT, signal=15)
    bench.order(orders.JOB_RERUN, job.id)
    bench.pass_time(2)
    [again] = manager.given()
    assert again.task == task and again.id != job.id
    # What is killed while its manager is away is not tried again.
    manager.lose()
    bench.order(orders.JOB_KILL, again.id)
    bench.pass_time(62)
    assert bench.state(again.id) is JobState.PERMANENT
    assert bench.tasks.job(again.id).message == "killed by an operator; manager m on host1 is lost"


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kind", [orders.JOB_KILL, orders.TASK_REMOVE])
def test_what_is_killed_while_its_manager_is_away_is_ended_when_it_is_back(
    bench: Bench, kind: str, restart: bool
) -> None:
    task = bench.add()
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.lose()
    bench.order(kind, job.id if kind == orders.JOB_KILL else task)
    bench.pass_time(2)
    if restart:
        bench.restart()
    manager = bench.manager(running={job.id: 1})
    [kill] = manager.peer.of(jobs.Kill)
    assert (kill.id, kill.attempt, kill.silent) == (job.id, 1, False)
    # It ended by itself meanwhile: it is not tried again.
    manager.end(job, JobState.TEMPORARY, message="no net")
    bench.pass_time(600, 10)
    assert manager.given() == []
    assert (bench.state(job.id), bench.tasks.job(job.id).message) == (
        JobState.PERMANENT,
        f"{kill.reason}; no net",
    )


def test_the_database_is_away_for_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    bench.add(every=10**6)

    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        for name in ("write", "select", "interact"):
            patch.setattr(bench.database.blocking, name, away)
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


def test_a_newer_scheduler_has_claimed_the_tables(bench: Bench, logged_errors: LoggedErrors) -> None:
    bench.manager()
    newer = bench.another()
    newer.start()
    bench.add()
    bench.pass_time(3)
    assert bench.stopped == 1 and logged_errors.flush("a newer scheduler")
    newer.stop()


def test_pausing(bench: Bench) -> None:
    manager = bench.manager()
    bench.engine.pause()
    bench.add()
    bench.pass_time(3)
    assert manager.given() == []
    bench.engine.resume()
    bench.settle()
    assert len(manager.given()) == 1


def test_the_wall_clock_is_set(bench: Bench) -> None:
    manager = bench.manager()
    bench.add(every=3600)
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job, JobState.TEMPORARY)
    bench.step -= 86400
    bench.pass_time(5)
    assert manager.given() == []
    bench.step += 86400 + 200
    bench.pass_time(2)
    [job] = manager.given()
    assert job.attempt == 2
    bench.step += 30 * 86400
    bench.pass_time(2)
    assert bench.state(job.id) is JobState.RUNNING
    manager.end(job)
    bench.step -= 40 * 86400
    bench.order(orders.JOB_RERUN, job.id)
    bench.pass_time(2)
    assert len(manager.given()) == 1


def test_more_is_due_than_is_held_in_memory(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ready_max=10)
    bench.start()
    for _ in range(50):
        bench.add(every=10**6)
    bench.pass_time(5)
    assert len(bench.engine.ready) == 10
    manager = bench.manager(any=3)
    done: set[int] = set()
    for _ in range(100):
        bench.pass_time(1)
        for job in manager.given():
            assert job.id not in done
            done.add(job.id)
            manager.end(job)
    assert len(done) == 50
    bench.engine.stop()
    bench.database.blocking.close()


def test_a_manager_that_makes_no_sense(bench: Bench) -> None:
    manager = bench.manager()
    manager.say(jobs.Log(1, "info", "outside"))
    assert manager.peer.lost
    manager = bench.manager("n")
    for number in range(jobs.KINDS_MAX + 1):
        manager.peer.say(jobs.Kind(f"k{number}", 1))
    bench.settle()
    assert manager.peer.lost


def test_two_connections_of_one_run(bench: Bench) -> None:
    bench.add()
    first = bench.manager()
    bench.pass_time(2)
    [job] = first.given()
    second = bench.manager(running={job.id: 1})
    assert first.peer.lost and bench.state(job.id) is JobState.RUNNING
    second.end(job)
    assert bench.state(job.id) is JobState.COMPLETED
    assert bench.tasks.job(job.id).started_time == NOW + 1


def test_jobs_that_nobody_can_run_keep_no_others_out(tmp_path: Path) -> None:
    """More than are held in memory, and due longer: of a missing executable, a missing kind, a host that is not."""
    bench = Bench(tmp_path, ready_max=10)
    bench.start()
    bench.pass_time(1)
    manager = bench.manager()
    for _ in range(8):
        bench.add(command="missing")
        bench.add(kind="missing")
        bench.add(on=("allow:missing",))
    bench.pass_time(5)
    wanted = bench.add(every=10**6)
    bench.pass_time(5)
    [job] = manager.given()
    assert job.task == wanted and len(bench.engine.ready) <= 10
    waits = bench.engine.ready.oldest_due_time
    assert waits is not None and waits <= bench.now() - 9
    # Now there is one that can.
    other = bench.manager("n", host="missing", has=("true", "missing"), any=100)
    bench.pass_time(5)
    assert len(other.given()) == 24
    bench.engine.stop()
    bench.database.blocking.close()


def test_jobs_whose_kind_has_no_room_keep_no_others_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ready_max=10)
    bench.start()
    manager = bench.manager(slow=1, command=5)
    slow = [bench.add(kind="slow", every=10**6) for _ in range(40)]
    bench.pass_time(5)
    quick = bench.add(every=10**6)
    bench.pass_time(5)
    first, second = manager.given()
    assert (first.task, second.task) == (slow[0], quick)
    manager.end(second)
    done = [first.task]
    while len(done) < 40:
        manager.end(first)
        bench.pass_time(2)
        [first] = manager.given()
        done.append(first.task)
    assert done == slow
    bench.engine.stop()
    bench.database.blocking.close()


def test_a_manager_speaks_of_its_own_jobs_only(bench: Bench) -> None:
    task = bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    other = bench.manager("n")
    other.say(jobs.Started(job.id, 1, 666), jobs.JobStatus(job.id, 1, "not mine"))
    other.end(job, effects=Effects(data="not mine"))
    manager.say(jobs.Started(job.id, 1, 7))
    bench.pass_time(2)
    shown = bench.tasks.job(job.id)
    assert (shown.state, shown.pid, shown.message) == (JobState.RUNNING, 7, "")
    assert bench.engine.counters.late == 1 and other.peer.of(jobs.EndingsRecorded)[-1].number == 1
    manager.end(job, effects=Effects(data="mine"))
    assert bench.tasks.task(task).spec.data == "mine" and bench.state(job.id) is JobState.COMPLETED


def test_a_job_whose_ending_waits_frees_its_resource(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its manager comes back and does not name it: it has ended, and that was reported."""
    for _ in range(2):
        bench.add(resource="site", every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()

    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        for name in ("write", "select", "interact"):
            patch.setattr(bench.database.blocking, name, away)
        manager.end(job)
        manager.lose()
        manager = bench.manager()
        bench.pass_time(5)
    bench.pass_time(2)
    assert bench.state(job.id) is JobState.COMPLETED
    assert len(manager.given()) == 1


def test_an_ending_that_cannot_be_recorded_is_its_jobs_own_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    tasks = [bench.add(every=3600) for _ in range(4)]
    manager = bench.manager()
    bench.pass_time(2)
    given = manager.given()
    store = SomeItems.store

    def explode(self: SomeItems, txn: Any, task: int, job: int, page: str, items: Any, now: int) -> Any:
        if "bomb" in items:
            raise RuntimeError("it explodes")
        return store(self, txn, task, job, page, items, now)

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


@pytest.mark.parametrize(
    "hello",
    [
        "",
        'version="1"',
        'version="1" role="manager"',
        'version="1" name="m" run="r"',
        'version="1" role="manager" name="m"',
        'version="1" role="manager" name="" run="r"',
        'version="1" role="manager" name="m" run="r" capacity=""',
        'version="1" role="manager" name="m" run="r" capacity="-1"',
        'version="1" role="manager" name="m" run="r" capacity="many"',
    ],
)
def test_a_hello_that_lacks_something_is_a_protocol_error(
    bench: Bench, hello: str, logged: list[LogEvent], logged_errors: LoggedErrors
) -> None:
    stream = bench.engine.factory().buildProtocol(None)
    assert stream is not None
    transport = MemoryTransport()
    transport.protocol = stream
    stream.makeConnection(transport)
    text = f'<lcc:stream xmlns:lcc="http://www.lococa.org/1.0" {hello}>\n<ready/>\n'
    stream.dataReceived(text.encode())
    bench.settle()
    assert not bench.engine.roster.connected and transport.closed and logged_errors.events == []
    assert [each for each in logged if "Dropping" in formatEvent(each)]


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
