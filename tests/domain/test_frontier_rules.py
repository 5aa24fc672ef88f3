"""The rules of the frontier: keys, order, visits, hosts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.spider.keys import found_url, host_key, host_of_root, url_key
from lcc.domain.spider.rules import FrontierRules, coarse, history, rank, shares
from lcc.errors import code
from lcc.model.spider.crawls import NEVER, CrawlSettings, UrlOrder, bucket_of

RULES = FrontierRules(window=10)
HOUR, DAY = 3600, 86400


def test_keys_are_what_they_were() -> None:
    """They are stored, and other roles compute the bucket for themselves."""
    assert url_key("http://a.example/x").hex() == "3a87aef1ec3b686295d76e91c0302b6e"
    assert host_key("http://a.example/").hex() == "3a87aef1ec36efc3"
    assert (bucket_of("a.example"), bucket_of("a.example:8080"), bucket_of("")) == (12, 8, 0)


def test_a_url_is_its_root_and_the_rest() -> None:
    url = found_url("http://compares.example/x", "https://Fetched.example:8443/x?y")
    assert (url.root, url.path, url.furl) == (
        "https://Fetched.example:8443/",
        "x?y",
        "https://Fetched.example:8443/x?y",
    )
    assert url.key == url_key("http://compares.example/x")
    assert host_of_root("https://a.example:8443/") == "a.example:8443"
    assert found_url("file:///a/b", "file:///a/b")[1:] == ("file:///", "a/b")
    assert found_url("http://a.example/", "http://b.example/x?y=http://c.example/")[1:3] == (
        *("http://b.example/", "x?y=http://c.example/"),
    )
    # Those of one host lie together.
    for rest in ("x/y/z", "x?y=http://b.example/"):
        assert url_key(f"http://a.example/{rest}")[:5] == host_key("http://a.example/")[:5]
    assert url_key("file:///a/b")[:5] == host_key("file:///")[:5]
    assert url_key("http://a.example/x")[:5] == url_key("http://a.example/y")[:5] != url_key("http://b.example/x")[:5]


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_coarse_numbers_keep_their_order(one: int, two: int) -> None:
    low, high = sorted([one, two])
    assert coarse(low) <= coarse(high) < 512
    if high >= low + (low >> 3) + 1:
        assert coarse(low) < coarse(high)


@pytest.mark.parametrize(
    ("number", "eighths"),
    [(0, 0), (1, 1), (15, 15), (16, 16), (17, 16), (18, 17), (31, 23), (32, 24), (35, 24), (36, 25), (1 << 62, 480)],
)
def test_coarse_numbers_are_eighths_of_octaves(number: int, eighths: int) -> None:
    assert coarse(number) == eighths


def test_ranks() -> None:
    """They are stored: another way to reckon them would mix up the order of what waits."""
    assert RULES.rank(UrlOrder.DEPTH, 7, 5, 40) == 7
    assert RULES.rank(UrlOrder.INLINKS, 7, 5, 40) == -5 * 1024 + 7
    assert RULES.rank(UrlOrder.OPIC, 7, 5, 40) == -26 * 1024 + 7
    assert RULES.rank(UrlOrder.OPIC, 2000, 5, 40) == -26 * 1024 + 1023
    assert RULES.rank(UrlOrder.DEPTH, 2000, 5, 40) == 2000


def test_only_where_shares_count_a_start_has_cash() -> None:
    assert [RULES.start_cash(order) for order in (UrlOrder.DEPTH, UrlOrder.INLINKS, UrlOrder.OPIC)] == [0, 0, 10**12]
    assert RULES.shares(7, 3) == [3, 2, 2]


def test_the_rules_know_hosts_and_owners() -> None:
    assert RULES.host_key("http://a.example/") == host_key("http://a.example/")
    assert RULES.host_place("http://www.a.example:8080/") == ("www.a.example:8080", "a.example", 17)
    owners = [("http://a.example/", 7), ("http://b.example/", 8)]
    assert [RULES.owner_of(f"http://{host}.example/x", owners) for host in "abc"] == [7, 8, 0]


@given(st.sampled_from(UrlOrder), st.integers(0, 1 << 20), st.integers(0, 1 << 30), st.integers(0, 1 << 62))
def test_ranks_are_of_64_bits_and_grow_with_the_depth(order: UrlOrder, depth: int, inlinks: int, cash: int) -> None:
    own = rank(order, depth, inlinks, cash)
    assert -(1 << 63) <= own < NEVER
    assert own <= rank(order, depth + 1, inlinks, cash)
    assert own >= rank(order, depth, inlinks * 2, cash * 2)


@given(st.integers(0, 1 << 62), st.integers(1, 10_000))
def test_shares_are_all_of_it(cash: int, count: int) -> None:
    each = shares(cash, count)
    assert (len(each), sum(each)) == (count, cash)
    assert max(each) - min(each) <= 1


def test_history_is_that_of_a_window() -> None:
    assert history(0, 100, 0, DAY) == 100
    assert history(100, 60, DAY // 2, DAY) == 50 + 60
    assert history(100, 60, 2 * DAY, DAY) == 30
    assert history(0, 60, 2 * DAY, DAY) == 60, "there was no visit before"
    assert history(1, 60, 2 * DAY, DAY) == 30
    assert history(100, 60, -DAY, DAY) == 160, "the clock was set back"
    assert history(1000, 60, 1, 1000) == 1059
    for seconds, expected in ((333, 66 + 7), (3000, 2)):
        found = history(100, 7, seconds, 1000)
        assert found == expected and type(found) is int
    assert RULES.history(100, 60, 45 * DAY) == 110


def test_what_changes_is_visited_more_often() -> None:
    settings = CrawlSettings(revisit_seconds=10 * DAY, revisit_least_seconds=DAY, revisit_most_seconds=30 * DAY)
    assert RULES.interval(settings, 0, None) == 10 * DAY
    assert RULES.interval(settings, 5 * DAY, None) == RULES.interval(settings, 0, True) == 10 * DAY
    assert RULES.interval(settings, 10 * DAY, True) == 8 * DAY
    assert RULES.interval(settings, 10 * DAY, False) == 14 * DAY
    assert RULES.interval(settings, DAY, True) == DAY
    assert RULES.interval(settings, 29 * DAY, False) == 30 * DAY
    assert RULES.interval_after_error(settings, 10 * DAY) == 20 * DAY
    assert RULES.interval_after_error(settings, 20 * DAY) == 30 * DAY
    assert RULES.interval_after_error(settings, 0) == 20 * DAY
    never = CrawlSettings()
    assert RULES.interval(never, 10, True) == RULES.interval_after_error(never, 10) == 0
    assert (RULES.due(5, 0), RULES.due(5, 10)) == (NEVER, 15)


@pytest.mark.parametrize(
    ("waiting", "told", "due", "parked", "excluded", "before", "ready"),
    [
        (0, 0, None, 0, False, None, None),
        (1, 0, None, 0, False, None, 100),
        (1, 0, None, 0, False, 50, 50),  # keeps its place
        (1, 0, None, 0, False, 500, 100),  # it was parked, or its page was due then
        (1, 5, None, 0, False, None, 100),
        (1, 6, None, 0, False, 50, None),
        (1, 0, None, 300, False, 50, 300),
        (1, 0, None, 0, True, 50, None),
        (0, 0, 200, 0, False, None, 200),
        (0, 0, 200, 300, False, None, 300),
    ],
)
def test_when_a_host_is_ready(
    waiting: int, told: int, due: int | None, parked: int, excluded: bool, before: int | None, ready: int | None
) -> None:
    assert RULES.ready_time(waiting, told, due, parked, excluded, before, 100) == ready


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_turn_fills_the_window(told: int, waiting: int, due: int) -> None:
    first, again = RULES.turn(told, waiting, due)
    room = max(0, 10 - told)
    assert 0 <= first <= waiting and 0 <= again <= due
    assert first + again == min(room, waiting + due)
    # Neither starves the other.
    assert again >= min(due, room // 4) and first >= min(waiting, room - room // 4 if due else room)


def test_hosts_that_fail_are_parked() -> None:
    assert RULES.fail_host(0, 0, 100) == (1, 0, 0)
    assert RULES.fail_host(3, 2, 100) == (4, 2, 0)
    assert RULES.fail_host(4, 0, 100) == (0, 1, 100 + HOUR)
    assert RULES.fail_host(4, 3, 100) == (0, 4, 100 + 8 * HOUR)
    assert RULES.fail_host(4, 1000, 100) == (0, 1001, 100 + 30 * DAY)
    for number in (code("dns-failed"), code("deadline"), 500, 503, 429):
        assert RULES.is_fault_of_host(number)
    for number in (404, 410, 403, code("body-too-long"), code("quota-files"), 0):
        assert not RULES.is_fault_of_host(number)


def test_the_rules_of_a_crawl_that_says_nothing_else() -> None:
    assert FrontierRules() == FrontierRules(100, 5, HOUR, 30 * DAY, 30, 1000, 3, 90 * DAY)


def test_a_crawl_is_full() -> None:
    rules = FrontierRules(hosts_per_domain=3)
    assert rules.is_full(5, CrawlSettings(), 2) == ""
    assert rules.is_full(5, CrawlSettings(hosts_max=5), 0) == "hosts-max"
    assert rules.is_full(4, CrawlSettings(hosts_max=5), 0) == ""
    assert rules.is_full(5, CrawlSettings(), 3) == "domain-hosts-max"
    assert FrontierRules(hosts_per_domain=0).is_full(10**9, CrawlSettings(), 10**9) == ""
