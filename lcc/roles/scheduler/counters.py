"""What a scheduler counts since its start."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """
    :ivar made: jobs of tasks that were due.
    :ivar started: attempts that were given to managers.
    :ivar completed, temporary, permanent: how attempts ended.
    :ivar lost: attempts whose manager was lost, or has lost them.
    :ivar late: endings that did nothing.
    :ivar followups: jobs that jobs have added.
    :ivar polled: polls that were put into the queue.
    :ivar retracted: URLs that sitemaps list no longer, and that were retracted.
    :ivar sitemap_urls_held: how many of these are held now, until an operator confirms them.
    :ivar orders: of commands and the monitor.
    :ivar notified: sets that the UNS has accepted; ``refused``: that it has not.
    """

    made: int = 0
    started: int = 0
    completed: int = 0
    temporary: int = 0
    permanent: int = 0
    lost: int = 0
    late: int = 0
    followups: int = 0
    polled: int = 0
    retracted: int = 0
    sitemap_urls_held: int = 0
    orders: int = 0
    notified: int = 0
    refused: int = 0
