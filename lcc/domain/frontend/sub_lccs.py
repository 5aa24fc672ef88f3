"""The rules of a front end: whose a provider's id is, and which sub-LCC has the most room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lcc.model.frontend.places import SubLcc, SubState, Vitals


def home_of(sublccs: Iterable[SubLcc], pid: int) -> SubLcc | None:
    """The sub-LCC whose range this provider's id is of: where it was made, and is unless something else is noted."""
    return next((sub for sub in sublccs if sub.first_pid <= pid <= sub.last_pid), None)


def free_room(sub: SubLcc, vitals: Vitals) -> float:
    """The part of its capacity that is free, of files or of space, whichever is less; 1: nobody has said how much
    there is."""
    shares = [1.0]
    for used, most in ((vitals.files, sub.files_max), (vitals.space_bytes, sub.space_max_bytes)):
        if most is not None:
            shares.append(1 - used / most if most else 0.0)
    return min(shares)


def is_stale(vitals: Vitals | None, now: int, seconds: int) -> bool:
    """A sub-LCC has not reported for so long, or never."""
    return vitals is None or now - vitals.time > seconds


def with_most_room(
    sublccs: Iterable[SubLcc], vitals: Mapping[int, Vitals], now: int, stale_seconds: int
) -> SubLcc | None:
    """Where a new provider goes: of the open sub-LCCs that have reported lately the one with the most free room, then
    the one with the fewest files; None: none has room."""
    best: tuple[float, int, int] | None = None
    chosen = None
    for sub in sublccs:
        reported = vitals.get(sub.subid)
        if sub.state is not SubState.OPEN or reported is None or is_stale(reported, now, stale_seconds):
            continue
        room = free_room(sub, reported)
        rank = (-room, reported.files, sub.subid)
        if room > 0 and (best is None or rank < best):
            best, chosen = rank, sub
    return chosen
