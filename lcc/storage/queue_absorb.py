"""Taking pieces of sets into the queue: one transaction for a run of pieces.

Each transaction moves the mark how far a set is applied (``setspos``), so that whatever comes twice, after whatever
kind of interruption, is applied once.  A full set is not complete with its last piece: what it did not name has to go
first (:mod:`lcc.storage.queue_sweep`).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lcc.errors import code
from lcc.interfaces import IQueueRules
from lcc.model import FETCH_NOW, Action, KeyedNotice, SetAnswer, SetHeader, SetPiece, UrlNotice
from lcc.storage.books import Books
from lcc.storage.keyranges import PAGE_BYTES, all_views_key, is_all_views
from lcc.storage.overlay import Overlay
from lcc.storage.sets import Finished, SetPositions, SetRows, finish_set
from lcc.storage.transactions import Txn

_GONE = code("provider-gone")


@attrs.frozen
class Sweep:
    """A full set has arrived as a whole; what it did not name has to go."""

    header: SetHeader
    psetid: int


@attrs.define
class Owed:
    """What the queue manager has to be told.

    It outlives a transaction: a commit whose result got lost may have been made, and then the next try finds nothing
    more to do.
    """

    queued: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    touched: set[bytes] = attrs.field(factory=set)
    deletes: bool = False
    priorities: dict[int, int] = attrs.field(factory=dict)

    def add_queued(self, pid: int, psetid: int, seq: int) -> None:
        """A provider got a row at this place."""
        place = (psetid, seq)
        if pid not in self.queued or place < self.queued[pid]:
            self.queued[pid] = place


@attrs.frozen
class _Run:
    """Elements that are applied now.

    :ivar index: of the first of them in the set.
    """

    header: SetHeader
    psetid: int
    index: int
    notices: Sequence[KeyedNotice]


def absorb_pieces(
    txn: Txn,
    run: int,
    rules: IQueueRules,
    pieces: Sequence[SetPiece],
    now: int,
    owed: Owed,
    full_set_period: int,
) -> tuple[list[SetAnswer], Sweep | None]:
    """Absorb pieces; none may follow the last piece of a full set.

    :returns: answers for the sets that are complete; the full set that has to be swept next.
    """
    books = Books(txn, run)
    pids = {piece.header.pid for piece in pieces}
    registered = dict(
        txn.query_in("SELECT pid, priority FROM pidb WHERE removed = 0 AND pid IN ({in})", sorted(pids))
    )
    owed.priorities.update({pid: priority for pid, priority in registered.items() if priority})
    positions = SetPositions(txn, [piece.header for piece in pieces])
    books.load_stats(sorted(registered))
    runs: list[_Run] = []
    answers: list[SetAnswer] = []
    finished: list[Finished] = []
    sweep: Sweep | None = None
    for piece in pieces:
        header = piece.header
        if header.pid not in registered:
            if piece.last:
                positions.finish(header)
                answers.append(SetAnswer(header.epoch, header.number, _GONE))
            continue
        if positions.is_applied(header):
            if piece.last:
                answers.append(SetAnswer(header.epoch, header.number, 0))
            continue
        psetid, done = positions.begin(header, piece.first_index, lambda: books.next("psetid"))
        skipped = max(0, done - piece.first_index)
        if skipped < len(piece.notices):
            runs.append(_Run(header, psetid, piece.first_index + skipped, piece.notices[skipped:]))
        positions.advance(header, piece.first_index + len(piece.notices))
        if piece.last and header.full:
            sweep = Sweep(header, psetid)
        elif piece.last:
            positions.finish(header)
            finished.append(Finished(header))
            answers.append(SetAnswer(header.epoch, header.number, 0))
    if runs:
        overlay = Overlay(books, now)
        _load(overlay, books, runs)
        places = _apply(overlay, books, rules, runs, owed)
        SetRows(txn, places).save(registered, now)
        owed.touched |= overlay.save()
    for done_set in finished:
        finish_set(books, done_set.header, now, full_set_period)
    if sweep is not None:
        # From now on older connections have nothing to say: the set is here as a whole.
        stats = books.stats(sweep.header.pid)
        stats.fullconnseq = max(stats.fullconnseq, sweep.header.connseq)
    owed.deletes |= books.deletes
    positions.save()
    books.close()
    return answers, sweep


def _load(overlay: Overlay, books: Books, runs: Sequence[_Run]) -> None:
    keys: set[bytes] = set()
    pages: set[bytes] = set()
    all_views: set[bytes] = set()
    newest: dict[int, int] = {}
    for run in runs:
        pid, connseq = run.header.pid, run.header.connseq
        seen = newest.get(pid, books.stats(pid).maxconnseq)
        keys.update([notice.key for notice in run.notices])
        pages.update([key[:PAGE_BYTES] for key, _notice in run.notices if is_all_views(key)])
        if connseq < seen:
            all_views.update([all_views_key(key) for key, _ in run.notices])
        newest[pid] = max(seen, connseq)
    overlay.load(keys, pages, all_views)


def _apply(
    overlay: Overlay, books: Books, rules: IQueueRules, runs: Sequence[_Run], owed: Owed
) -> dict[tuple[int, int], SetRows.Added]:
    """Decide on each notice in order, on the rows as those before have left them."""
    added: dict[tuple[int, int], SetRows.Added] = {}
    queue, cache, action_for = overlay.queue, overlay.cache, rules.action
    for run in runs:
        header, pid, connseq, psetid = run.header, run.header.pid, run.header.connseq, run.psetid
        stats = books.stats(pid)
        older = connseq < stats.maxconnseq
        stats.maxconnseq = max(stats.maxconnseq, connseq)
        seen = psetid if header.full else None
        seq = run.index
        for key, notice in run.notices:
            seq += 1
            floor = stats.fullconnseq
            if older and (views := cache.get(all_views_key(key))) is not None:
                floor = max(floor, views.state.connseq)
            if is_all_views(key):
                if notice.delete:
                    _delete_all_views(overlay, rules, key, header, floor, notice, seen)
                else:  # named, and refused for its mime type: whatever is known of the page was named
                    for view in overlay.views.get(key[:PAGE_BYTES], ()):
                        overlay.mark(view, seen)
                continue
            queued, cached = queue.get(key), cache.get(key)
            action = action_for(
                notice,
                connseq,
                floor,
                None if queued is None else queued.state,
                None if cached is None else cached.state,
            )
            if action is Action.OLDER:
                continue
            if action is Action.FETCH:
                if overlay.fetch(key, pid, (psetid, FETCH_NOW, seq), connseq, notice):
                    place = added.setdefault((psetid, FETCH_NOW), SetRows.Added(header))
                    place.add(key, queue[key].place[2])
            elif action is Action.CONFIRM:
                overlay.confirm(key, connseq)
            elif action is Action.DELETE:
                overlay.delete(key, connseq, notice, pid)
            elif action is Action.KNOWN:
                overlay.known(key, connseq)
            if seen is not None:
                overlay.mark(key, seen)
    for (psetid, slot), place in added.items():
        # A row may have gone again, or have been made once more by another set of this batch.
        place.keys = {
            key: seq for key, seq in place.keys.items() if key in queue and queue[key].place == (psetid, slot, seq)
        }
        if place.keys:
            owed.add_queued(place.header.pid, psetid, place.first)
    return {where: place for where, place in added.items() if place.keys}


def _delete_all_views(
    overlay: Overlay,
    rules: IQueueRules,
    key: bytes,
    header: SetHeader,
    floor: int,
    notice: UrlNotice,
    seen: int | None,
) -> None:
    """A deletion without a mime type: each view that is known, and a tombstone for those that are not."""
    for view in sorted(overlay.views.get(key[:PAGE_BYTES], set()) | {key}):
        queued, cached = overlay.queue.get(view), overlay.cache.get(view)
        action = rules.action(
            notice,
            header.connseq,
            floor,
            None if queued is None else queued.state,
            None if cached is None else cached.state,
        )
        if action is Action.DELETE:
            overlay.delete(view, header.connseq, notice, header.pid)
            overlay.mark(view, seen)
