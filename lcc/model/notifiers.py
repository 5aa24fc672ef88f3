"""Notifiers: roles of the LCC that tell a UNS of URLs, and what each of them may say."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from lcc.model.sources import HINTS, Source

NOTIFIERS = ("scheduler", "push", "spider")
"""The roles."""

MAY_SAY: Mapping[str, Source] = {
    "scheduler": Source.LISTED | Source.FEED | Source.LINK | Source.POLLED,
    "push": Source.PUSHED | Source.LISTED,
    "spider": Source.LISTED | Source.LINK | Source.POLLED,
}
"""The sources of each role.  Nobody says "told" but the provider itself.

The scheduler polls feeds, sitemaps and robots.txt, lists what a site's own say, and passes on the items of others'
feeds, and whatever its jobs notify of.  The push server hears IndexNow and WebSub (pushed), and reads ResourceSync
(listed); it polls nothing itself: the scheduler does.  The spider finds links, lists the sitemaps that it comes by,
and polls what it wants to read."""

MAY_WATCH_PRIVATE = frozenset({"spider"})
"""Roles by which an operator lets sites be on private addresses: who adds a crawl says so.  For feeds the command
that adds them does it; what the push server hears comes from strangers."""

JOBS_MAY_SAY = MAY_SAY["scheduler"] & ~Source.POLLED
"""The sources that a job may notify with."""

UNORDERED = HINTS | Source.POLLED
"""Sources whose sets have no order number; those of all others need one."""


@attrs.frozen
class NoticeId:
    """Names a set of a notifier for ever.

    :ivar notifier: its role and name, as ``scheduler/main``.
    :ivar epoch: of its numbers.
    :ivar after: no set has a number between this one and its own.
    """

    notifier: str
    epoch: str
    number: int
    after: int


@attrs.frozen
class SourcedSet:
    """A set of a notifier, as it is told.

    :ivar number: higher than those of all sets that were told before in the notifier's epoch.
    :ivar order: order number of the asking; 0: none, for hints and polls.
    :ivar urls: the attributes of each ``<url>``, as in the CP/UNS protocol: ``c`` curl, ``m`` mime type, ``op`` …
    """

    number: int
    pid: int
    source: Source
    urls: tuple[Mapping[str, str], ...]
    order: int = 0


@attrs.frozen
class RefusedElement:
    """An element of such a set that was refused; the others count all the same.

    :ivar index: from 1.
    """

    index: int
    code: int
    text: str
    url: str


@attrs.frozen
class NoticeOutcome:
    """What became of such a set: what becomes of its URLs stands in the tables.

    :ivar code: 0: accepted, on stable storage; else 10xx or 11xx: rejected, nothing was changed.
    """

    number: int
    code: int = 0
    text: str = ""
    refused: tuple[RefusedElement, ...] = ()
