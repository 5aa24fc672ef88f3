"""Words that were meant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.search.suggestions import distance_of, nearest

WORDS = st.text("abc", max_size=7)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("abc", "abc", 0),
        ("serach", "search", 1),
        ("serch", "search", 1),
        ("a", "", 1),
        ("kitten", "sit", 4),
    ],
)
def test_distances(one: str, other: str, distance: int) -> None:
    assert distance_of(one, other, 10) == distance


def plain_distance(one: str, other: str) -> int:
    """The same, as it is defined."""
    table = {(at, 0): at for at in range(len(one) + 1)} | {(0, to): to for to in range(len(other) + 1)}
    for at in range(1, len(one) + 1):
        for to in range(1, len(other) + 1):
            cost = min(
                table[at - 1, to] + 1,
                table[at, to - 1] + 1,
                table[at - 1, to - 1] + (one[at - 1] != other[to - 1]),
            )
            if at > 1 and to > 1 and one[at - 2 : at] == other[to - 2 : to][::-1]:
                cost = min(cost, table[at - 2, to - 2] + 1)
            table[at, to] = cost
    return table[len(one), len(other)]


@given(WORDS, WORDS, st.integers(0, 4))
def test_distances_are_exact_up_to_the_maximum(one: str, other: str, maximum: int) -> None:
    distance, found = plain_distance(one, other), distance_of(one, other, maximum)
    assert found == distance if distance <= maximum else found > maximum


def always() -> bool:
    return True


def test_words_that_are_alike_without_end_cost_what_there_is_time_for() -> None:
    left = iter([True] * 5)
    read = []

    def texts() -> Iterator[set[str]]:
        for number in range(100):
            read.append(number)
            yield {f"search{letter}{number}" for letter in "abcdef"} | {"searched"}

    assert nearest("search", texts(), 2, lambda: next(left, False)) == ""
    assert len(read) == 6


def test_the_nearest_word_and_of_several_the_most_frequent() -> None:
    texts = [{"search", "march"}, {"search"}, {"serial", "perch"}, set[str]()]
    assert nearest("serach", texts, 2, always) == "search"
    assert nearest("xyz", texts, 2, always) == ""
    assert nearest("search", [{"search"}], 2, always) == ""
    assert nearest("cart", [{"card"}, {"care"}, {"care"}], 1, always) == "care"
