"""What fetches cost their providers: bytes, where the bandwidth is limited, and the interval between two starts.

Pure: no I/O, no clock.  The interval of a provider counts from when a fetch began.  Where that is not known, because
an order was lost, or because an earlier queue manager sent it, it counts from when that turned out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lcc.model import QueueRow
from lcc.roles.qm.schedule.delays import SAVED_SECONDS, Delays
from lcc.roles.qm.schedule.hosts import HostGroups
from lcc.roles.qm.schedule.inactive import Inactive
from lcc.roles.qm.schedule.work import Limits, ProviderWork

_UNKNOWN_BYTES = 16_384
"""What a row is expected to bring of which nothing is known."""
_PAID_SECONDS = 1.0
"""A run brings about as much as the provider's bandwidth pays for in this time."""


def expected_bytes(row: QueueRow) -> int:
    """What the fetch of this row will bring, as far as anybody knows."""
    if row.notice.length is not None:
        return row.notice.length
    return _UNKNOWN_BYTES if row.stored is None else row.stored.size_bytes


def paid_for(limits: Limits, rows: int, wanted_bytes: int, spaces_runs: bool) -> tuple[int, int]:
    """How much of a run can be decided in advance.

    :param spaces_runs: whoever carries it out keeps to intervals within it.
    """
    if limits.rate:
        wanted_bytes = min(wanted_bytes, int(limits.rate * _PAID_SECONDS))
    if limits.interval:
        rows = min(rows, max(1, int(_PAID_SECONDS / limits.interval))) if spaces_runs else 1
    return rows, wanted_bytes


class Costs:
    """Charges fetches to the delays of their providers; until the limits of one are known, they are remembered.

    All times are seconds since 1970.

    :param active: the providers that have their turn; ``inactive`` remembers it of the others.
    """

    def __init__(
        self, active: Mapping[int, ProviderWork], inactive: Inactive, delays: Delays, hosts: HostGroups
    ) -> None:
        self._active = active
        self._inactive = inactive
        self._delays = delays
        self._hosts = hosts
        self._unsure: set[int] = set()
        self._unsure_since = 0.0
        self._started = 0.0

    def begin(self, now: float) -> None:
        """A new queue manager begins: delays that were too short to be saved may still last."""
        self._started = now

    def unsure(self, pids: Iterable[int], now: float) -> None:
        """It is not known when the last fetches of these began, except where an interval is known to last."""
        self._unsure = {pid for pid in pids if not self._delays.is_due(pid)}
        self._unsure_since = now

    def came(self, pid: int, wire_bytes: int, now: float, elapsed_seconds: float = 0.0) -> None:
        """So much has travelled for this provider, in a fetch that has ended (also for a result that no order waits
        for).

        :param elapsed_seconds: how long the fetch took, at least; 0: not known.
        """
        work = self._active.get(pid)
        if work is None or work.group is not None:
            self._hosts.began(pid, now - elapsed_seconds)
        if work is None:
            self._inactive.owes(pid, wire_bytes)
            self._inactive.began(pid, now - elapsed_seconds)
            return
        work.served_bytes += wire_bytes
        if work.info is None:
            work.unpaid_bytes += wire_bytes
            self._inactive.began(pid, now - elapsed_seconds)
            return
        limits = work.info.limits
        if limits.rate:
            self._delays.charge(pid, wire_bytes, limits.rate, now)
        if limits.interval:
            self._delays.began(pid, now - elapsed_seconds, limits.interval, now)

    def owes(self, pid: int, seconds: float, now: float) -> None:
        """A robot has handed back what must not begin for so long."""
        work = self._active.get(pid)
        if work is None or work.info is None:
            self._inactive.began(pid, now)
        elif work.info.limits.interval:
            interval = work.info.limits.interval
            self._delays.began(pid, now + seconds - interval, interval, now)

    def limits_known(self, work: ProviderWork, limits: Limits) -> None:
        """What was remembered of a provider is charged."""
        unpaid, work.unpaid_bytes = work.unpaid_bytes, 0
        self._charge_remembered(work.pid, limits, unpaid, 0.0 if work.group is None else work.group.began)

    def leaves(self, pid: int, limits: Limits) -> None:
        """A provider moves to another queue manager: what was remembered of it is charged, to be saved."""
        work = self._active.get(pid)
        if work is None:
            self._charge_remembered(pid, limits, self._inactive.take_unpaid(pid), 0.0)
        elif work.info is None:
            self.limits_known(work, limits)

    def _charge_remembered(self, pid: int, limits: Limits, unpaid_bytes: int, began: float) -> None:
        now = self._delays.now
        if unpaid_bytes:
            self._delays.charge(pid, unpaid_bytes, limits.rate, now)
        began = max(began, self._inactive.take_began(pid))
        if limits.interval:
            began = self._may_have_begun(pid, began, limits.interval)
            if began + limits.interval > now:
                self._delays.began(pid, began, limits.interval, now)

    def _may_have_begun(self, pid: int, began: float, interval: float) -> float:
        """When a provider's last fetch began, at the latest.

        :param began: as far as that is known; 0: it is not.
        """
        if pid in self._unsure:
            self._unsure.discard(pid)
            began = max(began, self._unsure_since)
        return max(began, self._started - max(0.0, interval - SAVED_SECONDS))

    def stepped(self, step: float) -> None:
        """The wall clock was set by so many seconds."""
        self._started += step
        self._unsure_since += step
