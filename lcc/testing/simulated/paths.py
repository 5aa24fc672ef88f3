"""The ways between the hosts of the simulated network: how long something takes, and whether it arrives."""

from __future__ import annotations

from math import log
from random import Random

from lcc.testing.simulated.timeline import Timeline


class Paths:
    """
    :ivar slow_until: until then, everything takes much longer on its way.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.slow_until = 0.0
        self._parted: dict[tuple[str, str], float] = {}
        self._far: dict[frozenset[str], float] = {}
        self._vanished: set[str] = set()

    def part(self, one: str, other: str, seconds: float) -> None:
        """Nothing passes between these hosts for so long."""
        self.part_one_way(one, other, seconds)
        self.part_one_way(other, one, seconds)

    def part_one_way(self, sender: str, receiver: str, seconds: float) -> None:
        """Nothing passes from one host to the other for so long."""
        self._parted[sender, receiver] = self.timeline.now + seconds

    def set_far(self, one: str, other: str, seconds: float) -> None:
        """All takes so much longer between these hosts, for good: they are in different places."""
        self._far[frozenset((one, other))] = seconds

    def passes(self, one: str, other: str) -> bool:
        """Whether something sent from one host arrives at the other."""
        if one in self._vanished or other in self._vanished:
            return False
        return self._parted.get((one, other), 0.0) <= self.timeline.now

    def machine_vanished(self, address: str) -> None:
        """A host has no power any longer: nobody hears of the end of its connections."""
        self._vanished.add(address)

    def machine_returned(self, address: str) -> None:
        """It has, again."""
        self._vanished.discard(address)

    def heal(self) -> None:
        """Everything passes again, at its usual speed."""
        self._parted.clear()
        self.slow_until = 0.0

    def travel_seconds(self, one: str, other: str, chance: Random) -> float:
        """How long something is on its way."""
        if one == other:
            return chance.uniform(0.00002, 0.0004)
        seconds = 0.0002 - 0.0015 * log(1.0 - chance.random())
        if chance.random() < 0.01:
            seconds += chance.uniform(0, 0.25)
        if self.timeline.now < self.slow_until:
            seconds += chance.uniform(0, 1.5)
        if self._far:
            seconds += self._far.get(frozenset((one, other)), 0.0)
        return seconds
