"""Tokens of content users: what they are, and when the changes since one can be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.numbers import INT64_MAX
from lcc.roles.cu.tokens import BEGINNING, NOW, StartAgain, Token, TokenError, check_token, parse_token
from lcc.storage.views.selected import EVERYTHING

TIMELINES = st.from_regex(r"\A[0-9A-Za-z_-]{1,64}\Z")


@given(TIMELINES, st.integers(0, INT64_MAX), st.integers(0, INT64_MAX), st.from_regex(r"\A[0-9a-f]{1,16}\Z"))
def test_a_token_is_read_as_it_was_written(timeline: str, number: int, begun: int, selection: str) -> None:
    token = Token(timeline, number, begun, selection)
    # From where the reading began matters only until it is reached.
    assert parse_token(f" {token}\n") == (token if begun > number else Token(timeline, number, 0, selection))


def test_tokens_are_those_that_users_have() -> None:
    assert str(Token("t1", 5)) == f"t1.5.0.{EVERYTHING}" and str(Token("t1", 0)) == f"t1.0.0.{EVERYTHING}"
    assert str(Token("t1", 5, 9, "ab")) == "t1.5.9.ab" and str(Token("t1", 9, 9, "ab")) == "t1.9.0.ab"
    assert Token("t1", 5, 9, "ab").advanced(7) == Token("t1", 7, 9, "ab")
    assert (BEGINNING, NOW) == (("", "0"), "now")


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "now", "t", "t.1", "t.1.2", "t.1.2.3.4", ".1.2.ab", "t..2.ab", "t.1..ab", "t.1.2.", "t.-1.2.ab"),
        *("t.1.2.AB", "t.1.2.g", "t.1.2.ab x", "t t.1.2.ab", "t.\u0661.2.ab", "\u00fc.1.2.ab", "t.1_0.2.ab"),
        *(f"{'t' * 65}.1.2.ab", f"t.1.2.{'a' * 17}", f"t.{'1' * 20}.2.ab", f"t.1.{'1' * 20}.ab"),
        *(f"t.{INT64_MAX + 1}.2.ab", f"t.1.{INT64_MAX + 1}.ab"),
    ],
)
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(TokenError, match="is no token of an LCC"):
        parse_token(text)


@pytest.mark.parametrize(
    ("number", "begun", "known_upto", "complete_since"),
    [(5, 0, 5, 0), (5, 0, 9, 5), (5, 9, 9, 9), (0, 9, 9, 1), (5, 3, 5, 5)],
)
def test_all_changes_since_can_be_told(number: int, begun: int, known_upto: int, complete_since: int) -> None:
    check_token(Token("t", number, begun, "ab"), known_upto, complete_since, "ab")


@pytest.mark.parametrize(
    ("number", "begun", "known_upto", "complete_since", "words"),
    [
        (5, 0, None, 0, "of another database"),
        (6, 0, 5, 0, "of a later state"),
        (5, 6, 5, 0, "of a later state"),
        (5, 0, 9, 6, "deletions after this token"),
        (5, 6, 9, 7, "deletions after this token"),
    ],
)
def test_something_would_be_missing(
    number: int, begun: int, known_upto: int | None, complete_since: int, words: str
) -> None:
    with pytest.raises(StartAgain, match=words):
        check_token(Token("t", number, begun, "ab"), known_upto, complete_since, "ab")


def test_a_token_is_for_its_selection() -> None:
    for known_upto in (None, 0, 9):
        with pytest.raises(TokenError, match="another selection"):
            check_token(Token("t", 5, 0, "ab"), known_upto, 0, EVERYTHING)
