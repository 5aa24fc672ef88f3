"""Names of time zones."""

from __future__ import annotations

NO_PLACES = frozenset(["Factory", "localtime", "posixrules"])
"""Names in the database of time zones that say nothing of a place."""


def timezones_to_choose() -> tuple[str, ...]:
    """Names that are suggested, sorted."""
    from zoneinfo import available_timezones

    return tuple(sorted(available_timezones() - NO_PLACES))


def timezone_fault(name: str) -> str:
    """What is wrong with the name of a time zone; empty: nothing, or there is no name."""
    if not name:
        return ""
    # Late: whoever names no time zone needs no module of them.
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        if not available_timezones():
            return f"{name!r} cannot be looked up: this machine has no time zones (on Debian: the package tzdata)"
        return f"{name!r} is no time zone, such as Europe/Amsterdam"
    return ""
