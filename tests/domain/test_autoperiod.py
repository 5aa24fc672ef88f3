"""Periods that follow from what polls find."""

from __future__ import annotations

from random import Random
from statistics import geometric_mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.tasks.autoperiod import (
    Poll,
    next_period,
    next_poll,
    polls_with,
    rate_per_second,
    read_polls,
    write_polls,
)

POLLS = st.lists(st.builds(Poll, st.integers(1, 10**7), st.booleans()), max_size=10).map(tuple)
LEAST, MOST = 300, 7 * 86400


def periods_of(rate: float, random: Random, polls_count: int, start: int) -> list[int]:
    """The periods that a feed gets whose items come by a Poisson process of this rate per second."""
    polls: tuple[Poll, ...] = ()
    period, now, next_item = start, 0.0, random.expovariate(rate)
    found = []
    for _ in range(polls_count):
        now += period
        news = next_item <= now
        while next_item <= now:
            next_item += random.expovariate(rate)
        polls = polls_with(polls, Poll(period, news))
        period = next_period(period, polls, LEAST, MOST)
        found.append(period)
    return found


@pytest.mark.parametrize("mean_seconds", [3600, 6 * 3600, 86400])
@pytest.mark.parametrize("start", [900, 86400])
def test_poisson_feeds(mean_seconds: int, start: int) -> None:
    ideal = mean_seconds / 2
    random = Random(mean_seconds + start)
    found = [geometric_mean(periods_of(1 / mean_seconds, random, 300, start)[30:]) for _ in range(20)]
    for period in found:
        assert ideal / 1.5 <= period <= ideal * 1.5
    assert ideal / 1.25 <= geometric_mean(found) <= ideal * 1.25


def test_a_feed_that_falls_silent_and_wakes_up() -> None:
    polls: tuple[Poll, ...] = ()
    period = 3600
    for _ in range(20):
        polls = polls_with(polls, Poll(period, False))
        period = next_period(period, polls, LEAST, MOST)
    assert period == MOST
    for _ in range(40):
        polls = polls_with(polls, Poll(period, True))
        period = next_period(period, polls, LEAST, MOST)
    assert period == LEAST


@given(st.integers(LEAST, MOST), POLLS, st.integers(0, 10**6))
def test_steps_and_bounds(period: int, polls: tuple[Poll, ...], least: int) -> None:
    found = next_period(period, polls, LEAST, MOST, least)
    assert LEAST <= found <= MOST
    assert found >= min(least, MOST)
    assert found <= max(2 * period, least, LEAST) and found >= min(period // 2, MOST)


@given(POLLS)
def test_the_rate(polls: tuple[Poll, ...]) -> None:
    rate = rate_per_second(polls)
    assert rate >= 0
    assert (rate == 0) == (not any(poll.news for poll in polls))


@given(POLLS)
def test_polls_are_read_as_they_were_written(polls: tuple[Poll, ...]) -> None:
    assert read_polls(write_polls(polls)) == polls


@pytest.mark.parametrize("text", ["x", "1 +", "1-", "1++"])
def test_what_are_no_polls(text: str) -> None:
    with pytest.raises(ValueError, match="is no whole number"):
        read_polls(text)


HOUR = 3600


def test_skipped_hours_and_days() -> None:
    assert next_poll(10 * HOUR + 5, (), ()) == 10 * HOUR + 5
    assert next_poll(10 * HOUR + 5, (10, 11), ()) == 12 * HOUR
    assert next_poll(23 * HOUR + 5, (23, 0), ()) == 25 * HOUR
    assert next_poll(HOUR, range(24), range(7)) == HOUR
    # 1970 began on a Thursday.
    assert next_poll(HOUR + 5, (), (3, 4)) == 48 * HOUR
    assert next_poll(HOUR + 5, (0, 1), (3, 4, 5, 6)) == (96 + 2) * HOUR


@given(st.integers(0, 10**9), st.sets(st.integers(0, 23), max_size=23), st.sets(st.integers(0, 6), max_size=6))
def test_a_poll_is_where_it_may_be(due: int, hours: set[int], days: set[int]) -> None:
    found = next_poll(due, hours, days)
    assert found >= due and found // HOUR % 24 not in hours and (found // (24 * HOUR) + 3) % 7 not in days
    # The first such moment.
    before = found - 1
    assert found == due or before // HOUR % 24 in hours or (before // (24 * HOUR) + 3) % 7 in days


def test_the_last_ten_polls_count() -> None:
    polls: tuple[Poll, ...] = ()
    for number in range(12):
        polls = polls_with(polls, Poll(number, True))
    assert [poll.interval_seconds for poll in polls] == list(range(2, 12))


def test_a_source_that_asks_for_nothing_gets_nothing_added() -> None:
    assert rate_per_second([Poll(1, True)]) > 0
    polls = [Poll(1, True)] * 10
    assert next_period(1, polls, 0, 100) == 0
    assert next_period(1, polls, 0, 100, asked_seconds=1) == 1


def test_the_only_hour_that_is_left_is_waited_for() -> None:
    due = 1_780_000_000 // 86400 * 86400 + 30
    assert next_poll(due, set(range(24)) - {23}, ()) == due - 30 + 23 * 3600
