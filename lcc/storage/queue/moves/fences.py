"""Fences of providers that move (``fenced``), and the sets that are held behind them (``heldsets``); doc/moves.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import attrs

from lcc.model import KeyedNotice, SetHeader, SetPiece, Source, UrlNotice
from lcc.model.move_traces import FencedAt
from lcc.model.moves import Fence, HeldPiece
from lcc.model.notifiers import NoticeId
from lcc.storage.database.status import database_epoch
from lcc.storage.database.transactions import Question, Txn
from lcc.storage.queue.moves.following import count_followed
from lcc.storage.queue.write_transaction import WriteTransaction

_HELD = ("id", "pid", "uns", "epoch", "number", "firstindex", "whole", "header", "notices", "time")
_HOLDING = ", ".join(f"'{state.value}'" for state in Fence if state.holds)
_FENCED = f"SELECT pid, state FROM fenced WHERE state IN ({_HOLDING})"
PIECES_AT_ONCE = 20


class Known(NamedTuple):
    """
    :ivar fence: that is obeyed, or was; None: there never was any.
    :ivar newest_flip: the last one that is noted, of whatever provider.
    """

    fence: FencedAt | None
    newest_flip: int


def fence_question(pids: Iterable[int]) -> Question:
    """The query for the fences of these providers: (pid, state) of those whose sets are held."""
    return Question(f"{_FENCED} AND pid IN ({{in}})", sorted(pids))


def fences(txn: Txn) -> dict[int, Fence]:
    """All providers of which nothing is fetched."""
    return {pid: Fence(state) for pid, state in txn.query(_FENCED)}


def fence_epochs(txn: Txn) -> dict[int, int]:
    """The epochs of all fences that are obeyed, or were."""
    return dict(txn.query("SELECT pid, epoch FROM fenced"))


def known_of(txn: Txn, pid: int) -> Known:
    """What this LCC knows of the moves of a provider."""
    row = txn.one("SELECT epoch, state FROM fenced WHERE pid = ?", [pid])
    newest = txn.value("SELECT MAX(flip) FROM flips") or 0
    return Known(None if row is None else FencedAt(row[0], Fence(row[1])), int(newest))


def put_fence(write: WriteTransaction, pid: int, epoch: int, state: Fence) -> bool:
    """Obey a fence.

    :returns: False: a later one is obeyed already.
    """
    txn = write.txn
    known = txn.value("SELECT epoch FROM fenced WHERE pid = ?", [pid], -1)
    if known > epoch:
        return False
    # UNSes look at fences together with the provider's statistics.
    txn.upsert("pstats", ("pid",), [(pid,)], ("pid",), ("pid",))
    txn.upsert("fenced", ("pid", "epoch", "state"), [(pid, epoch, state.value)], ("pid",))
    count_followed(txn)
    return True


def hold_piece(write: WriteTransaction, piece: SetPiece, lost: bool = False) -> None:
    """Keep a piece of a set of a fenced provider.

    :param lost: a part of it is applied here.
    """
    txn, header = write.txn, piece.header
    where = [header.uns.encode(), header.epoch.encode(), header.number]
    # It may have come before, cut in another way.
    txn.execute(
        "DELETE FROM heldsets WHERE uns = ? AND epoch = ? AND number = ? AND firstindex >= ?",
        [*where, piece.first_index],
    )
    number = write.next("held")
    told = _written(header) | ({"lost": True} if lost else {})
    notices = json.dumps([[key.hex(), list(notice)] for key, notice in piece.notices])
    row = (number, header.pid, *where, piece.first_index, 0, json.dumps(told), notices, write.now)
    txn.insert("heldsets", _HELD, [row])
    if piece.last:
        txn.execute("UPDATE heldsets SET whole = ? WHERE uns = ? AND epoch = ? AND number = ?", [number, *where])


def holds_part(txn: Txn, header: SetHeader) -> bool:
    """Whether elements of this set are held, and others are yet to come."""
    where = [header.uns.encode(), header.epoch.encode(), header.number]
    sql = "SELECT 1 FROM heldsets WHERE uns = ? AND epoch = ? AND number = ? AND whole = 0 LIMIT 1"
    return txn.one(sql, where) is not None


def held_here(txn: Txn) -> list[int]:
    """Providers that are fenced no longer, with sets that are still held."""
    rows = txn.query(
        "SELECT DISTINCT h.pid FROM heldsets h JOIN fenced f ON f.pid = h.pid AND f.state IN ('open', 'followed')"
        " WHERE h.whole > 0"
    )
    return [pid for (pid,) in rows]


def applied_upto(txn: Txn, uns: str, epoch: str) -> int:
    """The last set of a stream that is applied."""
    sql = "SELECT last_number FROM setspos WHERE uns = ? AND epoch = ?"
    return int(txn.value(sql, [uns.encode(), epoch.encode()], 0))


def held_elsewhere(txn: Txn) -> set[int]:
    """Providers that have left, with sets that are held for their new homes."""
    rows = txn.query(
        "SELECT DISTINCT h.pid FROM heldsets h JOIN fenced f ON f.pid = h.pid AND f.state = 'left' WHERE h.whole > 0"
    )
    return {pid for (pid,) in rows}


def forget_old_held(write: WriteTransaction, before: int) -> None:
    """Sets that were held before this time for a provider's new home are long applied there."""
    write.txn.execute(
        "DELETE FROM heldsets WHERE time < ? AND pid IN (SELECT pid FROM fenced WHERE state = 'left')", [before]
    )


