"""What befalls those who carry out a move, just when it comes to a state."""

from __future__ import annotations

from collections.abc import Callable

from lcc.model.moves import Move, MoveState

from .fault import Fault
from .front import HOSTS as FRONT
from .system import System

STATES = (
    *(MoveState.PLANNED, MoveState.COPYING, MoveState.FREEZING, MoveState.FREEZING, MoveState.FLIPPED),
    *(MoveState.ACTIVE, MoveState.CANCELLED),
)
SIDES = ("source", "source", "dest", "dest", "both", "front")
KINDS = ("kill", "kill", "stop", "freeze", "part", "part", "database-away")
KIND = "at-move"
_MEANS = {"kill": 1.0, "stop": 1.0, "freeze": 15.0, "part": 6.0, "database-away": 4.0}
_WAIT_SECONDS = 20.0
"""So long a fault waits for a move that comes to its state."""


def plan(system: System, until_seconds: float) -> list[Fault]:
    """What befalls them: state, side and kind are the target."""
    chance = system.timeline.random("move faults")
    faults = []
    for _ in range(chance.choice((0, 2, 5, 10, 16))):
        kind = chance.choice(KINDS)
        target = f"{chance.choice(STATES).value}~{chance.choice(SIDES)}~{kind}"
        seconds = min(chance.expovariate(1 / _MEANS[kind]), 4 * _MEANS[kind])
        time = chance.uniform(0.0, until_seconds)
        faults.append(Fault(round(time, 3), KIND, target, round(seconds, 3), chance.randrange(1 << 30)))
    return faults


def wait_for_state(system: System, fault: Fault, act: Callable[[str, str], None]) -> None:
    """Let the fault happen when the next move comes to its state, or a moment later.

    :param act: does it: kind and target of an ordinary fault.
    """
    front = system.front
    assert front is not None
    state, side, kind = fault.target.split("~")
    chance, timeline = fault.chance, system.timeline
    until = timeline.now + _WAIT_SECONDS
    known = {move.id: move.state for move in front.moves}

    def changed(moves: list[Move]) -> bool:
        if timeline.now > until:
            return False
        for move in moves:
            if move.state.value == state and known.get(move.id) is not move.state:
                delay = chance.choice((0.0, 0.01, 0.2, 1.0)) * chance.random()
                timeline.call_later(delay, None, happen, move)
                return False
        known.update({move.id: move.state for move in moves})
        return True

    def happen(move: Move) -> None:
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

    front.watchers.append(changed)
