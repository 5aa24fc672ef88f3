"""Providers whose site cannot be reached: how long each is left alone.

The delay doubles with each failure in a row, up to a maximum, and is shortened a little at random, so that providers
on one dead network do not all come back in the same second.  It is kept in memory only: after a restart each is
tried once more.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs


@attrs.define
class Hold:
    """One provider's trouble.

    :ivar failures: holds in a row without a fetch that reached the site.
    :ivar until: on the clock's scale; None: not held now, but remembered.
    :ivar psetid: the earliest set that waits.
    """

    failures: int
    until: float | None
    psetid: int


class Holds:
    """All providers in trouble.

    :param initial_seconds: the first delay.
    :param maximum_seconds: the longest delay.
    :param random: gives numbers in [0, 1).
    """

    def __init__(self, initial_seconds: float, maximum_seconds: float, random: Callable[[], float]) -> None:
        self._initial = initial_seconds
        self._maximum = max(initial_seconds, maximum_seconds)
        self._random = random
        self._holds: dict[int, Hold] = {}

    def __contains__(self, pid: int) -> bool:
        """True while the provider is held back."""
        hold = self._holds.get(pid)
        return hold is not None and hold.until is not None

    def hold(self, pid: int, psetid: int, now: float) -> float:
        """Hold the provider back; gives the delay in seconds.  One that is held already stays as it is."""
        hold = self._holds.get(pid)
        if hold is None:
            hold = self._holds[pid] = Hold(0, None, psetid)
        if hold.until is None:
            longest = min(self._maximum, self._initial * 2.0 ** min(hold.failures, 40))
            hold.failures += 1
            hold.until = now + longest * (0.75 + 0.25 * self._random())
            hold.psetid = psetid
        return hold.until - now

    def work_arrived(self, pid: int, psetid: int) -> None:
        """More work for a provider that is held."""
        hold = self._holds[pid]
        hold.psetid = min(hold.psetid, psetid)

    def reached(self, pid: int) -> None:
        """The provider's site has answered: the next hold begins with the shortest delay."""
        if self._holds and pid not in self:
            self._holds.pop(pid, None)

    def discard(self, pid: int) -> None:
        """Forget the provider."""
        self._holds.pop(pid, None)

    def release(self, now: float) -> list[tuple[int, int]]:
        """Those whose delay has passed, as ``(psetid, pid)``."""
        due = [
            (hold.psetid, pid) for pid, hold in self._holds.items() if hold.until is not None and hold.until <= now
        ]
        for _psetid, pid in due:
            self._holds[pid].until = None
        return due

    @property
    def count(self) -> int:
        """Providers that are held back now."""
        return sum(1 for hold in self._holds.values() if hold.until is not None)
