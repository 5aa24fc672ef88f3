"""Whose turn it is: the one place where the next provider is chosen.

Providers wait here until the scheduler has room for another one.  Priority 2 goes before 1 before 0.  Within a
priority the order is that of the providers' earliest sets (seed 002, section 6); one that has had its quantum goes
behind all that wait, and before all whose sets are yet to come.  So everybody comes to his turn.

A provider that waits costs a dictionary and a heap entry, nothing else: a hundred thousand of them are cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, nsmallest
from typing import NamedTuple

from lcc.model import Waiting
from lcc.model.providers import PRIORITIES, clamp

Place = tuple[int, int]
"""The earliest set; a number above 0 for one that went behind: it keeps that place."""


class Ready(NamedTuple):
    """A provider that waits."""

    place: Place
    pid: int
    priority: int


class ReadyQueue:
    """The providers that have work and wait for their turn."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[Place, int]] = {}
        self._heaps: list[list[tuple[Place, int]]] = [[] for _ in range(PRIORITIES)]
        self._counts = [0] * PRIORITIES
        self._newest = 0
        self._behind = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, pid: int) -> bool:
        return pid in self._places

    @property
    def top(self) -> int:
        """The highest priority that somebody waits in; -1: nobody waits."""
        return next((priority for priority in reversed(range(PRIORITIES)) if self._counts[priority]), -1)

    def waits(self, priority: int) -> bool:
        """Whether somebody waits in this priority."""
        return self._counts[priority] > 0

    def load(self, waiting: Iterable[Waiting]) -> None:
        """Begin with these."""
        for psetid, pid, priority in waiting:
            self._enter(pid, (psetid, 0), clamp(priority), push=False)
        for heap in self._heaps:
            heapify(heap)

    def add(self, pid: int, place: Place, priority: int) -> None:
        """The provider has work, and this place in the order."""
        self._enter(pid, place, clamp(priority), push=True)

    def _enter(self, pid: int, place: Place, priority: int, push: bool) -> None:
        self._newest = max(self._newest, place[0])
        known = self._places.get(pid)
        if known is not None:
            if known[1] == priority and (known[0][1] or known[0] <= place):
                return
            self._counts[known[1]] -= 1
        self._places[pid] = (place, priority)
        self._counts[priority] += 1
        heap = self._heaps[priority]
        if push:
            heappush(heap, (place, pid))
            if len(heap) > 2 * self._counts[priority] + 1000:
                live = [(place, key) for key, (place, level) in self._places.items() if level == priority]
                heapify(live)
                self._heaps[priority] = live
        else:
            heap.append((place, pid))

    def behind(self) -> Place:
        """A place behind all that wait."""
        self._behind += 1
        return (self._newest, self._behind)

    def next(self) -> Ready | None:
        """Take out who is next; None: nobody waits."""
        priority = self.top
        if priority < 0:
            return None
        heap = self._heaps[priority]
        while True:
            place, pid = heappop(heap)
            # Entries whose provider has another place by now, or is gone, are left in the heap.
            if self._places.get(pid) == (place, priority):
                del self._places[pid]
                self._counts[priority] -= 1
                return Ready(place, pid, priority)

    def priority(self, pid: int) -> int:
        """The provider's, if it waits; else 0."""
        known = self._places.get(pid)
        return 0 if known is None else known[1]

    def set_priority(self, pid: int, priority: int) -> None:
        """The provider's priority was changed."""
        known = self._places.get(pid)
        if known is not None:
            self.add(pid, known[0], priority)

    def first(self, limit: int) -> list[Ready]:
        """Those that are next, in their order.  Looks at all that wait."""
        waiting = (Ready(place, pid, priority) for pid, (place, priority) in self._places.items())
        return nsmallest(limit, waiting, key=lambda entry: (-entry.priority, entry.place, entry.pid))

    def get(self, pid: int) -> Ready | None:
        """The provider's, if it waits."""
        known = self._places.get(pid)
        return None if known is None else Ready(known[0], pid, known[1])

    def discard(self, pid: int) -> None:
        """Forget the provider."""
        known = self._places.pop(pid, None)
        if known is not None:
            self._counts[known[1]] -= 1
