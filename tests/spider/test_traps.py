"""Traps: each site here has endless URLs, and some real pages.  All real ones are found, and few of the others."""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.urls import normalise
from lcc.model.spider.candidates import Candidate, Facts, FilterRules, HostFacts, TrapLimits
from lcc.spider.filters.chain import FilterChain
from lcc.spider.filters.traps import FACETS_KEYS_MAX, copies_key, endless, trap_keys
from lcc.spider.names import UrlNames

FILTERS = ("length", "traps", "visited")
YEAR = 2026
Site = Callable[[str], tuple[str, Iterable[str]]]
"""URL -> its content, and the URLs that it links to."""


def crawl(site: Site, limits: TrapLimits, urls_max: int = 20_000) -> list[str]:
    """The URLs that are fetched of a site, breadth first."""
    chain = FilterChain(FilterRules(traps=limits, year=YEAR), FILTERS)
    names = UrlNames()
    known: set[str] = set()
    traps: Counter[bytes] = Counter()
    copies: Counter[bytes] = Counter()
    waiting: deque[str] = deque()
    fetched: list[str] = []

    def offer(url: str, depth: int, seen: int) -> None:
        candidate = Candidate(names.names(normalise(url)), depth, copies=seen)
        curl = candidate.names.curl
        if chain.screen(candidate) or chain.judge(candidate, Facts(curl in known, HostFacts(), traps)):
            return
        known.add(curl)
        traps.update(key for _, key in trap_keys(curl))
        waiting.append(curl)

    offer("http://h/", 0, 0)
    while waiting and len(fetched) < urls_max:
        url = waiting.popleft()
        fetched.append(url)
        content, links = site(url)
        key = copies_key(url, content)
        seen = copies[key] if key else 0
        if key:
            copies[key] += 1
        for link in links:
            offer(link, 1, seen)
    return fetched


REAL = [f"http://h/page{number}.html" for number in range(20)]


def calendar(url: str) -> tuple[str, Iterable[str]]:
    """A month has links to the next and to the one before, and to some events."""
    match = re.search(r"/calendar/(\d+)/(\d+)/$", url)
    if match is None:
        return url, [*REAL, "http://h/calendar/2026/11/"]
    months = int(match[1]) * 12 + int(match[2]) - 1
    sides = [f"http://h/calendar/{month // 12:04}/{month % 12 + 1:02}/" for month in (months - 1, months + 1)]
    return url, [*sides, f"http://h/events/{match[1]}/{match[2]}/party"] if months < 2030 * 12 else sides


def calendar_in_queries(url: str) -> tuple[str, Iterable[str]]:
    match = re.search(r"\?month=(\d+)&year=(\d+)$", url)
    months = int(match[2]) * 12 + int(match[1]) - 1 if match else 2026 * 12
    sides = [f"http://h/cal?month={month % 12 + 1}&year={month // 12}" for month in (months - 1, months + 1)]
    return url, [*REAL, *sides]


def sessions(url: str) -> tuple[str, Iterable[str]]:
    """Each page gives all links a new session's id."""
    chance = random.Random(url)
    return url.partition("?")[0], [
        f"{page}?PHPSESSID={chance.getrandbits(128):032x}" for page in [*REAL, "http://h/"]
    ]


def sessions_in_paths(url: str) -> tuple[str, Iterable[str]]:
    chance = random.Random(url)
    return url.partition(";")[0], [
        f"{page};jsessionid={chance.getrandbits(128):032X}" for page in [*REAL, "http://h/"]
    ]


def facets(url: str) -> tuple[str, Iterable[str]]:
    """A shop: each filter can be added to any other."""
    query = url.partition("?")[2]
    chosen = dict(pair.split("=") for pair in query.split("&") if pair)
    links = [*REAL]
    for name in "color", "size", "brand", "price", "sort", "stock", "rating":
        for value in range(5):
            combined = {**chosen, name: str(value)}
            links.append("http://h/shop?" + "&".join(f"{key}={combined[key]}" for key in combined))
    return url, links


def echo(url: str) -> tuple[str, Iterable[str]]:
    """A server that answers any path with one page, whose link is relative."""
    folder = url.rpartition("/")[0]
    if url == "http://h/":
        return url, [*REAL, "http://h/a/"]
    return "the same", [f"{folder}/{'xyz'[url.count('/') % 3]}{url.count('/')}/"]


def mirror(url: str) -> tuple[str, Iterable[str]]:
    return url, [*REAL, url + "a/", url + "a/b/"] if url.endswith("/") else []


def symlinks(url: str) -> tuple[str, Iterable[str]]:
    """Folders that have themselves in them."""
    return url, [*REAL, *(f"{url}{name}/" for name in ("src", "lib", "doc"))] if url.endswith("/") else []


def chance_paths(url: str) -> tuple[str, Iterable[str]]:
    chance = random.Random(url)
    return url, [*REAL, f"{url.rstrip('/')}/{chance.getrandbits(40):x}"]


