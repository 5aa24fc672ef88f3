"""Rows that wait for a retry after an error, in slots below "fetch now" that are numbered after their end.

So the index of ``qpsdb`` by slot is the order in which they are due; they take no memory, and need nothing after a
restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lcc.model import FETCH_NOW, RETRY_SLOT_SECONDS, RetryPage, retry_slot
from lcc.storage.database.tables.rows import SET_EXTENT, SETS, SetRow
from lcc.storage.database.tables.status import next_retry
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.schedule.time_slots import Opened
from lcc.storage.queue.set_rows import joined, move_rows
from lcc.storage.queue.write_transaction import WriteTransaction

SETS_AT_ONCE = 200

BEFORE_SLOTS = -(1 << 31)
"""Below the numbers of all slots."""


def open_retries(txn: Txn, run: int, now: int, limit: int, latest: float, opened: Opened) -> RetryPage:
    """See :meth:`lcc.interfaces.IQueueStore.open_retries`.

    :param latest: rows that wait for longer are due, too: the clock was set back, or the maximum delay reduced.
    """
    WriteTransaction(txn, run)
    left = limit
    whole: list[SetRow] = []
    keys: list[bytes] = []
    for row in _due_sets(txn, now, latest):
        psetid, slot, pid = row.psetid, row.slot, row.pid
        found = _rows(txn, pid, slot, psetid, left + 1)
        if len(found) > left:
            if left:
                move_rows(txn, psetid, slot, FETCH_NOW, found[:left])
                opened.add(pid, psetid, found[0][1], row.pri)
            break
        left -= len(found)
        txn.execute("DELETE FROM qpsdb WHERE psetid = ? AND slot = ?", [psetid, slot])
        if found:
            whole.append(row._replace(firstseq=found[0][1], lastseq=found[-1][1], nurls=len(found)))
            keys += [key for key, _ in found]
            opened.add(pid, psetid, found[0][1], row.pri)
    txn.execute_in(f"UPDATE qdb SET slot = {FETCH_NOW} WHERE urlkey IN ({{in}})", keys)
    _move_sets(txn, whole)
    _know_priorities(txn, opened)
    return RetryPage(list(opened.earliest.values()), _next_page(txn, now, latest))


def _due_sets(txn: Txn, now: int, latest: float) -> list[SetRow]:
    begun = retry_slot(now // RETRY_SLOT_SECONDS * RETRY_SLOT_SECONDS)
    select = f"{SETS.select} {txn.by_index('qpsdb_slot')} WHERE"
    order = "ORDER BY slot DESC, psetid DESC LIMIT ?"
    due = txn.query(f"{select} slot >= ? AND slot < ? {order}", [begun, FETCH_NOW, SETS_AT_ONCE])
    return list(map(SetRow._make, due or txn.query(f"{select} slot < ? {order}", [retry_slot(latest), SETS_AT_ONCE])))


def _next_page(txn: Txn, now: int, latest: float) -> int | None:
    """When there is more to open: now, if a row waits for longer than allowed."""
    sql = f"SELECT 1 FROM qpsdb {txn.by_index('qpsdb_slot')} WHERE slot < ? LIMIT 1"
    return now if txn.one(sql, [retry_slot(latest)]) else next_retry(txn)


def _rows(txn: Txn, pid: int, slot: int, psetid: int, limit: int) -> list[tuple[bytes, int]]:
    sql = "SELECT urlkey, seq FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? ORDER BY seq LIMIT ?"
    return [(key, seq) for key, seq in txn.query(sql, [pid, slot, psetid, limit])]


def _move_sets(txn: Txn, rows: Iterable[SetRow]) -> None:
    """All rows of these sets and slots have gone to FETCH_NOW."""
    moved: dict[int, SetRow] = {}
    for row in rows:
        moved[row.psetid] = joined(moved[row.psetid], row) if row.psetid in moved else row._replace(slot=FETCH_NOW)
    sql = f"{SETS.select} WHERE slot = ? AND psetid IN ({{in}})"
    for row in map(SetRow._make, txn.query_in(sql, sorted(moved), [FETCH_NOW])):
        moved[row.psetid] = joined(moved[row.psetid], row)
    SETS.upsert(txn, [moved[psetid] for psetid in sorted(moved)], SET_EXTENT)


def _know_priorities(txn: Txn, opened: Opened) -> None:
    """Use the current priorities of the providers, not those of when the set came."""
    now = priorities_of(txn, opened.earliest)
    for pid, (_, psetid, seq, _priority) in list(opened.earliest.items()):
        opened.earliest[pid] = (pid, psetid, seq, now.get(pid, 0))


def priorities_of(txn: Txn, pids: Iterable[int]) -> dict[int, int]:
    return dict(txn.query_in("SELECT pid, priority FROM pidb WHERE pid IN ({in})", sorted(pids)))


# On an operator's order.


def hasten_page(
    write: WriteTransaction,
    pid: int,
    code: int,
    begun: int,
    after: tuple[int, int, int],
    limit: int,
) -> tuple[int, int, int] | None:
    """Make the next waiting rows due, but for those that failed since the order was begun.

    Scans the slots from the latest one on: what fails meanwhile goes to one that is scanned already.

    :param pid: only this provider's; 0: all.
    :param code: only what failed with this error; 0: all.
    :param after: start behind this ``(slot, psetid, seq)``.
    :returns: where the next page starts; None: done.
    """
    txn = write.txn
    slot, psetid, seq = after
    sets = _next_sets(txn, pid, slot, psetid)
    left, owners = limit, set[int]()
    for next_psetid, next_slot, owner in sets:
        if (next_slot, next_psetid) != (slot, psetid):
            slot, psetid, seq = next_slot, next_psetid, 0
        sql = (
            "SELECT urlkey, seq, bad_code, bad_time FROM qdb"
            " WHERE pid = ? AND slot = ? AND psetid = ? AND seq > ? ORDER BY seq LIMIT ?"
        )
        rows = txn.query(sql, [owner, slot, psetid, seq, left])
        # A time in the future was written before the wall clock was set back.
        chosen = [(key, at) for key, at, error, time in rows if code in (0, error) and not begun < time <= write.now]
        if chosen:
            hasten(write, owner, psetid, slot, chosen)
            owners.add(owner)
        left -= len(rows)
        if left <= 0:
            seq = rows[-1][1]
            break
        psetid, seq = psetid + 1, 0
    write.pending.priorities.update(priorities_of(txn, owners))
    return None if left > 0 and len(sets) < SETS_AT_ONCE else (slot, psetid, seq)


def hasten(write: WriteTransaction, pid: int, psetid: int, slot: int, rows: Sequence[tuple[bytes, int]]) -> None:
    """Make waiting rows of a set due, as if they had not failed.  The caller says the priority of the provider.

    :param rows: ``(key, seq)``, in order.
    """
    txn = write.txn
    move_rows(txn, psetid, slot, FETCH_NOW, rows)
    txn.execute_in("UPDATE qdb SET attempts = 0, unreached = 0 WHERE urlkey IN ({in})", [key for key, _ in rows])
    write.pending.add_queued(pid, psetid, rows[0][1])


def _next_sets(txn: Txn, pid: int, slot: int, psetid: int) -> list[tuple[Any, ...]]:
    # Two statements, each a walk along an index; one with OR would not be.
    index, only, values = ("qpsdb_provider", "pid = ? AND ", [pid]) if pid else ("qpsdb_slot", "", [])
    select = f"SELECT psetid, slot, pid FROM qpsdb {txn.by_index(index)} WHERE {only}"
    sql = f"{select} slot = ? AND psetid >= ? ORDER BY psetid LIMIT ?"
    rows = txn.query(sql, [*values, slot, psetid, SETS_AT_ONCE])
    if len(rows) < SETS_AT_ONCE:
        sql = f"{select} slot > ? AND slot < ? ORDER BY slot, psetid LIMIT ?"
        rows += txn.query(sql, [*values, slot, FETCH_NOW, SETS_AT_ONCE - len(rows)])
    return rows
