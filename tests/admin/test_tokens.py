"""Tokens: what can be continued, and what cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.roles.cu.tokens import StartAgain, Token, TokenError, check_token, parse_token

NUMBERS = st.integers(0, 2**63 - 1)


@given(NUMBERS, NUMBERS, st.from_regex(r"[0-9a-f]{1,16}", fullmatch=True))
def test_a_token_survives_being_text(number: int, begun: int, selection: str) -> None:
    token = Token("0123456789abcdef", number, begun, selection)
    again = parse_token(str(token))
    assert (again.timeline, again.number, again.selection) == (token.timeline, number, selection)
    # Once the reading has come that far, where it began is of no interest.
    assert max(again.number, again.begun) == max(number, begun)


@pytest.mark.parametrize(
    "text", ["1", "a", "a.1", "a.1.2", "a.1.2.3.4", "a.-1.0.0", "a b.1.0.0", ".1.0.0", "a.1.0.٣"]
)
def test_other_texts_are_no_tokens(text: str) -> None:
    with pytest.raises(TokenError):
        parse_token(text)


def test_a_token_of_this_database_is_good() -> None:
    check_token(Token("e", 5), 9, 5, "0")
    check_token(Token("e", 9), 9, 0, "0")


@pytest.mark.parametrize(
    ("token", "known_upto", "why"),
    [
        (Token("other", 5), None, "another database"),
        (Token("e", 10), 9, "later state"),
        (Token("e", 3), 9, "no longer known"),
        (Token("e", 0, begun=3), 9, "no longer known"),
    ],
)
def test_what_would_miss_something_starts_again(token: Token, known_upto: int | None, why: str) -> None:
    with pytest.raises(StartAgain, match=why):
        check_token(token, known_upto, 4, "0")


def test_a_slow_first_reading_needs_only_deletions_since_it_began() -> None:
    check_token(Token("e", 1, begun=5), 9, 4, "0")


@pytest.mark.parametrize(("its", "asked"), [("0", "a"), ("a", "0"), ("a", "b")])
def test_a_token_belongs_to_its_selection(its: str, asked: str) -> None:
    with pytest.raises(TokenError, match="another selection"):
        check_token(Token("e", 5, selection=its), 9, 0, asked)
