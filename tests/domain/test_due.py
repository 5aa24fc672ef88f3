"""When tasks are due."""

from __future__ import annotations

import math
import time
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.tasks.due import SPREAD_SECONDS, JobRetries, check_when, due_by, first_due, next_due, parse_at, spread
from lcc.model.tasks import REPEATED_SECONDS, When

NOW = 1_780_000_000
TIMES = st.integers(0, 4_000_000_000)
PERIODS = st.integers(1, 366 * 86400)


def at(text: str, zone: str = "Europe/Amsterdam") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def shown(time: float, zone: str = "Europe/Amsterdam") -> str:
    return datetime.fromtimestamp(time, UTC).astimezone(ZoneInfo(zone)).isoformat()


@given(PERIODS, st.integers(1, 10**9), TIMES, st.floats(0, 10**7), st.booleans())
def test_the_next_job_is_never_earlier_than_the_period(
    period: int, task: int, due: int, delay: float, first: bool
) -> None:
    started = due + delay
    found = next_due(When(every_seconds=period), task, started, due, first)
    assert started + period <= found <= started + period + min(period, SPREAD_SECONDS) + 1


@given(PERIODS, st.integers(1, 10**9), TIMES)
def test_a_job_that_started_in_time_is_followed_after_exactly_its_period(period: int, task: int, due: int) -> None:
    assert next_due(When(every_seconds=period), task, due, due) == due + period
    assert next_due(When(every_seconds=period), task, due + 30, due) == due + 30 + period


def test_tasks_that_were_added_together_are_spread() -> None:
    when = When(every_seconds=3600)
    dues = sorted(next_due(when, task, NOW, NOW, first=True) for task in range(1, 3601))
    assert first_due(when, NOW) == NOW
    # In each minute of the second hour about as many.
    for minute in range(60):
        begin = NOW + 3600 + 60 * minute
        assert 50 <= sum(begin <= due < begin + 60 for due in dues) <= 70


def test_tasks_that_were_overdue_together_are_spread() -> None:
    when = When(every_seconds=3600)
    back = NOW + 86400
    dues = {next_due(when, task, back, NOW + task) for task in range(1, 100)}
    assert len(dues) == 99


@given(st.sets(st.integers(0, 10**9), min_size=2, max_size=50))
def test_spread(numbers: set[int]) -> None:
    assert all(0 <= spread(number) < 1 for number in numbers)


def test_at_a_time_of_day() -> None:
    when = When(at="06:30", timezone="Europe/Amsterdam")
    due = first_due(when, at("2026-02-10T06:29:59"))
    assert shown(due) == "2026-02-10T06:30:00+01:00"
    # Started a little late: the next day.  Missed three times: once now (it is due), then the next one.
    assert shown(next_due(when, 1, due + 2.5, due)) == "2026-02-11T06:30:00+01:00"
    assert shown(next_due(when, 1, due + 3 * 86400 + 60, due)) == "2026-02-14T06:30:00+01:00"
    exact = When(at="06:30:15")
    assert shown(first_due(exact, at("2026-02-10T06:30:14", "UTC")), "UTC") == "2026-02-10T06:30:15+00:00"
    assert shown(first_due(exact, at("2026-02-10T06:30:15", "UTC")), "UTC") == "2026-02-11T06:30:15+00:00"


@pytest.mark.parametrize("when", [When(at="02:30"), When(cron="30 2 * * *"), When(at="02:30:20")])
def test_both_clock_changes_of_a_year(when: When) -> None:
    zoned = When(at=when.at, cron=when.cron, timezone="Europe/Amsterdam")
    seconds = ":20" if when.at.endswith(":20") else ":00"
    # The clock goes from 2 to 3: it is due at the end of the gap, once.
    due = first_due(zoned, at("2026-03-28T12:00:00"))
    assert shown(due) == f"2026-03-29T03:00{seconds}+02:00"
    assert shown(next_due(zoned, 1, due, due)) == f"2026-03-30T02:30{seconds}+02:00"
    # It goes from 3 back to 2: it is due the first time only.
    due = first_due(zoned, at("2026-10-24T12:00:00"))
    assert shown(due) == f"2026-10-25T02:30{seconds}+02:00"
    assert shown(next_due(zoned, 1, due, due)) == f"2026-10-26T02:30{seconds}+01:00"


def test_each_hour_is_each_real_hour() -> None:
    when = When(cron="0 * * * *", timezone="Europe/Amsterdam")
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25)):
        due, found = at(f"{day}T00:00:00") - 1, []
        while shown(due := first_due(when, due)).startswith(day):
            found.append(due)
        assert len(found) == hours
        assert {later - earlier for earlier, later in pairwise(found)} == {3600}


