"""What the scheduler keeps of providers that have no turn at present."""

from __future__ import annotations

from typing import Any, TypeVar

from lcc.roles.qm.schedule.ready_queue import Place
from lcc.roles.qm.schedule.work import START, Limits, ProviderWork

T = TypeVar("T")

_KEPT = 10_000
"""Of what is only useful to know."""


class Inactive:
    """Small records by provider, each only where there is something to remember.

    :ivar delayed: those that are delayed and have work: their place in the order, and their priority.
    """

    def __init__(self) -> None:
        self.delayed: dict[int, tuple[Place, int]] = {}
        self._spent: dict[int, tuple[int, int]] = {}
        self._unpaid: dict[int, int] = {}
        self._began: dict[int, float] = {}
        self._priorities: dict[int, int] = {}
        self._page_seconds: dict[int, float] = {}

    def leaves(self, work: ProviderWork, *, keep_quantum: bool) -> None:
        """A provider gives up its turn and has rows left; what it used of its quantum counts when it comes back."""
        if keep_quantum:
            self._spent[work.pid] = (work.served, work.served_bytes)

    def comes(self, work: ProviderWork) -> None:
        """A provider has its turn."""
        work.served, work.served_bytes = self._spent.pop(work.pid, (0, 0))
        work.unpaid_bytes = self.take_unpaid(work.pid)
        work.page_seconds = self._page_seconds.pop(work.pid, 0.0)

    def waits(self, pid: int, psetid: int, priority: int) -> None:
        """A provider that is delayed has new work."""
        place, known = self.delayed.get(pid, ((psetid, 0), priority))
        if not place[1]:
            place = min(place, (psetid, 0))
        self.delayed[pid] = (place, known)

    def is_held(self, pid: int, priority: int) -> None:
        """A provider is delayed whose work is in the queue, somewhere."""
        self.delayed.setdefault(pid, (START, priority))

    def is_slow(self, pid: int, page_seconds: float) -> None:
        """Fetches of it take so long."""
        _keep(self._page_seconds, pid, page_seconds)

    def owes(self, pid: int, wire_bytes: int) -> None:
        """So much has come, and its limits are not known."""
        if wire_bytes:
            self._unpaid[pid] = self._unpaid.get(pid, 0) + wire_bytes

    def take_unpaid(self, pid: int) -> int:
        """The bytes that :meth:`owes` was told of, which are forgotten."""
        return self._unpaid.pop(pid, 0)

    def began(self, pid: int, begun: float) -> None:
        """A fetch of it began then, or earlier, and its limits are not known."""
        self._began[pid] = max(begun, self._began.get(pid, 0.0))

    def take_began(self, pid: int) -> float:
        """What :meth:`began` was told last, which is forgotten; 0: nothing."""
        return self._began.pop(pid, 0.0) if self._began else 0.0

    def priority(self, pid: int) -> int:
        """The provider's, as far as it is known."""
        return self._priorities.get(pid, 0)

    def learn(self, pid: int, limits: Limits) -> None:
        """The provider's limits are known (again)."""
        if pid in self.delayed:
            self.delayed[pid] = (self.delayed[pid][0], limits.priority)
        self._priorities.pop(pid, None)
        if limits.priority:
            _keep(self._priorities, pid, limits.priority)

    def stepped(self, step: float) -> None:
        """The wall clock was set by so many seconds."""
        self._began = {pid: begun + step for pid, begun in self._began.items()}

    def discard(self, pid: int) -> None:
        """The provider is gone."""
        known: dict[int, Any]
        for known in (self.delayed, self._spent, self._unpaid, self._began, self._priorities, self._page_seconds):
            known.pop(pid, None)


def _keep(known: dict[int, T], pid: int, value: T) -> None:
    """Know this of a provider, and forget another one if it is too much."""
    known[pid] = value
    if len(known) > _KEPT:
        del known[next(iter(known))]
