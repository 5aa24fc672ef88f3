"""Hosts whose pages were refused because their addresses are private, though their crawls allow that.

A queue that was restored from a backup may have made their providers anew, without private addresses, and where no
change of the cache was lost nothing else shows that.

Their providers are asked for again, and what was refused is told again; for each host less and less often, because
some addresses are never allowed (those of link-local services).
"""

from __future__ import annotations

from typing import NamedTuple

from twisted.internet.interfaces import IReactorTime

from lcc.model.spider.crawls import HostRef

_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 60.0, 3600.0
_KEPT = 10_000


class _Refused(NamedTuple):
    """What is known of a host.

    :ivar upto: number of the last set that was told before its provider was asked for again.
    :ivar until: clock time until which that is not done once more.
    :ivar pause: how long that is, in seconds.
    :ivar is_to_ask: its provider was not asked for yet.
    """

    upto: int = 0
    until: float = 0.0
    pause: float = _PAUSE_SECONDS / 2
    is_to_ask: bool = False


class PrivateHosts:
    """See :mod:`lcc.roles.spider.private_hosts`."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._refused: dict[HostRef, _Refused] = {}

    def begin(self) -> None:
        """The numbers of sets begin anew."""
        self._refused.clear()

    def refused(self, host: HostRef, told_set: int, newest_set: int) -> bool:
        """A URL of this host was refused.

        :param told_set: number of the set that it was told in; ``newest_set``: of the last set that was told.
        :returns: it is to be told again: the host's provider is asked for before, or was since it was told.
        """
        now, known = self._clock.seconds(), self._refused.pop(host, _Refused())
        is_due = told_set > known.upto and known.until <= now
        if is_due:
            pause = min(2 * known.pause, _PAUSE_SECONDS_MAX)
            known = _Refused(newest_set, now + pause, pause, is_to_ask=True)
        self._refused[host] = known
        if len(self._refused) > _KEPT:
            del self._refused[next(iter(self._refused))]
        return told_set <= known.upto

    def is_to_ask(self, host: HostRef) -> bool:
        """Its provider is to be asked for before anything of it is told."""
        return host in self._refused and self._refused[host].is_to_ask

    def asked(self, host: HostRef) -> None:
        """It was."""
        if host in self._refused:
            self._refused[host] = self._refused[host]._replace(is_to_ask=False)
