"""``lcc-admin retry``: retries at once what waits for a retry, and what failed for good, from the stored errors.

Skips what has been fetched, deleted or told since, and what is queued anyway.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lcc.interfaces import IQueueRules
from lcc.model import COUNTED, KeyedNotice, SetHeader, UrlNotice
from lcc.storage.database.tables.key_ranges import all_views_key
from lcc.storage.database.tables.rows import CACHED, TOLD
from lcc.storage.database.tables.stored_notices import read_notice
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.intake.batch import Batch, SetPart
from lcc.storage.queue.intake.held_deletions import held_sweeps
from lcc.storage.queue.intake.row_cache import RowCache
from lcc.storage.queue.registered import registered_providers
from lcc.storage.queue.schedule.waiting_retries import BEFORE_SLOTS, hasten_page
from lcc.storage.queue.write_transaction import WriteTransaction

PAGE_ROWS = 500
"""Errors, or waiting rows, examined in one transaction."""

_ERRORS = b"e"
"""The second phase: stored errors, after the waiting rows."""

_SELECT = "SELECT pid, number, code, time, urlkey, connseq, generation, source, notice, sent FROM urlerrs WHERE"
_BEFORE_NUMBERS = -(1 << 62)


class _Failed(NamedTuple):
    """A URL that failed for good."""

    pid: int
    key: bytes
    connseq: int
    generation: int
    source: int
    time: int
    notice: UrlNotice


def retry_page(
    write: WriteTransaction,
    rules: IQueueRules,
    pid: int,
    code: int,
    progress: bytes,
) -> bytes | None:
    """Do the next page.

    :param pid: only this provider's; 0: all.
    :param code: only what failed with this error; 0: all.
    :param progress: as returned by the last page; empty: from the start.
    :returns: where the next page starts; None: done.
    """
    kind, _, rest = progress.partition(b" ")
    numbers = [int(number) for number in rest.split()]
    if kind == _ERRORS:
        begun, after_pid, after_number = numbers
        return _errors_page(write, rules, pid, code, (begun, after_pid, after_number))
    begun, slot, psetid, seq = numbers or (write.now, BEFORE_SLOTS, 0, 0)
    left = hasten_page(write, pid, code, begun, (slot, psetid, seq), PAGE_ROWS)
    return b"e %d %d %d" % (begun, pid, _BEFORE_NUMBERS) if left is None else b"w %d %d %d %d" % (begun, *left)


def _errors_page(
    write: WriteTransaction,
    rules: IQueueRules,
    pid: int,
    code: int,
    at: tuple[int, int, int],
) -> bytes | None:
    begun, after_pid, after_number = at
    if after_number > write.txn.value("SELECT errseq FROM pstats WHERE pid = ?", [after_pid], 0):
        after_number = _BEFORE_NUMBERS  # the database was restored, and errors have got lower numbers
    rows = _next_errors(write.txn, pid, after_pid, after_number)
    _retry(write, rules, rows, code, begun)
    return b"e %d %d %d" % (begun, *rows[-1][:2]) if len(rows) == PAGE_ROWS else None


def retry_errors(write: WriteTransaction, rules: IQueueRules, pid: int, keys: tuple[bytes, bytes]) -> None:
    """Retry what failed for good and has one of these keys.

    :param keys: the first and the last one.
    """
    sql = f"{_SELECT} pid = ? AND urlkey >= ? AND urlkey <= ? ORDER BY number"
    _retry(write, rules, write.txn.query(sql, [pid, *keys]), 0, write.now)


def _retry(write: WriteTransaction, rules: IQueueRules, rows: list[tuple[Any, ...]], code: int, begun: int) -> None:
    failed: dict[bytes, _Failed] = {}
    for owner, _number, error, time, key, connseq, generation, source, notice, sent in rows:
        # What failed since the start was retried by this order.  (Later than now: the wall clock was set back.)
        if notice is None or begun < time <= write.now or code not in (0, error) or not source & COUNTED:
            continue
        told = read_notice(notice, sent)
        failed[bytes(key)] = _Failed(owner, bytes(key), connseq, generation, source & COUNTED, time, told)
    if failed:
        _queue(write, rules, list(failed.values()))


def _next_errors(txn: Txn, pid: int, after_pid: int, after_number: int) -> list[tuple[Any, ...]]:
    # Two statements, each a walk along the key; one with OR would not be.
    sql = f"{_SELECT} pid = ? AND number > ? ORDER BY number LIMIT ?"
    rows = txn.query(sql, [after_pid, after_number, PAGE_ROWS])
    if not pid and len(rows) < PAGE_ROWS:
        sql = f"{_SELECT} pid > ? ORDER BY pid, number LIMIT ?"
        rows += txn.query(sql, [after_pid, PAGE_ROWS - len(rows)])
    return rows


def _queue(write: WriteTransaction, rules: IQueueRules, failed: list[_Failed]) -> None:
    txn = write.txn
    registered = registered_providers(txn, {row.pid for row in failed})
    write.load_stats(registered)
    batch = Batch(write, rules, registered)
    rows = batch.rows
    keys = [row.key for row in failed]
    rows.load(keys, {all_views_key(key) for key in keys})
    # What others than the provider name depends on all views of the page.
    rows.load_views({row.key for row in failed if row.source != TOLD})
    sql = "SELECT urlkey, state, generation, confirmed_time FROM lccurl WHERE urlkey IN ({in})"
    known = {key: (state, generation, time) for key, state, generation, time in txn.query_in(sql, keys)}
    held = held_sweeps(txn, registered)
    sets: dict[int, tuple[int, int]] = {}
    for row in failed:
        if row.pid not in registered or _is_done(row, rows, known.get(row.key)):
            continue
        psetid, count = sets.get(row.pid) or (write.next("psetid"), 0)
        sets[row.pid] = (psetid, count + 1)
        header = SetHeader("", "", 0, row.pid, row.connseq, full=False, errors_upto=0, answered=True, time=write.now)
        batch.apply(SetPart(header, psetid, count, (KeyedNotice(row.key, row.notice),), row.source))
        if row.pid in held and held[row.pid].connseq == row.connseq:
            rows.mark(row.key, held[row.pid].psetid)  # the held set named it, so it must not be deleted
    batch.commit()


def _is_done(row: _Failed, rows: RowCache, known: tuple[int, int, int | None] | None) -> bool:
    """Whether it was fetched, deleted or told since it failed."""
    queued = rows.queue.get(row.key)
    if queued is not None and queued.state.connseq >= row.connseq:
        return True
    if known is None:
        return False
    state, generation, time = known
    return generation > row.generation if state == CACHED else (time or 0) > row.time
