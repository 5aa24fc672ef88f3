"""Sets of numbers that are nearly without gaps, as text."""

from __future__ import annotations

from bisect import bisect_right

TEXT_CHARS = 6000
"""The longest text: of numbers below ten million some 370 ranges."""


class NumberRanges:
    """Positive numbers, as ascending ranges that do not touch.

    :param text: as ``str()`` gives it: ``1-41 43-77``.
    """

    def __init__(self, text: str = "") -> None:
        ranges = [part.split("-") for part in text.split()]
        self._firsts = [int(first) for first, _ in ranges]
        self._lasts = [int(last) for _, last in ranges]

    def __str__(self) -> str:
        parts: list[str] = []
        room = TEXT_CHARS
        for first, last in reversed(self.pairs):
            part = f"{first}-{last}"
            room -= len(part) + 1
            if room < 0:
                break
            parts.append(part)
        return " ".join(reversed(parts))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """First and last number of each range."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def add(self, first: int, last: int) -> None:
        """Add the numbers from the first to the last."""
        begin = bisect_right(self._lasts, first - 2)  # the first range that touches it
        end = bisect_right(self._firsts, last + 1)  # behind the last one
        if begin < end:
            first = min(first, self._firsts[begin])
            last = max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]
