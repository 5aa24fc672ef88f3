"""One thing that goes wrong."""

from __future__ import annotations

from random import Random

import attrs


@attrs.frozen
class Fault:
    """One thing that goes wrong.

    :ivar time: seconds after the beginning.
    :ivar kind: a key of :data:`tests.simulation.faults.KINDS`.
    :ivar target: a process, or a machine; what it means depends on the kind.
    :ivar seconds: how long it lasts.
    :ivar number: decides the rest.
    """

    time: float
    kind: str
    target: str
    seconds: float
    number: int

    def __str__(self) -> str:
        return f"{self.time:.3f} {self.kind} {self.target} {self.seconds:.3f} {self.number}"

    @property
    def chance(self) -> Random:
        return Random(f"{self.kind} {self.target} {self.number}")


def parse_fault(text: str) -> Fault:
    """What ``str()`` of a fault says."""
    time, kind, target, seconds, number = text.split()
    return Fault(float(time), kind, target, float(seconds), int(number))
