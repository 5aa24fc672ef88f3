"""What people see of crawls: only read, by commands and the monitor."""

from __future__ import annotations

from collections import defaultdict

from lcc.model.spider.crawls import CrawlHosts, CrawlStatus, HostRow, KnownUrl, SpidersSeen
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.claims import spiders
from lcc.storage.spider.rows import DROPPED, HOSTS, URLS, crawls, host_row, known_url
from lcc.storage.spider.stores import store_troubles

HOSTS_SHOWN = 10
"""Of a crawl, where all crawls are shown."""
PAGE_ROWS = 1000
PATH_MAX = 1000
"""Steps from a start that are shown."""


def crawl_statuses(txn: Txn) -> list[CrawlStatus]:
    """All crawls, in order of their names."""
    counts: defaultdict[int, dict[str, int]] = defaultdict(dict)
    dropped: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for crawl, name, value in txn.query("SELECT crawl, name, SUM(value) FROM spcount GROUP BY crawl, name"):
        by_name = dropped if name.startswith(DROPPED) else counts
        by_name[crawl][name.removeprefix(DROPPED)] = int(value)
    found = [CrawlStatus(crawl, counts[crawl.id], dropped[crawl.id]) for crawl in crawls(txn)]
    return sorted(found, key=lambda status: status.crawl.name)


def crawl_status(txn: Txn, name: str) -> CrawlStatus | None:
    """The crawl of this name."""
    return next((status for status in crawl_statuses(txn) if status.crawl.name == name), None)


def url_by_key(txn: Txn, crawl: int, key: bytes) -> KnownUrl | None:
    """A URL that is known."""
    row = txn.one(f"{URLS.select} WHERE crawl = ? AND urlkey = ?", [crawl, key])
    if row is None:
        return None
    root = txn.value("SELECT root FROM sphost WHERE crawl = ? AND hostkey = ?", [crawl, row[2]], "")
    return known_url(root, row)


def way_to(txn: Txn, url: KnownUrl) -> list[KnownUrl]:
    """How a URL was found: the pages from a start to the one that linked to it first."""
    way: list[KnownUrl] = []
    seen = {url.key}
    parent = url.parent
    while parent and parent not in seen and len(way) < PATH_MAX:
        seen.add(parent)
        page = url_by_key(txn, url.crawl, parent)
        if page is None:
            break
        way.append(page)
        parent = page.parent
    return way[::-1]


def host_by_key(txn: Txn, crawl: int, key: bytes) -> HostRow | None:
    """A host of a crawl.

    :param key: :func:`lcc.domain.spider.keys.host_key`.
    """
    row = txn.one(f"{HOSTS.select} WHERE crawl = ? AND hostkey = ?", [crawl, key])
    return None if row is None else host_row(row)


def domain_hosts(txn: Txn, crawl: int, domain: str) -> int:
    """How many hosts a crawl has of a registered domain."""
    return int(txn.value("SELECT hosts FROM spdomain WHERE crawl = ? AND domain = ?", [crawl, domain], 0))


def biggest_hosts(txn: Txn, crawl: int, limit: int = PAGE_ROWS) -> list[HostRow]:
    """Hosts with the most known URLs."""
    sql = f"{HOSTS.select} {txn.by_index('sphost_known')} WHERE crawl = ? ORDER BY known DESC LIMIT ?"
    return [host_row(row) for row in txn.query(sql, [crawl, limit])]


def parked_hosts(txn: Txn, crawl: int, limit: int = PAGE_ROWS) -> list[HostRow]:
    """Hosts that are left alone, the longest first."""
    sql = (
        f"{HOSTS.select} {txn.by_index('sphost_parked')} WHERE crawl = ? AND parked_time > 0"
        " ORDER BY parked_time DESC LIMIT ?"
    )
    return [host_row(row) for row in txn.query(sql, [crawl, limit])]


def crawl_hosts(txn: Txn, status: CrawlStatus, limit: int) -> CrawlHosts:
    """A crawl with so many of its hosts."""
    number = status.crawl.id
    return CrawlHosts(status, tuple(biggest_hosts(txn, number, limit)), tuple(parked_hosts(txn, number, limit)))


def see_spiders(txn: Txn, name: str | None, hosts: int) -> SpidersSeen:
    """The spiders, their stores that lack pages, and all crawls, or this one, each with so many hosts."""
    statuses = [status for status in crawl_statuses(txn) if name in (None, status.crawl.name)]
    shown = [crawl_hosts(txn, status, hosts) for status in statuses]
    return SpidersSeen(spiders(txn), store_troubles(txn), shown)
