"""How often to poll what changes by itself: the period that follows from what the last polls found.

Changes are taken for a Poisson process.  Of n polls, n0 found nothing new; Cho and Garcia-Molina ("Estimating
frequency of change", 2003) estimate its rate as ``-ln((n0 + 1/2) / (n + 1/2)) / interval``: unlike the share of
polls with news it does not saturate where each poll finds some.  The period is half of the mean time between changes:
two of five polls find something.  It is never derived from the dates of items, which lie.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from lcc.numbers import INT64_MAX, parse_number

POLLS_KEPT = 10
_PART_OF_MEAN = 0.5
_STEP = 2.0
_HOUR_SECONDS = 3600


class Poll(NamedTuple):
    """A poll that is over.

    :ivar interval_seconds: since the poll before it.
    :ivar news: it found any.
    """

    interval_seconds: int
    news: bool


def polls_with(polls: Sequence[Poll], poll: Poll) -> tuple[Poll, ...]:
    """The last polls with one more."""
    return (*polls, poll)[-POLLS_KEPT:]


def write_polls(polls: Sequence[Poll]) -> str:
    """As they are stored: their intervals in seconds, those with news with a ``+``."""
    return " ".join(f"{poll.interval_seconds}{'+' if poll.news else ''}" for poll in polls)


def read_polls(text: str) -> tuple[Poll, ...]:
    """What :func:`write_polls` has written.

    :raises ValueError: something else has.
    """
    return tuple(Poll(parse_number(word.removesuffix("+"), INT64_MAX), word.endswith("+")) for word in text.split())


def rate_per_second(polls: Sequence[Poll]) -> float:
    """Changes per second, estimated; 0: there were none, or no polls."""
    count = len(polls)
    seconds = sum(poll.interval_seconds for poll in polls)
    if seconds <= 0:
        return 0.0
    without = sum(not poll.news for poll in polls)
    return -math.log((without + 0.5) / (count + 0.5)) * count / seconds


def next_period(
    period_seconds: int, polls: Sequence[Poll], least_seconds: int, most_seconds: int, asked_seconds: int = 0
) -> int:
    """The period from now on, in seconds.

    :param period_seconds: so far; it is at most doubled or halved.
    :param polls: the last ones.
    :param least_seconds, most_seconds: its bounds.
    :param asked_seconds: what the source itself asks for at least (its ``ttl``, ``max-age``); 0: nothing.
    """
    rate = rate_per_second(polls)
    ideal = _PART_OF_MEAN / rate if rate else math.inf
    period = min(max(ideal, period_seconds / _STEP), period_seconds * _STEP)
    period = max(period, asked_seconds)
    return round(min(max(period, least_seconds), most_seconds))


def next_poll(due_time: int, skip_hours: Collection[int], skip_days: Collection[int]) -> int:
    """When to poll, where the period alone would have it be at ``due_time``: not while the source does not wish it.

    :param skip_hours: hours of the day (UTC) in which it is not to be polled; one that forbids all forbids none.
    :param skip_days: days of the week, 0: Monday; likewise.
    """
    hours = frozenset(skip_hours) if len(frozenset(skip_hours)) < 24 else frozenset[int]()
    days = frozenset(skip_days) if len(frozenset(skip_days)) < 7 else frozenset[int]()
    due = due_time
    while (moment := datetime.fromtimestamp(due, UTC)).hour in hours or moment.weekday() in days:
        due = (due // _HOUR_SECONDS + 1) * _HOUR_SECONDS
    return due
