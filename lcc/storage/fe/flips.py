"""Moves that have flipped, as readers of the caches need them (doc/moves.md)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from lcc.model.frontend import Placement
from lcc.model.moves import Flip, MoveState
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.placements import placements

_ACTIVE = (MoveState.ACTIVE.value, MoveState.DONE.value)
_SELECT = "SELECT flip, pid, source, dest, state FROM moves"


def flips_after(txn: Txn, newest: int, undecided: Collection[int]) -> list[Flip]:
    """Flips with greater numbers, and how some others are by now, in the order of their numbers.

    :param undecided: numbers of the others.
    """
    rows = txn.query(f"{_SELECT} WHERE flip > ? ORDER BY flip", [newest])
    rows += txn.query_in(f"{_SELECT} WHERE flip IN ({{in}})", sorted(undecided))
    found = [Flip(flip, pid, source, dest, state in _ACTIVE) for flip, pid, source, dest, state in rows]
    return sorted(found, key=lambda flip: flip.flip)


def reading_places(txn: Txn, pids: Sequence[int]) -> list[Placement | None]:
    """Where all rows of these providers are: while one arrives, that is still its source.

    :returns: None: it has no row in ``pmdb``.
    """
    found = placements(txn, pids)
    placed = sorted({each.pid for each in found if each is not None})
    arriving = dict(
        txn.query_in(
            "SELECT pid, source FROM moves WHERE state = ? AND pid IN ({in})", placed, [MoveState.FLIPPED.value]
        )
    )
    return [
        attrs.evolve(each, subid=arriving[each.pid]) if each is not None and each.pid in arriving else each
        for each in found
    ]
