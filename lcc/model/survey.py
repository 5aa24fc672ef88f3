"""What a look at the whole queue finds."""

from __future__ import annotations

import attrs

from lcc.model.metrics import Buckets


@attrs.frozen
class Queued:
    """URLs that wait in one priority.

    :ivar now: that may be fetched now.
    :ivar later: that wait for their hours, or for those of their provider.
    :ivar retrying: that wait to be tried again after an error, of their own or of their provider's site.
    """

    priority: int
    now: int
    later: int
    retrying: int


@attrs.frozen
class Lag:
    """A provider with something to fetch.

    :ivar seconds: since its first set of which something is left was taken in.
    :ivar urls: that may be fetched now.
    """

    pid: int
    seconds: int
    urls: int


@attrs.frozen
class Survey:
    """
    :ivar time: when it was made, seconds since 1970.
    :ivar lags: of all providers with something to fetch now, in seconds.
    :ivar worst: those of them that have waited for longest, the worst first.
    :ivar oldest_seconds: the longest of them; 0: nobody waits.
    :ivar delayed: reason -> providers that must wait.
    :ivar providers: that are registered.
    :ivar files, space_bytes: in the cache.
    :ivar errors: of fetches that providers were not told yet, or whose telling is not confirmed.
    :ivar full_sets_wanted: providers that are asked for a full set.
    """

    time: int
    queued: tuple[Queued, ...]
    lags: Buckets
    worst: tuple[Lag, ...]
    oldest_seconds: int
    delayed: dict[str, int]
    providers: int
    files: int
    space_bytes: int
    errors: int
    full_sets_wanted: int
