"""The rows of a benchmark: figures, ratios, goals."""

from __future__ import annotations

import pytest
from rows import Row, at_least, at_most, dumped, loaded, rows_table


def test_ratio_is_of_the_turns_not_of_the_medians() -> None:
    row = Row("a", "pages/s", [10, 20, 90], "curl", [100, 40, 100], goal=at_least(0.5))
    assert row.ratios == [0.1, 0.5, 0.9]
    assert row.figure == 0.5
    assert row.reached is True


@pytest.mark.parametrize(("goal", "reached"), [(at_least(0.51), False), (at_most(0.5, True), True), (None, None)])
def test_a_goal_against_the_peer(goal: object, reached: bool | None) -> None:
    assert Row("a", "ms", [1, 1], "small", [2, 2], goal=goal).reached is reached  # type: ignore[arg-type]


def test_a_goal_for_the_figure_itself_takes_the_median_and_a_peak_the_largest() -> None:
    figures = [10, 20, 90]
    assert Row("a", "ms", figures, goal=at_most(20)).reached is True
    assert Row("a", "MB", figures, goal=at_most(20), peak=True).reached is False


def test_runs_of_peer_and_ours_are_pairs() -> None:
    with pytest.raises(ValueError, match="2 runs of ours, 1 of the peer"):
        Row("a", "ms", [1, 2], "curl", [1])
    with pytest.raises(ValueError, match="not measured"):
        Row("a", "ms", [1, 2], goal=at_least(1))


def test_rows_survive_json() -> None:
    rows = [
        Row("a", "pages/s", [1.5, 2], "curl", [3, 4], at_least(0.4), note="loopback"),
        Row("b", "MB", [60], goal=at_most(60), peak=True),
    ]
    assert loaded(dumped(rows)) == rows


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": [{"name": "a"}]}', '{"rows": [{"goal": null, "x": 1}]}'])
def test_what_is_no_rows_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        loaded(text)


def test_table_shows_goal_and_whether_it_is_reached() -> None:
    lines = rows_table(
        [
            Row("fast", "pages/s", [16000, 12000, 13000], "curl", [16000, 16000, 16000], at_least(0.8)),
            Row("small", "MB", [61], goal=at_most(60), peak=True),
            Row("told", "ms", [0.123456]),
        ]
    ).splitlines()[2:]
    assert lines == [
        "| fast | 13,000 (12,000 to 16,000) pages/s | curl | 16,000 (16,000 to 16,000) |"
        " 0.812 (0.75 to 1) | ≥ 0.8 x peer | yes | 3 |",
        "| small | 61 MB |  |  |  | ≤ 60 MB | **no** | 1 |",
        "| told | 0.123 ms |  |  |  |  |  | 1 |",
    ]