def held_pieces(txn: Txn, pid: int, after: tuple[int, int] = (0, 0)) -> tuple[str, list[HeldPiece]]:
    """The next pieces of sets that are held of a provider and have come as a whole.

    :param after: set and piece that were read last.
    :returns: epoch of this database, which sets are named by; and the pieces.
    """
    rows = txn.query(
        "SELECT id, whole, firstindex, header, notices FROM heldsets"
        " WHERE pid = ? AND whole > 0 AND (whole > ? OR (whole = ? AND id > ?)) ORDER BY whole, id LIMIT ?",
        [pid, after[0], *after, PIECES_AT_ONCE],
    )
    return database_epoch(txn), [_piece(row) for row in rows]


def forget_held(write: WriteTransaction, pid: int, upto: int) -> None:
    """Sets that are held of a provider, up to this one, are applied here."""
    write.txn.execute("DELETE FROM heldsets WHERE pid = ? AND whole > 0 AND whole <= ?", [pid, upto])


def set_pieces(held: Sequence[HeldPiece], uns: str, epoch: str) -> list[SetPiece]:
    """What is held, as pieces of sets of another UNS.

    :param uns: its name; each provider's is another, because their sets do not come in one order.
    """
    return [
        SetPiece(
            attrs.evolve(piece.header, uns=uns, epoch=epoch, number=piece.whole),
            piece.first_index,
            piece.notices,
            piece.id == piece.whole,
        )
        for piece in held
    ]


def _written(header: SetHeader) -> dict[str, Any]:
    fields = attrs.asdict(header, recurse=False)
    said = header.said
    return fields | {"source": int(header.source), "said": None if said is None else attrs.astuple(said)}


def _piece(row: tuple[Any, ...]) -> HeldPiece:
    number, whole, first_index, header, notices = row
    fields = json.loads(header)
    lost = fields.pop("lost", False)
    fields["source"] = Source(fields["source"])
    fields["said"] = None if fields["said"] is None else NoticeId(*fields["said"])
    keyed = tuple([KeyedNotice(bytes.fromhex(key), UrlNotice._make(values)) for key, values in json.loads(notices)])
    return HeldPiece(number, whole, SetHeader(**fields), first_index, keyed, lost)
