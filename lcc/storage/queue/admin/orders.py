"""Carries out the orders of lcc-admin, in bounded transactions.

The progress of an order is saved (``orders.progress``) in each transaction, where a restart continues; the last one
deletes the order.
"""

from __future__ import annotations

import attrs

from lcc.interfaces import IQueueRules
from lcc.model import COUNTED
from lcc.storage.database.tables.cancelled import forget_cancelled
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.order_rows import (
    ALLOW_DELETIONS,
    CHANGED,
    DELETE_OUTSIDE,
    DROP_DELETIONS,
    FETCH_AGAIN,
    FETCH_PAGE,
    REBUILD,
    REMOVED,
    RETRY,
    ROOTS_TAKEN,
    WANT_FULL_SET,
    AdminOrder,
)
from lcc.storage.database.tables.rows import CACHE, CACHED, TOMBSTONE_UPDATED, empty_cache_row
from lcc.storage.queue.admin.outside_roots import delete_cached_page, drop_queued_page
from lcc.storage.queue.admin.page_again import fetch_page
from lcc.storage.queue.admin.provider_changed import changed_page
from lcc.storage.queue.admin.retry import retry_page
from lcc.storage.queue.intake.held_deletions import drop_held
from lcc.storage.queue.intake.sweep import release_page
from lcc.storage.queue.maintenance.consistency import CHECKS
from lcc.storage.queue.maintenance.lost_content import fetch_damaged
from lcc.storage.queue.moves.staging import is_carrier
from lcc.storage.queue.write_transaction import Stats, WriteTransaction

PAGE_ROWS = 2000
PAGE_PROVIDERS = 1000

_QUEUE, _CONTENT = b"q", b"c"
"""Phases of the removal of a provider: its queue, then its content."""


def carry_out(write: WriteTransaction, rules: IQueueRules, order: AdminOrder) -> bool:
    """Carry out the next page of an order; True: it is done, and deleted."""
    txn = write.txn
    progress = txn.value("SELECT progress FROM orders WHERE id = ?", [order.id])
    if progress is None:
        return True
    if progress != order.progress:
        return False  # the last attempt was committed after all
    left: bytes | None = None
    if order.kind == REMOVED:
        left = _remove_page(write, order.pid, progress)
    elif order.kind == WANT_FULL_SET:
        left = _want_page(write, order, progress)
    elif order.kind == RETRY:
        left = retry_page(write, rules, order.pid, order.code, progress)
    elif order.kind == CHANGED:
        left = changed_page(write, rules, order.pid, progress, PAGE_ROWS)
    elif order.kind == ROOTS_TAKEN:
        left = drop_queued_page(write, rules, order.pid, progress, PAGE_ROWS)
    elif order.kind == DELETE_OUTSIDE:
        left = delete_cached_page(write, rules, order.pid, progress, PAGE_ROWS)
    elif order.kind == REBUILD:
        left = _rebuild_page(write, progress)
    elif order.kind == FETCH_AGAIN:
        left = fetch_damaged(write, rules)
    elif order.kind == FETCH_PAGE:
        fetch_page(write, rules, order.pid, bytes.fromhex(order.text))
    elif order.kind == ALLOW_DELETIONS:
        left = release_page(write, rules, order.pid, int(order.text), progress)
    elif order.kind == DROP_DELETIONS:
        drop_held(txn, order.pid, int(order.text))
    if left is None:
        txn.execute("DELETE FROM orders WHERE id = ?", [order.id])
    else:
        txn.execute("UPDATE orders SET progress = ? WHERE id = ?", [left, order.id])
    return left is None


def _want_page(write: WriteTransaction, order: AdminOrder, progress: bytes) -> bytes | None:
    """Ask the provider, or the next providers, for a full set."""
    txn = write.txn
    if order.pid:
        pids = [pid for (pid,) in txn.query("SELECT pid FROM pidb WHERE pid = ? AND removed = 0", [order.pid])]
    else:
        sql = "SELECT pid FROM pidb WHERE pid > ? AND removed = 0 ORDER BY pid LIMIT ?"
        pids = [pid for (pid,) in txn.query(sql, [int(progress or b"0"), PAGE_PROVIDERS])]
    write.load_stats(pids)
    for pid in pids:
        write.want_full_set(pid, order.text or "operator")
    return b"%d" % pids[-1] if len(pids) == PAGE_PROVIDERS else None


def _rebuild_page(write: WriteTransaction, progress: bytes) -> bytes | None:
    """Run the checks of the background jobs at once, one after the other."""
    number, _, inner = progress.partition(b":")
    at = int(number or b"0")
    left = CHECKS[at](write, inner)
    if left is not None:
        return b"%d:%s" % (at, left)
    return b"%d:" % (at + 1) if at + 1 < len(CHECKS) else None


def _remove_page(write: WriteTransaction, pid: int, progress: bytes) -> bytes | None:
    """Remove the next page of a provider: its queue, its content, finally the provider.  Tombstones stay, except of a
    carrier: nobody was told of its content."""
    txn = write.txn
    if txn.one("SELECT 1 FROM pidb WHERE pid = ? AND removed = 1", [pid]) is None:
        return None
    first, last = provider_range(pid)
    phase, after = progress[:1], progress[1:] or first
    if phase != _CONTENT:
        sql = "SELECT urlkey FROM qdb WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
        queued = [key for (key,) in txn.query(sql, [after, last, PAGE_ROWS])]
        if queued:
            txn.execute_in("DELETE FROM qdb WHERE urlkey IN ({in})", queued)
            forget_cancelled(txn, queued)
            return _QUEUE + bytes(queued[-1])
        after = first
    sql = (
        "SELECT urlkey, state, connseq, source, words, fetched_machineid, fetched_fileid FROM lccurl"
        " WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
    )
    rows = txn.query(sql, [after, last, PAGE_ROWS])
    leaves_none = is_carrier(txn, pid)
    gone = []
    for key, state, connseq, source, words, machine, file in rows:
        if state == CACHED and leaves_none:
            write.delete_file(machine, file)
        elif state == CACHED:
            row = empty_cache_row(key, pid)
            row.update(write.next_change(), connseq=connseq, confirmed_time=write.now)
            row.update(source=source & COUNTED or source, words=words)
            gone.append(tuple(row.values()))
            write.delete_file(machine, file)
    CACHE.upsert(txn, gone, TOMBSTONE_UPDATED)
    if leaves_none:
        txn.execute_in("DELETE FROM lccurl WHERE urlkey IN ({in})", [row[0] for row in rows])
    if len(rows) == PAGE_ROWS:
        return _CONTENT + bytes(rows[-1][0])
    for table in ("qpsdb", "urlerrs", "heldsweeps", "proots", "formerroots", "pdelays", "pidb"):
        txn.execute(f"DELETE FROM {table} WHERE pid = ?", [pid])
    # The row stays: it shows that the id was used, and its last order number.
    stats = write.stats(pid)
    kept = Stats(maxconnseq=stats.maxconnseq, fullconnseq=stats.fullconnseq, last_set_time=write.now)
    for field in attrs.fields(Stats):
        setattr(stats, field.name, getattr(kept, field.name))
    return None
