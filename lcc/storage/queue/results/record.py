"""Records finished fetches, one transaction for a batch of results.

A duplicate result finds its row gone and its file in the cache, and does nothing.  A file with a delete order never
comes back: content is only taken if the queue row that it was fetched for is newer than that of the current content.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any

import attrs

from lcc.config import QmConfig
from lcc.errors import CODES, Remedy, entry_for
from lcc.interfaces import IQueueRules
from lcc.model import (
    COUNTED,
    DESCRIPTION,
    FETCH_NOW,
    Delay,
    FetchResult,
    Outcome,
    QueueRow,
    Quota,
    Recorded,
    Standing,
    UrlNotice,
    content_token,
    description_of,
    retry_time,
)
from lcc.model.headers import page_headers
from lcc.storage.database.tables.key_ranges import is_untyped, provider_of, untyped_key
from lcc.storage.database.tables.rows import (
    CACHE,
    CACHED,
    POLLED,
    QUEUE,
    TOLD,
    TOLD_WITH_CONTENT,
    WITHDRAWN,
    empty_cache_row,
    queue_row,
    told_values,
)
from lcc.storage.database.transactions import Question, Txn
from lcc.storage.queue.moves.carried import is_batch, note_missed, record_batch
from lcc.storage.queue.results.headers import renewed_headers
from lcc.storage.queue.results.result_rows import STANDING, Bad, ResultRows, counts, is_current, standing_of
from lcc.storage.queue.schedule.time_slots import write_delays
from lcc.storage.queue.set_rows import QueuedSets, move_rows, sets_question
from lcc.storage.queue.write_transaction import WriteTransaction

_CHARSET_CHARS = 255
_BAD_TEXT_CHARS = 255
_ADDRESS_FORBIDDEN = CODES["address-forbidden"]
_NOT_ACCEPTED = CODES["mimetype-not-accepted"]
_UNKNOWN_TYPE = "application/octet-stream"
_SEEN = QUEUE.columns.index("seen")
_SELECT_QUOTAS = (
    "SELECT pid, filesmax, spacemax FROM pidb WHERE pid IN ({in}) AND (filesmax IS NOT NULL OR spacemax IS NOT NULL)"
)
_shown_of: Callable[[dict[str, Any]], tuple[str, ...]] = itemgetter(*DESCRIPTION[1:])


@attrs.define
class Requeued:
    """Rows that went to the end of their set, key -> (psetid, seq, generation).

    It outlives a transaction whose commit was not confirmed: the next attempt recognises them.
    """

    rows: dict[bytes, tuple[int, int, int]] = attrs.field(factory=dict)


def record_results(
    txn: Txn,
    run: int,
    rules: IQueueRules,
    results: Sequence[FetchResult],
    removed: Sequence[tuple[bytes, int]],
    now: int,
    settings: QmConfig,
    memory: Requeued,
    closed: Sequence[tuple[bytes, int, int]] = (),
    delays: Sequence[Delay] = (),
    psetids: Collection[int] = (),
) -> Recorded:
    """Record results, remove cancelled rows, move rows to their time slots (see
    :meth:`lcc.interfaces.IQueueStore.record`)."""
    fetched = sorted({result.key for result in results})
    keys = sorted({*fetched, *[key for key, _ in removed], *[row[0] for row in closed]})
    pids = sorted(set(map(provider_of, keys)))
    questions = (
        Question(f"{QUEUE.select} WHERE urlkey IN ({{in}})", keys),
        Question(f"{CACHE.select} WHERE urlkey IN ({{in}})", fetched),
        Question(_SELECT_QUOTAS, pids),
        sets_question(psetids),
    )
    write = WriteTransaction(txn, run, now, settings, questions=questions, pids=pids)
    found, cached, limited, known_sets = write.answers
    if delays:
        write_delays(txn, delays)
    queue = {row[0]: queue_row(row) for row in found}
    seen = {row[0]: row[_SEEN] for row in found}
    cache = {row[0]: dict(zip(CACHE.columns, row, strict=True)) for row in cached}
    quotas = {pid: Quota(files, space) for pid, files, space in limited}
    untyped = any(write.stats(pid).untyped for pid in pids)
    if untyped:
        _load(
            txn,
            sorted({untyped_key(result.key) for result in results if not result.code} - cache.keys()),
            queue,
            seen,
            cache,
        )
    sets = QueuedSets(txn, {(row.psetid, row.slot) for row in queue.values()}, known_sets)
    work = ResultRows(txn, write, rules, now, quotas, queue, seen, cache, sets, untyped)
    again: dict[bytes, QueueRow] = {}
    held: dict[int, int] = {}
    requeued: dict[int, tuple[int, int]] = {}
    waiting: list[int] = []
    before = dict(memory.rows)
    for result in results:
        row = work.queue.get(result.key)
        known = before.get(result.key)
        if row is not None and result.code and known == (row.psetid, row.seq, row.generation):
            _tell(requeued, waiting, row)  # committed by the last attempt
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
            _tell(requeued, waiting, row)
        else:
            again[row.key] = row
    for key, generation in removed:
        row = work.queue.get(key)
        if row is not None and row.delete and row.generation == generation:
            work.take_away(row)
        elif row is not None:
            again[key] = row
    moves: dict[tuple[int, int], list[tuple[bytes, int]]] = {}
    for key, generation, slot in closed:
        row = work.queue.get(key)
        if row is None:
            continue
        if row.generation != generation:
            again[key] = row
        elif row.slot == FETCH_NOW != slot:
            moves.setdefault((row.psetid, slot), []).append((key, row.seq))
        elif slot == FETCH_NOW:
            again[key] = row
    work.save()
    for (psetid, slot), rows in sorted(moves.items()):
        move_rows(txn, psetid, FETCH_NOW, slot, rows)
    write.flush()
    left = tuple(row for key, row in again.items() if key in work.queue)
    first = retry_time(max(waiting)) if waiting else None
    return Recorded(left, held, requeued, write.pending.deletes, first, write.change)


def _load(
    txn: Txn,
    keys: Sequence[bytes],
    queue: dict[bytes, QueueRow],
    seen: dict[bytes, int],
    cache: dict[bytes, dict[str, Any]],
) -> None:
    """Add the rows of these keys."""
    for row in txn.query_in(f"{QUEUE.select} WHERE urlkey IN ({{in}})", keys):
        queue[row[0]] = queue_row(row)
        seen[row[0]] = row[_SEEN]
    for row in txn.query_in(f"{CACHE.select} WHERE urlkey IN ({{in}})", keys):
        cache[row[0]] = dict(zip(CACHE.columns, row, strict=True))


def _tell(requeued: dict[int, tuple[int, int]], waiting: list[int], row: QueueRow) -> None:
    """Note a row at the end of its set, which can be fetched, or waits in a slot."""
    if row.slot != FETCH_NOW:
        waiting.append(row.slot)
        return
    place = (row.psetid, row.seq)
    requeued[row.pid] = min(requeued.get(row.pid, place), place)


def _record_one(work: ResultRows, result: FetchResult, row: QueueRow | None) -> Outcome:
    work.pend(result.key, -1)
    outcome = _decide_one(work, result, row)
    work.pend(result.key, 1)
    return outcome


def _decide_one(work: ResultRows, result: FetchResult, row: QueueRow | None) -> Outcome:
    batch = row is not None and is_batch(row)
    if batch or result.files:
        recorded = record_batch(work, result, row)
        if isinstance(recorded, Outcome):
            return recorded
        result = recorded
    if row is None:
        outcome = work.rules.outcome(result.code, result.generation, None, 0, 0)
    else:
        if row.source != TOLD and is_untyped(row.key) and not is_batch(row):
            result, row = _judge_type(work, result, row)
        outcome = work.rules.outcome(
            result.code, result.generation, not row.delete, row.generation, row.attempts, row.unreached
        )
        is_forbidden = outcome is Outcome.KEEP and result.code == _ADDRESS_FORBIDDEN
        if is_forbidden and work.allows_private(row.pid) and work.last_error(row) != _ADDRESS_FORBIDDEN:
            outcome = Outcome.RETRY  # it may be allowed since its order went out; once, as some addresses never are
    if row is None or outcome is Outcome.DISCARD:
        work.discard_file(result)
        if row is not None:
            work.take_away(row)
    elif outcome in (Outcome.STORE, Outcome.STORE_AGAIN):
        outcome = (_confirm if result.unchanged else _store)(work, result, row, outcome)
        if outcome is Outcome.STORE:
            work.take_away(row)
            if work.untyped and not is_untyped(row.key):
                _replace_untyped(work, row)
    else:
        work.discard_file(result)
        bad = Bad(result.code, result.detail[:_BAD_TEXT_CHARS])
        if outcome is Outcome.RETRY:
            work.try_later(row._replace(attempts=row.attempts + 1), bad)
        elif outcome is Outcome.HOLD and row.generation == result.generation:
            work.to_the_end(row._replace(unreached=row.unreached + 1), row.slot, bad)
        elif batch and outcome in (Outcome.KEEP, Outcome.DELETE):
            note_missed(work, row)
            work.take_away(row)
        elif outcome in (Outcome.KEEP, Outcome.DELETE):
            work.failed(row, result.code, result.detail)
            if outcome is Outcome.DELETE or work.has_no_file(row):
                work.delete_content(row)
            work.take_away(row)
    return outcome


def _judge_type(work: ResultRows, result: FetchResult, row: QueueRow) -> tuple[FetchResult, QueueRow]:
    """Nobody has told the type of this content: it is refused if it is none that is taken here.  What is polled as
    well is stored as polled then; to the others that name it, it is an error all the same."""
    mimetype = result.mimetype or _UNKNOWN_TYPE
    if result.code or result.unchanged or not row.source & COUNTED or work.rules.takes_type(mimetype):
        return result, row
    detail = mimetype[:_BAD_TEXT_CHARS]
    if not row.source & POLLED or result.generation != row.generation:
        return result._replace(code=_NOT_ACCEPTED, detail=detail), row
    named = row.source & COUNTED
    work.write.error(row.pid, row.key, row.connseq, _NOT_ACCEPTED, detail, row.notice, row.generation, named)
    polled = Standing(row.connseq, row.source, row.words).left_to(POLLED)
    cached = work.cache.get(row.key)
    if cached is not None and counts(cached):
        # Content users have it: to them it is deleted.
        stats = work.write.stats(row.pid)
        stats.files_used -= 1
        stats.space_used -= cached["len"] or 0
        withdrawn = polled._replace(source=POLLED | WITHDRAWN)
        cached.update(zip(STANDING, withdrawn, strict=True), **work.write.next_change())
        work.changed[row.key] = None
    row = work.queue[row.key] = row._replace(source=POLLED, words=polled.words)
    return result, row


def _store(work: ResultRows, result: FetchResult, row: QueueRow, outcome: Outcome) -> Outcome:
    told = outcome is Outcome.STORE
    notice = row.notice
    cached = work.cache.get(row.key)
    if cached is None:
        cached = work.cache[row.key] = empty_cache_row(row.key, row.pid)
    elif is_current(cached, result) or result.generation <= cached["generation"]:
        work.discard_file(result)  # duplicate, or outdated
        return outcome
    was_cached = cached["state"] == CACHED
    same = was_cached and work.rules.same_content(result.md5, result.size_bytes, cached["md5"], cached["len"])
    counted, appears = bool(row.source & COUNTED), not counts(cached)
    stats = work.write.stats(row.pid)
    if (not same or appears) and (refused := work.over_quota(result, row, cached)):
        work.discard_file(result)
        if told and work.is_arriving(row.psetid):
            # With backoff, in case the rest of the set never arrives.
            work.try_later(row._replace(attempts=row.attempts + 1), Bad(refused, ""))
            return Outcome.RETRY
        if told:
            work.failed(row, refused)
            if work.has_no_file(row):
                work.delete_content(row)
        return outcome
    charset = result.charset[:_CHARSET_CHARS]
    if counted:
        stats.files_used += appears
        stats.space_used += result.size_bytes - (0 if appears else cached["len"] or 0)
    if same:
        work.write.delete_file(result.machine, result.file)
        changed = _named_otherwise(cached, notice) or cached["charset"] != charset
        changed = changed or page_headers(cached["headers"]) != page_headers(result.headers)
        if row.source != TOLD and is_untyped(row.key):
            changed = changed or cached["mimetype"] != (result.mimetype or _UNKNOWN_TYPE)
    else:
        if was_cached:
            work.write.delete_file(cached["fetched_machineid"], cached["fetched_fileid"])
        changed = True
        cached.update(
            state=CACHED,
            md5=result.md5,
            len=result.size_bytes,
            status=result.status,
            fetched_time=work.now,
            fetched_machineid=result.machine,
            fetched_fileid=result.file,
        )
    cached.update(
        mtime=notice.mtime if result.modified is None else result.modified,
        charset=charset,
        etag=result.etag,
        modified=result.modified,
        revalidate=int(result.revalidate),
        headers=result.headers,
    )
    if result.moved or cached["moved_url"] is not None:
        cached["moved_url"] = result.moved or None
    if not told and result.url != (notice.furl or notice.curl):
        # It came from the former fetch URL: its validators mean nothing to the new one.
        cached["revalidate"] = 0
    _fetched(work, result, row, cached, told, changed)
    return outcome


def _replace_untyped(work: ResultRows, row: QueueRow) -> None:
    """A view with a mime type is stored: it takes the place of the row of its page that has none.  Who named that one
    names this one."""
    key, typed = untyped_key(row.key), work.cache.get(row.key)
    if typed is None or typed["state"] != CACHED:
        return  # refused after all
    queued, cached = work.queue.get(key), work.cache.get(key)
    others = (
        [Standing(queued.connseq, queued.source, queued.words)] if queued is not None and not queued.delete else []
    )
    if cached is not None and cached["state"] == CACHED:
        others.append(standing_of(cached))
    standing = standing_of(typed)
    if not others or not standing.source & COUNTED:
        return
    for other in others:
        source = (standing.source | other.source) & (COUNTED | POLLED)
        standing = Standing.of(standing.connseq, source, standing.joined(other).numbers)
    typed.update(zip(STANDING, standing, strict=True))
    work.changed[row.key] = None
    if queued is not None:
        work.pend(key, -1)
        work.take_away(queued)
    if cached is not None and cached["state"] == CACHED:
        gone = Standing(cached["connseq"], cached["source"], cached["words"])
        work.delete_content(row._replace(key=key, connseq=gone.connseq, source=gone.source, words=gone.words))


def _confirm(work: ResultRows, result: FetchResult, row: QueueRow, outcome: Outcome) -> Outcome:
    """The server reported "not modified"."""
    cached = work.cache.get(row.key)
    if outcome is Outcome.STORE_AGAIN:
        return outcome  # it is fetched once more, for the newer notice
    if (
        cached is None
        or cached["state"] != CACHED
        or not cached["revalidate"]
        or result.unchanged != content_token(cached["fetched_machineid"], cached["fetched_fileid"])
    ):
        # The content meant is gone, or was found damaged: fetch it after all.
        work.to_the_end(row, row.slot, Bad(0, ""))
        return Outcome.RETRY
    changed = _named_otherwise(cached, row.notice)
    if result.headers:
        former, cached["headers"] = cached["headers"], renewed_headers(cached["headers"], result.headers)
        changed = changed or page_headers(former) != page_headers(cached["headers"])
    _fetched(work, result, row, cached, told=True, changed=changed)
    return outcome


def _named_otherwise(cached: dict[str, Any], notice: UrlNotice) -> bool:
    named = (cached["furl"], *_shown_of(cached))
    return named != (notice.furl, *description_of(notice)[1:])


def _fetched(
    work: ResultRows, result: FetchResult, row: QueueRow, cached: dict[str, Any], told: bool, changed: bool
) -> None:
    """Confirm the content, and take over what was told of it.

    :param told: the notice is about this content.
    :param changed: visible to content users.
    """
    notice = row.notice
    changed = _stand(row, cached) or changed
    known_type = cached["mimetype"]
    cached.update(zip(TOLD_WITH_CONTENT, told_values(notice), strict=True))
    if row.source != TOLD and is_untyped(row.key):
        cached["mimetype"] = known_type if result.unchanged else result.mimetype or _UNKNOWN_TYPE
    cached.update(
        generation=result.generation,
        seen=max(work.seen[row.key], cached["seen"]),
        told_md5=notice.md5 if told else "",
        told_len=notice.length if told else None,
        told_mtime=notice.mtime if told else None,
        confirmed_time=work.now,
    )
    url = notice.furl or notice.curl
    if result.url != url or cached["fetched_url"] is not None:
        # Content of a former fetch URL, which is fetched once more, says so: its links are relative to that one.
        fetched_url = None if result.url in ("", url.partition("#")[0]) else result.url
        changed = changed or fetched_url != cached["fetched_url"]
        cached["fetched_url"] = fetched_url
    if changed:
        cached.update(work.write.next_change())
    work.changed[row.key] = None


def _stand(row: QueueRow, cached: dict[str, Any]) -> bool:
    """All that name the queue row name its content.  True: to content users that is a change."""
    if row.source == TOLD == cached["source"] and not (row.words or cached["words"]):
        cached["connseq"] = max(row.connseq, cached["connseq"])
        return False
    former = standing_of(cached)
    connseq, source, words = Standing(row.connseq, row.source, row.words).joined(former)
    if not source & COUNTED:
        # Of a page that content users have, they are to see that it was deleted.
        had = former.source & COUNTED and cached["change_number"]
        source |= WITHDRAWN if had else former.source & WITHDRAWN
    cached.update(connseq=connseq, source=source, words=words)
    return source != former.source
