"""How often to poll what changes by itself: the period that follows from what the last polls found.

Changes are taken for a Poisson process.  Of n polls, n0 found nothing new; Cho and Garcia-Molina ("Estimating
frequency of change", 2003) estimate its rate as ``-ln((n0 + 1/2) / (n + 1/2)) / interval``: unlike the share of
polls with news it does not saturate where each poll finds some.  The period is half of the mean time between changes:
two of five polls find something.  It is never derived from the dates of items, which lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import attrs

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


@attrs.frozen
class Hints:
    """What the source asks for.

    :ivar least_seconds: the longest of a feed's ``ttl``, of ``max-age`` and of the like; 0: nothing.
    :ivar retry_after_seconds: of the last answer; 0: nothing.
    :ivar skip_hours: hours of the day (UTC) in which it is not to be polled.
    """

    least_seconds: int = 0
    retry_after_seconds: int = 0
    skip_hours: frozenset[int] = frozenset()


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
    period_seconds: int, polls: Sequence[Poll], least_seconds: int, most_seconds: int, hints: Hints = Hints()
) -> int:
    """The period from now on, in seconds.

    :param period_seconds: so far; it is at most doubled or halved.
    :param polls: the last ones.
    :param least_seconds, most_seconds: its bounds.
    """
    rate = rate_per_second(polls)
    ideal = _PART_OF_MEAN / rate if rate else math.inf
    period = min(max(ideal, period_seconds / _STEP), period_seconds * _STEP)
    period = max(period, hints.least_seconds)
    return round(min(max(period, least_seconds), most_seconds))


def next_poll(due_time: int, now: int, hints: Hints) -> int:
    """When to poll, where the period alone would have it be at ``due_time``: not before the source allows it.

    A source that forbids all hours forbids none.
    """
    due = max(due_time, now + hints.retry_after_seconds)
    if len(hints.skip_hours) >= 24:
        return due
    while datetime.fromtimestamp(due, UTC).hour in hints.skip_hours:
        due = (due // _HOUR_SECONDS + 1) * _HOUR_SECONDS
    return due
