"""Crawls that are removed: their rows go, a page at a time."""

from __future__ import annotations

from lcc.model.spider.crawls import CrawlState
from lcc.storage.spider.write import FrontierWrite

PAGE_ROWS = 2000
_TABLES = {
    "spurl": "urlkey",
    "sptrap": "hostkey",
    "sphost": "hostkey",
    "spdomain": "domain",
    "spexcluded": "host",
    "spcount": "name",
}
"""Tables with rows of crawls: what comes behind the crawl in their keys."""


def remove_page(write: FrontierWrite) -> bool:
    """As :meth:`lcc.interfaces.IFrontier.remove_page`."""
    if write.done:
        return True  # what it came to is seen the next time
    sql = "SELECT MIN(id) FROM spcrawl WHERE state = ?"
    crawl = write.txn.value(sql, [CrawlState.REMOVING.value])
    if crawl is None:
        return False
    left = PAGE_ROWS
    for table, key in _TABLES.items():
        rows = write.txn.query(f"SELECT {key} FROM {table} WHERE crawl = ? ORDER BY {key} LIMIT ?", [crawl, left])
        if rows:
            write.txn.execute(f"DELETE FROM {table} WHERE crawl = ? AND {key} <= ?", [crawl, rows[-1][0]])
        left -= len(rows)
        if left <= 0:
            return True
    write.txn.execute("DELETE FROM spcrawl WHERE id = ?", [crawl])
    return True
