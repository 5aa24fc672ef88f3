"""Nothing grows that should not, in six periods of an hour (``python -m tests.simulation --week`` runs a week)."""

from __future__ import annotations

import pytest

from lcc.roles.qm.maintenance.slots import SlotOpener

from .week import growing, kept, run_week


def test_an_hour_of_it() -> None:
    """All is told, fetched and polled; what grows wants more time."""
    wrong, events = run_week("0", period=1200.0, periods=3)
    lacking = [text for text in wrong if text.startswith("period ")]
    assert not lacking, "\n".join(lacking)
    assert events > 10_000


@pytest.mark.long
def test_nothing_grows_in_six_hours() -> None:
    wrong, events = run_week("0", period=3600.0, periods=6)
    assert not wrong, "\n".join(wrong)
    assert events > 100_000


@pytest.mark.long
def test_pages_that_wait_for_hours_that_are_never_opened_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    open_one = SlotOpener._open_one

    async def not_the_first(opener: SlotOpener, slot: int) -> None:
        if slot:
            await open_one(opener, slot)

    monkeypatch.setattr(SlotOpener, "_open_one", not_the_first)
    wrong, _ = run_week("0", period=3600.0, periods=3)
    assert any(text.endswith("p7.html is not in the cache") for text in wrong)


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
