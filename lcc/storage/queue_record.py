"""Recording finished fetches: one transaction for a batch of results.

A result that comes twice finds its row gone and its file in the cache, and does nothing.  Files that were ordered
away never come back: content is only taken if the queue row that it was fetched for is newer than the one whose
content came last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from lcc.errors import Remedy, entry_for
from lcc.interfaces import IQueueRules
from lcc.model import FetchResult, Outcome, QueueRow, Recorded
from lcc.storage.books import Books
from lcc.storage.overlay import TOMBSTONE_UPDATED
from lcc.storage.rows import (
    CACHE_COLUMNS,
    CACHED,
    DELETED,
    QUEUE_COLUMNS,
    SELECT_QUEUE,
    TOLD,
    empty_cache_row,
    queue_row,
)
from lcc.storage.setrows import QueuedSets
from lcc.storage.transactions import Txn

_CHARSET_CHARS = 255
_SEEN = QUEUE_COLUMNS.index("seen")
_SELECT_CACHE = f"SELECT {', '.join(CACHE_COLUMNS)} FROM lccurl"
_NAMES = ("furl", "burl", "subtype")

_UPDATED = tuple(column for column in CACHE_COLUMNS if column not in ("urlkey", "pid"))


@attrs.define
class Requeued:
    """Rows that went to the end of their set, key -> (psetid, seq, generation).

    It outlives a transaction whose commit got lost: the next try knows them again.
    """

    rows: dict[bytes, tuple[int, int, int]] = attrs.field(factory=dict)


@attrs.define
class _Work:
    """The rows of a batch, as the results before have left them.

    :ivar cache: lccurl rows by key, each a dictionary of its columns.
    :ivar changed: keys of those that have to be written; False: only their ``connseq``.
    """

    txn: Txn
    books: Books
    rules: IQueueRules
    now: int
    errors_kept: int
    queue: dict[bytes, QueueRow]
    seen: dict[bytes, int]
    cache: dict[bytes, dict[str, Any]]
    sets: QueuedSets
    changed: dict[bytes, None] = attrs.field(factory=dict)
    moved: dict[bytes, QueueRow] = attrs.field(factory=dict)
    taken: set[bytes] = attrs.field(factory=set)
    errors: list[tuple[Any, ...]] = attrs.field(factory=list)


def record_results(
    txn: Txn,
    run: int,
    rules: IQueueRules,
    results: Sequence[FetchResult],
    removed: Sequence[tuple[bytes, int]],
    now: int,
    errors_kept: int,
    memory: Requeued,
) -> Recorded:
    """Record results and take away rows that do "nothing" (see :meth:`lcc.interfaces.IQueueStore.record`)."""
    books = Books(txn, run)
    keys = sorted({result.key for result in results} | {key for key, _ in removed})
    found = txn.query_in(f"{SELECT_QUEUE} WHERE urlkey IN ({{in}})", keys)
    queue = {row[0]: queue_row(row) for row in found}
    seen = {row[0]: row[_SEEN] for row in found}
    cached = txn.query_in(f"{_SELECT_CACHE} WHERE urlkey IN ({{in}})", sorted({result.key for result in results}))
    cache = {row[0]: dict(zip(CACHE_COLUMNS, row, strict=True)) for row in cached}
    books.load_stats({row.pid for row in queue.values()})
    sets = QueuedSets(txn, {(row.psetid, row.slot) for row in queue.values()})
    work = _Work(txn, books, rules, now, errors_kept, queue, seen, cache, sets)
    again: dict[bytes, QueueRow] = {}
    held: dict[int, int] = {}
    requeued: dict[int, tuple[int, int]] = {}
    before = dict(memory.rows)
    for result in results:
        row = work.queue.get(result.key)
        known = before.get(result.key)
        if row is not None and result.code and known == (row.psetid, row.seq, row.generation):
            _earliest(requeued, row)  # committed by the try before
            if entry_for(result.code).remedy is Remedy.HOLD_PROVIDER:
                held[result.pid] = result.code
            continue
        outcome = _record_one(work, result, row)
        if outcome is Outcome.HOLD:
            held[result.pid] = result.code
        row = work.queue.get(result.key)
        if row is None:
            continue
        if row.key in work.moved and row.generation == result.generation + 1:
            memory.rows[row.key] = (row.psetid, row.seq, row.generation)
            _earliest(requeued, row)
        else:
            again[row.key] = row
    for key, generation in removed:
        row = work.queue.get(key)
        if row is not None and row.delete and row.generation == generation:
            _take_away(work, row)
        elif row is not None:
            again[key] = row
    _save(work)
    books.close()
    left = tuple(row for key, row in again.items() if key in work.queue)
    return Recorded(left, held, requeued, books.deletes)


def _earliest(places: dict[int, tuple[int, int]], row: QueueRow) -> None:
    place = (row.psetid, row.seq)
    places[row.pid] = min(places.get(row.pid, place), place)


def _record_one(work: _Work, result: FetchResult, row: QueueRow | None) -> Outcome:
    if row is None:
        outcome = work.rules.outcome(result.code, result.generation, None, 0, 0)
    else:
        outcome = work.rules.outcome(result.code, result.generation, not row.delete, row.generation, row.attempts)
    if row is None or outcome is Outcome.DISCARD:
        if row is not None:
            _take_away(work, row)
        _discard_file(work, result)
    elif outcome in (Outcome.STORE, Outcome.STORE_AGAIN):
        _store(work, result, row, told=outcome is Outcome.STORE)
        if outcome is Outcome.STORE:
            _take_away(work, row)
    else:
        _discard_file(work, result)
        if outcome is Outcome.RETRY or (outcome is Outcome.HOLD and row.generation == result.generation):
            _to_the_end(work, row)
        elif outcome in (Outcome.KEEP, Outcome.DELETE):
            _failed(work, result, row)
            if outcome is Outcome.DELETE:
                _delete_content(work, row)
            _take_away(work, row)
    return outcome


def _is_current(cached: dict[str, Any], result: FetchResult) -> bool:
    return (cached["fetched_machineid"], cached["fetched_fileid"]) == (result.machine, result.file)


def _discard_file(work: _Work, result: FetchResult) -> None:
    """A file that is not wanted, unless it is the one in the cache (a result that came twice)."""
    if result.file is None:
        return
    cached = work.cache.get(result.key)
    if cached is None:
        cached = work.cache[result.key] = empty_cache_row(result.key, result.pid)
    elif _is_current(cached, result):
        return
    work.books.delete_file(result.machine, result.file)
    if cached["generation"] < result.generation:
        cached["generation"] = result.generation
        work.changed[result.key] = None


def _take_away(work: _Work, row: QueueRow) -> None:
    del work.queue[row.key]
    work.moved.pop(row.key, None)
    work.taken.add(row.key)
    work.sets.removed(row)
    if not row.delete:
        work.books.stats(row.pid).nurlproc -= 1


def _to_the_end(work: _Work, row: QueueRow) -> None:
    seq = work.sets.place_at_end(row)
    moved = row._replace(seq=seq, generation=row.generation + 1, attempts=row.attempts + 1)
    work.queue[row.key] = work.moved[row.key] = moved


def _failed(work: _Work, result: FetchResult, row: QueueRow) -> None:
    stats = work.books.stats(row.pid)
    stats.errseq += 1
    text = entry_for(result.code).text
    message = f"{text}: {result.detail}" if result.detail else text
    url = row.notice.furl or row.notice.curl
    work.errors.append((row.pid, stats.errseq, result.code, message, url, row.notice.sent, work.now))
    cached = work.cache.get(row.key)
    if cached is not None and cached["connseq"] < row.connseq:
        cached["connseq"] = row.connseq
        work.changed[row.key] = None


def _delete_content(work: _Work, row: QueueRow) -> None:
    cached = work.cache.get(row.key)
    if cached is None or cached["state"] != CACHED:
        return
    stats = work.books.stats(row.pid)
    stats.files_used -= 1
    stats.space_used -= cached["len"] or 0
    work.books.delete_file(cached["fetched_machineid"], cached["fetched_fileid"])
    empty = empty_cache_row(row.key, row.pid)
    cached.update({column: empty[column] for column in TOMBSTONE_UPDATED})
    cached.update(
        state=DELETED,
        change_number=work.books.next("change"),
        connseq=row.connseq,
        confirmed_time=work.now,
    )
    work.changed[row.key] = None


def _store(work: _Work, result: FetchResult, row: QueueRow, *, told: bool) -> None:
    notice = row.notice
    cached = work.cache.get(row.key)
    if cached is None:
        cached = work.cache[row.key] = empty_cache_row(row.key, row.pid)
    elif _is_current(cached, result) or result.generation <= cached["generation"]:
        _discard_file(work, result)  # came twice, or too late
        return
    names = {"furl": notice.furl, "burl": notice.burl, "subtype": notice.subtype}
    was_cached = cached["state"] == CACHED
    same = was_cached and work.rules.same_content(result.md5, result.size_bytes, cached["md5"], cached["len"])
    stats = work.books.stats(row.pid)
    if same:
        work.books.delete_file(result.machine, result.file)
        changed = any(cached[name] != names[name] for name in _NAMES)
    else:
        if was_cached:
            work.books.delete_file(cached["fetched_machineid"], cached["fetched_fileid"])
            stats.space_used -= cached["len"] or 0
        else:
            stats.files_used += 1
        stats.space_used += result.size_bytes
        changed = True
        cached.update(
            state=CACHED,
            md5=result.md5,
            len=result.size_bytes,
            mtime=notice.mtime if result.modified is None else result.modified,
            status=result.status,
            charset=result.charset[:_CHARSET_CHARS],
            etag=result.etag,
            headers=result.headers,
            fetched_time=work.now,
            fetched_machineid=result.machine,
            fetched_fileid=result.file,
        )
    cached.update(
        names,
        curl=notice.curl,
        mimetype=notice.mimetype,
        source=TOLD,
        generation=result.generation,
        connseq=max(row.connseq, cached["connseq"]),
        seen=max(work.seen[row.key], cached["seen"]),
        told_md5=notice.md5 if told else "",
        told_len=notice.length if told else None,
        told_mtime=notice.mtime if told else None,
        confirmed_time=work.now,
    )
    if changed:
        cached["change_number"] = work.books.next("change")
    work.changed[row.key] = None


def _save(work: _Work) -> None:
    txn = work.txn
    rows = [tuple(work.cache[key].values()) for key in sorted(work.changed)]
    txn.upsert("lccurl", CACHE_COLUMNS, rows, ("urlkey",), _UPDATED)
    txn.execute_in("DELETE FROM qdb WHERE urlkey IN ({in})", sorted(work.taken))
    for key, row in sorted(work.moved.items()):
        txn.execute(
            "UPDATE qdb SET seq = ?, generation = ?, attempts = ? WHERE urlkey = ?",
            [row.seq, row.generation, row.attempts, key],
        )
    work.sets.save()
    columns = ("pid", "number", "code", "message", "url", "sent", "time")
    txn.upsert("urlerrs", columns, work.errors, ("pid", "number"))
    for pid in sorted({error[0] for error in work.errors}):
        oldest = work.books.stats(pid).errseq - work.errors_kept
        txn.execute("DELETE FROM urlerrs WHERE pid = ? AND number <= ?", [pid, oldest])
