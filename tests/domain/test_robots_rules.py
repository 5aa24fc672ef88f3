"""What robots.txt allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.robots_rules import ALL, NONE, RULES, WILDCARDS_MAX, allow_for, crawl_delay_seconds, is_allowed

TEXT = "User-agent: *\nDisallow: /private/\n\nUser-agent: LCC\nDisallow: /no\nAllow: /no/but\n"


def test_rules_for_this_robot_go_before_those_for_all() -> None:
    assert is_allowed(TEXT, RULES, "http://a/private/x")
    assert not is_allowed(TEXT, RULES, "http://a/no/x") and is_allowed(TEXT, RULES, "http://a/no/but")
    assert not is_allowed("User-agent: *\nDisallow: /", RULES, "http://a/")
    assert is_allowed("", RULES, "http://a/")


def test_rules_that_take_too_long_allow_nothing() -> None:
    """Of a site that means ill: what it costs would be paid by all."""
    text = "User-agent: *\n" + "".join(f"Disallow: /*{number}\n" for number in range(WILDCARDS_MAX - 1))
    assert is_allowed(text, RULES, "http://a/x")
    assert not is_allowed(f"{text}Disallow: /*x*y\n", RULES, "http://a/")


def test_what_comes_in_place_of_rules() -> None:
    assert is_allowed("User-agent: *\nDisallow: /", ALL, "http://a/")
    assert not is_allowed("", NONE, "http://a/")


@pytest.mark.parametrize(
    ("status", "allow"), [(404, ALL), (410, ALL), (401, ALL), (429, NONE), (500, NONE), (503, NONE), (1402, NONE)]
)
def test_errors(status: int, allow: str) -> None:
    assert allow_for(status) == allow


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ("Crawl-delay: 10", 10),
        ("Crawl-delay: 0.5\nRequest-rate: 1/20", 20),
        ("Request-rate: 3/1m", 20),
        ("Request-rate: 0/5", 0),
        ("Crawl-delay: 1e9", 1e9),
        *[(f"Crawl-delay: {odd}", 0) for odd in ("inf", "nan", "-3", "x", "")],
        ("Disallow: /", 0),
    ],
)
def test_the_delay_that_is_asked_for(lines: str, seconds: float) -> None:
    assert crawl_delay_seconds(f"User-agent: *\n{lines}\n") == seconds


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    crawl_delay_seconds(f"User-agent: *\nCrawl-delay: {text}")
    is_allowed(text, RULES, "http://a/x?y=z")
