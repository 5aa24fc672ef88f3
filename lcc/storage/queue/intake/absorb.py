"""Absorbs pieces of sets into the queue, several pieces in one transaction.

Each transaction advances the position of a set (``setspos``), so that a piece that is delivered twice is applied
once. A full set is not complete with its last piece: first the sweep deletes what it did not name
(:mod:`lcc.storage.queue.intake.sweep`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs

from lcc.config import QmConfig
from lcc.errors import code
from lcc.interfaces import IQueueRules
from lcc.model import HINTS, SITE, SetAnswer, SetHeader, SetPiece, Source
from lcc.model.frontend.moves import Fence
from lcc.storage.database.tables.key_ranges import all_views_key, is_all_views, is_untyped, untyped_key
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.intake.batch import Batch, SetPart
from lcc.storage.queue.intake.fresh_rows import FreshRows, first_set_questions, idle_providers
from lcc.storage.queue.intake.held_deletions import order_release
from lcc.storage.queue.intake.row_cache import RowCache, row_questions
from lcc.storage.queue.intake.said_sets import SaidSets, said_questions
from lcc.storage.queue.intake.set_positions import Finished, SetPositions, finish_set, position_questions
from lcc.storage.queue.moves.fences import fence_question, hold_piece, holds_part
from lcc.storage.queue.notifications import PendingNotifications
from lcc.storage.queue.registered import registered_in, registered_question
from lcc.storage.queue.write_transaction import WriteTransaction

_GONE = code("provider-gone")


@attrs.frozen
class Sweep:
    """Deletes what a full set did not name and no later set has told again.

    :ivar connseq: of the full set.
    :ivar psetid: marks what it named.
    """

    pid: int
    connseq: int
    psetid: int


@attrs.frozen
class WholeSet:
    """A full set whose pieces are all absorbed; it is complete after its sweep."""

    header: SetHeader
    sweep: Sweep


class Done(NamedTuple):
    """What became of some pieces.

    :ivar answers: for the complete sets.
    :ivar whole: the full set to be swept next; None: there is none.
    :ivar fresh: the rows that were queued; None: none were.
    """

    answers: list[SetAnswer]
    whole: WholeSet | None
    fresh: FreshRows | None


def absorb_pieces(
    txn: Txn,
    run: int,
    rules: IQueueRules,
    pieces: Sequence[SetPiece],
    now: int,
    settings: QmConfig,
    pending: PendingNotifications,
) -> Done:
    """Absorb pieces; none may follow the last piece of a full set."""
    headers = [piece.header for piece in pieces]
    pids = {header.pid for header in headers}
    keys = {notice.key for piece in pieces for notice in piece.notices}
    # One round trip.  For pieces that are delivered again this reads too much.
    positioned, was_said, firsts = position_questions(headers), said_questions(headers), first_set_questions(pids)
    questions = (
        registered_question(pids),
        fence_question(pids),
        *row_questions(keys),
        *positioned,
        *was_said,
        *firsts,
    )
    write = WriteTransaction(txn, run, now, settings, pending, questions, pids)
    providers, fenced, queued, cached, *more = write.answers
    fences = {pid: Fence(state) for pid, state in fenced}
    places, more = more[: len(positioned)], more[len(positioned) :]
    said_rows, first_sets = more[: len(was_said)], more[len(was_said) :]
    registered = registered_in(providers)
    # Even if no row is written here: the sweep of a full set may note rows.
    pending.add_priorities({pid: provider.priority for pid, provider in registered.items()})
    positions = SetPositions(txn, headers, places)
    said = SaidSets(txn, headers, said_rows)
    parts: list[SetPart] = []
    answers: list[SetAnswer] = []
    finished: list[Finished] = []
    whole: WholeSet | None = None
    fresh: FreshRows | None = None
    for piece in pieces:
        header = piece.header
        if _is_held(txn, positions, said, fences, piece):
            hold_piece(write, piece, lost=positions.has_begun(header))
            if piece.last:
                positions.finish(header)
                answers.append(SetAnswer(header.epoch, header.number, 0))
            continue
        if header.pid not in registered:
            if piece.last:
                positions.finish(header)
                answers.append(SetAnswer(header.epoch, header.number, _GONE))
            continue
        if positions.is_applied(header):
            if piece.last:
                answers.append(SetAnswer(header.epoch, header.number, 0))
            continue
        if said.is_applied(header.said):  # its notifier tells it again
            if piece.last:
                positions.finish(header)
                answers.append(SetAnswer(header.epoch, header.number, 0))
            continue
        psetid, done = positions.begin(header, piece.first_index, lambda: write.next("psetid"))
        skipped = max(0, done - piece.first_index)
        if skipped < len(piece.notices):
            parts.append(SetPart(header, psetid, piece.first_index + skipped, piece.notices[skipped:]))
        positions.advance(header, piece.first_index + len(piece.notices))
        if piece.last and header.full:
            whole = WholeSet(header, Sweep(header.pid, header.connseq, psetid))
        elif piece.last:
            positions.finish(header)
            said.finish(header.said)
            finished.append(Finished(header))
            answers.append(SetAnswer(header.epoch, header.number, 0))
    if parts:
        batch = Batch(write, rules, registered)
        batch.rows.add(queued, cached)
        _load_more(batch.rows, write, parts)
        for part in parts:
            batch.apply(part)
        batch.commit(positions.new_psetids)
        full = {part.psetid for part in parts if part.header.full}
        idle = idle_providers(pids, first_sets)
        fresh = FreshRows(positions.new_psetids, full, idle, batch.rows.queue, batch.rows.cache)
    for done_set in finished:
        finish_set(write, done_set.header, now, settings.full_set_period)
        if done_set.header.deletions:
            order_release(write, done_set.header)
    if whole is not None:
        # The set is here as a whole: older sets do nothing from now on.
        stats = write.stats(whole.header.pid)
        stats.fullconnseq = max(stats.fullconnseq, whole.header.connseq)
        stats.maxconnseq = max(stats.maxconnseq, stats.fullconnseq)  # it may be empty
    positions.save()
    said.save(now)
    write.flush()
    return Done(answers, whole, fresh)


def _is_held(txn: Txn, positions: SetPositions, said: SaidSets, fences: dict[int, Fence], piece: SetPiece) -> bool:
    """The piece is kept for where its provider is in the end.  What had begun before it was frozen goes on."""
    header = piece.header
    fence = fences.get(header.pid)
    if fence is None:
        is_strange = piece.first_index > 0 and not positions.has_begun(header)
        return is_strange and not positions.is_applied(header) and holds_part(txn, header)
    if positions.is_applied(header) or said.is_applied(header.said):
        return False
    return fence is Fence.LEFT or not positions.has_begun(header)


def _load_more(rows: RowCache, write: WriteTransaction, parts: Sequence[SetPart]) -> None:
    """Read rows that depend on more than the keys."""
    pages: set[bytes] = set()
    all_views: set[bytes] = set()
    untyped: set[bytes] = set()
    for part in parts:
        stats = write.stats(part.header.pid)
        if stats.untyped and part.header.source & SITE:
            untyped.update([untyped_key(key) for key, notice in part.notices if notice.delete])
        if part.header.source & HINTS:
            pages.update([key for key, _notice in part.notices])
            continue
        pages.update([key for key, _notice in part.notices if is_all_views(key)])
        if part.header.source != Source.TOLD:
            pages.update([key for key, _notice in part.notices if is_untyped(key)])
        if part.header.connseq < stats.maxconnseq:
            all_views.update([all_views_key(key) for key, _ in part.notices])
    if all_views or untyped:
        rows.load(untyped, all_views)
    if pages:
        rows.load_views(pages)
