"""The parts of a soak that are judged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

_Any = TypeVar("_Any")


def quarters(found: Sequence[_Any]) -> list[Sequence[_Any]]:
    """The second, third and last quarter, because the first one warms up; at least one each."""
    ends = [number * len(found) // 4 for number in range(1, 5)]
    return [found[first : max(last, first + 1)] or found[-1:] for first, last in pairwise(ends)]
