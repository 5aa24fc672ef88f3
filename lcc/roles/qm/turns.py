"""Whose turn it is: the one place where the next provider is chosen.

Providers wait here until the scheduler has room for another one.  The order is that of their earliest sets (seed 002,
section 6).  Whatever else shall decide who is next (priorities, hours, bandwidth) belongs here and in
:meth:`lcc.roles.qm.scheduler.Scheduler._settle`, which says when a provider that has its turn may go on.

A provider that waits costs a number and a heap entry, nothing else: a hundred thousand of them are cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush


class Turns:
    """The providers that have work and wait for their turn."""

    def __init__(self) -> None:
        self._earliest: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._earliest)

    def __contains__(self, pid: int) -> bool:
        return pid in self._earliest

    def load(self, waiting: Iterable[tuple[int, int]]) -> None:
        """Begin with these, as ``(psetid, pid)``."""
        self._heap.extend(waiting)
        heapify(self._heap)
        for psetid, pid in self._heap:
            known = self._earliest.get(pid)
            if known is None or psetid < known:
                self._earliest[pid] = psetid

    def add(self, pid: int, psetid: int) -> None:
        """The provider has work from this set on."""
        known = self._earliest.get(pid)
        if known is None or psetid < known:
            self._earliest[pid] = psetid
            heappush(self._heap, (psetid, pid))

    def next(self) -> tuple[int, int] | None:
        """Take out who is next, as ``(psetid, pid)``; None: nobody waits."""
        heap = self._heap
        while heap:
            entry = heappop(heap)
            psetid, pid = entry
            # Entries that were overtaken by an earlier set, or whose provider was discarded, are left in the heap.
            if self._earliest.get(pid) == psetid:
                del self._earliest[pid]
                return entry
        return None

    def discard(self, pid: int) -> None:
        """Forget the provider."""
        self._earliest.pop(pid, None)
