"""What goes wrong just when a site registers."""

from __future__ import annotations

from .fault import Fault
from .system import System

AT_CHECK = "at-check"
AT_MAKING = "at-making"


def plan(system: System, until_seconds: float) -> list[Fault]:
    """What befalls a registration server, or what it needs, while a secret is checked, or when it has just made a
    provider: the kind is the target."""
    chance = system.timeline.random("registration faults")
    kinds = ("kill", "kill", "kill", "freeze", "stop", "database-away", "database-troubles")
    faults = []
    for _ in range(chance.choice((0, 2, 6, 12))):
        kind, seconds = chance.choice(kinds), chance.expovariate(1 / 2.0)
        time = chance.uniform(0.0, until_seconds)
        faults.append(Fault(round(time, 3), AT_CHECK, kind, round(seconds, 3), chance.randrange(1 << 30)))
    for _ in range(chance.choice((0, 1, 2, 3))):
        kind, seconds = chance.choice(("kill", "kill", "answer-lost")), chance.expovariate(1 / 2.0)
        time = chance.uniform(0.0, until_seconds / 2)
        faults.append(Fault(round(time, 3), AT_MAKING, kind, round(seconds, 3), chance.randrange(1 << 30)))
    return faults
