"""What a write of the queue manager has to tell it, once the database has committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from lcc.model import Absorbed, SetAnswer


@attrs.define
class PendingNotifications:
    """Collects over the attempts at one or several transactions; the fields as of :class:`lcc.model.Absorbed`.

    It outlives a transaction: one whose commit was not confirmed may have been committed, and then the next attempt
    finds nothing left to do.
    """

    queued: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    touched: set[bytes] = attrs.field(factory=set)
    deletes: bool = False
    priorities: dict[int, int] = attrs.field(factory=dict)

    def add_queued(self, pid: int, psetid: int, seq: int) -> None:
        """A provider has a row at this place to fetch."""
        place = (psetid, seq)
        if pid not in self.queued or place < self.queued[pid]:
            self.queued[pid] = place

    def add_priorities(self, priorities: Mapping[int, int]) -> None:
        """Providers that may have rows to fetch have these priorities."""
        self.priorities.update({pid: priority for pid, priority in priorities.items() if priority})

    def as_absorbed(self, answers: Iterable[SetAnswer] = ()) -> Absorbed:
        """All of it, with answers to sets."""
        return Absorbed(tuple(answers), self.queued, frozenset(self.touched), self.deletes, self.priorities)
