"""Tokens of a front end as texts: what they say, what is none, and what is left of them when a sub-LCC is removed."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.numbers import INT64_MAX
from lcc.roles.cu.front.tokens import (
    ALL_IMPORTS,
    FrontToken,
    Position,
    check_removed,
    is_front_token,
    parse_front_token,
    position_at,
)
from lcc.roles.cu.tokens import StartAgain, Token, TokenError

KEY = bytes(range(20))

TEXTS = [
    ("fe2~0~0", FrontToken("0", {})),
    ("fe1~0", FrontToken("0", {}, knows_moves=False)),
    ("fe2~af~7~2.a-B_9.12.0", FrontToken("af", {2: Position("a-B_9", 12, 0, "af", 7)})),
    # Where the reading from the beginning began, while it goes on; and then no imports of its own.
    ("fe2~0~7~2.a.12.15", FrontToken("0", {2: Position("a", 12, 15, "0", 7, 15)})),
    ("fe1~0~2.a.12.15~1.b.3.0", FrontToken("0", {2: Position("a", 12, 15, "0", 0, 15), 1: Position("b", 3)}, False)),
    ("fe2~0~7~2.a.12.15.i20", FrontToken("0", {2: Position("a", 12, 15, "0", 7, 20)})),
    ("fe2~0~7~2.a.12.0.i13", FrontToken("0", {2: Position("a", 12, 0, "0", 7, 13)})),
    (
        "fe2~0~7~2.a.12.0.f3~1.b.1.0",
        FrontToken("0", {2: Position("a", 12, 0, "0", 3), 1: Position("b", 1, 0, "0", 7)}),
    ),
    ("fe2~0~7~2.a.12.0.b5", FrontToken("0", {2: Position("a", 12, 0, "0", 7, 0, 5)})),
    ("fe2~0~7~2.a.12.0.i6.b5", FrontToken("0", {2: Position("a", 12, 0, "0", 7, 6, 5)})),
    ("fe2~0~7~2.a.12.0.b0", FrontToken("0", {2: Position("a", 12, 0, "0", 7, 0, 0)})),
    (f"fe2~0~7~2.a.12.0.k6.{KEY.hex()}", FrontToken("0", {2: Position("a", 12, 0, "0", 7, 0, None, (6, KEY))})),
    (
        f"fe2~0~7~2.a.12.15.f6.i{INT64_MAX}.b3.k{INT64_MAX}.{KEY.hex()}~2147483647.b.{INT64_MAX}.0",
        FrontToken(
            "0",
            {
                2: Position("a", 12, 15, "0", 6, ALL_IMPORTS, 3, (INT64_MAX, KEY)),
                2147483647: Position("b", INT64_MAX, 0, "0", 7),
            },
        ),
    ),
]


@pytest.mark.parametrize(("text", "token"), TEXTS)
def test_what_a_token_says(text: str, token: FrontToken) -> None:
    found = parse_front_token(f" {text}\n")
    assert found == token and str(found) == str(token) == text
    assert list(found.positions) == list(token.positions), "they are read in this order"
    assert is_front_token(text) and is_front_token(f" {text}")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("2.a.12.0.i12", Position("a", 12, 0, "0", 7)),
        ("2.a.12.0.b12", Position("a", 12, 0, "0", 7)),
        ("2.a.12.0.i5.b5", Position("a", 12, 0, "0", 7, 0, 5)),
        ("2.a.12.5", Position("a", 12, 5, "0", 7, 5)),
        ("2.a.12.15.i15", Position("a", 12, 15, "0", 7, 15)),
        ("2.a.12.0.f7", Position("a", 12, 0, "0", 7)),
    ],
)
def test_what_goes_without_saying_may_be_said(text: str, position: Position) -> None:
    assert parse_front_token(f"fe2~0~7~{text}").positions == {2: position}


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position("a", 12, 0, "0", 7, 3), "12.0"),
        (Position("a", 12, 0, "0", 7, 12), "12.0"),
        (Position("a", 12, 12, "0", 7, 12), "12.0"),
        (Position("a", 12, 9, "0", 7, 9), "12.0"),
        (Position("a", 12, 12, "0", 7, 12, 5), "12.0.i12.b5"),
        (Position("a", 12, 15, "0", 7, 15, 5), "12.15.b5"),
        (Position("a", 0, 0, "0", 7, 1), "0.0.i1"),
        (Position("a", 12, 0, "0", 7, 0, 12), "12.0"),
    ],
)
def test_what_goes_without_saying_is_not_said(position: Position, text: str) -> None:
    assert str(FrontToken("0", {2: position})) == f"fe2~0~7~2.a.{text}"


SUB = "1.a.1.0"


@pytest.mark.parametrize(
    "text",
    [
        *["", "0", "fe", "fe3~0~1", "fe3~0~1.a.1.0", "fe1~", "fe2~", "fe2~0", "a.1.0.0", "xfe2~0~1", f"fe1~0~{SUB}~"],
        *["fe1~g", "fe1~A", "fe1~00000000000000000", "fe2~0~", "fe2~0~-1", "fe2~0~x", f"fe2~0~{INT64_MAX + 1}"],
        *[
            f"fe2~0~1~{SUB}~{SUB}",
            f"fe1~0~{SUB}.f1",
            f"fe1~0~{SUB}.i9",
            f"fe1~0~{SUB}.k1.{KEY.hex()}",
            "fe1~0~0.a.1.0",
        ],
        *["fe1~0~2147483648.a.1.0", "fe1~0~1..1.0", f"fe1~0~1.{'a' * 65}.1.0", "fe1~0~1.ä.1.0", "fe1~0~1.a.-1.0"],
        *[f"fe1~0~1.a.{INT64_MAX + 1}.0", f"fe1~0~1.a.1.{INT64_MAX + 1}", "fe1~0~1.a.1", "fe1~0~1.a.1.0.", "fe1~0~x"],
        *[f"fe2~0~1~{SUB}.{more}" for more in ("f", "i", "b", "k1", "k1.00", "x1", "b1.f1", f"f{INT64_MAX + 1}")],
        *[
            f"fe2~0~1~{SUB}.{more}"
            for more in (f"i{INT64_MAX + 1}", f"b{INT64_MAX + 1}", f"k{INT64_MAX + 1}.{KEY.hex()}")
        ],
        f"fe2~0~1~{SUB}.k1.{KEY.hex().upper().replace('0', 'A')}",
    ],
)
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(TokenError, match="is no token of a front end") as raised:
        parse_front_token(text)
    assert raised.value.__suppress_context__


def test_a_token_is_of_a_thousand_sub_lccs_at_most() -> None:
    for head in ("fe1~0", "fe2~0~1"):
        text = head + "".join(f"~{subid}.a.1.0" for subid in range(1, 1001))
        assert len(parse_front_token(text).positions) == 1000
        with pytest.raises(TokenError) as raised:
            parse_front_token(text + "~1001.a.1.0")
        assert str(raised.value) == f"{text[:200]!r} is no token of a front end"
        with pytest.raises(TokenError):
            parse_front_token(text + "~1001.a.1.0" * 9)


NUMBER = st.one_of(st.integers(0, 12), st.integers(0, INT64_MAX))
POSITIONS = st.builds(
    Position,
    *(st.from_regex(r"[0-9A-Za-z_-]{1,64}", fullmatch=True), NUMBER, NUMBER, st.just("0"), NUMBER, NUMBER),
    *(st.none() | NUMBER, st.none() | st.tuples(NUMBER, st.binary(min_size=20, max_size=20))),
)


@given(st.dictionaries(st.integers(1, 2**31 - 1), POSITIONS, max_size=5))
def test_a_text_says_where_each_stands(positions: dict[int, Position]) -> None:
    """And again the same text: what it leaves out is what holds without saying."""
    token = FrontToken("0", positions)
    found = parse_front_token(str(token))
    assert str(found) == str(token) and found.flip == token.flip
    for subid, position in positions.items():
        again = found.positions[subid]
        assert (again.timeline, again.number, again.flip, again.seen, again.after) == (
            *(position.timeline, position.number, position.flip, position.seen, position.after),
        )
        assert again.begun == (position.begun if position.begun > position.number else 0)
        if position.imports > position.seen:
            assert again.imports == position.imports


def test_a_position_of_a_token_of_one_lcc() -> None:
    token = Token("a", 12, 15, "af")
    assert position_at(token) == Position("a", 12, 15, "af")
    assert position_at(token, 3, 20) == Position("a", 12, 15, "af", 3, 20)
    assert Position("a", 12).seen == 12 and Position("a", 12, base=0).seen == 0
    assert FrontToken("0", {}).flip == 0


def test_what_is_left_of_a_token_when_sub_lccs_are_removed() -> None:
    token = FrontToken("0", {3: Position("c", 9), 1: Position("a", 5), 2: Position("b", 7, base=6)})
    assert check_removed(token, {1, 2, 3}, {}) == token
    left = check_removed(token, {1, 3}, {2: 6})
    assert left == attrs.evolve(token, positions={3: Position("c", 9), 1: Position("a", 5)})
    assert list(left.positions) == [3, 1]
    assert check_removed(token, set(), {1: 5, 2: 0, 3: 1}).positions == {}
    for removed in ({}, {2: None}, {2: 7}, {1: 1}):
        with pytest.raises(StartAgain, match="was removed"):
            check_removed(token, {1, 3}, removed)
    assert check_removed(token, {2, 3, 4}, {1: 5, 2: 99}).positions.keys() == {2, 3}
