"""What goes wrong just when a site pushes."""

from __future__ import annotations

from random import Random

from .fault import Fault
from .system import System

AT_PUSH = "at-push"


def plan(system: System, until_seconds: float) -> list[Fault]:
    """What befalls a push server, or its UNS, when it has just written its tables (a push, the proof of a key, an
    answer of the UNS) or at any time: in the first case the kind is the target."""
    chance = system.timeline.random("push faults")
    faults = []
    for _ in range(chance.choice((0, 2, 6, 12))):
        kind = chance.choice(("kill", "kill", "kill", "stop", "freeze", "kill-uns", "part", "answer-lost"))
        faults.append(_fault(chance.uniform(0.0, until_seconds), AT_PUSH, kind, chance))
    for _ in range(chance.choice((0, 1, 3))):
        kind = chance.choice(("kill", "freeze", "part"))
        other = chance.choice([*system.lcc.hosts.unses, *(site.address for site in system.pushing)])
        target = f"{system.lcc.hosts.push}~{other}" if kind == "part" else "push"
        faults.append(_fault(chance.uniform(0.0, until_seconds), kind, target, chance))
    return faults


def _fault(time: float, kind: str, target: str, chance: Random) -> Fault:
    return Fault(round(time, 3), kind, target, round(chance.expovariate(1 / 3.0), 3), chance.randrange(1 << 30))