SMALL = TrapLimits(calendar=500, facets=15, segments=12)


@pytest.mark.parametrize(
    ("site", "fetched_max"),
    [
        (calendar, 1_100),
        (calendar_in_queries, 600),
        (sessions, 50),
        (sessions_in_paths, 50),
        (facets, 1_700),
        (echo, 60),
        (mirror, 100),
        (symlinks, 1_000),
        (chance_paths, 300),
    ],
)
def test_all_real_pages_are_found_and_few_others(site: Site, fetched_max: int) -> None:
    fetched = crawl(site, SMALL, urls_max=2_000)
    assert {re.split("[?;]", url)[0] for url in fetched} >= {*REAL}
    assert len(fetched) <= fetched_max
    assert len(fetched) == len({*fetched})


def test_all_events_of_a_calendar_are_found() -> None:
    fetched = {*crawl(calendar, SMALL, urls_max=1_500)}
    assert fetched > {
        f"http://h/events/{year}/{month:02}/party" for year in range(2010, 2028) for month in range(1, 13)
    }


@pytest.mark.parametrize(
    "pages",
    [
        [f"http://h/index.php?option=com_content&view=article&id={number}" for number in range(3000)],
        [
            f"http://h/viewtopic.php?f={number % 7}&t={number}&start={at}"
            for number in range(500)
            for at in (0, 10, 20)
        ],
        [f"http://h/w/index.php?title=Page_{number}&action={do}&redlink=1" for number in range(99) for do in "ehrv"],
    ],
)
def test_pages_that_have_parameters_for_names_are_no_facets(pages: list[str]) -> None:
    def site(url: str) -> tuple[str, Iterable[str]]:
        return url, pages if url == "http://h/" else []

    assert len(crawl(site, TrapLimits(facets=20))) == 1 + len(pages)


def test_facets_are_bounded_and_can_be_switched_off() -> None:
    queries = [f"color={c}&size={s}&brand={b}" for c in range(10) for s in range(10) for b in range(10)]

    def site(url: str) -> tuple[str, Iterable[str]]:
        return url, [f"http://h/shop?{query}" for query in queries] if url == "http://h/" else []

    assert len(crawl(site, TrapLimits(facets=20))) < 500
    assert len(crawl(site, TrapLimits(facets=0))) == 1001


@pytest.mark.parametrize(
    "url",
    [
        "http://h/2011/11/11/",
        "http://h/12/12/12/12.html",
        "http://h/a/b/a/c",
        "http://h/javadoc/com/sun/org/apache/xerces/internal/impl/dv/xs/Base.html",
        "http://h/wiki/2190",
        "http://h/news/2026-11-23-a-title.html",
        "http://h/article?id=12345",
        "http://h/p?s=search",
        "http://h/section?sid=12",
        "http://h/a//b//c",
    ],
)
def test_ordinary_urls_are_no_traps(url: str) -> None:
    assert endless(url, TrapLimits(), YEAR) is None
    assert [key.kind for key in trap_keys(url)] in ([], ["calendar"])


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h/a/a/a/", "the path repeats 'a'"),
        ("http://h/x/a/b/a/b/a/b", "the path repeats 'a/b'"),
        ("http://h/a/1/a/2/a/3/a/4/a/5/a/6", "the path repeats 'a'"),
        ("http://h/" + "x/".join(map(str, range(40))), "a path of 40 segments"),
        ("http://h/?" + "&".join(f"p{number}=1" for number in range(13)), "13 parameters"),
        ("http://h/cal/2190/05/", "a calendar: the year 2190"),
        ("http://h/cal?date=2190-05-01", "a calendar: the year 2190"),
        ("http://h/cal?y=9999&m=1", "a calendar: the year 9999"),
    ],
)
def test_what_is_seen_in_a_url_is_told(url: str, why: str) -> None:
    assert endless(url, TrapLimits(), YEAR) == why
    off = TrapLimits(segments=0, repeats=0, parameters=0, years_ahead=0)
    assert endless(url, off, YEAR) is None


def test_what_is_known_is_no_trap() -> None:
    """A limit that is reached refuses what is new, and not the links to what was accepted before."""
    chain = FilterChain(FilterRules(year=YEAR), ("traps",))
    found = Candidate(UrlNames().names("http://h/?PHPSESSID=1234"), 1)
    full = {key: 1 for _, key in trap_keys(found.names.curl)}
    assert chain.judge(found, Facts(True, HostFacts(), full)) is None
    refused = chain.judge(found, Facts(False, HostFacts(), full))
    assert refused == ("traps", "the page of another session's id")


@given(st.text(alphabet="/a1.?&;=2026-(S)sid", max_size=300))
def test_any_url_is_judged(text: str) -> None:
    url = "http://h/" + text
    endless(url, TrapLimits(segments=0, parameters=0), YEAR)
    assert len(trap_keys(url)) <= 1 + FACETS_KEYS_MAX
