"""Conditional requests: RFC 9110, section 13."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.preconditions import entity_tags, precondition
from lcc.domain.times import http_date

TAG = '"abc"'
TIME = "Tue, 14 Nov 2023 22:13:20 GMT"
SECONDS = 1_700_000_000
NONE: dict[str, Any] = dict.fromkeys(["if_match", "if_none_match", "if_modified_since", "if_unmodified_since"])


def status(**fields: str) -> int:
    return precondition(TAG, SECONDS, **{**NONE, **fields})


@pytest.mark.parametrize(
    "value",
    ['"abc"', 'W/"abc"', '"x", "abc"', '"x","abc"', '"x" , W/"abc" ,"y"', "*", " * ", ', "abc",,', '"a,b", "abc"'],
)
def test_what_the_client_has(value: str) -> None:
    assert status(if_none_match=value) == 304


@pytest.mark.parametrize(
    "value",
    ['"x"', "abc", '"abc', 'abc"', 'w/"abc"', 'W/ "abc"', '"abc" "x"', "", ",", '"*"', '"x", *', "**", '"ab c"'],
)
def test_what_it_does_not_have(value: str) -> None:
    assert status(if_none_match=value) == 0


def test_only_if_it_is_that_content() -> None:
    assert status(if_match=TAG) == status(if_match="*") == status(if_match='"x", "abc"') == 0
    for other in ('"x"', 'W/"abc"', "abc", ""):  # compared as strong ones
        assert status(if_match=other) == 412
    assert status(if_match='"x"', if_none_match=TAG) == 412
    assert status(if_match=TAG, if_none_match=TAG) == 304


def test_dates() -> None:
    for form in (TIME, "Tuesday, 14-Nov-23 22:13:20 GMT", "Tue Nov 14 22:13:20 2023"):
        assert http_date(form) == SECONDS
    earlier = "Tue, 14 Nov 2023 22:13:19 GMT"
    assert status(if_modified_since=TIME) == 304 and status(if_modified_since=earlier) == 0
    assert status(if_unmodified_since=TIME) == 0 and status(if_unmodified_since=earlier) == 412
    assert status(if_modified_since=TIME, if_none_match='"x"') == 0  # the entity tag alone counts
    assert status(if_unmodified_since=earlier, if_match=TAG) == 0
    for none in ("", ";", "\xff", "yesterday", "9" * 5000, "Tue, 99 Nov 2023 22:13:20 GMT", "0" * 5000 + TIME):
        assert status(if_modified_since=none) == status(if_unmodified_since=none) == 0
    assert precondition(TAG, None, **{**NONE, "if_modified_since": TIME}) == 0


@given(st.text(st.sampled_from('"W/,* \tabc\xff'), max_size=40))
def test_any_list(value: str) -> None:
    assert status(if_none_match=value) in (0, 304) and status(if_match=value) in (0, 412)
    assert all(tag[0] == tag[-1] == '"' for _, tag in entity_tags(value))


def test_an_empty_tag_is_a_tag() -> None:
    assert entity_tags('"", W/""') == {(False, '""'), (True, '""')}


def test_a_long_list_is_read_in_parts() -> None:
    assert len(entity_tags(", ".join(f'"{number}"' for number in range(5000)))) == 100
    assert not entity_tags("," * 100_000)


def test_conditions_on_a_time_that_is_not_known_hold() -> None:
    nothing = dict.fromkeys(("if_match", "if_none_match", "if_modified_since", "if_unmodified_since"))
    date = "Thu, 01 Jan 2026 00:00:00 GMT"
    for name in ("if_modified_since", "if_unmodified_since"):
        assert precondition('"a"', None, **{**nothing, name: date}) == 0
    assert precondition('"a"', 2**31, **nothing) == 0
    assert precondition('"a"', 0, **{**nothing, "if_match": " * "}) == 0
    assert precondition('"a"', 0, **{**nothing, "if_none_match": " * "}) == 304
