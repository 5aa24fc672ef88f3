"""Points in time as text, and back: ISO 8601, or seconds since 1970; dates of HTTP."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from lcc.numbers import parse_number

_SECONDS = re.compile(r"(-?[0-9]{1,12})(?:\.[0-9]+)?").fullmatch
_SECONDS_MAX = 10**12
_DATE_CHARS_MAX = 100
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 to 9999: calendars and date formats have no others, while sites tell any number."""


def moment(seconds: float) -> datetime:
    """A point in time, in UTC; one that no calendar has is the first or the last that it has."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST_SECOND), _LAST_SECOND), UTC)


def iso_utc(seconds: float) -> str:
    """A point in time as ISO 8601, to the second, in UTC (``Z``)."""
    return f"{moment(seconds).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def parse_time(text: str) -> int:
    """Seconds since 1970; a time without zone is UTC, fractions are dropped.

    :raises ValueError: it is neither.
    """
    match = _SECONDS(text)
    if match:
        return parse_number(match[1], _SECONDS_MAX, -_SECONDS_MAX)
    try:
        if not text.isascii():
            raise ValueError(text)
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() // 1)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:80]!r} is neither ISO 8601 nor seconds since 1970") from None


def http_date(text: str) -> int | None:
    """Seconds since 1970 of a date as HTTP writes it, in whichever of its forms; None: it is none."""
    try:
        moment = parsedate_to_datetime(text[:_DATE_CHARS_MAX])
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
