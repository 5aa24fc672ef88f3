"""What robots.txt allows."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.fetches.hours import parse_hours
from lcc.domain.fetches.robots_rules import (
    ALL,
    NONE,
    RULES,
    WILDCARDS_MAX,
    allow_for,
    crawl_delay_seconds,
    is_allowed,
    sitemaps_named,
    visit_hours,
    visit_time,
)

TEXT = "User-agent: *\nDisallow: /private/\n\nUser-agent: LCC\nDisallow: /no\nAllow: /no/but\n"


def test_rules_for_this_robot_go_before_those_for_all() -> None:
    assert is_allowed(TEXT, RULES, "http://a/private/x")
    assert not is_allowed(TEXT, RULES, "http://a/no/x") and is_allowed(TEXT, RULES, "http://a/no/but")
    assert not is_allowed("User-agent: *\nDisallow: /", RULES, "http://a/")
    assert is_allowed("", RULES, "http://a/")


@pytest.mark.parametrize(
    ("named", "is_this"),
    [
        *[(name, True) for name in ("LCC", "lcc", "LCC/1.0", "Lcc  # the cache", "LCC (+http://lcc/)")],
        *[
            (name, False)
            for name in ("LC", "L", "LCC-images", "lcc_x", "other LCC", "", "Mozilla (LCC)", "*LCC", "LC*")
        ],
    ],
)
def test_whom_rules_are_for(named: str, is_this: bool) -> None:
    """Its product token is that of this robot (RFC 9309), not what begins like it."""
    for field in ("User-agent: ", "user-agent:", "User agent ", " USERAGENT :"):
        text = f"{field}{named}\nDisallow: /\nCrawl-delay: 30\n\nUser-agent: *\nCrawl-delay: 2\n"
        assert is_allowed(text, RULES, "http://a/x") != is_this
        assert crawl_delay_seconds(text) == (30 if is_this else 2)
        assert not is_allowed(f"User-agent: x\n{field}{named}\nUser-agent: * # all\nDisallow: /", RULES, "http://a/")
    assert not is_allowed(f"User-agent: {named}\r\nUser-agent: LCC\r\nDisallow: /\r\n", RULES, "http://a/")


def test_rules_that_take_too_long_allow_nothing() -> None:
    """Of a site that means ill: what it costs would be paid by all."""
    assert WILDCARDS_MAX == 2000
    text = "User-agent: *\n" + "".join(f"Disallow: /*{number}\n" for number in range(WILDCARDS_MAX - 1))
    assert is_allowed(text, RULES, "http://a/x")
    assert not is_allowed(f"{text}Disallow: /*x\n", RULES, "http://a/")


def test_a_page_in_place_of_robots_txt_and_one_of_half_a_megabyte() -> None:
    page = "<!DOCTYPE html>\n<html><title>Not found</title>\nDisallow: /\nCrawl-delay: 9\n</html>"
    assert is_allowed(page, RULES, "http://a/x") and crawl_delay_seconds(page) == 0
    huge = "User-agent: *\n" + "".join(f"Disallow: /{number}/\n" for number in range(30_000))
    assert is_allowed(huge, RULES, "http://a/x") and not is_allowed(huge, RULES, "http://a/29999/x")


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


@pytest.mark.parametrize(
    ("asked", "hours"),
    [
        ("0600-0845", "6-8"),
        ("0600 0900", "6-9"),
        ("0545-0915", "6-9"),
        ("2200-0400", "22-4"),
        ("2230-0015", "23-24"),
        ("1200-2359", "12-24"),
        ("2130-2359", "22-24"),
        ("0000-2359", ""),
        ("0630-0645", ""),
        ("0630-0729", ""),
        ("2330-0030", ""),
        ("2330-0600", "0-6"),
        ("0600-0600", ""),
        *[(odd, "") for odd in ("2500-2600", "x", "", "06", "0600-", "-0845", "1e9-2e9")],
    ],
)
def test_whole_slots_within_the_time_for_visits(asked: str, hours: str) -> None:
    text = f"User-agent: *\nVisit-time: {asked}\n"
    assert visit_hours(text) == visit_hours(text, 3600) == hours
    assert visit_hours(text, 1800) == "", "hours that are no hours"
    if hours:
        at = parse_hours(hours)
        wanted = visit_time(text)
        minutes = {minute % 1440 for minute in _between(wanted)}
        assert at == sum(1 << slot for slot in range(24) if minutes >= set(range(slot * 60, slot * 60 + 60)))


def _between(wanted: str) -> range:
    first, end = (int(text[:2]) * 60 + int(text[2:]) for text in wanted.split("-"))
    end += end == 1439
    return range(first, end + (1440 if end < first else 0))


def test_what_tables_hold() -> None:
    assert (RULES, ALL, NONE) == ("rules", "all", "none")


def test_visits_are_for_this_robot() -> None:
    text = "User-agent: *\nVisit-time: 0100-0300\n\nUser-agent: LCC\nVisit-time: 0400-0600\n"
    assert (visit_time(text), visit_hours(text), visit_time("User-agent: *")) == ("0400-0600", "4-6", "")


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    crawl_delay_seconds(f"User-agent: *\nCrawl-delay: {text}")
    visit_hours(f"User-agent: *\nVisit-time: {text}")
    is_allowed(text, RULES, "http://a/x?y=z")


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ("Crawl-delay: 2.5", 2.5),
        ("Crawl-delay: 0.5", 0.5),
        ("Crawl-delay: 0", 0.0),
        ("Crawl-delay: inf", 0.0),
        ("Crawl-delay: nan", 0.0),
        ("Request-rate: 1/10s", 10.0),
        ("Request-rate: 4/1m\nCrawl-delay: 3", 15.0),
        ("Request-rate: 0/5s", 0.0),
        (f"Request-rate: 1/{'9' * 400}\nCrawl-delay: 3", 3.0),
        (f"Crawl-delay: {'9' * 400}", 0.0),
        ("Disallow:", 0.0),
    ],
)
def test_delays_that_are_asked_for(lines: str, seconds: float) -> None:
    assert crawl_delay_seconds(f"User-agent: *\n{lines}\n") == seconds


@pytest.mark.parametrize(
    ("asked", "hours"),
    [
        ("0600-0845", "6-8"),
        ("0601-0900", "7-9"),
        ("0559-0700", "6-7"),
        ("2200-0600", "22-6"),
        ("2200-0000", "22-24"),
        ("0000-2359", ""),
        ("1200-1159", "12-11"),
        ("0600-0659", ""),
        ("0700-0700", ""),
        ("0730-0730", ""),
        ("0000-2300", "0-23"),
        ("0100-0030", "1-24"),
    ],
)
def test_whole_hours_within_the_time_that_is_wished(asked: str, hours: str) -> None:
    rules = f"User-agent: *\nVisit-time: {asked}\n"
    assert visit_hours(rules) == hours
    assert visit_hours(rules, 1800) == ""


def test_each_sitemap_is_named_once_and_in_order() -> None:
    rules = "Sitemap: http://a/2\nUser-agent: *\nSitemap: http://a/1\nSitemap: http://a/2\n"
    assert sitemaps_named(rules) == ["http://a/2", "http://a/1"]


def test_memory_is_bounded_however_long_they_are() -> None:
    """A robots.txt may have 500 KiB; parsed, it takes ten megabytes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(12):
            lines = "".join(f"Disallow: /{number}/{line:05}\n" for line in range(10_000))
            assert not is_allowed(f"User-agent: *\n{lines}", RULES, f"http://a/{number}/00007")
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 30_000_000
    finally:
        tracemalloc.stop()


def test_what_an_error_in_place_of_it_allows() -> None:
    found = {status: allow_for(status) for status in (399, 400, 404, 428, 429, 430, 499, 500, 503)}
    assert [status for status, allowed in found.items() if allowed == ALL] == [400, 404, 428, 430, 499]
    assert set(found.values()) == {ALL, NONE}
