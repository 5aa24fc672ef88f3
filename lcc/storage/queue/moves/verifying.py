"""Compares the content that was copied of a provider that moves with what its rows say (doc/moves.md)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from lcc.storage.database.tables.rows import CACHED
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.moves.paged import CACHE_ROWS, next_page

IS_COPY = f"c.urlkey = r.carried AND c.state = {CACHED} AND c.md5 = r.md5 AND c.len = r.len"
"""The content of the staged row ``r`` is that of ``c``, a row of the carrier."""
_NOT_COPIED = (
    "SELECT r.urlkey, (SELECT state FROM lccurl WHERE urlkey = r.carried),"
    " EXISTS (SELECT 1 FROM urlerrs WHERE urlkey = r.carried)"
    f" FROM stagedcache r LEFT JOIN lccurl c ON {IS_COPY}"
    " WHERE r.carried IS NOT NULL AND c.urlkey IS NULL AND r.urlkey"
)


class Compared(NamedTuple):
    """Staged rows whose content was compared.

    :ivar wrong: keys of those whose content has other digests.
    :ivar missing: keys of those whose content is still to come.
    """

    wrong: list[bytes]
    missing: list[bytes]


def compare_page(txn: Txn, pid: int, after: bytes, limit: int) -> tuple[bytes, Compared] | None:
    """Compare the content of the next rows; gives the key of the last one, too; None: there are no more.

    :param after: key of the row before; empty: from the start.
    """
    page = next_page(txn, CACHE_ROWS.staged.name, pid, after, limit)
    if page is None:
        return None
    return page[1], _compared(txn.query(f"{_NOT_COPIED} BETWEEN ? AND ?", page))


def compare_keys(txn: Txn, keys: Collection[bytes]) -> Compared:
    """Compare the content of the rows with these keys that are staged."""
    return _compared(txn.query_in(f"{_NOT_COPIED} IN ({{in}})", keys))


def _compared(rows: Sequence[tuple[Any, ...]]) -> Compared:
    wrong = [bytes(key) for key, state, _ in rows if state == CACHED]
    return Compared(wrong, [bytes(key) for key, state, failed in rows if state is None and not failed])
