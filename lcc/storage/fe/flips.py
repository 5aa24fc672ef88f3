"""Moves that have flipped, as readers of the caches need them (doc/moves.md)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import attrs

from lcc.model.frontend.moves import Flip, MoveState
from lcc.model.frontend.places import Placement
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.placements import placements

_ACTIVE = (MoveState.ACTIVE.value, MoveState.DONE.value)
_MAP = "map"
_SELECT = "SELECT flip, pid, source, dest, state, progress FROM moves"


def flips_after(txn: Txn, newest: int, undecided: Collection[int]) -> list[Flip]:
    """Flips with greater numbers, and how some others are by now, in the order of their numbers.

    :param undecided: numbers of the others.
    """
    rows = txn.query(f"{_SELECT} WHERE flip > ? ORDER BY flip", [newest])
    rows += txn.query_in(f"{_SELECT} WHERE flip IN ({{in}})", sorted(undecided))
    return sorted(map(_flip, rows), key=lambda flip: flip.flip)


def _flip(row: Sequence[Any]) -> Flip:
    number, pid, source, dest, state, progress = row
    if state in _ACTIVE:
        return Flip(number, pid, source, dest, active=True)
    since = json.loads(progress).get("since")
    return Flip(number, pid, source, dest, active=False, since=None if since is None else (since[0], since[1]))


def last_flip(txn: Txn) -> int:
    """No flip has a greater number yet.  There may be none of this number: those that a repair could not know of."""
    return int(txn.value("SELECT value FROM meta WHERE name = 'flip'", (), 0))


def map_version(txn: Txn) -> str:
    """Another one since moves were put right (:mod:`lcc.storage.fe.repair`): then all flips are to be read again."""
    return str(txn.value("SELECT value FROM meta WHERE name = ?", [_MAP], ""))


def change_map_version(txn: Txn) -> None:
    """Have readers read all flips again."""
    txn.upsert("meta", ["name", "value"], [(_MAP, f"{txn.random_bits(64):x}")], ["name"])


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
