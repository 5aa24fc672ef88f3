"""Which managers are known, and how many jobs are out."""

from __future__ import annotations

from typing import Any

from lcc.model.tasks import RunningJob
from lcc.roles.scheduler.roster import Roster

WEEK = 7 * 86400.0


def test_what_is_out() -> None:
    roster = Roster(60.0)
    roster.adopt_orphans([orphan(1), orphan(2)], 0.0)
    roster.manager_of("m", "r", 0.0, 0.0).take(3, 1, "feed", "")
    assert roster.running_count == 3
    assert sorted(roster.running()) == [(1, "command"), (2, "command"), (3, "feed")]
    assert [each.job for each in roster.take_lost(59.9)] == []
    assert sorted(each.job for each in roster.take_lost(60.0)) == [1, 2, 3] and roster.running_count == 0


def orphan(number: int) -> RunningJob:
    return RunningJob(number, 1, "command", "", "m", "r", 0, "")


def test_a_run_is_forgotten_when_a_newer_one_is_there_or_after_a_week() -> None:
    roster = Roster(60.0)
    alone, old = roster.manager_of("alone", "r1", 0.0, 0.0), roster.manager_of("m", "r1", 0.0, 0.0)
    assert roster.take_lost(100.0) == [] and roster.missing == [alone, old]
    new = roster.manager_of("m", "r2", 100.0, 100.0)
    connection: Any = object()
    new.connection = connection
    roster.take_lost(101.0)
    assert list(roster.managers.values()) == [alone, new]
    roster.take_lost(WEEK - 1)
    assert alone in roster.managers.values()
    roster.take_lost(WEEK)
    assert list(roster.managers.values()) == [new]
