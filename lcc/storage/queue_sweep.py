"""The end of a full set: what it did not name is deleted, in bounded transactions that may be repeated.

Each looks at the next keys of the provider, in order; rows that are spared stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lcc.config import QmConfig
from lcc.model import FETCH_NOW, SetAnswer, SetHeader
from lcc.storage.books import Books
from lcc.storage.keyranges import provider_range
from lcc.storage.overlay import TOMBSTONE_UPDATED
from lcc.storage.queue_absorb import Sweep
from lcc.storage.queue_batch import Owed
from lcc.storage.rows import CACHE_COLUMNS, CACHED, FETCH, NOTHING, TOLD, empty_cache_row
from lcc.storage.sets import SetPositions, finish_set, position_questions
from lcc.storage.transactions import Txn

PAGE_ROWS = 5000
"""Keys looked at in one transaction."""


def sweep_page(
    txn: Txn, run: int, sweep: Sweep, after: bytes, now: int, owed: Owed, settings: QmConfig
) -> bytes | None:
    """Look at the provider's next keys.

    :param after: those behind this one; empty: from the start.
    :returns: where the next page begins; None: that was all.
    """
    books = Books(txn, run, now, settings)
    header = sweep.header
    if header.connseq < books.stats(header.pid).fullconnseq:
        return None  # a newer full set has said all of this already
    first, last = provider_range(header.pid)
    low = after or first
    sql = "SELECT urlkey, state, source, seen, connseq, len, fetched_machineid, fetched_fileid FROM lccurl"
    cached, end = _next_rows(txn, sql, low, last)
    candidates = [
        (key, length, machine, file)
        for key, state, source, seen, connseq, length, machine, file in cached
        if state == CACHED and source == TOLD and seen != sweep.psetid and connseq <= header.connseq
    ]
    # A newer set may have told of it: then its queue row says so.
    newer_sql = "SELECT urlkey FROM qdb WHERE connseq > ? AND urlkey IN ({in})"
    newer = {key for (key,) in txn.query_in(newer_sql, [row[0] for row in candidates], [header.connseq])}
    remove_content(
        books, [(key, header.connseq, *content) for key, *content in candidates if key not in newer], header.pid, now
    )
    stats = books.stats(header.pid)
    queued, queue_end = _next_rows(txn, "SELECT urlkey, operation, seen, connseq, len FROM qdb", low, end or last)
    if queue_end is not None:
        # The queue has more rows in this range than a transaction takes: the next page begins there, and looks at the
        # cache's rows from there on again.
        end = queue_end
    nothing = {
        key: length
        for key, operation, seen, connseq, length in queued
        if operation == FETCH and seen != sweep.psetid and connseq <= header.connseq
    }
    for key in nothing.keys() - _with_content(txn, nothing):
        stats.pend(-1, nothing[key])
    txn.execute_in(
        f"UPDATE qdb SET operation = {NOTHING}, generation = generation + 1, connseq = ? WHERE urlkey IN ({{in}})",
        nothing,
        [header.connseq],
    )
    stats.nurlproc -= len(nothing)
    if nothing:
        # Not each key is told: there may be millions, and few of them have been read ahead.
        earliest = txn.value("SELECT MIN(psetid) FROM qpsdb WHERE pid = ? AND slot = ?", [header.pid, FETCH_NOW])
        if earliest is not None:
            owed.add_queued(header.pid, earliest, 0)
    owed.deletes |= books.deletes
    books.close()
    return end


def remove_content(books: Books, rows: Sequence[tuple[Any, ...]], pid: int, now: int) -> None:
    """Delete content of a provider; tombstones stay.

    :param rows: key, connection that is to stand in the tombstone, length, machine, file.
    """
    txn, stats = books.txn, books.stats(pid)
    gone: list[tuple[Any, ...]] = []
    for key, connseq, length, machine, file in rows:
        row = empty_cache_row(key, pid)
        row.update(change_number=books.next("change"), connseq=connseq, confirmed_time=now)
        gone.append(tuple(row.values()))
        stats.files_used -= 1
        stats.space_used -= length or 0
        books.delete_file(machine, file)
    txn.upsert("lccurl", CACHE_COLUMNS, gone, ("urlkey",), TOMBSTONE_UPDATED)
    queued = f"SELECT urlkey, len FROM qdb WHERE operation = {FETCH} AND urlkey IN ({{in}})"
    for _key, length in txn.query_in(queued, [row[0] for row in rows]):
        stats.pend(1, length)


def _with_content(txn: Txn, keys: Iterable[bytes]) -> set[bytes]:
    """Those of these keys that are cached."""
    sql = f"SELECT urlkey FROM lccurl WHERE state = {CACHED} AND urlkey IN ({{in}})"
    return {key for (key,) in txn.query_in(sql, sorted(keys))}


def finish_sweep(txn: Txn, run: int, header: SetHeader, now: int, full_set_period: int) -> SetAnswer:
    """The full set is complete."""
    books = Books(txn, run, questions=position_questions([header]))
    positions = SetPositions(txn, [header], books.answers)
    if not positions.is_applied(header):
        positions.finish(header)
        finish_set(books, header, now, full_set_period)
    positions.save()
    books.close()
    return SetAnswer(header.epoch, header.number, 0)


def _next_rows(txn: Txn, select: str, low: bytes, high: bytes) -> tuple[list[tuple[Any, ...]], bytes | None]:
    """Rows behind ``low`` up to ``high``, and the last key of them if there may be more."""
    rows = txn.query(f"{select} WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?", [low, high, PAGE_ROWS])
    return rows, rows[-1][0] if len(rows) == PAGE_ROWS else None
