"""Nothing grows that should not, in six periods of an hour (``python -m tests.simulation --week`` runs a week)."""

from __future__ import annotations

import pytest

from .week import growing, kept, run_week


@pytest.mark.long
def test_nothing_grows_in_six_hours() -> None:
    wrong, events = run_week("0", period=3600.0, periods=6)
    assert not wrong, "\n".join(wrong)
    assert events > 100_000


def test_what_grows_is_found() -> None:
    assert growing([{"a": 10 * number, "b": 100 + number % 3, "c": 7} for number in range(8)]) == [
        "a: [0, 10, 20, 30, 40, 50, 60, 70]"
    ]


def test_what_is_kept_in_memory_is_counted() -> None:
    class Part:
        def __init__(self) -> None:
            self.seen = {number: object() for number in range(100)}

    part = Part()
    before = kept(part)
    part.seen.update({number: object() for number in range(100, 200)})
    assert kept(part) == before + 100
