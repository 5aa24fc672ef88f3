"""Puts the front end's database right, as :mod:`lcc.domain.frontend.repair` says (doc/front-end.md)."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from lcc.model.frontend.moves import UNFINISHED, Fence, FenceOrder
from lcc.model.frontend.places import AtHome, Placement
from lcc.model.frontend.traces import FrontState, RepairPlan
from lcc.storage.database.tables.locked_counter import draw, locked_counter
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.flips import change_map_version
from lcc.storage.fe.moves import list_moves, put_fence, put_move, put_place

_COUNTERS = ("subid", "move", "flip")
_PAGE = 1000


def read_front(txn: Txn) -> FrontState:
    """All that it says of providers and moves."""
    moves = list_moves(txn, limit=_PAGE)
    while len(page := list_moves(txn, moves[-1].id, _PAGE) if moves else []) > 0:
        moves += page
    places = txn.query("SELECT pid, subid, epoch, state FROM pmdb")
    fences = txn.query("SELECT pid, subid, epoch, state, obeyed_epoch FROM fences")
    counters = dict(txn.query_in("SELECT name, value FROM meta WHERE name IN ({in})", _COUNTERS))
    return FrontState(
        {pid: Placement(pid, subid, epoch, AtHome(state)) for pid, subid, epoch, state in places},
        moves,
        {
            (pid, subid): FenceOrder(pid, subid, epoch, Fence(state), obeyed)
            for pid, subid, epoch, state, obeyed in fences
        },
        {name: int(value) for name, value in counters.items()},
    )


def repair_front(txn: Txn, plan: Callable[[FrontState], RepairPlan], now: int) -> RepairPlan:
    """Put it right, in one transaction.

    :param plan: says what is to be done.
    """
    # Nobody orders a move meanwhile, or does the next step of one.
    locked_counter(txn, "move")
    marks = ",".join("?" * len(UNFINISHED))
    txn.query(f"SELECT id FROM moves WHERE state IN ({marks}){txn.for_update}", [state.value for state in UNFINISHED])
    planned = plan(read_front(txn))
    for name, value in planned.counters.items():
        if locked_counter(txn, name) < value:
            txn.execute("UPDATE meta SET value = ? WHERE name = ?", [str(value), name])
    for mend in planned.mends:
        if mend.place is not None:
            put_place(txn, mend.pid, mend.place.subid, mend.place.epoch, mend.place.state, now)
        for move in mend.moves:
            put_move(txn, move if move.id else attrs.evolve(move, id=draw(txn, "move")))
        for order in mend.fences:
            done = order.obeyed_epoch == order.epoch
            put_fence(txn, order.pid, order.subid, order.epoch, order.state, now, obeyed=done)
    if planned.mends:
        change_map_version(txn)
    return planned
