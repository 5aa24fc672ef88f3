"""What befalls those who carry out a move, just when it comes to a state: also that a database is put back then."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from lcc.model.frontend.moves import Move, MoveState

from .fault import Fault
from .front import HOSTS as FRONT
from .front import FrontEnd
from .one_lcc import Lcc
from .system import System

STATES = (
    *(MoveState.PLANNED, MoveState.COPYING, MoveState.FREEZING, MoveState.FREEZING, MoveState.FLIPPED),
    *(MoveState.ACTIVE, MoveState.CANCELLED),
)
SIDES = ("source", "source", "dest", "dest", "both", "front", "readers")
KINDS = ("kill", "kill", "stop", "freeze", "part", "part", "database-away")
KIND = "at-move"
_MEANS = {"kill": 1.0, "stop": 1.0, "freeze": 15.0, "part": 6.0, "database-away": 4.0}
_WAIT_SECONDS = 20.0
"""So long a fault waits for a move that comes to its state."""
RESTORE = "restore-at-move"
RESTORED_SHARE = 0.4
"""Of the worlds with troubles, those where databases of sub-LCCs are put back from backups."""
_RESTORED_STATES = (*(state for state in MoveState if state is not MoveState.CANCELLED), MoveState.FREEZING)
_RESTORED_SIDES = ("source", "source", "dest", "dest", "third")


def plan(system: System, until_seconds: float) -> list[Fault]:
    """What befalls them: state, side and kind are the target."""
    chance = system.timeline.random("move faults")
    faults = []
    for _ in range(chance.choice((0, 2, 5, 10, 16))):
        kind, side = chance.choice(KINDS), chance.choice(SIDES)
        kind = "part" if side == "readers" else kind
        target = f"{chance.choice(STATES).value}~{side}~{kind}"
        seconds = min(chance.expovariate(1 / _MEANS[kind]), 4 * _MEANS[kind])
        time = chance.uniform(0.0, until_seconds)
        faults.append(Fault(round(time, 3), KIND, target, round(seconds, 3), chance.randrange(1 << 30)))
    return faults


def plan_restores(system: System, until_seconds: float) -> list[Fault]:
    """In some worlds databases of sub-LCCs are put back from backups: state and side are the target."""
    chance = system.timeline.random("restores at moves")
    if chance.random() >= RESTORED_SHARE:
        return []
    return [
        Fault(
            round(chance.uniform(1.0, until_seconds - 5.0), 3),
            RESTORE,
            f"{chance.choice(_RESTORED_STATES).value}~{chance.choice(_RESTORED_SIDES)}",
            round(chance.uniform(0.5, 15.0), 3),
            chance.randrange(1 << 30),
        )
        for _ in range(chance.choice((1, 2, 4)))
    ]


def wait_for_state(system: System, fault: Fault, act: Callable[[str, str], None]) -> None:
    """Let the fault happen when the next move comes to its state, or a moment later.

    :param act: does it: kind and target of an ordinary fault.
    """
    state, side, kind = fault.target.split("~")
    chance = fault.chance

    def happen(move: Move | None) -> None:
        front = system.front
        if move is None or front is None:
            return
        if side == "readers":
            act("part", f"{FRONT.cu}~{FRONT.database}")
            return
        numbers = {"source": [move.source], "dest": [move.dest], "both": [move.source, move.dest], "front": []}[side]
        if not numbers:
            act("database-away", FRONT.database)
        for number in numbers:
            lcc, other = front.lccs[number], front.lccs[move.source + move.dest - number]
            if kind == "part":
                act(kind, f"{lcc.hosts.qm}~{chance.choice((FRONT.database, other.hosts.database))}")
            elif kind == "database-away":
                act(kind, lcc.hosts.database)
            else:
                act(kind, f"{lcc.prefix}qm")

    _wait(system, chance, MoveState(state), happen)


def restore_at_state(
    system: System, fault: Fault, back_up: Callable[[], None], put_back: Callable[[Lcc], None]
) -> None:
    """Back up all sub-LCCs, and put one of them back when the next move comes to a state, or if none does.

    :param back_up: does it.
    :param put_back: the other.
    """
    front, chance = system.front, fault.chance
    assert front is not None
    state, side = fault.target.split("~")
    lccs = front.lccs

    def happen(move: Move | None) -> None:
        if move is None:
            put_back(chance.choice(list(lccs.values())))
            return
        third = [number for number in lccs if number not in (move.source, move.dest)] or [move.source]
        put_back(lccs[{"source": move.source, "dest": move.dest, "third": third[0]}[side]])

    def begin() -> None:
        _wait(system, chance, MoveState(state), happen)

    back_up()
    front.watchers.append(lambda moves: _back_up_after(front, moves))
    system.timeline.call_later(fault.seconds, None, begin)


def _back_up_after(front: FrontEnd, moves: list[Move]) -> bool:
    """As operators are told to do it: a backup of before a move to a sub-LCC lacks the provider."""
    for move in moves:
        database = front.lccs[move.dest].database
        if move.state not in (MoveState.ACTIVE, MoveState.DONE) or database.kept is None:
            continue
        sql = "SELECT 1 FROM fenced WHERE pid = ? AND epoch >= ?"
        if not database.kept.execute(sql, [move.pid, move.epoch]).fetchone():
            database.backup()
    return True


def _wait(system: System, chance: Random, state: MoveState, happen: Callable[[Move | None], None]) -> None:
    """Call this when the next move comes to this state, or a moment later; with None if none does."""
    front, timeline = system.front, system.timeline
    assert front is not None
    until = timeline.now + _WAIT_SECONDS
    known = {move.id: move.state for move in front.moves}
    waits = [True]

    def over(move: Move | None) -> None:
        if waits[0]:
            waits[0] = False
            happen(move)

    def changed(moves: list[Move]) -> bool:
        if timeline.now > until:
            return False
        for move in moves:
            if move.state is state and known.get(move.id) is not move.state:
                delay = chance.choice((0.0, 0.01, 0.2, 1.0)) * chance.random()
                timeline.call_later(delay, None, over, move)
                return False
        known.update({move.id: move.state for move in moves})
        return True

    front.watchers.append(changed)
    timeline.call_later(_WAIT_SECONDS + 1.0, None, over, None)
