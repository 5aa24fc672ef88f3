"""Delays: who waits, until when, and what survives a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.errors import code
from lcc.model import Delay
from lcc.roles.qm.schedule.delays import BANDWIDTH, HOURS, SITE_ERROR, Delays

DNS = code("dns-failed")
STEPS = [-86400.0, -3600.0, 3600.0, 86400.0]
NOW = 1_700_000_000.0


def delays(random: float = 0.0) -> Delays:
    return Delays(10.0, 1000.0, lambda: random)


def test_the_latest_reason_counts() -> None:
    subject = delays()
    subject.charge(1, 500, 100, NOW)
    subject.site_error(1, DNS, NOW)
    assert subject.until(1) == NOW + 10
    subject.closed(1, NOW + 60, NOW)
    record = subject.get(1)
    assert record is not None and record.reason == HOURS and subject.until(1) == NOW + 60
    assert subject.release(NOW + 59) == []
    assert subject.release(NOW + 60) == [1]
    assert 1 not in subject and len(subject) == 0


def test_a_change_of_limits_leaves_an_error_of_the_site() -> None:
    subject = delays()
    subject.closed(1, NOW + 3600, NOW)
    subject.charge(1, 1000, 1, NOW)
    subject.site_error(1, DNS, NOW)
    subject.limits_changed(1, 1000, NOW)
    assert subject.until(1) == NOW + 10
    subject.try_again(1, 0, NOW)
    assert subject.release(NOW + 1) == [1]


def test_all_sites_may_be_tried_again() -> None:
    subject = delays()
    subject.site_error(1, DNS, NOW)
    subject.site_error(2, DNS, NOW)
    subject.charge(3, 1000, 1, NOW)
    subject.try_again(0, 0, NOW + 1)
    assert sorted(subject.release(NOW + 2)) == [1, 2]


def test_one_that_arrives_waits_as_long_as_what_was_not_saved_may_last() -> None:
    """Its interval had 0.9 s left where it comes from (seed 3017m)."""
    there, here = delays(), delays()
    there.began(1, NOW, 1.0, NOW + 0.1)
    assert there.to_save(NOW + 0.1) == []
    here.arrived(1, NOW + 0.2)
    assert here.until(1) >= there.until(1)
    here.load([Delay(2, NOW + 60, SITE_ERROR, DNS, 1, saved_time=NOW)], 86400.0, NOW)
    here.arrived(2, NOW)
    assert here.until(2) == NOW + 60
    assert here.release(NOW + 2) == [1]


def test_what_is_worth_saving() -> None:
    subject = delays()
    subject.charge(1, 50, 100, NOW)  # half a second
    subject.charge(2, 5000, 100, NOW)
    subject.site_error(3, DNS, NOW)
    assert subject.urgent
    owing = Delay(2, NOW + 50, BANDWIDTH, owed_time=NOW + 50, rate=100, saved_time=NOW)
    away = Delay(3, NOW + 10, SITE_ERROR, DNS, 1, since_time=NOW, saved_time=NOW)
    assert subject.to_save(NOW) == [owing, away]
    assert subject.to_save(NOW) == [] and not subject.urgent
    subject.release(NOW + 20)
    assert subject.to_save(NOW + 20) == [Delay(3, 0.0, "", DNS, 1, since_time=NOW, saved_time=NOW + 20)]
    subject.release(NOW + 50)
    subject.reached(3)
    assert subject.to_save(NOW + 50) == [Delay(2, 0.0, ""), Delay(3, 0.0, "")]


def test_since_when_a_site_is_away() -> None:
    subject = delays()
    for later in (0, 100, 300):
        subject.site_error(1, DNS, NOW + later)
        subject.release(NOW + later + 90)
    (saved,) = subject.to_save(NOW + 400)
    assert (saved.failures, saved.since_time) == (3, NOW)
    again = delays()
    again.load([saved], 86400.0, NOW + 500)
    again.site_error(1, DNS, NOW + 600)
    assert again.to_save(NOW + 600)[0].since_time == NOW
    again.reached(1)
    again.release(NOW + 1500)
    again.site_error(1, DNS, NOW + 2000)
    assert again.to_save(NOW + 2000)[0].since_time == NOW + 2000
    # An operator's retry: the delays begin anew, and it is away since then all the same.
    again.try_again(0, 0, NOW + 2100)
    assert again.release(NOW + 2100) == [1] and len(again) == 0
    again.site_error(1, DNS, NOW + 2200)
    (saved,) = again.to_save(NOW + 2200)
    assert (saved.failures, saved.since_time, saved.until_time) == (1, NOW + 2000, NOW + 2210)
    again.try_again(0, 0, NOW + 2300)
    again.release(NOW + 2300)
    again.reached(1)
    again.site_error(1, DNS, NOW + 2400)
    assert again.to_save(NOW + 2400)[0].since_time == NOW + 2400


def test_what_was_not_saved_is_saved_again() -> None:
    subject = delays()
    subject.charge(2, 5000, 100, NOW)
    rows = subject.to_save(NOW)
    subject.not_saved(rows)
    assert subject.to_save(NOW) == rows
    subject.release(NOW + 50)
    rows = subject.to_save(NOW + 50)
    subject.not_saved(rows)
    assert subject.to_save(NOW + 51) == rows == [Delay(2, 0.0, "")]


def test_a_restart_goes_on_where_it_was() -> None:
    subject = delays()
    saved = [
        Delay(0, NOW + 5, BANDWIDTH, owed_time=NOW + 5),
        Delay(2, NOW + 50, HOURS),
        Delay(3, NOW + 40, SITE_ERROR, DNS, 3),
    ]
    subject.load([*saved, Delay(4, 0.0, "", DNS, 2)], 86400.0, NOW)
    assert [subject.until(pid) - NOW for pid in (0, 2, 3, 4)] == [5, 50, 40, -NOW]
    assert subject.site_error(4, DNS, NOW) == 40.0
    assert subject.release(NOW + 60) == [0, 3, 4, 2]
    assert subject.site_error(3, DNS, NOW + 60) == 80.0


def test_a_debt_is_saved_beside_a_longer_delay() -> None:
    before = delays()
    before.charge(1, 5000, 100, NOW)
    before.charge(1, 0, 100, NOW)
    before.closed(1, NOW + 3600, NOW)
    subject = delays()
    subject.load(before.to_save(NOW), 86400.0, NOW + 1)
    assert subject.until(1) == NOW + 3600
    subject.limits_changed(1, 200, NOW + 10)  # the hours are open now, and what is owed has half the price
    assert subject.until(1) == NOW + 10 + 20
    subject.limits_changed(1, None, NOW + 11)
    assert subject.release(NOW + 12) == [1]


def test_a_clock_that_was_wrong_holds_nobody_for_years() -> None:
    subject = delays()
    years = NOW + 10 * 365 * 86400
    subject.load([Delay(1, years, SITE_ERROR, DNS, 1), Delay(2, years, HOURS)], 86400.0, NOW)
    assert subject.until(1) == NOW + 1000 and subject.until(2) == NOW + 2 * 86400
    subject.release(NOW)
    subject.stepped(-5000.0, NOW - 5000)
    assert subject.release(NOW - 5000) == [2]  # hours are looked at again
    assert subject.until(1) == NOW - 4000


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_wall_clock_changes_no_delay(step: float) -> None:
    subject = delays()
    subject.charge(1, 5000, 100, NOW)
    subject.site_error(2, DNS, NOW)
    subject.closed(3, NOW + 3600, NOW)
    subject.release(NOW + 1)
    now = NOW + 2 + step
    subject.stepped(step, now)
    assert subject.release(now) == [3], "its hours are looked at again"
    assert subject.until(1) - now == 48 and subject.until(2) - now == 8
    record = subject.get(2)
    assert record is not None and record.since == NOW + step and record.failures == 1
    saved = {delay.pid: delay for delay in subject.to_save(now)}
    assert saved[1].owed_time == NOW + step + 50 and saved[2].until_time == NOW + step + 10
    assert subject.release(now + 8) == [2] and subject.release(now + 48) == [1]


@pytest.mark.parametrize("step", [-step for step in STEPS if step < 0])
def test_the_clock_was_set_back_while_nobody_ran(step: float) -> None:
    before, subject = delays(), delays()
    before.charge(1, 5000, 100, NOW)
    before.site_error(2, DNS, NOW)
    before.closed(3, NOW + 3600, NOW)
    subject.load(before.to_save(NOW), 86400.0, NOW - step, step)
    assert subject.until(1) == NOW - step + 50 and subject.until(2) == NOW - step + 10
    assert 3 not in subject, "its hours are looked at again"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.floats(0, 100), st.floats(0, 30))))
def test_everybody_is_released_once_and_not_too_early(steps: list[tuple[int, int, float, float]]) -> None:
    subject = delays(0.5)
    now = NOW
    for pid, kind, amount, later in steps:
        if kind == 0:
            subject.charge(pid, int(amount), 10, now)
        elif kind == 1:
            subject.site_error(pid, DNS, now)
        elif kind == 2:
            subject.closed(pid, now + amount, now)
        else:
            subject.reached(pid)
        waiting = {pid: subject.until(pid) for pid in range(5) if pid in subject}
        assert len(subject) == len(waiting)
        now += later
        ended = subject.release(now)
        assert set(ended) == {pid for pid, until in waiting.items() if until <= now}
        assert len(set(ended)) == len(ended)
        assert not [pid for pid in ended if pid in subject]
    assert subject.release(now + 1e6) is not None and len(subject) == 0 and subject.next_end is None


def test_the_frozen_wait_until_somebody_says_otherwise() -> None:
    subject = delays()
    subject.frozen.add(1)
    assert 1 in subject and 2 not in subject
    subject.frozen.discard(1)
    assert 1 not in subject


def test_only_an_interval_is_one() -> None:
    subject = delays()
    subject.release(NOW)
    subject.charge(1, 5000, 100, NOW)
    subject.began(2, NOW, 10.0, NOW)
    assert not subject.is_due(1) and subject.is_due(2) and not subject.is_due(3)
    subject.site_error(2, DNS, NOW)
    subject.release(NOW + 10)
    assert not subject.is_due(2)


def test_without_a_rate_nothing_is_owed() -> None:
    subject = delays()
    subject.charge(1, 5000, None, NOW)
    assert subject.get(1) is None
    subject.charge(1, 5000, 100, NOW)
    subject.charge(1, 5000, None, NOW)
    assert subject.release(NOW) == [1]


def test_one_that_arrives_and_gets_other_limits() -> None:
    subject = delays()
    subject.arrived(1, NOW)
    subject.limits_changed(1, None, NOW, 5.0)
    assert subject.until(1) == NOW + 6
    subject.limits_changed(1, None, NOW, 7.0)
    assert subject.until(1) == NOW + 8


def test_what_a_web_server_has_asked_for_may_be_forgotten() -> None:
    for code_, ended in ((0, [1]), (503, [1]), (429, [])):
        subject = delays()
        subject.asked(1, 503, 100.0, NOW)
        subject.try_again(1, code_, NOW)
        assert subject.release(NOW) == ended


def test_what_is_loaded_is_what_it_was_saved_as() -> None:
    subject = delays()
    subject.load(
        [
            Delay(1, NOW + 50, BANDWIDTH, owed_time=NOW + 50, rate=100, saved_time=NOW),
            Delay(2, NOW + 10, SITE_ERROR, DNS, 1, since_time=NOW - 100, saved_time=NOW),
        ],
        86400.0,
        NOW,
        5.0,
    )
    debt, away = subject.get(1), subject.get(2)
    assert debt is not None and away is not None
    assert (debt.owed, debt.hours, debt.reason, debt.until) == (NOW + 45, 0.0, BANDWIDTH, NOW + 45)
    assert (away.retry, away.since, away.until) == (NOW + 5, NOW - 105, NOW + 5)


def test_what_is_soon_over_is_not_urgent_to_save() -> None:
    subject = delays()
    subject.charge(1, 900, 100, NOW)
    assert subject.changed and not subject.urgent
    subject.charge(1, 200, 100, NOW)
    assert subject.urgent


def test_what_is_changed_often_takes_no_more_room() -> None:
    subject = delays()
    for number in range(5000):
        subject.began(1, NOW + number, 10.0, NOW)
    assert len(subject._heap) <= 1002
    assert subject.release(NOW + 5009) == [1] and len(subject) == 0
