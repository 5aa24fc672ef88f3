"""Compares the content that was copied of a provider that moves with what its rows say (doc/moves.md)."""

from __future__ import annotations

from typing import NamedTuple

from lcc.storage.database.tables.rows import CACHED
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.moves.paged import CACHE_ROWS, PAGE_ROWS, next_page

IS_COPY = f"c.urlkey = r.carried AND c.state = {CACHED} AND c.md5 = r.md5 AND c.len = r.len"
"""The content of the staged row ``r`` is that of ``c``, a row of the carrier."""


class Compared(NamedTuple):
    """Staged rows whose content was looked at.

    :ivar after: key of the last one.
    :ivar missing: files that have not come.
    :ivar wrong: files that are others than the rows say.
    """

    after: bytes
    missing: int
    wrong: int


def compare_page(txn: Txn, pid: int, after: bytes) -> Compared | None:
    """Compare the content of the next rows; None: there are no more.

    :param after: key of the row before; empty: from the start.
    """
    page = next_page(txn, CACHE_ROWS.staged.name, pid, after, PAGE_ROWS)
    if page is None:
        return None
    ((carried, here, good),) = txn.query(
        f"SELECT COUNT(r.carried), COUNT(c.urlkey), COUNT(CASE WHEN {IS_COPY} THEN 1 END) FROM stagedcache r"
        f" LEFT JOIN lccurl c ON c.urlkey = r.carried AND c.state = {CACHED} WHERE r.urlkey BETWEEN ? AND ?",
        page,
    )
    return Compared(page[1], int(carried) - int(here), int(here) - int(good))
