"""Hours as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.fetches.hours import hours_text, parse_hours


def slots_of(text: str, slots: int = 24) -> list[int]:
    mask = parse_hours(text, slots)
    assert 0 < mask < 1 << slots
    return [slot for slot in range(slots) if mask >> slot & 1]


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("", list(range(24))),
        ("  ", list(range(24))),
        ("0-8", list(range(8))),
        ("0-24", list(range(24))),
        ("12", [12]),
        ("22-6,12", [0, 1, 2, 3, 4, 5, 12, 22, 23]),
        ("22-0", [22, 23]),
        ("23-24", [23]),
        ("8 - 10 , 9-11", [8, 9, 10]),
        ("00-01", [0]),
    ],
)
def test_a_day(text: str, slots: list[int]) -> None:
    assert slots_of(text) == slots


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("mon 0-8", list(range(8))),
        ("Mon 22-6", [22, 23, 24, 25, 26, 27, 28, 29]),
        ("sun 22-6", [0, 1, 2, 3, 4, 5, 166, 167]),
        ("tue", list(range(24, 48))),
        ("tue 12", [36]),
        ("sat-mon 1", [1, 121, 145]),
        ("mon - sun", list(range(168))),
        ("5", [5, 29, 53, 77, 101, 125, 149]),
        ("mon 1, 0-1", [0, 1, 24, 48, 72, 96, 120, 144]),
    ],
)
def test_a_week(text: str, slots: list[int]) -> None:
    assert slots_of(text, 168) == slots


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (",", "not like"),
        ("0-8,", "not like"),
        ("a", "not like"),
        ("0-", "not like"),
        ("-8", "not like"),
        ("0-8-9", "not like"),
        ("1 2", "not like"),
        ("0.5", "not like"),
        ("٣", "not like"),
        ("24", "the last one is 23"),
        ("24-2", "the last one is 23"),
        ("0-25", "24 at most"),
        ("99999", "not like"),
        ("5-5", "same hour"),
        ("mon 0-8", "not a week"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_hours(text)


def test_refused_in_a_week() -> None:
    for text in ("foo 0-8", "mon-", "mon mon", "monday", "0-8 mon"):
        with pytest.raises(ValueError, match="not like"):
            parse_hours(text, 168)


def test_other_periods() -> None:
    assert slots_of("0-2,58-1", 60) == [0, 1, 58, 59]


@given(st.integers(0, 23), st.integers(0, 24))
def test_a_range_and_its_complement(first: int, end: int) -> None:
    if first == end or end == 24:
        return
    one, other = parse_hours(f"{first}-{end}"), parse_hours(f"{end}-{first}")
    assert one & other == 0
    assert one | other == parse_hours("")


@given(st.text("0123456789-, montuefri", max_size=30), st.sampled_from([24, 168]))
def test_any_text_gives_a_mask_or_a_value_error(text: str, slots: int) -> None:
    try:
        mask = parse_hours(text, slots)
    except ValueError:
        return
    assert 0 < mask < 1 << slots


def test_hours_that_are_said_as_one_would() -> None:
    assert [hours_text(parse_hours(text)) for text in ("", "22-6", "0-8,12", "23", "0-24")] == [
        *("", "22-6", "0-8,12-13", "23-24", "")
    ]


@given(st.integers(1, (1 << 24) - 1))
def test_what_is_said_of_hours_is_understood(mask: int) -> None:
    assert parse_hours(hours_text(mask)) == mask


@pytest.mark.parametrize("day", ["mon", "tue", "wed", "thu", "fri", "sat", "sun"])
def test_each_day_has_a_name_of_three_letters(day: str) -> None:
    number = ("mon", "tue", "wed", "thu", "fri", "sat", "sun").index(day)
    assert parse_hours(f"{day} 1", 168) == 1 << (number * 24 + 1)


def test_a_period_of_other_slots_has_no_more_of_them() -> None:
    assert parse_hours("0-9999", 9999) == 2**9999 - 1
    with pytest.raises(ValueError, match="begins at 9999"):
        parse_hours("9999", 9999)
