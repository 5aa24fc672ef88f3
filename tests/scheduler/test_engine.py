"""The scheduler: what is due, who gets it, what people order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from lcc.model.tasks import Assigned, Effects, JobSpec, JobState, StartedJob
from lcc.protocols import jobs
from lcc.storage.tasks import orders
from tests.support.roles.scheduler import Bench


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


def test_a_job_that_others_have_made_is_given_out_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read from the table, and is being given out, when whoever has made it hears that it is made."""
    bench.add()
    start = bench.engine.store.start_jobs

    async def start_slowly(chosen: Sequence[Assigned], now: int) -> list[StartedJob]:
        monkeypatch.undo()
        bench.engine.add([job for job, *_ in chosen])
        return await start(chosen, now)

    monkeypatch.setattr(bench.engine.store, "start_jobs", start_slowly)
    managers = bench.manager(), bench.manager("n", host="host2")
    bench.pass_time(3)
    assert len([job for manager in managers for job in manager.given()]) == 1


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


def test_a_commit_takes_effect_before_the_end(bench: Bench) -> None:
    bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job, JobState.RUNNING, commit=1, effects=Effects(items=("one",)))
    assert bench.tasks.items.stored == ["one"] and bench.state(job.id) is JobState.RUNNING
    assert manager.peer.of(jobs.Kill) == [] and bench.engine.roster.running_count == 1
    manager.end(job, JobState.RUNNING, commit=2, effects=Effects(items=("bad",)))
    assert bench.state(job.id) is JobState.PERMANENT
    assert [each.silent for each in manager.peer.of(jobs.Kill)] == [True]
    assert bench.engine.roster.running_count == 0


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


def test_all_that_is_due_is_given_out_at_once(tmp_path: Path) -> None:
    """Though it is more than is held in memory."""
    bench = Bench(tmp_path, ready_max=10)
    bench.start()
    bench.engine.pause()
    for _ in range(60):
        bench.add(every=10**6)
    bench.pass_time(1)
    assert bench.engine.counters.orders == 60, "all orders within one second, too"
    manager = bench.manager(command=100)
    bench.engine.resume()
    bench.settle()
    assert len(manager.given()) == 10
    bench.pass_time(1)
    assert len(manager.given()) == 50
    bench.engine.stop()
    bench.database.blocking.close()


def test_what_is_held_is_not_cut_when_it_is_read_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ready_max=10)
    bench.start()
    bench.manager(command=1)
    for _ in range(11):
        bench.add(every=10**6)
    bench.pass_time(5)
    assert len(bench.engine.ready) == 10
    bench.step -= 1.9  # all is read again
    bench.pass_time(5)
    assert len(bench.engine.ready) == 10
    bench.engine.stop()
    bench.database.blocking.close()


def test_as_many_as_fit_are_held_while_no_manager_is_there(tmp_path: Path) -> None:
    """The others are read when there is room."""
    bench = Bench(tmp_path, ready_max=10)
    bench.start()
    spec = attrs.asdict(JobSpec(command="true"))
    for _ in range(9):
        bench.add(every=10**6)
    for _ in range(5):
        bench.order(orders.JOB_ADD, spec=spec, after_seconds=10)
    bench.pass_time(20)
    assert len(bench.engine.ready) == 10
    assert len(bench.manager(command=100).given()) == 10
    bench.pass_time(2)
    assert len(bench.managers[0].given()) == 4
    bench.engine.stop()
    bench.database.blocking.close()


def test_a_long_line_keeps_half_of_its_places(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ready_max=10)
    bench.start()
    bench.manager(command=1)
    for _ in range(5):
        for _ in range(10):
            bench.add(every=10**6)
        bench.pass_time(2)
        assert 5 <= len(bench.engine.ready) <= 10
    bench.engine.stop()
    bench.database.blocking.close()


def test_jobs_that_were_killed_wait_no_longer(tmp_path: Path) -> None:
    """Though they were not held in memory: nobody could run them, and more was due than fits."""
    bench = Bench(tmp_path, ready_max=10)
    bench.start()
    manager = bench.manager()
    tasks = [bench.add(kind="missing", every=10**6) for _ in range(12)]
    bench.pass_time(5)
    bench.add(every=10**6)
    bench.pass_time(5)
    assert len(manager.given()) == 1 and len(bench.engine.ready) == 0
    assert bench.engine.ready.oldest_due_time is not None
    for task in tasks:
        bench.order(orders.TASK_REMOVE, task)
    bench.pass_time(2)
    assert bench.engine.ready.oldest_due_time is None
    bench.engine.stop()
    bench.database.blocking.close()


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
