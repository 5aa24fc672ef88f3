"""The sweep of a full set deletes what the set did not name, in bounded transactions that may be repeated.

First it counts.  A mass deletion is held (:mod:`lcc.storage.queue.intake.held_deletions`), unless its provider has
confirmed it; else only key ranges with something to delete are swept.

Each transaction scans the next keys of the provider.  An interrupted sweep starts over with its set: what was deleted
by then is not counted again, so the share of deletions can only become smaller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from twisted.logger import Logger

from lcc.config import QmConfig
from lcc.interfaces import IQueueRules
from lcc.model import COUNTED, FETCH_NOW, SetAnswer, SetHeader, Standing
from lcc.storage.database.tables.cancelled import note_cancelled
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import (
    CACHE,
    CACHED,
    CHANGE,
    FETCH,
    NOTHING,
    POLLED,
    TOLD,
    TOMBSTONE_UPDATED,
    WITHDRAWN,
    empty_cache_row,
)
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.intake.absorb import Sweep, WholeSet
from lcc.storage.queue.intake.held_deletions import HeldSweep, forget_held, held_sweep, save_held
from lcc.storage.queue.intake.set_positions import SetPositions, finish_set, position_questions
from lcc.storage.queue.notifications import PendingNotifications
from lcc.storage.queue.registered import registered_providers
from lcc.storage.queue.write_transaction import WriteTransaction

_log = Logger()

PAGE_ROWS = 5000
"""Keys scanned in one transaction."""

Write = Callable[..., Awaitable[Any]]
"""``do_write(function, *arguments)`` runs ``function(txn, run, *arguments)`` as a write of the queue manager."""


async def complete_full_set(
    do_write: Write, rules: IQueueRules, whole: WholeSet, now: int, settings: QmConfig, pending: PendingNotifications
) -> SetAnswer:
    """Delete what a full set did not name, or hold these deletions; completes the set."""
    # Counted in write transactions: on a cluster, another node may lack what the set has just named.
    header, sweep = whole.header, whole.sweep
    ranges: list[tuple[bytes, bytes]] = [provider_range(header.pid)]
    if not header.deletions:
        ranges, deletions, told = [], 0, 0
        after: bytes | None = b""
        while after is not None:
            counted: Counted = await do_write(count_page, rules, sweep, after)
            deletions, told = deletions + counted.deletions, told + counted.told
            ranges += counted.ranges
            after = counted.end
        if rules.is_mass_deletion(deletions, told):
            held = HeldSweep(sweep.pid, sweep.psetid, sweep.connseq, deletions, told, now)
            _log.warn(
                "A full set of provider {pid} would delete {deletions} of {told} pages: that is held until "
                "lcc-admin provider allow-deletions {pid}, or drop-deletions",
                pid=held.pid,
                deletions=held.deletions,
                told=held.told,
            )
            held_answer: SetAnswer = await do_write(finish_sweep, header, now, settings.full_set_period, held)
            return held_answer
    for low, high in ranges:
        after = low
        while after is not None:
            after = await do_write(sweep_page, rules, sweep, after, high, now, settings, pending)
    answer: SetAnswer = await do_write(finish_sweep, header, now, settings.full_set_period)
    return answer


class Counted(NamedTuple):
    """What a sweep would do to a range of keys.

    :ivar deletions: pages that it would delete, of what lies within the provider's roots: in the cache, or still to
        be fetched.  So it does not depend on the robots what is held, and one that comes meanwhile is counted.
    :ivar told: of so many: these, and the others in the cache.
    :ivar ranges: the range, if there is something to do: ``(low, high)``, keys behind ``low`` up to ``high``.
    :ivar end: where the next one begins; None: that was all.
    """

    deletions: int = 0
    told: int = 0
    ranges: tuple[tuple[bytes, bytes], ...] = ()
    end: bytes | None = None


class Removed(NamedTuple):
    """Content that is deleted.

    :ivar standing: of the tombstone.
    """

    key: bytes
    standing: Standing
    length: int | None
    machine: int | None
    file: int | None


class _Page(NamedTuple):
    """A range of keys, as a sweep sees it.

    :ivar cached: ``(key, curl, furl)`` of content that the provider told.
    :ivar gone: content to delete.
    :ivar nothing: keys of fetches to cancel, with the standings of their tombstones and the lengths told.
    :ivar left: what others name, too: the standings that it is left, by key.
    :ivar end: the last key scanned; None: done.
    """

    cached: list[tuple[bytes, str, str]]
    gone: list[Removed]
    nothing: dict[bytes, tuple[Standing, int | None]]
    left: dict[bytes, Standing]
    end: bytes | None

    @property
    def does_something(self) -> bool:
        """Whether there is something to do."""
        return bool(self.gone or self.nothing or self.left)


_STANDING = Standing._fields
_CACHED_ROWS = (
    "SELECT urlkey, state, source, seen, connseq, words, curl, furl, len, fetched_machineid, fetched_fileid"
    " FROM lccurl"
)
_QUEUED_ROWS = "SELECT urlkey, operation, source, seen, connseq, words, len FROM qdb"


def _look(txn: Txn, rules: IQueueRules, sweep: Sweep, low: bytes, high: bytes) -> _Page:
    rows, end = _next_rows(txn, _CACHED_ROWS, low, high)
    queued, queue_end = _next_rows(txn, _QUEUED_ROWS, low, end or high)
    if queue_end is not None:
        # The queue has more rows in this range than fit into a page: the next page starts there.
        end = queue_end
        rows = [row for row in rows if row[0] <= queue_end]
    cached = [row for row in rows if row[1] == CACHED and row[2] & TOLD]
    named = {row[0] for row in cached if row[3] == sweep.psetid}
    waiting: dict[bytes, tuple[Standing, int | None]] = {}
    for key, operation, source, seen, connseq, words, length in queued:
        told = Standing(connseq, source, words).told_number if words else connseq
        # What a newer set has told: its queue row has the newer order number.
        if seen == sweep.psetid or told > sweep.connseq:
            named.add(key)
        elif operation == FETCH and source & TOLD:
            waiting[key] = Standing(connseq, source, words), length
    gone: list[Removed] = []
    nothing: dict[bytes, tuple[Standing, int | None]] = {}
    left: dict[bytes, Standing] = {}
    for key, _state, source, _seen, connseq, words, _curl, _furl, *content in cached:
        if key in named:
            continue
        standing = waiting[key][0] if key in waiting else Standing(connseq, source, words)
        if standing.told_number <= sweep.connseq:
            others, rest = rules.without_told(standing, sweep.connseq)
            if others:
                left[key] = rest
            else:
                gone.append(Removed(key, rest, *content))
    former = {row[0]: row for row in rows}
    for key, (standing, length) in waiting.items():
        if key in named or key in left:
            continue
        state = 0
        if key in former:
            _, state, source, _seen, connseq, words, _curl, _furl, *content = former[key]
            standing = standing.joined(Standing(connseq, source, words))
        others, rest = rules.without_told(standing, sweep.connseq)
        if others:
            left[key] = rest
        else:
            nothing[key] = rest, length
            if state == CACHED and not source & TOLD:
                gone.append(Removed(key, rest, *content))  # of a poll that was taken back
    return _Page([(row[0], row[6], row[7]) for row in cached], gone, nothing, left, end)


def count_page(txn: Txn, run: int, rules: IQueueRules, sweep: Sweep, after: bytes) -> Counted:
    """Count in the next range of the provider's keys; changes nothing.

    :param after: start behind this key; empty: from the start.
    """
    write = WriteTransaction(txn, run)
    if sweep.connseq < write.stats(sweep.pid).fullconnseq:
        return Counted()  # a newer full set has replaced this one
    first, last = provider_range(sweep.pid)
    low = after or first
    page = _look(txn, rules, sweep, low, last)
    prefixes = rules.prefixes(root for (root,) in txn.query("SELECT root FROM proots WHERE pid = ?", [sweep.pid]))
    inside = {
        key
        for key, curl, furl in page.cached
        if curl.startswith(prefixes) and (not furl or furl.startswith(prefixes))
    }
    inside.update(page.nothing)  # rows outside leave the queue by themselves
    deletions = len(inside & {*(row.key for row in page.gone), *page.nothing})
    return Counted(deletions, len(inside), ((low, page.end or last),) if page.does_something else (), page.end)


def sweep_page(
    txn: Txn,
    run: int,
    rules: IQueueRules,
    sweep: Sweep,
    after: bytes,
    upto: bytes,
    now: int,
    settings: QmConfig,
    pending: PendingNotifications,
) -> bytes | None:
    """Delete what was not named in a range of keys.

    :param after, upto: ``after < key <= upto``.
    :returns: where the next page starts; None: done.
    """
    write = WriteTransaction(txn, run, now, settings, pending)
    end = _sweep(write, rules, sweep, after, upto)
    write.flush()
    return end


def _sweep(write: WriteTransaction, rules: IQueueRules, sweep: Sweep, after: bytes, upto: bytes) -> bytes | None:
    txn, stats = write.txn, write.stats(sweep.pid)
    if sweep.connseq < stats.fullconnseq:
        return None
    page = _look(txn, rules, sweep, after, upto)
    remove_content(write, page.gone, sweep.pid)
    leave_to_others(write, page.left, sweep.pid)
    nothing = page.nothing
    for key in nothing.keys() - _with_content(txn, nothing):
        stats.pend(-1, nothing[key][1])
    _bury(write, {key: standing for key, (standing, _) in nothing.items()}, sweep.pid)
    txn.execute_in(
        f"UPDATE qdb SET operation = {NOTHING}, generation = generation + 1, connseq = ? WHERE urlkey IN ({{in}})",
        nothing,
        [sweep.connseq],
    )
    note_cancelled(txn, nothing)
    stats.nurlproc -= len(nothing)
    if nothing:
        # Not each key is noted: there may be millions, and few of them have been read ahead.
        earliest = txn.value("SELECT MIN(psetid) FROM qpsdb WHERE pid = ? AND slot = ?", [sweep.pid, FETCH_NOW])
        if earliest is not None:
            write.pending.add_queued(sweep.pid, earliest, 0)
    return page.end


def release_page(write: WriteTransaction, rules: IQueueRules, pid: int, psetid: int, progress: bytes) -> bytes | None:
    """Carry out the next page of a provider's held deletions, after their confirmation.

    What was told since is newer than the set, and stays.

    :param psetid: of the confirmed full set; does nothing to another one.
    :param progress: as returned by the last page; empty: from the start.
    :returns: where the next page starts; None: done.
    """
    held = held_sweep(write.txn, pid)
    if held is None or held.psetid != psetid:
        return None
    first, last = provider_range(pid)
    end = _sweep(write, rules, Sweep(pid, held.connseq, psetid), progress or first, last)
    if end is None:
        forget_held(write.txn, pid, held.connseq)
    return end


def remove_content(write: WriteTransaction, rows: Sequence[Removed], pid: int) -> None:
    """Delete content of a provider; tombstones stay.  What was only polled is no change, and counts nowhere."""
    txn, stats = write.txn, write.stats(pid)
    counted = _with_content(txn, [row.key for row in rows])
    gone: list[tuple[Any, ...]] = []
    unseen: list[tuple[Any, ...]] = []
    for key, standing, length, machine, file in rows:
        row = empty_cache_row(key, pid)
        connseq, source, words = standing
        row.update(connseq=connseq, source=source, words=words, confirmed_time=write.now)
        if key in counted:
            row.update(write.next_change())
            gone.append(tuple(row.values()))
            stats.files_used -= 1
            stats.space_used -= length or 0
        else:
            unseen.append(tuple(row.values()))
        write.delete_file(machine, file)
    CACHE.upsert(txn, gone, TOMBSTONE_UPDATED)
    CACHE.upsert(txn, unseen, [name for name in TOMBSTONE_UPDATED if name not in CHANGE])
    queued = f"SELECT urlkey, len FROM qdb WHERE operation = {FETCH} AND source <> {POLLED} AND urlkey IN ({{in}})"
    for _key, length in txn.query_in(queued, sorted(counted)):
        stats.pend(1, length)


def _bury(write: WriteTransaction, gone: Mapping[bytes, Standing], pid: int) -> None:
    """Leave tombstones of what was to be fetched, as a deletion does: hints do not bring back what the site has taken
    away."""
    rows: list[tuple[Any, ...]] = []
    names = "SELECT urlkey, curl, mimetype FROM qdb WHERE urlkey IN ({in})"
    for key, curl, mimetype in write.txn.query_in(names, sorted(gone)):
        connseq, source, words = gone[key]
        row = empty_cache_row(key, pid)
        row.update(curl=curl, mimetype=mimetype, connseq=connseq, source=source, words=words)
        row.update(confirmed_time=write.now)
        rows.append(tuple(row.values()))
    CACHE.upsert(write.txn, rows, (*_STANDING, "confirmed_time"))


def removed_rows(txn: Txn, keys: Sequence[bytes]) -> list[Removed]:
    """The content of these keys, to be removed although whoever named them has not taken that back."""
    sql = (
        "SELECT urlkey, connseq, source, words, len, fetched_machineid, fetched_fileid FROM lccurl"
        " WHERE urlkey IN ({in})"
    )
    return [
        Removed(bytes(key), Standing(connseq, source & COUNTED or source, words), *content)
        for key, connseq, source, words, *content in txn.query_in(sql, keys)
    ]


def leave_to_others(write: WriteTransaction, left: Mapping[bytes, Standing], pid: int) -> None:
    """Pages are not named any longer by all that have named them: those that are only polled are withdrawn."""
    txn, stats = write.txn, write.stats(pid)
    polled = sorted(key for key, standing in left.items() if not standing.source & COUNTED)
    cached = dict(_counted_content(txn, left))
    for key, length in txn.query_in(
        f"SELECT urlkey, len FROM qdb WHERE operation = {FETCH} AND source <> {POLLED} AND urlkey IN ({{in}})", polled
    ):
        if key not in cached:
            stats.pend(-1, length)
    groups: dict[Standing, list[bytes]] = {}
    rows: list[tuple[Any, ...]] = []
    for key, standing in sorted(left.items()):
        groups.setdefault(standing, []).append(key)
        if key in cached:
            connseq, source, words = standing
            withdrawn = 0 if source & COUNTED else WITHDRAWN
            row = empty_cache_row(key, pid)
            row.update(write.next_change(), connseq=connseq, source=source | withdrawn, words=words)
            rows.append(tuple(row.values()))
            if withdrawn:
                stats.files_used -= 1
                stats.space_used -= cached[key] or 0
    for standing, keys in groups.items():
        again = "" if standing.source & COUNTED else ", generation = generation + 1"
        sql = f"UPDATE qdb SET connseq = ?, source = ?, words = ?{again}"
        txn.execute_in(f"{sql} WHERE operation = {FETCH} AND urlkey IN ({{in}})", keys, standing)
    CACHE.upsert(txn, rows, (*CHANGE, *_STANDING))
    write.pending.touched |= set(polled)


def _with_content(txn: Txn, keys: Iterable[bytes]) -> set[bytes]:
    """Those of these keys that are cached, and not only polled."""
    return {key for key, _ in _counted_content(txn, keys)}


def _counted_content(txn: Txn, keys: Iterable[bytes]) -> list[tuple[bytes, int | None]]:
    """The same, each with its length."""
    sql = f"SELECT urlkey, len FROM lccurl WHERE state = {CACHED} AND source & {COUNTED} <> 0 AND urlkey IN ({{in}})"
    return [(key, length) for key, length in txn.query_in(sql, sorted(keys))]


def finish_sweep(
    txn: Txn, run: int, header: SetHeader, now: int, full_set_period: int, held: HeldSweep | None = None
) -> SetAnswer:
    """The full set is complete.

    :param held: its held deletions; None: it has deleted what it did not name.
    """
    write = WriteTransaction(txn, run, questions=position_questions([header]))
    positions = SetPositions(txn, [header], write.answers)
    if not positions.is_applied(header):
        positions.finish(header)
        finish_set(write, header, now, full_set_period)
        if held is None:
            forget_held(txn, header.pid, header.connseq)
        elif registered_providers(
            txn, [header.pid]
        ):  # nothing would take it away from one that was removed meanwhile
            save_held(txn, held)
    positions.save()
    write.flush()
    return SetAnswer(header.epoch, header.number, 0)


def _next_rows(txn: Txn, select: str, low: bytes, high: bytes) -> tuple[list[tuple[Any, ...]], bytes | None]:
    """Rows behind ``low`` up to ``high``, and the last key of them if there may be more."""
    rows = txn.query(f"{select} WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?", [low, high, PAGE_ROWS])
    return rows, rows[-1][0] if len(rows) == PAGE_ROWS else None
