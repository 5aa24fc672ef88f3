"""After a change of a provider: gives its sets the new priority, and moves its rows to the time slots of the new
hours.

(Settings that are read for each fetch need none of this.)
"""

from __future__ import annotations

from lcc.interfaces import IQueueRules
from lcc.model import FETCH_NOW
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.registered import Registered, registered_providers
from lcc.storage.queue.set_rows import move_rows
from lcc.storage.queue.write_transaction import WriteTransaction

_SETS_AT_ONCE = 1000


def changed_page(
    write: WriteTransaction,
    rules: IQueueRules,
    pid: int,
    progress: bytes,
    page_rows: int,
) -> bytes | None:
    """Do the next page.

    :param progress: as returned by the last page; empty: from the start.
    :returns: where the next page starts; None: done.
    """
    txn = write.txn
    registered = registered_providers(txn, [pid]).get(pid)
    if registered is None:
        return None
    if _set_priority(txn, pid, registered.priority):
        return progress or b"0"
    slot, psetid, seq = map(int, progress.split(b":")) if b":" in progress else (FETCH_NOW + 1, 0, -1)
    left = page_rows
    for _ in range(_SETS_AT_ONCE):
        found = _next_set(txn, pid, slot, psetid)
        if found is None:
            return None
        if found != (slot, psetid):
            slot, psetid, seq = *found, -1
        rows = txn.query(
            "SELECT urlkey, seq, hours FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? AND seq > ?"
            " ORDER BY seq LIMIT ?",
            [pid, slot, psetid, seq, left],
        )
        _move(write, rules, registered, (pid, slot, psetid), rows)
        left -= len(rows)
        if left <= 0:
            return b"%d:%d:%d" % (slot, psetid, rows[-1][1])
        psetid, seq = psetid + 1, -1
    return b"%d:%d:%d" % (slot, psetid, seq)


def _next_set(txn: Txn, pid: int, slot: int, psetid: int) -> tuple[int, int] | None:
    """The provider's first set in a time slot from here on: ``(slot, psetid)``."""
    table = f"qpsdb {txn.by_index('qpsdb_provider')}"
    # Two statements, each an index scan; one with OR would not be.
    same = f"SELECT slot, psetid FROM {table} WHERE pid = ? AND slot = ? AND psetid >= ? ORDER BY psetid LIMIT 1"
    later = f"SELECT slot, psetid FROM {table} WHERE pid = ? AND slot > ? ORDER BY slot, psetid LIMIT 1"
    found = txn.one(same, [pid, slot, psetid]) or txn.one(later, [pid, slot])
    return None if found is None else (found[0], found[1])


def _set_priority(txn: Txn, pid: int, priority: int) -> bool:
    """For listings only: the scheduler uses the provider's own priority.  True: there are more."""
    sql = "SELECT DISTINCT psetid FROM qpsdb WHERE pid = ? AND pri <> ? LIMIT ?"
    sets = [psetid for (psetid,) in txn.query(sql, [pid, priority, _SETS_AT_ONCE])]
    txn.execute_in("UPDATE qpsdb SET pri = ? WHERE psetid IN ({in})", sets, [priority])
    return len(sets) == _SETS_AT_ONCE


def _move(
    write: WriteTransaction,
    rules: IQueueRules,
    registered: Registered,
    where: tuple[int, int, int],
    rows: list[tuple[bytes, int, str]],
) -> None:
    pid, source, psetid = where
    moves: dict[int, list[tuple[bytes, int]]] = {}
    for key, seq, hours in rows:
        slot = rules.slot(hours, registered.hours, registered.timezone, write.now)
        if slot != source:
            moves.setdefault(slot, []).append((key, seq))
    for slot, moved in sorted(moves.items()):
        move_rows(write.txn, psetid, source, slot, moved)
        if slot == FETCH_NOW:
            write.pending.add_queued(pid, psetid, moved[0][1])
            write.pending.priorities[pid] = registered.priority
