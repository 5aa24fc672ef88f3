"""Which of the faults of a run are needed for what went wrong."""

from __future__ import annotations

from collections.abc import Callable

from .fault import Fault


def shrink(faults: list[Fault], fails: Callable[[list[Fault]], bool], runs_max: int = 200) -> list[Fault]:
    """The faults without those that are not needed (delta debugging: halves first, single ones last).

    :param fails: runs the world with these faults; it still goes wrong.
    :param runs_max: so often at most.
    """
    pieces = 2
    runs = 0
    while len(faults) > 1 and runs < runs_max:
        size = max(1, len(faults) // pieces)
        for start in range(0, len(faults), size):
            rest = faults[:start] + faults[start + size :]
            runs += 1
            if fails(rest):
                faults = rest
                pieces = max(pieces - 1, 2)
                break
            if runs >= runs_max:
                break
        else:
            if size == 1:
                break
            pieces = min(pieces * 2, len(faults))
    if len(faults) == 1 and fails([]):
        return []
    return faults
