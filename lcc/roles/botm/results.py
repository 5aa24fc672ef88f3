"""The results that the queue manager has not yet recorded."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from lcc.protocols.work import Done


class _Kept(NamedTuple):
    number: int
    order_id: str
    text: str
    files: range


class Results:
    """Numbers results in the order in which fetches end, and keeps each as it was sent until it is recorded.

    The numbers count from 1 in each run of the BOT-M, without a gap.
    """

    def __init__(self) -> None:
        self._last = 0
        self._kept: deque[_Kept] = deque()
        self._ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, order_id: str) -> bool:
        """There is a result of this order that is not yet recorded."""
        return order_id in self._ids

    @property
    def next_number(self) -> int:
        """The number that the next result must have."""
        return self._last + 1

    def add(self, done: Done) -> str:
        """Keep a result that has :attr:`next_number`; what is to be sent."""
        self._last = done.number
        text = done.to_xml()
        first = done.file
        files = range(0) if first is None else range(first, first + done.files.count(",") + 1)
        self._kept.append(_Kept(done.number, done.id, text, files))
        self._ids.add(done.id)
        return text

    def recorded(self, upto: int) -> None:
        """The results with numbers up to this one are on stable storage."""
        kept = self._kept
        while kept and kept[0].number <= upto:
            self._ids.discard(kept.popleft().order_id)

    @property
    def files(self) -> set[int]:
        """The content files of the results that are not yet recorded."""
        return {file for kept in self._kept for file in kept.files}

    def unrecorded(self) -> str:
        """All that is to be sent again, in order."""
        return "".join([kept.text for kept in self._kept])
