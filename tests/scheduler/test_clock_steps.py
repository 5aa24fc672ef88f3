"""Somebody sets the wall clock of the scheduler's host, forward and back, while it runs or while it is down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lcc.model.tasks import Effects, FollowUp, JobSpec, JobState, Task, When
from lcc.storage.tasks import orders
from lcc.storage.tasks.figures import task_figures
from tests.support.roles.scheduler import Bench, FakeManager
from tests.support.tasks import NOW

HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
STEPS = pytest.mark.parametrize("seconds", [HOUR, DAY, YEAR])
RESTARTS = pytest.mark.parametrize("restart", [False, True], ids=["runs", "restarts"])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, jobs_kept=10 * DAY)
    bench.start()
    yield bench
    bench.engine.stop()
    bench.database.blocking.close()


def set_clock(bench: Bench, seconds: int, restart: bool = False) -> None:
    """The wall clock is set by so much; less than 0: back."""
    if restart:
        bench.engine.stop()
        bench.step += seconds
        bench.restart()
    else:
        bench.step += seconds
    bench.pass_time(2)


def manager_of(bench: Bench, restart: bool, manager: FakeManager) -> FakeManager:
    return bench.manager(run="r2") if restart else manager


def due(bench: Bench, task: int) -> int | None:
    found = bench.database.now(lambda txn: txn.value("SELECT due_time FROM tasks WHERE id = ?", [task]))
    return None if found is None else int(found)


def begin(bench: Bench, when: When) -> int:
    """A task, which waits for the next time of day, or whose first job has just ended."""
    number, _ = bench.database.now(orders.order_task, Task(0, JobSpec(command="true"), when), int(bench.now()))
    return number


@STEPS
@RESTARTS
def test_a_task_never_waits_for_longer_than_its_period(bench: Bench, seconds: int, restart: bool) -> None:
    manager = bench.manager()
    task = bench.add(every=1800)
    bench.pass_time(2)
    manager.end(manager.given()[0])
    started = bench.clock.seconds()
    set_clock(bench, seconds, restart)
    manager = manager_of(bench, restart, manager)
    bench.pass_time(2)
    [job] = manager.given()  # overdue, as far as anybody can tell
    manager.end(job)
    again = bench.clock.seconds()
    set_clock(bench, -seconds, restart)
    manager = manager_of(bench, restart, manager)
    wait = (due(bench, task) or 0) - bench.now()
    assert 1790 <= wait <= 3600, "a period, and what spreads tasks"
    bench.pass_time(1780, 10)
    assert manager.given() == [], f"not earlier than a period after {again}, nor {started}"
    bench.pass_time(1860, 10)
    assert len(manager.given()) == 1


@STEPS
@RESTARTS
def test_back_and_forward_again(bench: Bench, seconds: int, restart: bool) -> None:
    manager = bench.manager()
    task = bench.add(every=4 * HOUR)
    bench.pass_time(2)
    manager.end(manager.given()[0])
    before = due(bench, task) or 0
    set_clock(bench, -seconds, restart)
    wait = (due(bench, task) or 0) - bench.now()
    assert wait <= before - bench.now(), "never longer than it was"
    assert 4 * HOUR - 10 <= wait <= 5 * HOUR + seconds * (seconds == HOUR)
    set_clock(bench, seconds, restart)
    assert (due(bench, task) or 0) <= before


@STEPS
@RESTARTS
def test_a_retry(bench: Bench, seconds: int, restart: bool) -> None:
    bench.step += seconds
    manager = bench.manager()
    bench.add(every=2 * DAY)
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job, JobState.TEMPORARY)
    bench.pass_time(2)
    set_clock(bench, -seconds, restart)
    manager = manager_of(bench, restart, manager)
    bench.pass_time(40, 5)
    assert manager.given() == [], "after a minute"
    bench.pass_time(45, 5)
    [job] = manager.given()
    assert job.attempt == 2


@STEPS
def test_follow_ups_and_jobs_that_were_due(bench: Bench, seconds: int) -> None:
    bench.step += seconds
    first = bench.manager(command=1)
    bench.add()
    bench.pass_time(2)
    [job] = first.given()
    other = bench.add(every=DAY)
    bench.pass_time(2)  # it is due, and there is no room
    follow = FollowUp(JobSpec(command="true"), after_seconds=600)
    first.end(job, effects=Effects(followups=(follow,)))
    [job] = first.given()
    first.end(job)
    bench.add(every=DAY)
    bench.engine.pause()
    bench.pass_time(2)
    bench.step -= seconds
    bench.pass_time(2)
    bench.engine.resume()
    bench.pass_time(2)
    [job] = first.given()
    assert job.task not in (0, other), "what was due is due"
    first.end(job)
    bench.pass_time(590, 10)
    assert first.given() == []
    bench.pass_time(60, 10)
    [job] = first.given()
    assert job.task == 0, "the follow-up waits as long as its worker has said"


@STEPS
@RESTARTS
def test_a_resource(bench: Bench, seconds: int, restart: bool) -> None:
    bench.order(orders.RESOURCE_SET, name="r", interval_seconds=300)
    bench.step += seconds
    manager = bench.manager()
    for _ in range(2):
        bench.add(every=DAY, resource="r")
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job)
    set_clock(bench, -seconds, restart)
    manager = manager_of(bench, restart, manager)
    bench.pass_time(280, 10)
    assert manager.given() == [], "its interval passes"
    bench.pass_time(40, 10)
    assert len(manager.given()) == 1


@pytest.mark.parametrize("seconds", [-YEAR, -DAY, -HOUR, HOUR, DAY, YEAR])
@RESTARTS
def test_a_job_runs_while_the_clock_is_set(bench: Bench, seconds: int, restart: bool) -> None:
    manager = bench.manager()
    task = bench.add(every=HOUR)
    bench.pass_time(2)
    [job] = manager.given()
    set_clock(bench, seconds, restart)
    manager = bench.manager(running={job.id: job.attempt}) if restart else manager
    bench.pass_time(5)
    assert manager.given() == [], "never two jobs of a task"
    manager.end(job)
    bench.pass_time(2)
    assert bench.state(job.id) is JobState.COMPLETED
    if seconds < 0:
        assert HOUR - 10 <= (due(bench, task) or 0) - bench.now() <= 2 * HOUR


@pytest.mark.parametrize("when", [When(at="06:30"), When(cron="30 6 * * *")], ids=["at", "cron"])
@RESTARTS
def test_times_of_day(bench: Bench, when: When, restart: bool) -> None:
    manager = bench.manager()
    half_past_six = NOW - NOW % DAY + DAY + 6 * HOUR + 1800
    set_clock(bench, half_past_six - 3 * HOUR - int(bench.now()))
    task = begin(bench, when)
    bench.pass_time(2)
    assert due(bench, task) == half_past_six
    for seconds in (DAY, YEAR):
        set_clock(bench, seconds, restart)
        manager = manager_of(bench, restart, manager)
        bench.pass_time(2)
        [job] = manager.given()
        manager.end(job)
        set_clock(bench, -seconds, restart)
        manager = manager_of(bench, restart, manager)
        assert due(bench, task) == half_past_six, "worked out anew"
    bench.step += half_past_six - int(bench.now())
    bench.pass_time(3)
    [job] = manager.given()
    manager.end(job)
    set_clock(bench, -HOUR, restart)
    manager = manager_of(bench, restart, manager)
    assert due(bench, task) == half_past_six + DAY
    bench.pass_time(2 * HOUR, 15)
    assert manager.given() == [], "what was done at half past six is not done again an hour later"


def test_a_worker_of_a_time_of_day_runs_while_a_wrong_clock_is_set_right(bench: Bench) -> None:
    manager = bench.manager()
    bench.step += YEAR
    task = begin(bench, When(cron="*/10 * * * *"))
    bench.pass_time(640, 10)
    [job] = manager.given()
    bench.step -= YEAR
    bench.pass_time(2)
    manager.end(job)
    bench.pass_time(2)
    assert 0 < (due(bench, task) or 0) - bench.now() <= 600


@STEPS
@RESTARTS
def test_what_has_happened_is_no_later_than_now(bench: Bench, seconds: int, restart: bool) -> None:
    bench.step += seconds
    manager = bench.manager()
    task = bench.add()
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job, JobState.PERMANENT)
    bench.pass_time(2)
    manager.lose()
    set_clock(bench, -seconds, restart)
    now = int(bench.now())
    row = bench.database.now(
        lambda txn: txn.query(
            "SELECT started_time, ended_time, since_time, created_time FROM tasks WHERE id = ?", [task]
        )
    )[0]
    assert max(row) <= now
    days = bench.database.now(lambda txn: txn.query("SELECT day, permanent FROM jobsdone"))
    assert days == [(now // DAY, 1)], "it counts for today"
    figures = bench.database.now(task_figures, now)
    assert figures.is_alive(now) and not figures.is_alive(now - seconds)
    assert all(max(each.started_time, each.down_time or 0, each.heard_time) <= now for each in figures.managers)
    bench.pass_time(10 * DAY + 600, 300)
    jobs = bench.database.now(lambda txn: txn.query("SELECT id FROM jobs WHERE id = ?", [job.id]))
    assert jobs == [], "it is kept as long as others"


def test_nothing_is_forgotten_for_a_day_when_the_clock_was_set_forward(bench: Bench) -> None:
    manager = bench.manager()
    bench.add(every=YEAR)
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job)
    bench.pass_time(2)
    set_clock(bench, YEAR // 2)
    bench.pass_time(DAY - 600, 300)
    assert bench.state(job.id) is JobState.COMPLETED
    set_clock(bench, -YEAR // 2)
    bench.pass_time(DAY, 300)
    assert bench.state(job.id) is JobState.COMPLETED


def test_a_retry_that_falls_behind_a_clock_that_was_set_back_a_little(tmp_path: Path) -> None:
    """By less than is noticed as a step."""
    bench = Bench(tmp_path)
    bench.start()
    manager = bench.manager()
    bench.add(every=10**6)
    bench.pass_time(2)
    [job] = manager.given()
    manager.end(job, JobState.TEMPORARY)
    bench.pass_time(60)
    retry = "UPDATE jobs SET due_time = ?"
    bench.step -= 1.9
    bench.database.now(lambda txn: txn.execute(retry, [int(bench.now()) + 1]))
    bench.pass_time(5)
    [again] = manager.given()
    assert (again.id, again.attempt) == (job.id, 2)
    bench.engine.stop()
    bench.database.blocking.close()
