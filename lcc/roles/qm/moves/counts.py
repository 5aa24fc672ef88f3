"""What is counted of moves of providers, for metrics and the console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from lcc.model.frontend.moves import UNFINISHED, Move, MoveState
from lcc.model.metrics import Histogram

FREEZE_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Buckets of how long providers stood still."""


@attrs.define
class MoveCounts:
    """
    :ivar under_way: moves to this LCC that are not over, as they were read last.
    :ivar ended: arrived, left, cancelled -> moves since the start of the process.
    :ivar given_up: freezes after which a provider went on where it was.
    :ivar rows: rows that were copied, again and again included.
    :ivar content_bytes: content of providers that have come here.
    :ivar freezes: how long providers stood still that have come here.
    :ivar frozen: providers that stand still to come here -> since when, on the clock.
    """

    under_way: Sequence[Move] = ()
    ended: Counter[str] = attrs.field(factory=lambda: Counter({"arrived": 0, "left": 0, "cancelled": 0}))
    given_up: int = 0
    rows: int = 0
    content_bytes: int = 0
    freezes: Histogram = attrs.field(factory=lambda: Histogram(FREEZE_SECONDS))
    frozen: dict[int, float] = attrs.field(factory=dict)
    _since: dict[tuple[int, MoveState], float] = attrs.field(factory=dict)
    """Number of a move and its state -> since when, on the clock."""

    def read(self, moves: Sequence[Move], now: float) -> None:
        """All moves to this LCC were read.

        :param now: on the clock.
        """
        self.under_way = [move for move in moves if move.state in UNFINISHED]
        states = [(move.id, move.state) for move in self.under_way]
        self._since = {each: self._since.get(each, now) for each in states}
        # An earlier process may have frozen it: then it stood still for longer than is known here.
        still = {move.pid: self.frozen.get(move.pid, now) for move in moves if move.state is MoveState.FREEZING}
        # One that has flipped goes on as soon as it is admitted.
        flipped = {move.pid for move in moves if move.state is MoveState.FLIPPED}
        self.frozen = still | {pid: self.frozen[pid] for pid in flipped & self.frozen.keys()}

    def stands_still(self, pid: int, now: float) -> None:
        """It has been frozen."""
        self.frozen[pid] = now

    def goes_on(self, pid: int, now: float, *, here: bool) -> None:
        """It stands still no longer.

        :param here: it is in this LCC now.
        """
        since = self.frozen.pop(pid, now)
        if here:
            self.freezes.add(now - since)
        else:
            self.given_up += 1

    def frozen_seconds(self, now: float) -> float:
        """How long the one has stood still that has for the longest; 0: none does."""
        return now - min(self.frozen.values(), default=now)

    def by_state(self) -> dict[str, int]:
        """Moves under way."""
        states = Counter(move.state.value for move in self.under_way)
        return {state.value: states[state.value] for state in UNFINISHED}

    def state_seconds(self, now: float) -> dict[str, float]:
        """For how long a move has been in each state, at most, as far as this process has seen; 0: none is."""
        longest = {state.value: 0.0 for state in UNFINISHED}
        for (_, state), since in self._since.items():
            longest[state.value] = max(longest[state.value], now - since)
        return longest

    @property
    def waiting_for_repair(self) -> int:
        """Moves of which the front end's database knows less than the sub-LCCs."""
        return sum(move.number("behind") for move in self.under_way)

    @property
    def rows_behind(self) -> int:
        """Rows that had changed when they were last looked at."""
        return sum(move.number("changed") for move in self.under_way)

    @property
    def files_left(self) -> int:
        """Content files that are still to be copied."""
        return sum(move.number("content_left") for move in self.under_way)
