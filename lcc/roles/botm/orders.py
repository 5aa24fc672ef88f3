"""The orders that a BOT-M holds: those of one provider are a run, which one robot has at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

from lcc.domain.fetches import bandwidth
from lcc.domain.fetches.debts import Debts
from lcc.errors import CODES
from lcc.model.providers import PRIORITIES, clamp
from lcc.protocols.work import Done, Fetch
from lcc.storage.disk.content_paths import nth_attempt

NOT_BEGUN = frozenset([CODES["hours-over"], CODES["handed-back"]])
"""A robot's results of orders whose fetches it has not begun."""


class HeldOrder:
    """A work order and where it is.

    :ivar lease_end: clock time when it is given up.
    :ivar start_by: clock time from which it is too late to begin: its hours are over.
    :ivar file: the file id reserved for its content; 0: none yet.  Of a batch: the first one of its files.
    :ivar attempts: how often it was handed to a robot.
    :ivar attempt: name of the attempt that is, or may still be, written; empty: none.
    :ivar robot: who has it; None: it waits, or its robot is lost.
    :ivar given_at: clock time when that robot got it, or had done with the one before it.
    :ivar out: it was handed out and has not come back.
    :ivar dropped: it is not held any longer.
    :ivar run: that it belongs to, once it is held.
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
        "run",
        "start_by",
    )

    run: Run

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

    @property
    def files(self) -> range:
        """The file ids that are reserved for it."""
        return range(self.file, self.file + max(1, self.fetch.files)) if self.file else range(0)

    @property
    def attempts_written(self) -> list[str]:
        """Names of the attempts that are, or may still be, written; a batch has several."""
        if not self.fetch.files or not self.attempt:
            return [self.attempt] if self.attempt else []
        return [nth_attempt(self.attempt, index) for index in range(self.fetch.files)]


class Run:
    """The orders of one provider, in the order in which they came.  What a robot has of them are the first ones.

    :ivar orders: those that are not answered, by id.
    :ivar robot: who has some of them, and gets the others; None: nobody, or a robot that is lost.
    :ivar out: it was given to a robot, and has not come back.
    :ivar recalled: only what is being fetched is still wanted.
    :ivar paid_at: clock time before which no fetch may begin: what was fetched before is not paid for, or began too
        short a time before.
    """

    __slots__ = ("orders", "out", "paid_at", "pid", "priority", "recalled", "robot")

    def __init__(self, pid: int, priority: int) -> None:
        self.pid = pid
        self.priority = clamp(priority)
        self.orders: dict[str, HeldOrder] = {}
        self.robot: Any = None
        self.out = False
        self.recalled = False
        self.paid_at = 0.0

    @property
    def given(self) -> bool:
        """A robot has, or may still have, some of it."""
        return any(order.out for order in self.orders.values())

    @property
    def first(self) -> HeldOrder:
        """The one that is carried out first: no other one of it can be being fetched."""
        return next(iter(self.orders.values()))

    def ended(self, order: HeldOrder, done: Done, now: float) -> bool:
        """The robot has ended this order of it, which is not held any longer; True: it has others still."""
        fetch = order.fetch
        if fetch.rate:
            self.paid_at = bandwidth.charge(self.paid_at, now, done.wire_bytes, fetch.rate)
        if fetch.interval_ms and done.code not in NOT_BEGUN:
            begun = now - done.elapsed_ms / 1000
            self.paid_at = bandwidth.after_start(self.paid_at, begun, fetch.interval_ms / 1000)
        for following in self.orders.values():
            following.given_at = now
            return following.out
        return False

    def may_have_begun(self, now: float) -> None:
        """Who had it is lost: when the last fetch began is not known, so it may have been just now."""
        if self.orders:
            self.paid_at = bandwidth.after_start(self.paid_at, now, self.first.fetch.interval_ms / 1000)


class OrderBook:
    """All orders that are held, by id, and the queues of runs that wait for a robot, one for each priority."""

    def __init__(self) -> None:
        self._held: dict[str, HeldOrder] = {}
        self._runs: dict[int, Run] = {}
        self._queues: tuple[OrderedDict[int, Run], ...] = tuple(OrderedDict() for _ in range(PRIORITIES))
        self._grown: dict[int, Run] = {}
        self._debts = Debts()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, order_id: str) -> bool:
        return order_id in self._held

    def __iter__(self) -> Iterator[HeldOrder]:
        return iter(list(self._held.values()))

    def run(self, pid: int) -> Run | None:
        """That of this provider; None: no order of it is held."""
        return self._runs.get(pid)

    def add(self, order: HeldOrder) -> None:
        """Take in a new order: it goes behind those of its provider, or behind all others of its priority."""
        fetch = order.fetch
        self._held[fetch.id] = order
        run = self._runs.get(fetch.pid)
        if run is None:
            run = self._runs[fetch.pid] = Run(fetch.pid, fetch.priority)
            if fetch.interval_ms or fetch.rate:
                run.paid_at = self._debts.take(fetch.pid)
            self._queues[run.priority][run.pid] = run
        elif run.out:
            self._grown[run.pid] = run
        order.run = run
        run.orders[fetch.id] = order

    def take(self) -> Run | None:
        """The next run that waits for a robot; it is out from now on.  None: there is none."""
        for queue in reversed(self._queues):
            if queue:
                _, run = queue.popitem(last=False)
                run.out = True
                return run
        return None

    def take_grown(self) -> list[Run]:
        """The runs that robots have, and that have orders which these may not have got."""
        if not self._grown:
            return []
        grown, self._grown = self._grown, {}
        return [run for run in grown.values() if run.robot is not None and run.orders]

    def not_given(self, run: Run) -> None:
        """Some orders of this run could not be given to its robot: it is in the next :meth:`take_grown`."""
        if run.orders:
            self._grown[run.pid] = run

    def put_back(self, runs: Iterable[Run]) -> None:
        """These runs, that were out, wait again, each in front of all others of its priority and in this order."""
        for run in reversed(list(runs)):
            run.out = False
            run.robot = None
            for order in run.orders.values():
                order.out = False
                order.robot = None
                order.attempt = ""
            if run.orders:
                queue = self._queues[run.priority]
                queue[run.pid] = run
                queue.move_to_end(run.pid, last=False)

    def keep_debt(self, run: Run, now: float) -> None:
        """An order of this run was dropped: if it was the last one, what it owes is kept for those that are on their
        way."""
        if not run.orders and run.paid_at > now:
            self._debts.keep(run.pid, run.paid_at, now)

    def drop(self, order: HeldOrder) -> None:
        """The order has ended: it is not held any longer."""
        if order.dropped:
            return
        order.dropped = True
        order.out = False
        order.robot = None
        order.attempt = ""
        run = order.run
        del self._held[order.fetch.id]
        del run.orders[order.fetch.id]
        if not run.orders:
            del self._runs[run.pid]
            self._queues[run.priority].pop(run.pid, None)
            self._grown.pop(run.pid, None)
