"""The orders that a BOT-M holds: which wait, which are out, and never two of one provider out at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

from lcc.protocols.work import Fetch


class HeldOrder:
    """A work order and where it is.

    :ivar lease_end: clock time when it is given up.
    :ivar start_by: clock time from which it is too late to begin: its hours are over.
    :ivar file: the file id reserved for its content; 0: none yet.
    :ivar attempts: how often it was handed to a robot.
    :ivar attempt: name of the attempt that is, or may still be, written; empty: none.
    :ivar robot: who has it; None: it waits, or its robot is lost.
    :ivar given_at: clock time when that robot got it.
    :ivar out: it was handed out and has not come back.
    :ivar dropped: it is not held any longer.
    """

    __slots__ = (
        "attempt",
        "attempts",
        "dropped",
        "fetch",
        "file",
        "given_at",
        "lease_end",
        "out",
        "robot",
        "start_by",
    )

    def __init__(self, fetch: Fetch, lease_end: float, start_by: float = inf) -> None:
        self.fetch = fetch
        self.lease_end = lease_end
        self.start_by = start_by
        self.file = 0
        self.attempts = 0
        self.attempt = ""
        self.robot: Any = None
        self.given_at = 0.0
        self.out = False
        self.dropped = False


class OrderBook:
    """All orders that are held, by id, and the queue of those that wait.

    An order of a provider that has another one out stays behind that one: defence in depth, because the queue
    manager never sends two.
    """

    def __init__(self) -> None:
        self._held: dict[str, HeldOrder] = {}
        self._queue: deque[HeldOrder] = deque()
        self._out: dict[int, HeldOrder] = {}
        self._behind: dict[int, deque[HeldOrder]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, order_id: str) -> bool:
        return order_id in self._held

    def __iter__(self) -> Iterator[HeldOrder]:
        return iter(list(self._held.values()))

    def add(self, order: HeldOrder) -> None:
        """Take in a new order, behind all others."""
        self._held[order.fetch.id] = order
        self._queue.append(order)

    def take(self) -> HeldOrder | None:
        """The next order that may be handed out now; it is out from now on.  None: there is none."""
        queue, out = self._queue, self._out
        while queue:
            order = queue.popleft()
            if order.dropped:
                continue
            pid = order.fetch.pid
            if pid in out:
                self._behind.setdefault(pid, deque()).append(order)
                continue
            out[pid] = order
            order.out = True
            return order
        return None

    def put_back(self, orders: Iterable[HeldOrder]) -> None:
        """These orders, that were out, wait again, in front of all others and in this order."""
        for order in reversed(list(orders)):
            if not order.dropped:
                self._come_in(order)
                self._queue.appendleft(order)

    def drop(self, order: HeldOrder) -> None:
        """The order has ended: it is not held any longer."""
        if order.dropped:
            return
        order.dropped = True
        del self._held[order.fetch.id]
        if order.out:
            self._come_in(order)

    def _come_in(self, order: HeldOrder) -> None:
        pid = order.fetch.pid
        order.out = False
        order.robot = None
        order.attempt = ""
        del self._out[pid]
        behind = self._behind.pop(pid, None)
        if behind:
            self._queue.extendleft(reversed(behind))
