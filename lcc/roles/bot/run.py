"""The orders of one provider that a robot has: carried out one after the other."""

from __future__ import annotations

from collections import deque

from twisted.internet.interfaces import IDelayedCall

from lcc.domain.fetches import bandwidth
from lcc.roles.bot.job import Job

PAY_SECONDS_MAX = 2.0
"""What is not paid for within this, or must not begin within it, is handed back: meanwhile the robot can fetch from
somebody else."""


class Run:
    """A provider's orders, in the order in which they came.

    :param paid_at: clock time before which no fetch may begin, because of what came before.
    :ivar job: the one that is being carried out; None: none is.
    :ivar waiting: those behind it.
    :ivar has_place: it is one of those that the robot fetches for at the same time.
    :ivar call: its next fetch begins then, because what came before is not paid for yet.
    :ivar ended: orders that have ended.
    :ivar going: what comes next is being decided.
    """

    __slots__ = ("_paid_at", "call", "ended", "going", "has_place", "job", "pid", "waiting")

    def __init__(self, pid: int, paid_at: float = 0.0) -> None:
        self.pid = pid
        self.job: Job | None = None
        self.waiting: deque[Job] = deque()
        self.has_place = False
        self.call: IDelayedCall | None = None
        self.ended = 0
        self.going = False
        self._paid_at = paid_at

    def add(self, job: Job) -> None:
        """One more order."""
        job.is_first = self.job is None and not self.waiting
        self._paid_at = max(self._paid_at, job.paid_at)
        self.waiting.append(job)

    def fetched(self, job: Job, now: float) -> None:
        """The fetch that was going on has ended."""
        self.job = None
        self.ended += 1
        fetch = job.fetch
        if fetch.rate:
            self._paid_at = bandwidth.charge(self._paid_at, now, job.wire_bytes, fetch.rate)
        if fetch.interval_ms:
            self._paid_at = bandwidth.after_start(self._paid_at, job.begun, fetch.interval_ms / 1000)

    def hands_back(self, job: Job, deadline_seconds: float, now: float) -> bool:
        """Whether this order, which is next, must not be begun here: what was fetched before is not paid for in time,
        or its lease may end before its fetch does.  (The first one is begun all the same.)

        :param deadline_seconds: a fetch may take so long.
        """
        too_late = now + deadline_seconds > job.lease_end and not job.is_first
        return too_late or self._paid_at - now > PAY_SECONDS_MAX

    @property
    def paid_at(self) -> float:
        """Clock time before which its next fetch must not begin."""
        return self._paid_at

    def unpaid_seconds(self, now: float) -> float:
        """How long its next fetch must not begin."""
        return max(0.0, self._paid_at - now)

    def cancel_call(self) -> None:
        """Forget when its next fetch begins."""
        if self.call is not None:
            self.call.cancel()
            self.call = None
