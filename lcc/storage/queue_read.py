"""Reading the queue for the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from lcc.interfaces import IQueueRules
from lcc.model import FETCH_NOW, Ahead, Cursor, DeleteOrder, QueueRow, Waiting
from lcc.storage.queue_stored import with_stored
from lcc.storage.rows import SELECT_QUEUE, queue_row
from lcc.storage.transactions import Txn


def providers_with_work(txn: Txn) -> list[Waiting]:
    """See :meth:`lcc.interfaces.IQueueStore.providers_with_work`."""
    sql = (
        "SELECT MIN(q.psetid), q.pid, COALESCE(MAX(p.priority), 0) FROM qpsdb q LEFT JOIN pidb p ON p.pid = q.pid"
        " WHERE q.slot = ? GROUP BY q.pid ORDER BY MIN(q.psetid)"
    )
    return [Waiting(*row) for row in txn.query(sql, [FETCH_NOW])]


def read_ahead(txn: Txn, rules: IQueueRules, cursors: Sequence[Cursor]) -> list[Ahead]:
    """See :meth:`lcc.interfaces.IQueueStore.read_ahead`."""
    return with_stored(txn, rules, [_read_one(txn, cursor) for cursor in cursors])


def _read_one(txn: Txn, cursor: Cursor) -> Ahead:
    rows = _partial_rows(txn, cursor) if cursor.partial else _next_rows(txn, cursor)
    full_left = 0
    if rows and not cursor.partial:
        sql = "SELECT nurls FROM qpsdb WHERE psetid = ? AND slot = ? AND fullset = 1"
        full_left = txn.value(sql, [rows[-1].psetid, FETCH_NOW], 0)
    return Ahead(cursor.pid, rows, full_left)


def _next_rows(txn: Txn, cursor: Cursor) -> list[QueueRow]:
    pid, psetid, seq, limit, _partial = cursor
    if (psetid, seq) == (0, 0):
        # Without this lower bound, many rows that are gone (but not yet purged) might be looked at.
        table = f"qpsdb {txn.by_index('qpsdb_provider')}"
        sql = f"SELECT psetid, firstseq FROM {table} WHERE pid = ? AND slot = ? ORDER BY psetid LIMIT 1"
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


def _partial_rows(txn: Txn, cursor: Cursor) -> list[QueueRow]:
    pid, psetid, seq, limit, _partial = cursor
    sql = (
        f"SELECT psetid, firstseq FROM qpsdb {txn.by_index('qpsdb_provider')}"
        " WHERE pid = ? AND slot = ? AND psetid >= ? AND fullset = 0 ORDER BY psetid LIMIT ?"
    )
    where = "WHERE pid = ? AND slot = ? AND psetid = ? AND seq > ? ORDER BY seq LIMIT ?"
    rows: list[QueueRow] = []
    for number, first in txn.query(sql, [pid, FETCH_NOW, psetid, limit]):
        after = max(seq, first - 1) if number == psetid else first - 1
        found = txn.query(f"{SELECT_QUEUE} {where}", [pid, FETCH_NOW, number, after, limit - len(rows)])
        rows += [queue_row(row) for row in found]
        if len(rows) >= limit:
            break
    return rows


def delete_orders(txn: Txn, machine: int, after: int, limit: int, now: int, delete_grace: int) -> list[DeleteOrder]:
    """See :meth:`lcc.interfaces.IQueueStore.deletes`."""
    sql = (
        f"SELECT id, machine, file, not_before FROM fsmdb {txn.by_index('fsmdb_machine')}"
        " WHERE machine = ? AND id > ? ORDER BY id LIMIT ?"
    )
    rows = txn.query(sql, [machine, after, limit])
    # They become due in their order: what is behind the first one that is not is looked at later.  One that would
    # wait for longer than the grace is of a clock that was wrong, or of a longer grace than now.
    waiting = range(now + 1, now + delete_grace + 1)
    return [DeleteOrder(*row[:3]) for row in takewhile(lambda row: row[3] not in waiting, rows)]
