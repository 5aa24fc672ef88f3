"""What providers owe of which nothing is held at the moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.fetches.debts import KEPT_SECONDS, Debts
from lcc.roles.bot.run import PAY_SECONDS_MAX


def test_it_is_given_back_once() -> None:
    debts = Debts()
    debts.keep(5, 11.0, 10.0)
    assert [debts.take(6), debts.take(5), debts.take(5)] == [0.0, 11.0, 0.0]


def test_a_long_one_is_kept_for_a_moment() -> None:
    debts = Debts()
    debts.keep(5, 1000.0, 10.0)
    assert debts.take(5) == 10.0 + KEPT_SECONDS


def test_a_robot_waits_for_what_is_kept() -> None:
    assert KEPT_SECONDS <= PAY_SECONDS_MAX


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(-1, 99), st.floats(0, 1)), max_size=60))
def test_what_is_over_is_forgotten(kept: list[tuple[int, float, float]]) -> None:
    debts, now, model = Debts(), 100.0, dict[int, float]()
    for pid, owed, passed in kept:
        now += passed
        debts.keep(pid, now + owed, now)
        if owed > 0:
            model[pid] = max(model.get(pid, 0.0), now + min(owed, KEPT_SECONDS))
    for number in range(1000, 1010):
        debts.keep(number, now + KEPT_SECONDS + 1, now)
    assert len(debts) <= 10 + sum(end > now for end in model.values()) + 9
    for pid, end in model.items():
        assert debts.take(pid) in (end, 0.0) if end <= now else debts.take(pid) == end
    later = now + KEPT_SECONDS + 1
    debts.keep(1, 0.0, later)
    assert len(debts) == 0


def test_a_debt_is_kept_for_two_seconds_and_not_after_its_end() -> None:
    debts = Debts()
    debts.keep(1, 100.0, 0.0)
    assert debts.take(1) == 2.0
    debts.keep(1, 0.5, 0.0)
    assert debts.take(1) == 0.5
    debts.keep(1, 1.0, 0.0)
    debts.keep(2, 3.0, 1.0)
    assert len(debts) == 1
