"""Hours when fetching is allowed: text to a mask of slots.

Items, separated by commas:

* ``0-8``: from 0h to 8h, that is slots 0 to 7: an end hour is exclusive, and ``0-24`` is the whole day;
* ``22-6``: from 22h to 6h of the next day;
* ``12``: slot 12 alone, from 12h to 13h;
* where the period is a week, a day or days before it: ``mon 0-8``, ``sat-sun 9-17``, ``mon 22-6`` (into tuesday);
  a day alone, ``sun``, is all of it; hours without a day are those of every day.  Slot 0 is monday, 0h.

Nothing at all means: at any time.
"""

from __future__ import annotations

import re

from lcc.numbers import parse_number

WEEK_SLOTS = 168
DAY_SLOTS = 24

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = "|".join(_DAYS)
_HOUR_MAX = 9999
_ITEM = re.compile(rf"(?:({_DAY})(?: ?- ?({_DAY}))?)?(?: ?([0-9]{{1,4}})(?: ?- ?([0-9]{{1,4}}))?)?").fullmatch


def parse_hours(text: str, slots: int = DAY_SLOTS) -> int:
    """The mask: bit 0 is slot 0.

    :param slots: 24 for a day, 168 for a week of such days; another number is one period without days.
    :raises ValueError: saying which item cannot be understood, and why.
    """
    if not text.strip():
        return (1 << slots) - 1
    mask = 0
    for item in text.lower().split(","):
        mask |= _read_item(" ".join(item.split()), slots)
    return mask


def hours_text(mask: int) -> str:
    """Hours of a day as text that :func:`parse_hours` understands; empty: at any time, or never.

    :param mask: of :data:`DAY_SLOTS` slots.
    """
    stretches = []
    for start in range(DAY_SLOTS):
        if mask >> start & 1 and not mask >> (start - 1) % DAY_SLOTS & 1:
            stop = next(hour for hour in range(start + 1, start + DAY_SLOTS) if not mask >> hour % DAY_SLOTS & 1)
            stretches.append(f"{start}-{stop % DAY_SLOTS or DAY_SLOTS}")
    return ",".join(stretches)


def _read_item(item: str, slots: int) -> int:
    match = _ITEM(item) if item else None
    if match is None:
        raise ValueError(f"{item[:80]!r} is not like 0-8, 12 or mon 0-8")
    first_day, last_day, first, end = match.groups()
    day_slots = DAY_SLOTS if slots == WEEK_SLOTS else slots
    if first_day is not None and slots != WEEK_SLOTS:
        raise ValueError(f"{item!r} names a day, but the period is not a week")
    start, length = _read_range(item, first, end, day_slots)
    if slots != WEEK_SLOTS:
        days = [0]
    elif first_day is None:
        days = list(range(7))
    else:
        monday = _DAYS.index(first_day)
        count = (_DAYS.index(last_day) - monday) % 7 + 1 if last_day else 1
        days = [(monday + offset) % 7 for offset in range(count)]
    mask = 0
    for day in days:
        for slot in range(start, start + length):
            mask |= 1 << ((day * day_slots + slot) % slots)
    return mask


def _read_range(item: str, first: str | None, end: str | None, day_slots: int) -> tuple[int, int]:
    """First slot and number of slots."""
    if first is None:
        return 0, day_slots
    start = parse_number(first, _HOUR_MAX)
    if start >= day_slots:
        raise ValueError(f"{item!r} begins at {start}; the last one is {day_slots - 1}")
    if end is None:
        return start, 1
    stop = parse_number(end, _HOUR_MAX)
    if stop > day_slots:
        raise ValueError(f"{item!r} ends at {stop}; the end is {day_slots} at most")
    if stop == start:
        raise ValueError(f"{item!r} begins and ends at the same hour")
    return start, (stop - start) % day_slots or day_slots
