"""Rows of the cache, as tests look at them."""

from __future__ import annotations

from lcc.model import CachedUrl
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import CACHED, SELECT_USER, cached_url
from lcc.storage.database.transactions import Txn

_LAST_KEY = b"\xff" * 20


def urls(txn: Txn, pid: int | None = None, after_key: bytes | None = None, limit: int = 1000) -> list[CachedUrl]:
    """What is cached, in the order of the keys.

    :param pid: only this provider's.
    :param after_key: what follows this key.
    """
    low, high = (b"", _LAST_KEY) if pid is None else provider_range(pid)
    low = max(low, after_key or b"")
    sql = f"{SELECT_USER} WHERE urlkey > ? AND urlkey <= ? AND state = {CACHED} ORDER BY urlkey LIMIT ?"
    return [cached_url(row) for row in txn.query(sql, [low, high, limit])]


def changes(txn: Txn, after_change: int, limit: int = 1000, pid: int | None = None) -> list[CachedUrl]:
    """What has changed since, in the order of the changes: each URL once, with its last change; deletions as well.

    :param after_change: the number of the last change that is known already; 0: all.
    """
    where, parameters = "change_number > ?", [max(0, after_change)]
    if pid is not None:
        where += " AND pid = ?"
        parameters.append(pid)
    rows = txn.query(f"{SELECT_USER} WHERE {where} ORDER BY change_number LIMIT ?", [*parameters, limit])
    return [cached_url(row) for row in rows]
