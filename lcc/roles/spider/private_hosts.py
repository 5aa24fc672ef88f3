"""Hosts whose pages were refused because their addresses are private, though their crawls allow that.

A queue that was restored from a backup may have made their providers anew, without private addresses, and where no
change of the cache was lost nothing else shows that.

Their providers are asked for again, and what was refused is told again; for each host less and less often, because
some addresses are never allowed (those of link-local services).  A pause begins when a URL was refused that was told
since its provider was asked for, so that in each round some are refused for good, however long a round takes.
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
    :ivar pause: how long that was, in seconds; 0: it was never asked for in vain.
    :ivar is_to_ask: its provider was not asked for yet.
    :ivar was_asked: it was, and nothing that was told since then was refused.
    """

    upto: int = 0
    until: float = 0.0
    pause: float = 0.0
    is_to_ask: bool = False
    was_asked: bool = False


class PrivateHosts:
    """See :mod:`lcc.roles.spider.private_hosts`.

    :ivar newest_set: number of the last set that was told.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self.newest_set = 0
        self._clock = clock
        self._refused: dict[HostRef, _Refused] = {}

    def begin(self) -> None:
        """The numbers of sets begin anew."""
        self.newest_set = 0
        self._refused.clear()

    def refused(self, host: HostRef, told_set: int) -> bool:
        """A URL of this host was refused.

        :param told_set: number of the set that it was told in.
        :returns: it is to be told again: the host's provider is asked for before, or was since it was told.
        """
        known = self._refused.pop(host, _Refused())
        if told_set > known.upto and not known.is_to_ask:
            now = self._clock.seconds()
            if known.was_asked:
                pause = min(max(_PAUSE_SECONDS, 2 * known.pause), _PAUSE_SECONDS_MAX)
                known = known._replace(until=now + pause, pause=pause, was_asked=False)
            elif known.until <= now:
                known = known._replace(is_to_ask=True)
        self._refused[host] = known
        if len(self._refused) > _KEPT:
            del self._refused[next(iter(self._refused))]
        return known.is_to_ask or told_set <= known.upto

    def is_to_ask(self, host: HostRef) -> bool:
        """Its provider is to be asked for before anything of it is told."""
        return host in self._refused and self._refused[host].is_to_ask

    def asked(self, host: HostRef) -> None:
        """It was."""
        if self.is_to_ask(host):
            self._refused[host] = self._refused[host]._replace(upto=self.newest_set, is_to_ask=False, was_asked=True)
