"""Managers that come, go, are lost, say everything twice, or make no sense."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from twisted.logger import LogEvent, formatEvent

from lcc.errors import StoreUnavailable
from lcc.model.tasks import (
    DATA_BYTES_MAX,
    Assigned,
    Effects,
    FollowUp,
    JobResult,
    JobSpec,
    JobState,
    StartedJob,
)
from lcc.protocols import jobs
from lcc.protocols.endings import write_ending
from lcc.protocols.hello import Ready
from lcc.roles.scheduler import managers
from lcc.storage.tasks import orders
from tests.support.logs import LoggedErrors
from tests.support.roles.scheduler import Bench, FakeManager
from tests.support.tasks import NOW
from tests.support.transports import MemoryTransport


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
    for host in ("host1", "host1", "host1", "host2"):
        bench.add(every=10**6, on=(f"allow:{host}",))
    manager, other = bench.manager(), bench.manager("n", host="host2")
    bench.pass_time(2)
    (kept, unknown, ended), [gone] = manager.given(), other.given()
    bench.restart()
    assert bench.engine.run_number == 3
    manager = bench.manager(running={kept.id: 1, ended.id: 1})
    manager.end(ended)
    bench.pass_time(59)
    assert [bench.state(job.id) for job in (kept, unknown, ended, gone)] == [
        *(JobState.RUNNING, JobState.LOST, JobState.COMPLETED, JobState.RUNNING),
    ]
    assert "does not know it" in bench.tasks.job(unknown.id).message
    bench.pass_time(3)
    assert bench.state(gone.id) is JobState.LOST and bench.state(kept.id) is JobState.RUNNING
    assert "did not come back" in bench.tasks.job(gone.id).message
    manager.end(kept)
    assert bench.state(kept.id) is JobState.COMPLETED


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_run_had_that_is_over_is_lost_at_once(bench: Bench, restart: bool) -> None:
    """The manager was killed, and has been started again; of one of its jobs it has found the ending."""
    for name in ("a", "b"):
        bench.add(every=10**6, resource=name)
    killed = bench.manager()
    bench.pass_time(2)
    gone, ended = killed.given()
    if restart:
        bench.restart()
    manager = bench.manager(run="r2", over=("r0", "r1"), running={ended.id: 1})
    assert bench.state(gone.id) is JobState.LOST and bench.state(ended.id) is JobState.RUNNING
    assert "was ended while the job ran, and started again" in bench.tasks.job(gone.id).message
    assert not manager.peer.of(jobs.Kill) and killed.peer.lost
    waiting = bench.add(every=10**6, resource="b")
    manager.end(ended, effects=Effects(data="done"))
    assert bench.state(ended.id) is JobState.COMPLETED and bench.tasks.task(ended.task).spec.data == "done"
    bench.pass_time(2)
    [next_one] = manager.given()
    assert next_one.task == waiting  # the resource was released with the ending
    bench.pass_time(100)
    [again] = manager.given()
    assert (again.id, again.attempt) == (gone.id, 2)


@pytest.mark.parametrize("restart", [False, True])
def test_a_run_that_nobody_says_is_over_has_its_lease(bench: Bench, restart: bool) -> None:
    """As with a copy of its home on another machine: it may still run there."""
    bench.add(every=10**6)
    bench.manager()
    bench.pass_time(2)
    [job] = bench.managers[0].given()
    if restart:
        bench.restart()
    else:
        bench.managers[0].lose()
    bench.manager(run="r2", over=("r0",))
    bench.pass_time(50)
    assert bench.state(job.id) is JobState.RUNNING
    bench.pass_time(12)
    assert bench.state(job.id) is JobState.LOST


def test_nothing_is_given_to_a_manager_that_has_yet_to_say_what_it_has(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back while a job is given out: what it says then may be older than the job, which would be lost here,
    and run there."""
    bench.add(every=10**6)
    first = bench.manager()
    start, again = bench.engine.store.start_jobs, []

    async def start_later(chosen: Sequence[Assigned], now: int) -> list[StartedJob]:
        if not again:
            first.lose()
            again.append(FakeManager(bench, "m", "r1", "host1", 0))
            bench.settle()
        return await start(chosen, now)

    monkeypatch.setattr(bench.engine.store, "start_jobs", start_later)
    bench.pass_time(2)
    [second] = again
    bench.managers.append(second)
    assert second.given() == []
    second.say(jobs.Kind("command", 10), jobs.Has("true"), Ready())
    bench.pass_time(100)
    [job] = second.given()
    assert job.attempt == 2 and bench.state(job.id) is JobState.RUNNING


def test_what_is_given_to_a_manager_that_is_gone_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is unreachable while a job is given out; until it is back the manager is killed and started
    again, so that its former run is forgotten."""
    bench.add(every=10**6)
    first = bench.manager()
    start = bench.engine.store.start_jobs
    chosen_ids = set()

    async def start_later(chosen: Sequence[Assigned], now: int) -> list[StartedJob]:
        chosen_ids.update(each.job.id for each in chosen)
        if not first.peer.lost:
            first.lose()
        if len(bench.managers) < 2:
            raise StoreUnavailable("away")
        return await start(chosen, now)

    monkeypatch.setattr(bench.engine.store, "start_jobs", start_later)
    bench.pass_time(3)
    second = bench.manager(run="r2")
    bench.pass_time(3)
    job = bench.tasks.job(chosen_ids.pop())
    assert job.state is JobState.LOST and "left before it had it" in job.message
    bench.pass_time(100)
    assert [each.attempt for each in second.given()] == [2]


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


def test_a_manager_that_makes_no_sense(bench: Bench) -> None:
    manager = bench.manager()
    manager.say(jobs.Log(1, "info", "outside"))
    assert manager.peer.lost
    manager = bench.manager("n")
    for number in range(jobs.KINDS_MAX + 1):
        manager.peer.say(jobs.Kind(f"k{number}", 1))
    bench.settle()
    assert manager.peer.lost


def test_a_manager_that_names_jobs_without_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "RUNNING_MAX", 3)
    manager = bench.manager(running=dict.fromkeys(range(1, 4), 1))
    assert not manager.peer.lost
    manager = bench.manager("n", running=dict.fromkeys(range(1, 5), 1))
    assert manager.peer.lost


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


def test_a_commit_that_cannot_be_read_ends_its_job_everywhere(bench: Bench) -> None:
    """Not at the scheduler only: the task's next job would run beside it."""
    bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job, JobState.RUNNING, commit=1, effects=Effects(data="x" * (DATA_BYTES_MAX + 1)))
    assert bench.state(job.id) is JobState.PERMANENT
    assert [(each.id, each.silent) for each in manager.peer.of(jobs.Kill)] == [(job.id, True)]