@given(TIMES, st.sampled_from(["*/5 * * * *", "0 0 29 2 *", "15 3 * * mon", "0 0 1 */3 *"]))
def test_the_next_moment_lies_ahead(time: int, line: str) -> None:
    when = When(cron=line, timezone="Europe/Amsterdam")
    due = first_due(when, time)
    assert due > time
    # Each second up to it has the same next moment.
    assert first_due(when, due - 1) == due


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (When(), "either a period, or a time of day, or a cron line"),
        (When(every_seconds=60, at="06:30"), "either a period"),
        (When(every_seconds=-1), "it may be 1 to"),
        (When(every_seconds=10**9), "it may be 1 to"),
        (When(at="6:30"), "'6:30' is not like 06:30 or 06:30:15"),
        (When(at="24:00"), "is not like"),
        (When(at="06:30\n"), "is not like"),
        (When(cron="0 0 31 2 *"), "the cron line '0 0 31 2 *' is never due, or makes no sense: bad day-of-month"),
        (When(cron="0 0 31 2,4 *"), "is never due"),
        (When(cron="@daily"), "is no cron line"),
        (When(cron="0 0 0 * * *"), "is no cron line"),
        (When(cron="61 * * * *"), "makes no sense: bad minute"),
        (When(cron=",".join("1" * 300) + " * * * *"), "is no cron line"),
        (When(at="06:30", timezone="Mars/Olympus"), "'Mars/Olympus' is no time zone"),
    ],
)
def test_what_is_never_due_is_an_error_in_words(when: When, words: str) -> None:
    with pytest.raises(ValueError) as raised:
        check_when(when, NOW)
    assert words in str(raised.value)


def test_what_is_hardly_ever_due() -> None:
    """Five mondays in a february: once in 28 years, and beyond the last year never again."""
    assert shown(first_due(When(cron="0 0 * 2 MON#5"), NOW), "UTC") == "2044-02-29T00:00:00+00:00"
    with pytest.raises(ValueError, match="never due"):
        first_due(When(cron="0 0 * 2 MON#5"), 253402300799 - 86400 * 366)


@given(st.integers(1, 10**9), st.integers(1, 3), TIMES)
def test_retries_grow(job: int, attempt: int, now: int) -> None:
    found = JobRetries().due(job, attempt, now, None)
    assert found is not None
    base = 60 * 4 ** (attempt - 1)
    assert base <= found - now <= 1.25 * base + 2


@given(st.integers(1, 10**9), st.integers(1, 100), TIMES)
def test_a_retry_is_hardly_ever_more_than_a_day_away(job: int, attempt: int, now: int) -> None:
    found = JobRetries(100).due(job, attempt, now, None)
    assert found is not None and found - now <= 1.25 * 86400 + 2
    rare = JobRetries(100, 10**6).due(job, attempt, now, None)
    assert rare is not None and 10**6 <= rare - now <= 1.25 * 10**6 + 2


@given(st.integers(1, 10**9), st.integers(1, 9), TIMES, PERIODS, st.none() | st.integers(0, 10**6))
def test_a_retry_is_before_the_next_job_or_never(
    job: int, attempt: int, now: int, period: int, wish: int | None
) -> None:
    found = JobRetries().due(job, attempt, now, now + period, wish)
    assert found is None or now < found < now + period
    assert attempt <= 3 or found is None


def test_a_wish_is_obeyed() -> None:
    assert JobRetries().due(1, 1, NOW, None, 500) == NOW + 501
    assert JobRetries().due(1, 1, NOW, NOW + 400, 500) is None


ZONES = ["Europe/Amsterdam", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("at_time", ["00:00", "00:30", "01:45:30", "02:00", "02:30", "03:00"])
def test_each_day_of_a_year_once_whatever_the_clock_does(zone: str, at_time: str) -> None:
    """Changes at two, at midnight, and by half an hour; as a time of day and as a cron line."""
    hour, minute, second = parse_at(at_time)
    whens = [When(at=at_time, timezone=zone)]
    if not second:
        whens.append(When(cron=f"{minute} {hour} * * *", timezone=zone))
    for when in whens:
        due = at("2025-12-31T12:00:00", zone)
        days = []
        for _ in range(365):
            due = next_due(when, 1, due, due)
            moment = datetime.fromtimestamp(due, ZoneInfo(zone))
            days.append(moment.date())
            wanted = datetime(moment.year, moment.month, moment.day, hour, minute, second, tzinfo=ZoneInfo(zone))
            if moment.replace(tzinfo=None) != wanted.replace(tzinfo=None):
                # It falls into the gap, at whose end it is due.
                assert wanted.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) != wanted.replace(
                    tzinfo=None
                )
            assert moment.fold == 0
        assert days == [date(2026, 1, 1) + timedelta(days=number) for number in range(365)]


