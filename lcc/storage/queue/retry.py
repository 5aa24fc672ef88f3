"""Trying again what failed (``lcc-admin retry``): at once what waits because of an error; and what failed for good,
from the errors that are kept for the providers.

Only what failed is fetched again: not what has been fetched, deleted or told since, nor what is in the queue anyway.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lcc.interfaces import IQueueRules
from lcc.model import KeyedNotice, SetHeader, UrlNotice
from lcc.storage.database.keyranges import all_views_key
from lcc.storage.database.rows import CACHED
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.batch import Batch, Owed, Run, registered_providers
from lcc.storage.queue.books import Books, told_again
from lcc.storage.queue.held import held_sweeps
from lcc.storage.queue.overlay import Overlay
from lcc.storage.queue.sets import SetRows
from lcc.storage.queue.waits import BEFORE_SLOTS, hasten_page

PAGE_ROWS = 500
"""Errors, or rows that wait, looked at in one transaction."""

_ERRORS = b"e"
"""What waits comes first, then the errors that are kept."""

_SELECT = "SELECT pid, number, code, time, urlkey, connseq, generation, notice, sent FROM urlerrs WHERE"


class _Failed(NamedTuple):
    """What failed for good."""

    pid: int
    key: bytes
    connseq: int
    generation: int
    time: int
    notice: UrlNotice


def retry_page(
    books: Books, rules: IQueueRules, pid: int, code: int, progress: bytes, now: int, owed: Owed
) -> bytes | None:
    """Do the next part of it.

    :param pid: only this provider's; 0: all.
    :param code: only what failed with this error; 0: all.
    :param progress: where the page before ended; empty: from the start.
    :returns: where the next page begins; None: that was all.
    """
    kind, _, rest = progress.partition(b" ")
    numbers = [int(number) for number in rest.split()]
    if kind == _ERRORS:
        begun, after_pid, after_number = numbers
        return _errors_page(books, rules, pid, code, (begun, after_pid, after_number), now, owed)
    begun, slot, psetid, seq = numbers or (now, BEFORE_SLOTS, 0, 0)
    left = hasten_page(books, pid, code, begun, (slot, psetid, seq), PAGE_ROWS, now, owed)
    return b"e %d %d 0" % (begun, pid) if left is None else b"w %d %d %d %d" % (begun, *left)


def _errors_page(
    books: Books, rules: IQueueRules, pid: int, code: int, at: tuple[int, int, int], now: int, owed: Owed
) -> bytes | None:
    begun, after_pid, after_number = at
    rows = _next_errors(books.txn, pid, after_pid, after_number)
    failed: dict[bytes, _Failed] = {}
    for owner, _number, error, time, key, connseq, generation, notice, sent in rows:
        # What has failed since this began was tried again by it.  (Later than now: the wall clock was set back.)
        if notice is not None and not begun < time <= now and code in (0, error):
            failed[bytes(key)] = _Failed(owner, bytes(key), connseq, generation, time, told_again(notice, sent))
    if failed:
        _queue(books, rules, list(failed.values()), now, owed)
    return b"e %d %d %d" % (begun, *rows[-1][:2]) if len(rows) == PAGE_ROWS else None


def _next_errors(txn: Txn, pid: int, after_pid: int, after_number: int) -> list[tuple[Any, ...]]:
    # Two statements, each a walk along the key; one with OR would not be.
    sql = f"{_SELECT} pid = ? AND number > ? ORDER BY number LIMIT ?"
    rows = txn.query(sql, [after_pid, after_number, PAGE_ROWS])
    if not pid and len(rows) < PAGE_ROWS:
        sql = f"{_SELECT} pid > ? ORDER BY pid, number LIMIT ?"
        rows += txn.query(sql, [after_pid, PAGE_ROWS - len(rows)])
    return rows


def _queue(books: Books, rules: IQueueRules, failed: list[_Failed], now: int, owed: Owed) -> None:
    txn = books.txn
    registered = registered_providers(txn, {row.pid for row in failed})
    books.load_stats(registered)
    overlay = Overlay(books, now)
    keys = [row.key for row in failed]
    overlay.load(keys, {all_views_key(key) for key in keys})
    sql = "SELECT urlkey, state, generation, confirmed_time FROM lccurl WHERE urlkey IN ({in})"
    known = {key: (state, generation, time) for key, state, generation, time in txn.query_in(sql, keys)}
    batch = Batch(overlay, books, rules, registered, now)
    held = held_sweeps(txn, registered)
    sets: dict[int, tuple[int, int]] = {}
    for row in failed:
        if row.pid not in registered or _is_done(row, overlay, known.get(row.key)):
            continue
        psetid, count = sets.get(row.pid) or (books.next("psetid"), 0)
        sets[row.pid] = (psetid, count + 1)
        header = SetHeader("", "", 0, row.pid, row.connseq, full=False, errors_upto=0, answered=True, time=now)
        batch.apply(Run(header, psetid, count, (KeyedNotice(row.key, row.notice),)))
        if row.pid in held and held[row.pid].connseq == row.connseq:
            overlay.mark(row.key, held[row.pid].psetid)  # the set that is held has told it: it is not to be deleted
    priorities = {pid: provider.priority for pid, provider in registered.items()}
    owed.priorities.update({pid: priority for pid, priority in priorities.items() if priority})
    SetRows(txn, batch.places(owed)).save(priorities, now)
    owed.touched |= overlay.save()
    batch.move(owed)


def _is_done(row: _Failed, overlay: Overlay, known: tuple[int, int, int | None] | None) -> bool:
    """Something has come of it since it failed."""
    queued = overlay.queue.get(row.key)
    if queued is not None and queued.state.connseq >= row.connseq:
        return True
    if known is None:
        return False
    state, generation, time = known
    return generation > row.generation if state == CACHED else (time or 0) > row.time
