"""Time slots: queue rows that wait for their hours; and the saved delays of providers (``pdelays``)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lcc.model import FETCH_NOW, Delay, SlotPage
from lcc.storage.database.tables.rows import DELAYS
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.set_rows import move_rows
from lcc.storage.queue.write_transaction import WriteTransaction

_SETS_AT_ONCE = 200


@attrs.define
class Opened:
    """The earliest moved row of each provider: ``(pid, psetid, seq, priority)``.

    It outlives a transaction whose commit was not confirmed: the next attempt reports them, too.
    """

    earliest: dict[int, tuple[int, int, int, int]] = attrs.field(factory=dict)

    def add(self, pid: int, psetid: int, seq: int, priority: int) -> None:
        """Rows from this place on were moved."""
        place = (pid, psetid, seq, priority)
        self.earliest[pid] = min(place, self.earliest.get(pid, place))


def open_slot(txn: Txn, run: int, slot: int, limit: int, after: tuple[int, int], opened: Opened) -> SlotPage:
    """See :meth:`lcc.interfaces.IQueueStore.open_slot`."""
    WriteTransaction(txn, run)
    left, upto = limit, after
    sql = (
        f"SELECT q.psetid, q.pid, COALESCE(p.priority, 0) FROM qpsdb q {txn.by_index('qpsdb_slot')}"
        " LEFT JOIN pidb p ON p.pid = q.pid"
        " WHERE q.slot = ? AND q.psetid >= ? ORDER BY q.psetid LIMIT ?"
    )
    sets = txn.query(sql, [slot, after[0], _SETS_AT_ONCE])
    for psetid, pid, priority in sets:
        first = after[1] if psetid == after[0] else -1
        rows = txn.query(
            f"SELECT urlkey, seq FROM qdb {txn.by_index('qdb_order')}"
            " WHERE pid = ? AND slot = ? AND psetid = ? AND seq > ? ORDER BY seq LIMIT ?",
            [pid, slot, psetid, first, left],
        )
        if rows:
            move_rows(txn, psetid, slot, FETCH_NOW, [(key, seq) for key, seq in rows])
            opened.add(pid, psetid, rows[0][1], priority)
            upto = (psetid, rows[-1][1])
            left -= len(rows)
            if left <= 0:
                break
        else:
            upto = (psetid, max(first, 0))
    done = left > 0 and len(sets) < _SETS_AT_ONCE
    return SlotPage(list(opened.earliest.values()), None if done else upto)


def delays(txn: Txn) -> list[Delay]:
    """See :meth:`lcc.interfaces.IQueueStore.delays`."""
    return [Delay(*row) for row in txn.query(f"{DELAYS.select} ORDER BY pid")]


def save_delays(txn: Txn, run: int, saved: Sequence[Delay]) -> None:
    """See :meth:`lcc.interfaces.IQueueStore.save_delays`."""
    WriteTransaction(txn, run)
    write_delays(txn, saved)


def write_delays(txn: Txn, saved: Sequence[Delay]) -> None:
    """As :func:`save_delays`, in a transaction that is fenced already."""
    rows = [tuple(delay) for delay in saved if delay.until_time or delay.failures]
    gone = sorted({delay.pid for delay in saved} - {row[0] for row in rows})
    txn.execute_in("DELETE FROM pdelays WHERE pid IN ({in})", gone)
    DELAYS.upsert(txn, rows)


def slots_opened(txn: Txn) -> tuple[float, str]:
    """See :meth:`lcc.interfaces.IQueueStore.slots_opened`."""
    row = txn.one("SELECT upto, period FROM slotsopened WHERE id = 1")
    return (0.0, "") if row is None else (row[0], row[1])


def save_slots_opened(txn: Txn, run: int, upto: float, period: str) -> None:
    """See :meth:`lcc.interfaces.IQueueStore.save_slots_opened`."""
    WriteTransaction(txn, run)
    txn.upsert("slotsopened", ("id", "upto", "period"), [(1, upto, period)], ("id",))