def test_a_job_that_starts_in_the_hour_that_comes_twice_is_done_once() -> None:
    when = When(at="02:30", timezone="Europe/Amsterdam")
    first = at("2026-10-25T02:30:00")
    for started in (first, first + 1800, first + 3600, first + 5400):
        assert shown(next_due(when, 1, started, first)) == "2026-10-26T02:30:00+01:00"


def test_what_is_added_together_is_spread_over_an_hour() -> None:
    """By the golden ratio: task 1 by 0.618 of an hour."""
    assert next_due(When(every_seconds=86400), 1, NOW, NOW, first=True) == NOW + 86400 + 2224
    assert next_due(When(every_seconds=86400), 2, NOW, NOW, first=True) == NOW + 86400 + 849
    assert next_due(When(every_seconds=86400), 3, NOW, NOW, first=True) == NOW + 86400 + 3074
    assert next_due(When(every_seconds=1000), 1, NOW, NOW, first=True) == NOW + 1000 + 618


def test_a_job_is_late_by_a_tenth_of_its_period_and_by_a_minute() -> None:
    for period, late in ((600, 60), (300, 60), (3600, 360), (3605, 360)):
        when = When(every_seconds=period)
        assert next_due(when, 1, NOW + late, NOW) == NOW + late + period
        assert next_due(when, 1, NOW + late + 0.2, NOW) > NOW + late + 1 + period


def test_a_period_is_a_year_at_most() -> None:
    check_when(When(every_seconds=366 * 86400), NOW)
    with pytest.raises(ValueError, match="it may be 1 to 31622400"):
        check_when(When(every_seconds=366 * 86400 + 1), NOW)


def test_what_waits_is_due_by_a_period_from_now_or_by_the_next_moment() -> None:
    assert due_by(When(every_seconds=86400), 1, None, NOW) == NOW + 86400 + 2224
    assert due_by(When(every_seconds=86400), 1, NOW + 10**7, NOW) == NOW + 86400 + 2224
    daily = When(at="06:30", timezone="Europe/Amsterdam")
    today, tomorrow = at("2026-06-01T06:30"), at("2026-06-02T06:30")
    assert due_by(daily, 1, None, today - 1) == today
    assert due_by(daily, 1, today - 86400, today - 1) == today
    # Its last job has begun, by a clock that was set back since: not once more for the same moment.
    assert due_by(daily, 1, today + 5, today - 60) == tomorrow
    assert due_by(daily, 1, today - 1 + REPEATED_SECONDS, today - 1) == tomorrow
    # That clock was wrong by so much that it says nothing.
    assert due_by(daily, 1, today + REPEATED_SECONDS, today - 1) == today
    assert due_by(daily, 1, today + 86400 + 61, today - 60) == today


def test_a_moment_without_a_zone_is_in_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        for zone in ("", "UTC"):
            assert first_due(When(at="23:59:59", timezone=zone), at("2026-06-01T00:00", "UTC")) == at(
                "2026-06-01T23:59:59", "UTC"
            )
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_cron_line_has_two_hundred_characters_at_most() -> None:
    line = "0 6 * * mon" + ",mon" * 47 + " "
    line += " " * (200 - len(line))
    assert len(line) == 200
    check_when(When(cron=line), NOW)
    with pytest.raises(ValueError, match="is no cron line"):
        check_when(When(cron=line + " "), NOW)


def test_three_retries_that_come_before_the_next_job() -> None:
    retries = JobRetries()
    assert retries.due(1, 3, NOW, None) is not None and retries.due(1, 4, NOW, None) is None
    assert retries.due(2, 1, NOW, None) == NOW + 64  # 60 seconds, and 0.059 of them
    assert retries.due(1, 1, NOW, None, wish_seconds=0) == NOW + 2
    assert retries.due(1, 1, NOW, NOW + 3, wish_seconds=1) == NOW + 2
    assert retries.due(1, 1, NOW, NOW + 2, wish_seconds=1) is None
    assert JobRetries(20).due(2, 15, NOW, None) == NOW + math.floor(86400 * (1 + 0.25 * spread(2))) + 1
