"""What lcc-admin ordered, carried out by the queue manager in bounded transactions."""

from __future__ import annotations

from lcc.storage.books import Books, Stats
from lcc.storage.keyranges import provider_range
from lcc.storage.overlay import TOMBSTONE_UPDATED
from lcc.storage.providers import REMOVED
from lcc.storage.rows import CACHE_COLUMNS, CACHED, empty_cache_row
from lcc.storage.transactions import Txn

PAGE_ROWS = 2000

Order = tuple[int, str, int]
"""(id, kind, pid)"""


def next_order(txn: Txn) -> Order | None:
    """The oldest order; None: there is none."""
    row = txn.one("SELECT id, kind, pid FROM orders ORDER BY id LIMIT 1")
    return None if row is None else (row[0], row[1], row[2])


def carry_out(txn: Txn, run: int, order: Order, now: int, after: bytes) -> bytes | None:
    """Carry out a part of an order.

    :param after: where the part before ended; empty: this is the first.
    :returns: where the next part begins; None: the order is carried out, and gone.
    """
    number, kind, pid = order
    books = Books(txn, run)
    left = _remove_page(txn, books, pid, now, after) if kind == REMOVED else None
    if left is None:
        txn.execute("DELETE FROM orders WHERE id = ?", [number])
    books.close()
    return left


def _remove_page(txn: Txn, books: Books, pid: int, now: int, after: bytes) -> bytes | None:
    """Take away the next part of a provider: its queue, its content (tombstones stay), at last itself."""
    if txn.one("SELECT 1 FROM pidb WHERE pid = ? AND removed = 1", [pid]) is None:
        return None
    first, last = provider_range(pid)
    sql = "SELECT urlkey FROM qdb WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
    queued = [key for (key,) in txn.query(sql, [first, last, PAGE_ROWS])]
    if queued:
        txn.execute_in("DELETE FROM qdb WHERE urlkey IN ({in})", queued)
        return first
    sql = (
        "SELECT urlkey, state, connseq, fetched_machineid, fetched_fileid FROM lccurl"
        " WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
    )
    rows = txn.query(sql, [after or first, last, PAGE_ROWS])
    gone = []
    for key, state, connseq, machine, file in rows:
        if state == CACHED:
            row = empty_cache_row(key, pid)
            row.update(change_number=books.next("change"), connseq=connseq, confirmed_time=now)
            gone.append(tuple(row.values()))
            books.delete_file(machine, file)
    txn.upsert("lccurl", CACHE_COLUMNS, gone, ("urlkey",), TOMBSTONE_UPDATED)
    if len(rows) == PAGE_ROWS:
        return bytes(rows[-1][0])
    for table in ("qpsdb", "urlerrs", "proots", "pidb"):
        txn.execute(f"DELETE FROM {table} WHERE pid = ?", [pid])
    # The row stays: it says that the id was used, and how far its connections had come.
    stats = books.stats(pid)
    kept = Stats(maxconnseq=stats.maxconnseq, fullconnseq=stats.fullconnseq, last_set_time=now)
    for name in ("files_used", "space_used", "nurlproc", "errseq", "errcleared", "fullsets_used", "wantfullset"):
        setattr(stats, name, getattr(kept, name))
    return None


def reset_full_set_counts(txn: Txn, run: int, now: int, period_seconds: int) -> None:
    """Begin a new period for the providers whose period of unsolicited full sets is over."""
    Books(txn, run)
    txn.execute(
        "UPDATE pstats SET fullsets_used = 0, fullsets_since = ? WHERE fullsets_used > 0 AND fullsets_since <= ?",
        [now, now - period_seconds],
    )
