"""The clock of a simulated world."""

from __future__ import annotations

from lcc.testing.simulated.timeline import EPOCH, Timeline


def test_a_delay_that_is_lost_in_the_time_moves_it_all_the_same() -> None:
    timeline = Timeline("1")
    boot = timeline.now - 1.0
    seen: list[float] = []

    def again() -> None:
        seen.append(timeline.now - boot)
        if len(seen) < 100:
            timeline.call_later(1e-12, None, again)

    timeline.call_later(0.0, None, again)
    timeline.run_until(EPOCH + 1.0)

    assert len(seen) == 100
    assert seen == sorted(set(seen))


def test_no_delay_is_now() -> None:
    timeline = Timeline("1")
    seen: list[float] = []
    timeline.call_later(0.0, None, lambda: seen.append(timeline.now))
    timeline.run_until(EPOCH)

    assert seen == [EPOCH]
