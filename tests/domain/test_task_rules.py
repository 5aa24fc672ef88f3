"""The rules of tasks in one object: it asks those that are tested by themselves, with its settings."""

from __future__ import annotations

from lcc.domain.fetches.robots_rules import ALL, NONE, RULES
from lcc.domain.tasks.due import JobRetries, due_by, first_due, next_due
from lcc.domain.tasks.rules import TaskRules
from lcc.model.tasks import When

NOW = 1_780_000_000
LAST_SECOND = 253_402_300_799
HOURLY = When(every_seconds=3600)
ROBOTS = "User-agent: *\nCrawl-delay: 7\nVisit-time: 0100-0300\nDisallow: /private/\n"


def test_when_tasks_are_due() -> None:
    rules = TaskRules()
    assert rules.first_due(HOURLY, NOW + 0.5) == first_due(HOURLY, NOW + 0.5) == NOW
    assert rules.next_due(HOURLY, 3, NOW, NOW, True) == next_due(HOURLY, 3, NOW, NOW, True) == NOW + 3600 + 3074
    assert rules.next_due(HOURLY, 3, NOW, NOW, False) == NOW + 3600
    assert rules.due_by(HOURLY, 3, None, NOW) == due_by(HOURLY, 3, None, NOW) == NOW + 3600 + 3074


def test_when_jobs_are_tried_again() -> None:
    assert TaskRules().retry_due(2, 1, NOW, None, None) == JobRetries().due(2, 1, NOW, None) == NOW + 64
    assert TaskRules(JobRetries(1)).retry_due(2, 2, NOW, None, None) is None
    assert TaskRules().retry_due(2, 1, NOW, NOW + 64, None) is None
    assert TaskRules().retry_due(2, 1, NOW, None, 500) == NOW + 501


def test_robots() -> None:
    rules = TaskRules()
    assert rules.robots_allow(ROBOTS, RULES, "http://site/a")
    assert not rules.robots_allow(ROBOTS, RULES, "http://site/private/a")
    assert rules.robots_delay(ROBOTS) == 7
    assert rules.robots_hours(ROBOTS) == "1-3"
    assert TaskRules(slot_seconds=7200).robots_hours(ROBOTS) == ""
    assert (rules.robots_in_place(404), rules.robots_in_place(503)) == (ALL, NONE)


def test_how_many_may_be_deleted() -> None:
    rules = TaskRules()
    assert not rules.is_mass_deletion(100, 100), "so many are always believed"
    assert rules.is_mass_deletion(101, 201) and not rules.is_mass_deletion(101, 202)
    small = TaskRules(mass_deletion_share=0.1, mass_deletion_floor=0)
    assert small.is_mass_deletion(2, 19) and not small.is_mass_deletion(2, 20)


def test_the_next_poll_leaves_hours_and_days_out() -> None:
    rules = TaskRules()
    assert rules.next_poll(NOW, (), ()) == NOW
    hour = NOW // 3600 % 24
    assert rules.next_poll(NOW, (hour,), ()) == (NOW // 3600 + 1) * 3600
    assert rules.next_poll(LAST_SECOND, (23,), ()) == LAST_SECOND, "no year is beyond the last one"


def test_the_period_follows_what_polls_have_found() -> None:
    rules = TaskRules()
    history, period = rules.next_period("", True, 3600, 3600, 600, 86400, 0)
    assert history and 600 <= period < 3600
    longer, slow = rules.next_period("", False, 3600, 3600, 600, 86400, 0)
    assert longer != history and slow > 3600
    assert rules.next_period(history, True, 3600, period, 600, 86400, 0)[0] != history
    assert rules.next_period("", True, 3600, 3600, 600, 86400, 7200)[1] == 7200
