"""What the judge of moves says about changes that a content user is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lcc.testing.simulated.timeline import Timeline

from .lcc_promises import LastChange, LccPromises
from .system import System
from .told_promises import ToldPromises

KEY = "00" * 20
ROW = {"state": "cached"}


class Judged:
    """A front end in which nothing goes wrong, and its content user."""

    def __init__(self, system: System) -> None:
        assert system.front is not None
        system.front.is_quiet = True
        self.timeline = system.timeline
        self.broken: list[str] = []
        self.copy = system.copy
        self.lcc = LccPromises(system.lcc, self._broken, lambda _: None, lambda: None)
        ToldPromises(self.copy, {system.lcc.number: self.lcc}, self._broken, system.front)

    def _broken(self, promise: str, text: str) -> None:
        self.broken.append(f"{promise}: {text}")

    def changes(self, number: int) -> None:
        """The page gets a change."""
        self.timeline.run_until(self.timeline.now + 1.0)
        self.lcc.changes[KEY] = LastChange(number, self.timeline.now)

    def is_told(self, had: bool) -> None:
        """The content user asks, and is told of the page."""
        self.timeline.run_until(self.timeline.now + 1.0)
        self.copy.asked_time = self.timeline.now
        self.timeline.run_until(self.timeline.now + 1.0)
        self.copy.applied(KEY, ROW, had)


@pytest.fixture
def judged() -> Iterator[Judged]:
    system = System(Timeline("1m"), with_moves=True)
    yield Judged(system)
    system.close()


def test_what_changed_and_changed_back_is_told_again(judged: Judged) -> None:
    """Another source named the page and took that back, while the content user rested (seed 88104m)."""
    judged.changes(12)
    judged.is_told(False)
    judged.changes(18)
    judged.changes(20)
    judged.is_told(True)
    assert judged.broken == []


def test_what_has_only_moved_is_not_told_again(judged: Judged) -> None:
    judged.changes(12)
    judged.is_told(False)
    judged.is_told(True)
    assert len(judged.broken) == 1 and judged.broken[0].startswith("P18")
