"""Which managers are up, and since when: as others see it in the table, and who is missed."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.logger import LogEvent, formatEvent

from lcc.model.tasks import JobState, ManagerState, ManagerStatus
from lcc.protocols import jobs
from lcc.roles.scheduler.roster import Roster
from lcc.storage.tasks.managers import managers
from tests.support.roles.scheduler import Bench
from tests.support.tasks import NOW


def shown(bench: Bench, name: str = "m") -> ManagerStatus:
    return next(each for each in bench.database.blocking.interact(managers) if each.name == name)


def test_managers_that_come_and_go_are_in_the_table(bench: Bench) -> None:
    manager = bench.manager(command=3, capacity=7)
    bench.add()
    bench.pass_time(30)
    up = shown(bench)
    assert (up.host, up.run, up.capacity, up.running, up.down_time) == ("host1", "r1", 7, 1, None)
    assert [(each.kind, each.jobs) for each in up.kinds] == [("command", 3)]
    assert up.state(bench.now()) is ManagerState.UP and up.since(bench.now()) == up.first_time == NOW
    manager.heartbeat(paused="by hand")
    bench.pass_time(1)
    manager.heartbeat(paused="by hand")
    assert shown(bench).state(bench.now()) is ManagerState.PAUSED and shown(bench).paused == "by hand"
    manager.lose()
    lost = int(bench.now())
    bench.pass_time(40)
    down = shown(bench)
    assert down.state(bench.now()) is ManagerState.DOWN and down.since(bench.now()) == lost
    assert lost - 5 <= down.heard_time <= lost
    # The same run again: it has been up since its start.  Another one: since now.
    bench.manager()
    bench.pass_time(2)
    assert shown(bench).state(bench.now()) is ManagerState.UP and shown(bench).since(bench.now()) == NOW
    bench.managers[-1].lose()
    started = int(bench.now())
    bench.manager(run="r2")
    bench.pass_time(2)
    assert shown(bench).since(bench.now()) == started and shown(bench).first_time == NOW


def test_two_managers_of_one_name(bench: Bench, logged: list[LogEvent]) -> None:
    """A configuration was copied to a second host: both get jobs, and their operator hears of it."""
    bench.manager("another", host="host9", command=0)
    first = bench.manager(host="host1", capacity=1)
    again = bench.manager(host="host1", run="r2", capacity=1)
    assert not [each for each in logged if "Two managers" in formatEvent(each)]
    first.lose()
    other = bench.manager(host="host2", run="r3", capacity=1)
    assert [each for each in logged if "Two managers are named m, on host2 and on host1" in formatEvent(each)]
    tasks = [bench.add() for _ in range(2)]
    bench.pass_time(2)
    given = [(manager, *manager.given()) for manager in (again, other)]
    for manager, job in given:
        manager.end(job)
    assert [bench.tasks.task(task).last_state for task in tasks] == [JobState.COMPLETED] * 2


def test_the_clock_is_set_back_behind_what_is_known_of_managers() -> None:
    roster = Roster(60.0)
    lost, other = roster.manager_of("lost", "r", 0.0, 100.0), roster.manager_of("other", "r", 0.0, 40.0)
    lost.lost_time = 120.0
    for now, started in ((110.0, 100.0), (50.0, 50.0), (200.0, 50.0)):
        roster.no_later_than(now)
        assert (lost.started_time, other.started_time) == (started, 40.0)
        assert lost.lost_time == min(now, 110.0 if now == 110.0 else 50.0)
        assert other.lost_time is None


def test_what_the_scheduler_no_longer_says_is_unknown(bench: Bench) -> None:
    bench.manager()
    bench.pass_time(300)
    heard = shown(bench).heard_time
    assert shown(bench).state(bench.now()) is ManagerState.UP
    assert shown(bench).state(bench.now() + 120) is ManagerState.UNKNOWN
    assert shown(bench).since(bench.now() + 120) == heard


def test_a_manager_that_was_lost_with_the_scheduler_is_missed(bench: Bench) -> None:
    bench.manager("gone")
    bench.manager("back")
    bench.pass_time(30)
    bench.restart()
    restarted = int(bench.now())
    bench.manager("back")
    bench.pass_time(30)
    assert [each.name for each in bench.engine.roster.missing] == ["gone"]
    assert shown(bench, "gone").state(bench.now()) is ManagerState.DOWN
    assert shown(bench, "gone").since(bench.now()) == restarted and shown(bench, "gone").host == "host1"
    assert shown(bench, "back").since(bench.now()) == NOW
    bench.restart()
    bench.pass_time(5)
    assert shown(bench, "gone").since(bench.now()) == restarted


def test_a_manager_that_is_down_for_a_week_is_forgotten(bench: Bench) -> None:
    bench.manager("gone")
    bench.pass_time(2)
    bench.managers[0].lose()
    bench.pass_time(6 * 86400, 3600)
    assert shown(bench, "gone").state(bench.now()) is ManagerState.DOWN
    bench.pass_time(2 * 86400, 3600)
    bench.manager("new")
    bench.pass_time(2)
    assert [each.name for each in bench.database.blocking.interact(managers)] == ["new"]
    assert bench.engine.roster.missing == []


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (jobs.Kind("k" * 101, 1), "a kind with a name of 101 characters: it may have 1 to 100"),
        (jobs.Kind("", 1), "a kind with a name of 0 characters"),
        (jobs.Has("x" * 256), "an executable with a name of 256 characters: it may have 1 to 255"),
        (jobs.RunOver(""), "a run with a name of 0 characters"),
        (jobs.RunOver("r1"), "its own run is over"),
    ],
)
def test_names_that_are_too_long(bench: Bench, logged: list[LogEvent], message: Any, text: str) -> None:
    manager = bench.manager()
    manager.say(message)
    assert manager.peer.lost and text in " ".join(map(formatEvent, logged))
