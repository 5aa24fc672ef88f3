"""When a task is due, and when a job that failed in passing is tried again.

*Every so many seconds.*  The first job is due at once, the next one a period after the last has *started*: never
earlier.  So that tasks that were added together, or were overdue together after an outage, do not stay together, the
period after such a job is longer by a part of it (:data:`SPREAD_SECONDS` at most) that follows from the task's id.

*At a time of day, or by a cron line.*  The first such moment after the last job has started.  Clocks that are set
forward skip none (what falls into the gap is due at its end), clocks that are set back repeat none, but for cron
lines whose hour or minute is ``*`` (as Debian's cron does).

In all three cases what was missed is made up for by one job: a moment that has passed is due now, and the next one is
counted from the start of that job.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

import attrs

from lcc.domain.timezones import timezone_fault
from lcc.model.tasks import REPEATED_SECONDS, When
from lcc.numbers import parse_number

EVERY_SECONDS_MAX = 366 * 86400
SPREAD_SECONDS = 3600
"""A period is made longer by less than this, and by less than itself."""
RETRY_SECONDS_MAX = 86400
"""The delay before a retry grows up to this (it is spread by a quarter more)."""
_LATE_SECONDS = 60
_LATE_PART = 10
_CRON_CHARS_MAX = 200
_CRON_FIELDS = 5
_AT = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII).fullmatch
_GOLDEN = 0.6180339887498949


def spread(number: int) -> float:
    """A fraction (0 <= it < 1) that follows from this number; those of successive numbers lie far apart."""
    return number * _GOLDEN % 1.0


def check_when(when: When, now: float) -> None:
    """:raises ValueError: it is never due, or makes no sense; in words."""
    given = [bool(when.every_seconds), bool(when.at), bool(when.cron)]
    if sum(given) != 1:
        raise ValueError("a task has either a period, or a time of day, or a cron line")
    if not 0 <= when.every_seconds <= EVERY_SECONDS_MAX:
        raise ValueError(f"a period of {when.every_seconds} seconds: it may be 1 to {EVERY_SECONDS_MAX}")
    fault = timezone_fault(when.timezone)
    if fault:
        raise ValueError(fault)
    first_due(when, now)


def first_due(when: When, now: float) -> int:
    """When the first job of a task is due that is added, or resumed, now.

    :raises ValueError: never.
    """
    return math.floor(now) if when.every_seconds else _moment_after(when, now)


def next_due(when: When, task: int, started_time: float, due_time: float, first: bool = False) -> int:
    """When the next job of a task is due.

    :param started_time, due_time: of its last job: when it was started, and when it was due.
    :param first: that was its first one.
    :raises ValueError: never.
    """
    period = when.every_seconds
    if not period:
        return _moment_after(when, started_time)
    late = started_time - due_time > max(_LATE_SECONDS, period // _LATE_PART)
    later = math.floor(spread(task) * min(period, SPREAD_SECONDS)) if first or late else 0
    return math.ceil(started_time) + period + later


def due_by(when: When, task: int, started_time: float | None, now: float) -> int:
    """When the next job of a task that waits is due at the latest, whatever the wall clock has shown before.

    :param started_time: of its last job; None: there was none.  Later than now: the clock was set back.
    :raises ValueError: never.
    """
    if when.every_seconds:
        return next_due(when, task, now, now, first=True)
    if started_time is not None and now < started_time <= now + REPEATED_SECONDS:
        return _moment_after(when, started_time)
    return _moment_after(when, now)


def parse_at(text: str) -> tuple[int, int, int]:
    """Hour, minute and second of ``HH:MM`` or ``HH:MM:SS``.

    :raises ValueError: it is not of that form.
    """
    match = _AT(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not like 06:30 or 06:30:15")
    hour, minute, second = (parse_number(part or "0", 59) for part in match.groups())
    return hour, minute, second


def _zone(name: str) -> tzinfo:
    if not name or name == "UTC":
        return UTC  # cronsim treats UTC as such only if it is this object
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _moment_after(when: When, time: float) -> int:
    if when.at:
        hour, minute, second = parse_at(when.at)
        line = f"{minute} {hour} * * *"
    else:
        second, line = 0, when.cron
    for moment in _cron_moments(line, time - second, _zone(when.timezone)):
        if moment + second > time:
            return moment + second
    raise ValueError(f"the cron line {line!r} is never due")


def _cron_moments(line: str, time: float, zone: tzinfo) -> Iterator[int]:
    """The moments of a cron line that are not before this time, in seconds since 1970."""
    if len(line) > _CRON_CHARS_MAX or len(line.split()) != _CRON_FIELDS:
        raise ValueError(
            f"{line[:80]!r} is no cron line: minute, hour, day of month, month and day of week, such as '0 6 * * mon'"
        )
    # Late: whose tasks have periods needs neither it nor time zones.
    from cronsim import CronSim, CronSimError

    try:
        start = datetime.fromtimestamp(math.floor(time) - 1, UTC).astimezone(zone)
        yield from (math.floor(moment.timestamp()) for moment in CronSim(line, start))
    except CronSimError as error:
        raise ValueError(f"the cron line {line!r} is never due, or makes no sense: {str(error).lower()}") from None
    except (OverflowError, OSError):
        return  # beyond the last year of the calendar


@attrs.frozen
class JobRetries:
    """When a job that has failed in passing, or was lost, is tried again.

    :ivar retries: so often at most.
    :ivar initial_seconds: delay before the first retry; each further one is ``factor`` times as long.
    """

    retries: int = 3
    initial_seconds: int = 60
    factor: int = 4

    def due(
        self, job: int, attempt: int, now: float, before: float | None, wish_seconds: int | None = None
    ) -> int | None:
        """When attempt number ``attempt`` + 1 is due; None: there is none.

        :param attempt: that has failed; the first one is 1.
        :param before: when the next job of its task is due: a retry that were later makes no sense.
        :param wish_seconds: the delay that it has asked for.
        """
        if attempt > self.retries:
            return None
        grown = self.initial_seconds * self.factor ** (attempt - 1)
        delay = min(grown, max(self.initial_seconds, RETRY_SECONDS_MAX)) * (1.0 + 0.25 * spread(job))
        if wish_seconds is not None:
            delay = 1.0 * max(wish_seconds, 1)
        due = math.floor(now + delay) + 1
        return None if before is not None and due >= before else due
