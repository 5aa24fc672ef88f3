"""What a scheduler shows of itself, and what it complains about."""

from __future__ import annotations

from typing import Any

import attrs

from lcc.model.tasks import Effects, FollowUp, JobSpec, JobState
from lcc.roles.scheduler.metrics import MISSING_SECONDS, WAITING_SECONDS, SchedulerMetrics
from tests.support.roles.scheduler import Bench


def metrics(bench: Bench) -> SchedulerMetrics:
    """Without those of its database."""
    nothing: Any = None
    return SchedulerMetrics(bench.engine, nothing, nothing)


def readings(bench: Bench) -> dict[str, Any]:
    """Value of each metric; those with a label: by its value."""
    found: dict[str, Any] = {}
    for reading in metrics(bench).role_readings():
        values = dict(reading.series)
        found[reading.metric.name.removeprefix("lcc_scheduler_")] = values.get((), values)
    return found


def faults(bench: Bench) -> dict[str, str]:
    return {each.name: each.fault for each in metrics(bench).role_conditions() if each.fault}


def test_what_it_counts(bench: Bench) -> None:
    assert not any(attrs.astuple(bench.engine.counters))
    empty = readings(bench)
    assert empty["job_waiting_seconds"] == 0 and empty["paused"] == 0 and empty["run"] == bench.engine.run_number
    manager = bench.manager(command=3, follow=0)
    for _ in range(4):
        bench.add(every=10**6)
    bench.pass_time(2)
    good, bad, gone = manager.given()
    manager.end(good, effects=Effects(followups=(FollowUp(JobSpec("follow", "true")),)))
    manager.end(good)
    manager.end(bad, JobState.PERMANENT)
    [tried] = manager.given()
    manager.end(tried, JobState.TEMPORARY)
    manager.lose()
    bench.pass_time(62)
    shown = readings(bench)
    assert shown["jobs_made"] == 4 and shown["jobs_started"] == 4 and shown["followups"] == 1
    ended = {"completed": 1, "temporary": 1, "permanent": 1, "lost": 1}
    assert shown["jobs_ended"] == {(state,): count for state, count in ended.items()}
    assert shown["endings_late"] == 1 and shown["orders"] == 4 and bench.state(gone.id) is JobState.LOST
    assert shown["managers"] == {("connected",): 0, ("missing",): 1}
    assert shown["jobs_waiting"][("follow",)] == 1


def test_a_manager_is_missed_after_a_minute(bench: Bench) -> None:
    bench.manager("away").lose()
    bench.pass_time(MISSING_SECONDS - 1)
    assert faults(bench) == {}
    bench.pass_time(1)
    assert faults(bench) == {"managers": "lost managers: away on host1 for 60 seconds"}
    bench.manager("away")
    assert faults(bench) == {}


def test_a_job_that_waits_for_long_is_told_of(bench: Bench) -> None:
    bench.add(every=10**6)
    bench.pass_time(2)
    due = bench.engine.ready.oldest_due_time
    assert due is not None
    bench.step += due - 5 - bench.now()
    assert readings(bench)["job_waiting_seconds"] == 0, "the clock was set back"
    bench.step += due + WAITING_SECONDS - 1 - bench.now()
    assert faults(bench) == {} and readings(bench)["job_waiting_seconds"] == WAITING_SECONDS - 1
    bench.step += 1
    [(name, fault)] = faults(bench).items()
    assert name == "jobs-given-out" and fault.startswith("a job has waited for 15 minutes: ")
    bench.engine.pause()
    assert "not-paused" in faults(bench) and readings(bench)["paused"] == 1
