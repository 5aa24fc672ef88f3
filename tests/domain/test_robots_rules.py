"""What robots.txt allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.robots_rules import ALL, NONE, RULES, allow_for, is_allowed

TEXT = "User-agent: *\nDisallow: /private/\n\nUser-agent: LCC\nDisallow: /no\nAllow: /no/but\n"


def test_rules_for_this_robot_go_before_those_for_all() -> None:
    assert is_allowed(TEXT, RULES, "http://a/private/x")
    assert not is_allowed(TEXT, RULES, "http://a/no/x") and is_allowed(TEXT, RULES, "http://a/no/but")
    assert not is_allowed("User-agent: *\nDisallow: /", RULES, "http://a/")
    assert is_allowed("", RULES, "http://a/")


def test_what_comes_in_place_of_rules() -> None:
    assert is_allowed("User-agent: *\nDisallow: /", ALL, "http://a/")
    assert not is_allowed("", NONE, "http://a/")


@pytest.mark.parametrize(
    ("status", "allow"), [(404, ALL), (410, ALL), (401, ALL), (429, NONE), (500, NONE), (503, NONE), (1402, NONE)]
)
def test_errors(status: int, allow: str) -> None:
    assert allow_for(status) == allow


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    is_allowed(text, RULES, "http://a/x?y=z")
