"""The bandwidth of providers (P11), as their web servers see it: what a robot has received is paid for, by time,
before the next request comes.

Bytes count when the robot has them: what was lost on the way, nobody has fetched.  What a robot or a BOT-M had
received that was killed, or was cut off until its leases were over, need not be known to anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from lcc.roles.qm.schedule.delays import SAVED_SECONDS

from .fault import Fault
from .sites import Site

SHARE = 1.05
"""Of the bandwidth, what may be used."""
_EXACT_SECONDS = 0.01
_UNKNOWN_SECONDS = 45.0
"""So long after a fault somebody may fetch who knows nothing of what was fetched before: a lease."""
_FETCHERS = ("bot", "central")
_LOSING = frozenset(["part", "cut-off", "unheard", "restore", "clock-step", "at-move", "disk-full", "disk-faulty"])
"""Kinds of faults, whomever they befall, with which what was fetched may not be known in time."""
_ENDING = frozenset(["kill", "power", "first-power", "freeze", "stop"])
"""Kinds that do so if they befall a robot or a BOT-M."""


@attrs.define(eq=False)
class _Exchange:
    """A request and its answer.

    :ivar end: the robot's end of their connection.
    :ivar before: bytes that this had received before.
    """

    start: float
    end: Any
    before: int


class Account:
    """What a provider's web server has given, and when that is paid for.

    :param rate: bytes per second.
    :ivar judged: requests that came when something was known of those before.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.judged = 0
        self._paid_at = 0.0
        self._first = 0.0
        """When the first of what is not paid for came."""
        self._open: list[_Exchange] = []

    def begins(self, now: float, end: Any, unknown_until: float) -> tuple[float, float]:
        """A request has come.

        :param unknown_until: what was given before that may not be known to the LCC.
        :returns: by how many seconds it is too early; when the first of what is not paid for was given.
        """
        for each in sorted(self._open, key=lambda each: float(each.end.received_time)):
            size = each.end.received_bytes - each.before
            if each.start > unknown_until and size:
                if self._paid_at < each.end.received_time:
                    self._paid_at = self._first = each.end.received_time
                self._paid_at += size / (SHARE * self.rate)
        if now <= unknown_until:
            self._paid_at = 0.0
        elif self._paid_at:
            self.judged += 1
        self._open = [_Exchange(now, end, end.received_bytes)]
        return self._paid_at - now, self._first


class BandwidthPromises:
    """Watches the web servers.

    :param started: gives when the queue manager was started last of which a provider is.
    :param knows_delays: whether delays are kept at all, as far as clocks are concerned.
    """

    def __init__(
        self,
        sites: list[Site],
        broken: Callable[[str, str], None],
        started: Callable[[Site], float],
        knows_delays: Callable[[], bool],
    ) -> None:
        self._broken = broken
        self._started = started
        self._knows_delays = knows_delays
        self._unknown_until = 0.0
        self._accounts = {site: Account(site.bandwidth_bytes) for site in sites if site.bandwidth_bytes}
        for site in self._accounts:
            site.begins = self._begins

    @property
    def counts(self) -> dict[str, int]:
        """What there was of it."""
        judged = sum(account.judged for account in self._accounts.values())
        return {"requests in bandwidth": judged} if self._accounts else {}

    def fault_happens(self, fault: Fault, now: float, name: str) -> None:
        """Something goes wrong.

        :param name: of the process that it befalls, or of one on that machine.
        """
        is_fetcher = name.rpartition("-")[2].startswith(_FETCHERS)
        if fault.kind in _LOSING or (fault.kind in _ENDING and is_fetcher):
            self._unknown_until = max(self._unknown_until, now + fault.seconds + _UNKNOWN_SECONDS)

    def _begins(self, site: Site, end: Any) -> None:
        now = site.timeline.now
        until = self._unknown_until if self._knows_delays() else now
        early, since = self._accounts[site].begins(now, end, until)
        # Delays that end soon are not saved.
        slack = _EXACT_SECONDS + (SAVED_SECONDS if self._started(site) >= since else 0.0)
        if early > slack:
            self._broken("P11", f"{site.pid} is asked {early:.3f} s before its bandwidth allows it")
