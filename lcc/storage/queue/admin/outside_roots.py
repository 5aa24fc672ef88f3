"""After a provider has lost roots: drops what is queued outside of the remaining ones, and, on the operator's order,
what is cached there.  Each URL is stored as an error for its provider.  What is polled may lie anywhere: of that,
only what else names it goes.

Each page uses the current roots, not those at the time of the order.
"""

from __future__ import annotations

from lcc.errors import code
from lcc.interfaces import IQueueRules
from lcc.model import COUNTED, FETCH_NOW, QueueRow, Standing
from lcc.storage.database.tables.cancelled import note_cancelled
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import CACHED, NOTHING, POLLED, QUEUE, TOLD_COLUMNS, queue_row, told_notice
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.intake.sweep import leave_to_others, remove_content, removed_rows
from lcc.storage.queue.registered import registered_providers
from lcc.storage.queue.write_transaction import WriteTransaction

_OUTSIDE = code("outside-roots")

_PAGE = "WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"


def _prefixes(txn: Txn, rules: IQueueRules, pid: int) -> tuple[str, ...] | None:
    """Prefixes of the provider's URLs; None: it is being removed."""
    registered = registered_providers(txn, [pid]).get(pid)
    return None if registered is None else rules.prefixes(registered.roots)


def drop_queued_page(
    write: WriteTransaction,
    rules: IQueueRules,
    pid: int,
    progress: bytes,
    page_rows: int,
) -> bytes | None:
    """Cancel the next queued rows outside of the roots; content stays.

    :param progress: as returned by the last page; empty: from the start.
    :returns: where the next page starts; None: done.
    """
    txn, stats = write.txn, write.stats(pid)
    prefixes = _prefixes(txn, rules, pid)
    if prefixes is None:
        return None
    first, last = provider_range(pid)
    rows = [queue_row(row) for row in txn.query(f"{QUEUE.select} {_PAGE}", [progress or first, last, page_rows])]
    outside = {
        row.key: row
        for row in rows
        if not row.delete and row.source & COUNTED and not row.notice.lies_within(prefixes)
    }
    sql = f"SELECT urlkey, fetched_fileid, source FROM lccurl WHERE state = {CACHED} AND urlkey IN ({{in}})"
    cached = txn.query_in(sql, outside)
    files = {key: file for key, file, source in cached if source & COUNTED}
    # What is polled is fetched all the same: cached, it stays what it is; else it is only polled from now on.
    polled = {key: row for key, row in outside.items() if row.source & POLLED}
    outside = {key: row for key, row in outside.items() if key not in polled}
    left = {key: row for key, row in polled.items() if key not in files}
    leave_to_others(write, {key: _of_queue(row).left_to(POLLED) for key, row in left.items()}, pid)
    for row in (*outside.values(), *left.values()):
        source = row.source & COUNTED
        write.error(pid, row.key, row.connseq, _OUTSIDE, "", row.notice, row.generation, source)
    for row in outside.values():
        if row.key not in files:
            stats.pend(-1, row.notice.length)
    sql = f"UPDATE qdb SET operation = {NOTHING}, generation = generation + 1 WHERE urlkey IN ({{in}})"
    txn.execute_in(sql, outside)
    note_cancelled(txn, outside)
    stats.nurlproc -= len(outside)
    # What was lost and cannot be refetched is gone; so is what a poll that was taken back has left.
    _delete(write, pid, [key for key, *_ in cached if key in outside and files.get(key) is None])
    if outside:
        earliest = txn.value("SELECT MIN(psetid) FROM qpsdb WHERE pid = ? AND slot = ?", [pid, FETCH_NOW])
        if earliest is not None:
            write.pending.add_queued(pid, earliest, 0)
    return rows[-1].key if len(rows) == page_rows else None


def delete_cached_page(
    write: WriteTransaction, rules: IQueueRules, pid: int, progress: bytes, page_rows: int
) -> bytes | None:
    """Delete the next content outside of the roots; parameters as of :func:`drop_queued_page`."""
    txn = write.txn
    prefixes = _prefixes(txn, rules, pid)
    if prefixes is None:
        return None
    first, last = provider_range(pid)
    rows = txn.query(
        f"SELECT urlkey, state, connseq, source, words, {TOLD_COLUMNS} FROM lccurl {_PAGE}",
        [progress or first, last, page_rows],
    )
    gone: list[bytes] = []
    polled: dict[bytes, Standing] = {}
    for key, state, connseq, source, words, *told in rows:
        notice = told_notice(told, key)
        if state == CACHED and source & COUNTED and not notice.lies_within(prefixes):
            write.error(pid, key, connseq, _OUTSIDE, "", notice, source=source & COUNTED)
            if source & POLLED:
                polled[key] = Standing(connseq, source, words)
            else:
                gone.append(key)
    _delete(write, pid, gone)
    queued = [queue_row(row) for row in txn.query_in(f"{QUEUE.select} WHERE urlkey IN ({{in}})", polled)]
    polled.update({row.key: _of_queue(row) for row in queued if not row.delete})
    leave_to_others(write, {key: standing.left_to(POLLED) for key, standing in polled.items()}, pid)
    return bytes(rows[-1][0]) if len(rows) == page_rows else None


def _of_queue(row: QueueRow) -> Standing:
    return Standing(row.connseq, row.source, row.words)


def _delete(write: WriteTransaction, pid: int, keys: list[bytes]) -> None:
    remove_content(write, removed_rows(write.txn, keys), pid)
