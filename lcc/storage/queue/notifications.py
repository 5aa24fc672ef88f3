"""What a write of the queue manager has to tell it, once the database has committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import attrs
from twisted.internet.defer import CancelledError

from lcc.model import Absorbed, SetAnswer


@attrs.define
class PendingNotifications:
    """Collects over the attempts at one or several transactions; the fields as of :class:`lcc.model.Absorbed`.

    It outlives a transaction: one whose commit was not confirmed may have been committed (:class:`Unconfirmed`).
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

    def add(self, other: PendingNotifications) -> None:
        """All of another one."""
        for pid, place in other.queued.items():
            self.add_queued(pid, *place)
        self.touched |= other.touched
        self.deletes |= other.deletes
        self.add_priorities(other.priorities)

    def __bool__(self) -> bool:
        return bool(self.queued or self.touched or self.deletes)

    def as_absorbed(self, answers: Iterable[SetAnswer] = ()) -> Absorbed:
        """All of it, with answers to sets."""
        return Absorbed(tuple(answers), self.queued, frozenset(self.touched), self.deletes, self.priorities)


class Unconfirmed:
    """What writes would have told that failed, or were cancelled: they may have been committed all the same, and then
    the next attempt finds nothing left to do.

    A later write tells it. All are made one after the other: what was committed before is visible by then.
    """

    def __init__(self) -> None:
        self._failed = PendingNotifications()
        self._cancelled: list[PendingNotifications] = []

    def __bool__(self) -> bool:
        return bool(self._failed or self._cancelled)

    @contextmanager
    def collecting(self, tells: bool = True) -> Iterator[PendingNotifications]:
        """Around one write, or several: what it is to collect in, and has to tell afterwards.

        :param tells: it tells as well what earlier ones have not; False: it may end without having written.
        """
        earlier = list(self._cancelled)  # one that is cancelled meanwhile may be carried out behind this one
        pending = PendingNotifications()
        try:
            yield pending
        except CancelledError:
            self._cancelled.append(pending)  # the database may still be at it
            raise
        except Exception:
            self._failed.add(pending)
            raise
        if not tells:
            return
        pending.add(self._failed)
        self._failed = PendingNotifications()
        for each in earlier:
            pending.add(each)
        self._cancelled = [each for each in self._cancelled if not any(each is told for told in earlier)]
