"""Reading the cache and the queue, for content users and for lcc-admin.

Plain functions of a transaction; page by key, so that no transaction is long.
"""

from __future__ import annotations

import attrs

from lcc.model import FETCH_NOW, CachedUrl, QueueRow
from lcc.storage.database.cancelled import TO_FETCH, WITH_CANCELLED
from lcc.storage.database.key_ranges import provider_range
from lcc.storage.database.rows import CACHED, QUEUE, SELECT_USER, cached_url, queue_row
from lcc.storage.database.transactions import Txn

_LAST_KEY = b"\xff" * 20


@attrs.frozen
class QueueSet:
    """A set that has rows in the queue.

    :ivar queued: rows that are to be fetched.
    :ivar time: when it came.
    """

    psetid: int
    slot: int
    pid: int
    priority: int
    connseq: int
    full: bool
    queued: int
    time: int


def _range(pid: int | None, after_key: bytes | None) -> tuple[bytes, bytes]:
    low, high = (b"", _LAST_KEY) if pid is None else provider_range(pid)
    return (low if after_key is None else max(low, after_key)), high


def urls(txn: Txn, pid: int | None = None, after_key: bytes | None = None, limit: int = 1000) -> list[CachedUrl]:
    """What is cached, in the order of the keys.

    :param pid: only this provider's.
    :param after_key: what follows this key.
    """
    low, high = _range(pid, after_key)
    sql = f"{SELECT_USER} WHERE urlkey > ? AND urlkey <= ? AND state = {CACHED} ORDER BY urlkey LIMIT ?"
    return [cached_url(row) for row in txn.query(sql, [low, high, limit])]


def url(txn: Txn, key: bytes) -> CachedUrl | None:
    """One row of the cache, a tombstone as well; None: there is none."""
    row = txn.one(f"{SELECT_USER} WHERE urlkey = ?", [key])
    return None if row is None else cached_url(row)


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


def queue_rows(txn: Txn, pid: int | None = None, after_key: bytes | None = None, limit: int = 1000) -> list[QueueRow]:
    """What is queued, in the order of the keys (parameters as of :func:`urls`)."""
    low, high = _range(pid, after_key)
    sql = f"{QUEUE.select} WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
    return [queue_row(row) for row in txn.query(sql, [low, high, limit])]


def queue_row_of(txn: Txn, key: bytes) -> QueueRow | None:
    """One row of the queue; None: it is not queued."""
    row = txn.one(f"{QUEUE.select} WHERE urlkey = ?", [key])
    return None if row is None else queue_row(row)


def queue_sets(
    txn: Txn, pid: int | None = None, after: tuple[int, int] = (0, FETCH_NOW), limit: int = 1000
) -> list[QueueSet]:
    """The sets that have rows to fetch, in their order; one with URLs in several time slots several times.

    :param after: those behind this (psetid, slot).
    """
    columns = f"s.psetid, s.slot, s.pid, s.pri, s.connseq, s.fullset, {TO_FETCH}, s.time"
    select = f"SELECT {columns} FROM qpsdb s {WITH_CANCELLED} WHERE {TO_FETCH} > 0 AND"
    owned, owner = ("", []) if pid is None else (" AND s.pid = ?", [pid])
    # Two statements, each a walk along the key; one with OR would not be.
    where = f"s.psetid = ? AND s.slot > ?{owned} ORDER BY s.slot LIMIT ?"
    rows = txn.query(f"{select} {where}", [*after, *owner, limit])
    if len(rows) < limit:
        where = f"s.psetid > ?{owned} ORDER BY s.psetid, s.slot LIMIT ?"
        rows += txn.query(f"{select} {where}", [after[0], *owner, limit - len(rows)])
    return [
        QueueSet(psetid, slot, owner, priority, connseq, bool(full), queued, time)
        for psetid, slot, owner, priority, connseq, full, queued, time in rows
    ]
