"""Moves of providers, as the front end's database has them (``moves``, ``fences``); doc/moves.md.

Each step is one transaction, on condition of the state and the epoch before: run twice, or by two, it is done once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from lcc.model.frontend.moves import UNDECIDED, UNFINISHED, Fence, FenceOrder, Move, MoveState
from lcc.model.frontend.places import AtHome, Placement, SubLcc, SubState
from lcc.storage.database.tables.locked_counter import draw, locked_counter
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.placements import placements

_MOVE = tuple(field.name for field in attrs.fields(Move))
_SELECT = f"SELECT {', '.join(_MOVE)} FROM moves"
_FENCE = ("pid", "subid", "epoch", "state", "obeyed_epoch")
_SELECT_FENCE = f"SELECT {', '.join(_FENCE)} FROM fences"
_COUNTER = "move"
_PLACE = ("pid", "subid", "epoch", "state", "changed_time")


class CannotMove(Exception):
    """A provider cannot be moved, or a move not be cancelled; says why."""


class Overtaken(Exception):
    """Somebody else has done this step, or has cancelled the move."""


class Behind(Exception):
    """This database was put back from a backup: a sub-LCC knows more of a move than it does."""


def order_move(txn: Txn, pid: int, dest: SubLcc, bandwidth: int | None, now: int) -> Move:
    """Order that a provider be moved.

    :param bandwidth: bytes per second of its content; None: without limit.
    :raises CannotMove: it is not known, is there, is being made, or is moving.
    """
    locked_counter(txn, _COUNTER)  # before its moves are read: who orders another one at the same time waits
    place = _place(txn, pid)
    progress = {} if bandwidth is None else {"bandwidth": bandwidth}
    marks = ",".join("?" * len(UNFINISHED))
    under_way = txn.one(
        f"{_SELECT} WHERE pid = ? AND state IN ({marks})", [pid, *[state.value for state in UNFINISHED]]
    )
    if under_way is not None:
        move = _move(under_way)
        if (move.dest, move.made_time, move.progress) == (dest.subid, now, progress):
            return move  # a repeated interaction
        raise CannotMove(f"provider {pid} is moving already (move {move.id}, {move.state.value})")
    if place.subid == dest.subid:
        raise CannotMove(f"provider {pid} is in sub-LCC {dest.name} already")
    if place.state is not AtHome.HERE:
        raise CannotMove(f"provider {pid} is {place.state.value}")
    if dest.state is SubState.REMOVED:
        raise CannotMove(f"sub-LCC {dest.name} was removed")
    move = Move(
        id=draw(txn, _COUNTER),
        pid=pid,
        source=place.subid,
        dest=dest.subid,
        flip=0,
        state=MoveState.PLANNED,
        epoch=_newest_epoch(txn, pid),
        made_time=now,
        changed_time=now,
        progress=progress,
        why="",
    )
    txn.insert("moves", _MOVE, [_values(move)])
    return move


def _place(txn: Txn, pid: int) -> Placement:
    (row,) = placements(txn, [pid])
    if row is not None:
        return row
    home = txn.value("SELECT subid FROM fedb WHERE ? BETWEEN firstpid AND lastpid", [pid])
    if home is None:
        raise CannotMove(f"no sub-LCC has provider ids like {pid}")
    return Placement(pid, home)


def cancel_move(txn: Txn, pid: int, why: str, now: int) -> Move:
    """Cancel the move of a provider.

    :raises CannotMove: it does not move, or has flipped.
    """
    move = last_move(txn, pid)
    if move is not None:
        # Locked: its destination may be about to do the next step, even to flip.
        move = _move(txn.query(f"{_SELECT} WHERE id = ?{txn.for_update}", [move.id])[0])
    if move is None or move.state in (MoveState.DONE, MoveState.CANCELLED):
        raise CannotMove(f"provider {pid} is not moving")
    if move.number("behind"):
        raise CannotMove(move.why)
    if move.state not in UNDECIDED:
        raise CannotMove(f"provider {pid} is at its new home already; its move goes on to its end")
    return _thawed(txn, move, MoveState.CANCELLED, why, now)


def get_move(txn: Txn, number: int) -> Move | None:
    """A move."""
    row = txn.one(f"{_SELECT} WHERE id = ?", [number])
    return None if row is None else _move(row)


def last_move(txn: Txn, pid: int) -> Move | None:
    """The newest move of a provider."""
    rows = txn.query(f"{_SELECT} WHERE pid = ? ORDER BY id DESC LIMIT 1", [pid])
    return _move(rows[0]) if rows else None


def last_flipped(txn: Txn, pid: int) -> Move | None:
    """The newest move of a provider that has flipped: to where it is."""
    rows = txn.query(f"{_SELECT} WHERE pid = ? AND flip > 0 ORDER BY id DESC LIMIT 1", [pid])
    return _move(rows[0]) if rows else None


def arrival(txn: Txn, pid: int, subid: int, epoch: int) -> Move | None:
    """The move that has brought a provider to a sub-LCC with this epoch."""
    row = txn.one(f"{_SELECT} WHERE pid = ? AND dest = ? AND epoch = ? AND flip > 0", [pid, subid, epoch])
    return None if row is None else _move(row)


def concerns_move(txn: Txn, subid: int) -> bool:
    """Whether a provider moves from or to a sub-LCC."""
    return any(subid in (move.source, move.dest) for move in moves_in(txn, UNFINISHED))


def list_moves(txn: Txn, after: int = 0, limit: int = 1000) -> list[Move]:
    """Moves by their numbers, all that ever were."""
    return [_move(row) for row in txn.query(f"{_SELECT} WHERE id > ? ORDER BY id LIMIT ?", [after, limit])]


def moves_in(txn: Txn, states: Collection[MoveState], limit: int = 1_000_000) -> list[Move]:
    """Moves in these states, oldest first."""
    marks = ",".join("?" * len(states))
    values = sorted(state.value for state in states)
    return [
        _move(row) for row in txn.query(f"{_SELECT} WHERE state IN ({marks}) ORDER BY id LIMIT ?", [*values, limit])
    ]


def moves_to(txn: Txn, subid: int) -> list[Move]:
    """Moves to a sub-LCC that are not done, or were cancelled and have not been cleaned up; oldest first."""
    marks = ",".join("?" * (len(UNFINISHED) + 1))
    states = [state.value for state in (*UNFINISHED, MoveState.CANCELLED)]
    found = [
        _move(row)
        for row in txn.query(f"{_SELECT} WHERE dest = ? AND state IN ({marks}) ORDER BY id", [subid, *states])
    ]
    return [move for move in found if not (move.state is MoveState.CANCELLED and move.progress.get("cleaned"))]


def moved_to(txn: Txn, pids: Collection[int], source: int, dest: int) -> list[int]:
    """Those of these providers whose last move away from a sub-LCC was to another one, and is done."""
    rows = txn.query_in(
        "SELECT id, pid, dest, state FROM moves WHERE source = ? AND flip > 0 AND pid IN ({in})",
        sorted(pids),
        [source],
    )
    last = {pid: (to, state) for _, pid, to, state in sorted(rows)}
    return sorted(pid for pid, found in last.items() if found == (dest, MoveState.DONE.value))


# What the destination does.


def note_progress(txn: Txn, move: Move, progress: Mapping[str, Any], why: str, now: int) -> Move:
    """Note how far a step is.

    :raises Overtaken: the move is in another state.
    """
    _same(txn, move)
    return _save(txn, attrs.evolve(move, progress={**move.progress, **progress}, why=why[:500]), now)


def begin_copying(txn: Txn, move: Move, now: int) -> Move:
    """The provider can be moved: its source is to note what changes."""
    _same(txn, move)
    epoch = _next_epoch(txn, move)
    put_fence(txn, move.pid, move.source, epoch, Fence.FOLLOWED, now)
    return _save(txn, attrs.evolve(move, state=MoveState.COPYING, epoch=epoch, why=""), now)


def freeze(txn: Txn, move: Move, now: int) -> Move:
    """The provider is to stand still: the front end holds its logins, its source gives no orders."""
    _same(txn, move)
    place = _place(txn, move.pid)
    if place.subid != move.source or place.state is not AtHome.HERE:
        raise Overtaken(f"provider {move.pid} is {place.state.value} in sub-LCC {place.subid}")
    epoch = _next_epoch(txn, move)
    put_place(txn, move.pid, move.source, epoch, AtHome.FROZEN, now)
    put_fence(txn, move.pid, move.source, epoch, Fence.FROZEN, now)
    freezes = move.number("freezes") + 1
    progress = {**move.progress, "freezes": freezes, "frozen_time": now}
    return _save(txn, attrs.evolve(move, state=MoveState.FREEZING, epoch=epoch, progress=progress, why=""), now)


def thaw(txn: Txn, move: Move, why: str, now: int) -> Move:
    """The freeze is given up: copying goes on."""
    _same(txn, move)
    return _thawed(txn, move, MoveState.COPYING, why, now)


def give_up(txn: Txn, move: Move, why: str, now: int) -> Move:
    """It cannot be moved: the move is cancelled.

    :raises Overtaken: the move is in another state.
    """
    _same(txn, move)
    return _thawed(txn, move, MoveState.CANCELLED, why, now)


def flip(txn: Txn, move: Move, since: tuple[str, int], now: int) -> Move:
    """From now on the provider is at its destination.

    :param since: timeline and change of the source, which all that was copied is of.
    :raises Overtaken: its source has not obeyed, or does no longer.
    """
    _same(txn, move)
    place, fence = _place(txn, move.pid), get_fence(txn, move.pid, move.source)
    if (place.subid, place.epoch, place.state) != (move.source, move.epoch, AtHome.FROZEN):
        raise Overtaken(f"provider {move.pid} is {place.state.value} in sub-LCC {place.subid}")
    if fence is None or fence.state is not Fence.FROZEN or not fence.epoch == fence.obeyed_epoch == move.epoch:
        raise Overtaken(f"provider {move.pid} is not frozen at its source")
    epoch = move.epoch + 1
    put_place(txn, move.pid, move.dest, epoch, AtHome.FROZEN, now)
    flipped = attrs.evolve(move, state=MoveState.FLIPPED, epoch=epoch, flip=draw(txn, "flip"), why="")
    return _save(txn, attrs.evolve(flipped, progress={**move.progress, "since": list(since)}), now)


def admit(txn: Txn, move: Move, now: int) -> None:
    """The provider itself is at its destination: the front end may let it log in there."""
    _same(txn, move)
    if _place(txn, move.pid).state is not AtHome.HERE:
        put_place(txn, move.pid, move.dest, move.epoch, AtHome.HERE, now)


def activate(txn: Txn, move: Move, now: int) -> Move:
    """All of it is at its destination; its source may remove its rows."""
    _same(txn, move)
    put_place(txn, move.pid, move.dest, move.epoch, AtHome.HERE, now)
    put_fence(txn, move.pid, move.dest, move.epoch, Fence.OPEN, now, obeyed=True)
    put_fence(txn, move.pid, move.source, move.epoch, Fence.LEFT, now)
    return _save(txn, attrs.evolve(move, state=MoveState.ACTIVE, why=""), now)


def end_move(txn: Txn, move: Move, now: int) -> Move:
    """Its source has removed its rows.

    :raises Overtaken: it has not.
    """
    _same(txn, move)
    fence = get_fence(txn, move.pid, move.source)
    if fence is None or fence.obeyed_epoch < move.epoch:
        raise Overtaken(f"the source of move {move.id} has yet to remove its rows")
    return _save(txn, attrs.evolve(move, state=MoveState.DONE, why=""), now)


# What a sub-LCC obeys.


def get_fence(txn: Txn, pid: int, subid: int) -> FenceOrder | None:
    """What a sub-LCC is to obey for a provider."""
    row = txn.one(f"{_SELECT_FENCE} WHERE pid = ? AND subid = ?", [pid, subid])
    return None if row is None else _fence(row)


def fences_for(txn: Txn, subid: int) -> list[FenceOrder]:
    """All that a sub-LCC is to obey, or obeys; but not those that were lifted."""
    where = "subid = ? AND (state <> ? OR obeyed_epoch < epoch)"
    return [
        _fence(row) for row in txn.query(f"{_SELECT_FENCE} WHERE {where} ORDER BY pid", [subid, Fence.OPEN.value])
    ]


def departure(txn: Txn, pid: int, subid: int) -> Move | None:
    """The last move of a provider away from a sub-LCC that has flipped."""
    row = txn.one(f"{_SELECT} WHERE pid = ? AND source = ? AND flip > 0 ORDER BY id DESC LIMIT 1", [pid, subid])
    return None if row is None else _move(row)


def obeyed(txn: Txn, order: FenceOrder) -> None:
    """It has; a later one stays."""
    txn.execute(
        "UPDATE fences SET obeyed_epoch = ? WHERE pid = ? AND subid = ? AND epoch = ? AND state = ?",
        [order.epoch, order.pid, order.subid, order.epoch, order.state.value],
    )


def forgotten_fences(txn: Txn, subid: int, known: Mapping[int, int]) -> dict[int, int]:
    """Fences that a sub-LCC has obeyed, and knows nothing of: it was put back from a backup.

    :param known: provider -> epoch of the last fence that it knows.
    :returns: those of them.
    """
    sql = "SELECT pid, epoch FROM fences WHERE subid = ? AND obeyed_epoch >= epoch AND pid IN ({in})"
    return {pid: known[pid] for pid, epoch in txn.query_in(sql, sorted(known), [subid]) if epoch > known[pid]}


def obey_again(txn: Txn, subid: int, known: Mapping[int, int]) -> None:
    """Whatever a sub-LCC has obeyed since these epochs counts for nothing.

    :param known: provider -> epoch.
    """
    for pid, epoch in known.items():
        txn.execute(
            "UPDATE fences SET obeyed_epoch = ? WHERE pid = ? AND subid = ? AND epoch > ?", [epoch, pid, subid, epoch]
        )


def draw_loss(txn: Txn) -> int:
    """The number of a loss of held sets, when a sub-LCC was restored from a backup: greater than earlier ones."""
    return draw(txn, "loss")


def hold_again(txn: Txn, move: Move, now: int) -> bool:
    """The destination has forgotten that it admitted the provider: until it does so again, the front end holds its
    logins, and then it is asked for a full set (``lost``), for those that it has sent are lost.

    :returns: it was admitted.
    """
    _same(txn, move)
    was_here = _place(txn, move.pid).state is AtHome.HERE
    if was_here:
        put_place(txn, move.pid, move.dest, move.epoch, AtHome.FROZEN, now)
        _save(txn, attrs.evolve(move, progress={**move.progress, "lost": 1}), now)
    return was_here


# Rows, as they are given.


def put_place(txn: Txn, pid: int, subid: int, epoch: int, state: AtHome, now: int) -> None:
    """Where a provider is."""
    txn.upsert("pmdb", _PLACE, [(pid, subid, epoch, state.value, now)], ("pid",))


def put_fence(txn: Txn, pid: int, subid: int, epoch: int, state: Fence, now: int, obeyed: bool = False) -> None:
    """What a sub-LCC is to obey.

    :param obeyed: it does.
    """
    before = get_fence(txn, pid, subid)
    done = epoch if obeyed else -1 if before is None else before.obeyed_epoch
    row = (pid, subid, epoch, state.value, done, now)
    txn.upsert("fences", (*_FENCE, "changed_time"), [row], ("pid", "subid"))


def put_move(txn: Txn, move: Move) -> None:
    """A move."""
    txn.upsert("moves", _MOVE, [_values(move)], ("id",))


# Inside.


def _thawed(txn: Txn, move: Move, state: MoveState, why: str, now: int) -> Move:
    epoch = move.epoch
    if move.state is not MoveState.PLANNED:
        epoch = _next_epoch(txn, move)
        fence = Fence.FOLLOWED if state is MoveState.COPYING else Fence.OPEN
        put_fence(txn, move.pid, move.source, epoch, fence, now)
    if move.state is MoveState.FREEZING:
        put_place(txn, move.pid, move.source, epoch, AtHome.HERE, now)
    return _save(txn, attrs.evolve(move, state=state, epoch=epoch, why=why[:500]), now)


def _same(txn: Txn, move: Move) -> None:
    """Lock a move, and see that nothing has come of it meanwhile.

    :raises Overtaken: it has.
    """
    row = txn.one(f"SELECT state, epoch FROM moves WHERE id = ?{txn.for_update}", [move.id])
    if row is None or row != (move.state.value, move.epoch):
        raise Overtaken(f"move {move.id} is {'gone' if row is None else row[0]}")


def _save(txn: Txn, move: Move, now: int) -> Move:
    changed = attrs.evolve(move, changed_time=now)
    put_move(txn, changed)
    return changed


def _next_epoch(txn: Txn, move: Move) -> int:
    """Higher than all that were obeyed."""
    return max(_newest_epoch(txn, move.pid), move.epoch) + 1


def _newest_epoch(txn: Txn, pid: int) -> int:
    """That of its place may be older: a move that was cancelled while it copied has not changed it."""
    fenced = txn.value("SELECT MAX(epoch) FROM fences WHERE pid = ?", [pid]) or 0
    return max(_place(txn, pid).epoch, int(fenced))


def _move(row: Sequence[Any]) -> Move:
    fields = dict(zip(_MOVE, row, strict=True))
    return Move(**{**fields, "state": MoveState(fields["state"]), "progress": json.loads(fields["progress"])})


def _values(move: Move) -> list[Any]:
    fields = {name: getattr(move, name) for name in _MOVE}
    return list((fields | {"state": move.state.value, "progress": json.dumps(dict(move.progress))}).values())


def _fence(row: Sequence[Any]) -> FenceOrder:
    pid, subid, epoch, state, done = row
    return FenceOrder(pid, subid, epoch, Fence(state), done)
