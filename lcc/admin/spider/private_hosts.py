"""Hosts of crawls on private addresses: what was refused for that is asked for again at once, before it is due."""

from __future__ import annotations

from collections.abc import Collection

from lcc.admin.context import Admin
from lcc.admin.feeds.private_sites import allow_private_site
from lcc.admin.spider.values import unread_of
from lcc.admin.tasks.orders import order, scheduler_knows, tasks_database
from lcc.domain.spider.keys import host_key
from lcc.errors import code
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.spider.views import host_by_key
from lcc.storage.tasks.orders import ROBOTS_AGAIN
from lcc.storage.tasks.polling.robots import refused_robots

_HOSTS_MAX = 100
"""Hosts of a crawl; further ones are asked for again in time."""
_REFUSED_MAX = 1000
_NOTICED_SECONDS = 3
"""By then the queue manager has noticed that they may be: each second it looks what has changed."""


def allow_private_hosts(admin: Admin, sites: Collection[str]) -> None:
    """Let these hosts be on private addresses.  Over a front end the spider asks for that when it tells of them.

    :param sites: their roots.
    :raises Failed: one is that of a registered provider, whose owner an operator has to ask.
    """
    if admin.config.is_front_end:
        return
    for site in sites:
        allow_private_site(admin, site)
    unread = sorted(unread_of(admin, list(sites)))
    if unread:
        with tasks_database(admin) as tasks:
            body = {"origins": unread, "after_seconds": _NOTICED_SECONDS}
            order(tasks, ROBOTS_AGAIN, 0, body, admin.now())


def refused_hosts(admin: Admin, frontier: BlockingDatabase, crawl: int) -> list[str]:
    """The roots of a crawl's hosts of which nothing is told, as they are on private addresses."""
    refused = scheduler_knows(admin, refused_robots, code("address-forbidden"), _REFUSED_MAX) or []
    return frontier.interact(
        lambda txn: [root for root in refused if host_by_key(txn, crawl, host_key(root)) is not None][:_HOSTS_MAX]
    )
