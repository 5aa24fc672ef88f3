"""Reading the queue for the scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from lcc.model import FETCH_NOW, Ahead, Cursor, DeleteOrder, QueueRow
from lcc.storage.rows import SELECT_QUEUE, queue_row
from lcc.storage.transactions import Txn


def providers_with_work(txn: Txn) -> list[tuple[int, int]]:
    """See :meth:`lcc.interfaces.IQueueStore.providers_with_work`."""
    sql = "SELECT MIN(psetid), pid FROM qpsdb WHERE slot = ? GROUP BY pid ORDER BY MIN(psetid)"
    return [(psetid, pid) for psetid, pid in txn.query(sql, [FETCH_NOW])]


def read_ahead(txn: Txn, cursors: Sequence[Cursor]) -> list[Ahead]:
    """See :meth:`lcc.interfaces.IQueueStore.read_ahead`."""
    return [Ahead(cursor.pid, _next_rows(txn, cursor)) for cursor in cursors]


def _next_rows(txn: Txn, cursor: Cursor) -> list[QueueRow]:
    pid, psetid, seq, limit = cursor
    if (psetid, seq) == (0, 0):
        # Without this lower bound, many rows that are gone (but not yet purged) might be looked at.
        sql = "SELECT psetid, firstseq FROM qpsdb WHERE pid = ? AND slot = ? ORDER BY psetid LIMIT 1"
        first = txn.one(sql, [pid, FETCH_NOW])
        if first is None:
            return []
        psetid, seq = first[0], first[1] - 1
    # Two statements, each a walk along the index; one with OR would not be.
    where = "WHERE pid = ? AND slot = ? AND psetid = ? AND seq > ? ORDER BY seq LIMIT ?"
    rows = txn.query(f"{SELECT_QUEUE} {where}", [pid, FETCH_NOW, psetid, seq, limit])
    if len(rows) < limit:
        where = "WHERE pid = ? AND slot = ? AND psetid > ? ORDER BY psetid, seq LIMIT ?"
        rows += txn.query(f"{SELECT_QUEUE} {where}", [pid, FETCH_NOW, psetid, limit - len(rows)])
    return [queue_row(row) for row in rows]


def delete_orders(txn: Txn, machine: int, after: int, limit: int) -> list[DeleteOrder]:
    """See :meth:`lcc.interfaces.IQueueStore.deletes`."""
    sql = "SELECT id, machine, file FROM fsmdb WHERE machine = ? AND id > ? ORDER BY id LIMIT ?"
    return [DeleteOrder(*row) for row in txn.query(sql, [machine, after, limit])]
