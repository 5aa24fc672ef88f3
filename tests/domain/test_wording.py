"""Numbers and lengths of time as people read them."""

from __future__ import annotations

import pytest

from lcc.domain.wording import duration, more, number


def test_numbers_of_things() -> None:
    assert [number(count, "URL") for count in (0, 1, 2, 2000)] == ["0 URLs", "1 URL", "2 URLs", "2,000 URLs"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 seconds"),
        (0.9, "0 seconds"),
        (1, "1 second"),
        (2, "2 seconds"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (179.9, "2 minutes"),
        (7199, "119 minutes"),
        (7200, "2 hours"),
        (10799, "2 hours"),
        (172799, "47 hours"),
        (172800, "2 days"),
        (259199, "2 days"),
        (10 * 86400, "10 days"),
    ],
)
def test_lengths_of_time_in_the_largest_unit_of_which_there_are_two(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_list_says_how_many_it_does_not_show() -> None:
    assert more(10, 1010, "URL") == [("", "… and 1,000 URLs more")]
    assert more(10, 11, "URL") == [("", "… and 1 URL more")]
    assert more(10, 10, "URL") == more(10, 9, "URL") == []
