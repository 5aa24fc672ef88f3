"""Reads queue rows and their sets for lcc-admin, a page at a time."""

from __future__ import annotations

import attrs

from lcc.model import FETCH_NOW, QueueRow
from lcc.storage.database.tables.cancelled import TO_FETCH, WITH_CANCELLED
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import QUEUE, queue_row
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


def queue_rows(txn: Txn, pid: int | None = None, after_key: bytes | None = None, limit: int = 1000) -> list[QueueRow]:
    """What is queued, in the order of the keys.

    :param pid: only this provider's.
    :param after_key: what follows this key.
    """
    low, high = (b"", _LAST_KEY) if pid is None else provider_range(pid)
    low = max(low, after_key or b"")
    sql = f"{QUEUE.select} WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
    return [queue_row(row) for row in txn.query(sql, [low, high, limit])]


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
