"""Bandwidth: whatever comes, no window of time sees more than was allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.fetches.bandwidth import after_start, changed, charge

fetches = st.lists(
    st.tuples(st.floats(0, 50), st.floats(0.001, 20), st.integers(0, 100_000)), min_size=1, max_size=40
)
"""(how long after it may start it does start, how long it takes, what it brings)"""


@given(fetches, st.integers(1, 50_000))
def test_of_a_provider(plan: list[tuple[float, float, int]], rate: int) -> None:
    now = allowed = 1000.0
    ended: list[tuple[float, int]] = []
    for pause, duration, count in plan:
        now = max(now, allowed) + pause
        now += duration
        ended.append((now, count))
        allowed = charge(allowed, now, count, rate)
    for first in range(len(ended)):
        for last in range(first, len(ended)):
            window = ended[last][0] - ended[first][0]
            total = sum(count for _, count in ended[first : last + 1])
            assert total <= 1.05 * rate * window + ended[last][1] + 1e-3 * rate


@given(fetches, st.integers(1, 50_000), st.integers(1, 5))
def test_of_the_site(plan: list[tuple[float, float, int]], rate: int, parallel: int) -> None:
    """Several are under way at once; none starts while anything is owed."""
    now = allowed = 1000.0
    running: list[tuple[float, float, int]] = []
    done: list[tuple[float, float, int]] = []
    for pause, duration, count in plan:
        now += pause
        while running and (len(running) >= parallel or min(running)[0] <= max(now, allowed)):
            end, start, size = min(running)
            running.remove((end, start, size))
            now = max(now, end) if len(running) + 1 >= parallel else now
            allowed = charge(allowed, end, size, rate)
            done.append((end, start, size))
        now = max(now, allowed)
        running.append((now + duration, now, count))
    for end, start, size in sorted(running):
        done.append((end, start, size))
    done.sort()
    for first in range(len(done)):
        for last in range(first, len(done)):
            begin, finish = done[first][0], done[last][0]
            total = sum(size for _, _, size in done[first : last + 1])
            starts = [start for _, start, _ in done if start <= finish]
            latest = max(starts)
            in_flight = sum(size for end, start, size in done if start <= latest <= end)
            assert total <= 1.05 * rate * (finish - begin) + in_flight + 1e-3 * rate


def test_without_a_limit_nothing_is_owed() -> None:
    assert charge(0.0, 5.0, 1000, None) == charge(99.0, 5.0, 1000, 0) == 0.0


def test_nothing_that_came_costs_nothing() -> None:
    assert charge(0.0, 5.0, 0, 10) == 0.0
    assert charge(8.0, 5.0, 0, 10) == 8.0


def test_debts_add_up() -> None:
    assert charge(charge(0.0, 100.0, 50, 10), 101.0, 20, 10) == 107.0


def test_a_new_rate_is_the_price_of_what_is_owed() -> None:
    assert changed(110.0, 100.0, 10, 100) == 101.0
    assert changed(110.0, 100.0, None, 100) == 110.0
    assert changed(110.0, 100.0, 10, None) == changed(90.0, 100.0, 10, 5) == 0.0


def test_without_a_rate_nothing_is_owed_and_without_bytes_nothing_more() -> None:
    assert charge(50.0, 10.0, 100, None) == charge(50.0, 10.0, 100, 0) == 0.0
    assert charge(50.0, 10.0, 0, 5) == 50.0
    assert charge(10.0, 10.0, 0, 5) == 0.0
    assert charge(10.0, 10.0, 1, 4) == 10.25
    assert (charge(50.0, 10.0, 100, 5), charge(0.0, 10.0, 100, 5)) == (70.0, 30.0)


def test_an_interval_runs_from_the_start() -> None:
    assert after_start(0.0, 100.0, 10.0) == 110.0
    assert after_start(200.0, 100.0, 10.0) == 200.0
    assert after_start(200.0, 300.0, 0.0) == 200.0


def test_another_rate_is_another_price_for_what_is_owed() -> None:
    assert changed(30.0, 10.0, 100, 50) == 50.0
    assert changed(30.0, 10.0, None, 50) == 30.0
    assert changed(30.0, 10.0, 100, None) == 0.0
    assert changed(10.0, 10.0, 100, 50) == 0.0
