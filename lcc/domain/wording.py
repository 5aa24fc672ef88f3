"""Numbers and times as a person says them."""

from __future__ import annotations

from lcc.domain.times import moment

Lines = list[tuple[str, str]]
"""A screen: a name, which is empty where the line above goes on, and a text."""


def number(count: int, what: str) -> str:
    """``1 URL``, ``2,000 URLs``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time."""
    left = max(0, int(seconds))
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if left >= 2 * length:
            return f"{left // length} {unit}s"
    return f"{left} second{'' if left == 1 else 's'}"


def utc(seconds: float) -> str:
    """A point in time, to the second, in UTC (which is not said)."""
    return moment(seconds).replace(tzinfo=None).isoformat(" ", "seconds")


def more(shown: int, count: int, what: str) -> Lines:
    """The line below a list that does not show all of them."""
    return [("", f"… and {number(count - shown, what)} more")] if count > shown else []
