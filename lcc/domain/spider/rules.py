"""The rules of the frontier: which URL is told first, when a page is looked at again, when a host is left alone.

Importance (OPIC, Abiteboul, Preda and Cobena, "Adaptive on-line page importance computation", 2003): each start has
some cash; a page that is read hands its cash on to its links, in equal shares.  Only links that were not read yet
get any: with others it would wait for their next visit, and a crawl that visits each page once would run dry.  A page
without such links keeps its cash until it is read again.  What pages have handed on within a window of time is their
importance (``history``).
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
from zope.interface import implementer

from lcc.domain.fetches.retries import doubled_seconds
from lcc.domain.registered_domain import registered_domain
from lcc.domain.spider.keys import host_key, host_of_root
from lcc.domain.urls import owner_of
from lcc.errors import Remedy, entry_for
from lcc.interfaces import IFrontierRules
from lcc.model.spider.crawls import DOMAIN_HOSTS_MAX, HOSTS_MAX, NEVER, CrawlSettings, Owners, UrlOrder, bucket_of

START_CASH = 10**12
"""Of each start.  Shares are whole numbers; some eight million starts fit."""
_CHANGED, _UNCHANGED = 0.8, 1.4
"""What a visit makes of the time to the next one."""
_STEP_BITS = 3


def coarse(value: int) -> int:
    """The logarithm of a number, in eighths of an octave; below 16 each number has its own.  So a rank changes only
    when it matters, and an index of ranks hardly ever."""
    if value < 1 << (_STEP_BITS + 1):
        return value
    octave = value.bit_length() - _STEP_BITS - 1
    return (octave << _STEP_BITS) + (value >> octave)


def rank(order: UrlOrder, depth: int, inlinks: int, cash: int) -> int:
    """The rank of a URL that waits: the lowest is told first."""
    if order is UrlOrder.DEPTH:
        return depth
    # Among equals those of less depth.
    least = min(depth, _DEPTHS - 1)
    return -coarse(inlinks if order is UrlOrder.INLINKS else cash) * _DEPTHS + least


_DEPTHS = 1 << 10


def shares(cash: int, count: int) -> list[int]:
    """What each of so many links (at least one) gets; together it is all of it."""
    share, rest = divmod(cash, count)
    return [share + 1] * rest + [share] * (count - rest)


def history(former: int, handed_on: int, seconds: int, window_seconds: int) -> int:
    """Importance handed on within the window, after a visit.

    :param former: after the visit before; 0: there was none.
    :param seconds: since then.
    """
    if former == 0 or seconds <= 0:
        return former + handed_on
    if seconds >= window_seconds:
        return handed_on * window_seconds // seconds
    return former * (window_seconds - seconds) // window_seconds + handed_on


class HostFault(NamedTuple):
    """What a host's failures come to.

    :ivar parked_time: until when it is left alone; 0: it is not.
    """

    failures: int
    parkings: int
    parked_time: int


@implementer(IFrontierRules)
@attrs.frozen
class FrontierRules:
    """See :mod:`lcc.domain.spider.rules`.

    :param window: URLs of a host that are told and not answered, at most.
    :param failures_max: failures of a host in a row after which it is parked.
    :param parked_seconds: for how long the first time; each time twice as long.
    :param parked_max_seconds: at most.
    :param told_wait_seconds: after a URL was told, or asked for, until it is asked what became of it.
    :param hosts_per_domain: hosts of a registered domain in a crawl at most; 0: any number.
    :param url_failures_max: how often a URL is told that fails because of its host.
    :param history_seconds: the window of history.
    """

    window: int = 100
    failures_max: int = 5
    parked_seconds: int = 3600
    parked_max_seconds: int = 30 * 86400
    told_wait_seconds: int = 30
    hosts_per_domain: int = 1000
    url_failures_max: int = 3
    history_seconds: int = 90 * 86400

    # Names.

    def host_key(self, root: str) -> bytes:
        """As :func:`lcc.domain.spider.keys.host_key`."""
        return host_key(root)

    def owner_of(self, url: str, owners: Owners) -> int:
        """As :func:`lcc.domain.urls.owner_of`."""
        return owner_of(url, owners)

    def host_place(self, root: str) -> tuple[str, str, int]:
        """The host, its registered domain, its bucket."""
        host = host_of_root(root)
        return host, registered_domain(host), bucket_of(host)

    # Order.

    def rank(self, order: UrlOrder, depth: int, inlinks: int, cash: int) -> int:
        """As :func:`rank`."""
        return rank(order, depth, inlinks, cash)

    def start_cash(self, order: UrlOrder) -> int:
        """Of a URL that nothing links to."""
        return START_CASH if order is UrlOrder.OPIC else 0

    def shares(self, cash: int, count: int) -> list[int]:
        """As :func:`shares`."""
        return shares(cash, count)

    def history(self, former: int, handed_on: int, seconds: int) -> int:
        """As :func:`history`."""
        return history(former, handed_on, seconds, self.history_seconds)

    # Visits.

    def interval(self, settings: CrawlSettings, former_seconds: int, changed: bool | None) -> int:
        """Seconds from this visit to the next; 0: there is none.

        :param former_seconds: before this visit.
        :param changed: the content has another md5 than the last time; None: this is the first visit.
        """
        if not settings.revisit_seconds:
            return 0
        if changed is None or not former_seconds:
            seconds = float(settings.revisit_seconds)
        else:
            seconds = former_seconds * (_CHANGED if changed else _UNCHANGED)
        least, most = settings.revisit_least_seconds, settings.revisit_most_seconds
        return round(min(max(seconds, least), most))

    def interval_after_error(self, settings: CrawlSettings, former_seconds: int) -> int:
        """Seconds until a URL that has failed is tried again; 0: never.  They double."""
        if not settings.revisit_seconds:
            return 0
        least, most = settings.revisit_least_seconds, settings.revisit_most_seconds
        return min(max(2 * (former_seconds or settings.revisit_seconds), least), most)

    @staticmethod
    def due(now: int, interval_seconds: int) -> int:
        """The rank of a URL that was visited: when it is looked at again."""
        return now + interval_seconds if interval_seconds else NEVER

    # Hosts.

    def ready_time(
        self,
        waiting: int,
        told: int,
        due_time: int | None,
        parked_time: int,
        excluded: bool,
        ready_time: int | None,
        now: int,
    ) -> int | None:
        """From when on URLs of a host can be told; None: there are none, or no room.

        A window is filled again once it is half empty, so that sets are not of single URLs.  Who is ready keeps its
        place: those that have waited longest come first.

        :param waiting, told: its URLs.
        :param due_time: when the first of its URLs is looked at again; None: never.
        :param ready_time: as it was found last; None: it was not ready.
        """
        if excluded or told > self.window // 2:
            return None
        if waiting > 0:
            since = now if ready_time is None else min(ready_time, now)
        elif due_time is not None:
            since = due_time
        else:
            return None
        return max(since, parked_time)

    def turn(self, told: int, waiting: int, due: int) -> tuple[int, int]:
        """How many of the URLs of a host that wait, and of those that are to be looked at again, are told now.

        :param told: already.
        :param waiting, due: how many there are (at most :attr:`window` count).
        """
        room = max(0, self.window - told)
        again = min(due, max(room - waiting, room // 4))
        return min(waiting, room - again), again

    def is_fault_of_host(self, code: int) -> bool:
        """Whether an error says more of the host than of the URL."""
        return entry_for(code).remedy in (Remedy.HOLD_PROVIDER, Remedy.RETRY)

    def fail_host(self, failures: int, parkings: int, now: int) -> HostFault:
        """One more failure of a host.

        :param failures, parkings: in a row until now.
        """
        if failures + 1 < self.failures_max:
            return HostFault(failures + 1, parkings, 0)
        return self.park_host(parkings, now)

    def park_host(self, parkings: int, now: int) -> HostFault:
        """A host is left alone."""
        seconds = doubled_seconds(self.parked_seconds, parkings, self.parked_max_seconds)
        return HostFault(0, parkings + 1, now + seconds)

    def is_full(self, hosts: int, settings: CrawlSettings, domain_hosts: int) -> str:
        """Why a crawl takes no more hosts of a domain: the name of the counter of what is dropped; empty: it does."""
        if settings.hosts_max and hosts >= settings.hosts_max:
            return HOSTS_MAX
        if self.hosts_per_domain and domain_hosts >= self.hosts_per_domain:
            return DOMAIN_HOSTS_MAX
        return ""
