"""Whose the hosts of a crawl are, and crawls that complete a provider."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lcc.model.spider.crawls import Telling
from lcc.storage.spider.orders import CRAWL_SET, ORDERS
from tests.spider.kit import ROOTS, SCOPE, Worlds
from tests.support.roles.spider import NOW


def test_a_crawl_that_completes_a_provider(worlds: Worlds) -> None:
    root = ROOTS[0]
    pages = {
        f"{root}{number}": b"<a href=/linked%d>x</a><a href=http://two.example/>y</a>" % number for number in range(9)
    }
    world = worlds({**pages, **{f"{root}linked{number}": b"<p>" for number in range(12)}}, pages_at_once=2)
    world.lcc.providers[root] = 7
    for url, content in list(pages.items())[:6]:
        world.lcc.put(7, url, content)
    world.start()
    world.add("all", pid=7, roots=(root,))
    world.lcc.silent = True
    world.advance(3)
    assert not world.status("all").is_done, "what its provider has is not read"
    world.lcc.silent = False
    world.settle("all")
    for url, content in list(pages.items())[6:]:
        world.lcc.put(7, url, content)
    world.advance(5)
    world.settle("all")
    assert sorted(world.lcc.fetched) == sorted(f"{root}linked{number}" for number in range(9))
    assert world.lcc.providers.keys() == {root}, "no other host is watched"


def test_a_provider_is_completed_while_nothing_changes(worlds: Worlds) -> None:
    root = ROOTS[0]
    world = worlds({f"{root}told": b"<a href=/linked>x</a>", f"{root}linked": b"<p>"})
    world.lcc.providers[root] = 7
    world.lcc.put(7, f"{root}told", b"<a href=/linked>x</a>")
    world.start()
    world.add("another", ROOTS[1], restrict_to=ROOTS[1])
    world.settle("another")
    world.advance(5)  # it waits for the next change of the cache
    world.add("all", pid=7, roots=(root,))
    world.advance(3)
    assert world.status("all").counts["known"] == 2


def test_so_many_hosts_become_providers_in_an_hour(worlds: Worlds) -> None:
    world = worlds(dict.fromkeys(ROOTS, b"<p>"), hosts_per_hour=1)
    world.start()
    world.add("all", *ROOTS, restrict_to=SCOPE)
    for hours in range(1, 4):
        world.advance(70, 2)
        assert len(world.lcc.providers) == len(world.lcc.fetched) == hours
        world.ahead_seconds += 3600


def test_a_host_whose_provider_is_another_one_by_now_is_asked_for_again(worlds: Worlds) -> None:
    """As after a backup was put back that knew nothing of it: its number was given to another one, or to none."""
    world = worlds(dict.fromkeys(ROOTS, b"<p>"), told_wait=2.0)
    world.start()
    world.add("all", *ROOTS, restrict_to=SCOPE)
    world.settle("all")
    pids = dict(world.lcc.providers)
    world.lcc.providers = {ROOTS[1]: pids[ROOTS[0]], ROOTS[0]: 9}
    for root in ROOTS:
        world.lcc.sites[f"{root}new"] = b"<p>"
        world.lcc.put(pids[root], root, b"<a href=/new>new</a>")
    world.settle("all", 60)
    world.advance(3)
    world.settle("all", 60)
    assert world.lcc.cached == {*ROOTS, *(f"{root}new" for root in ROOTS)}


def test_what_lies_in_anothers_root_is_told_as_his(worlds: Worlds) -> None:
    """A provider has registered a folder: what it has not told of is its own all the same, with its limits."""
    start = ROOTS[0]
    docs = f"{start}docs/"
    links = b"<a href=/docs/>d</a><a href=/news>n</a>"
    pages = {start: links, docs: b"<a href=1>1</a>", f"{docs}1": b"<a href=2>2</a>"}
    world = worlds({**pages, f"{docs}2": b"<p>", f"{start}news": b"<p>"}, told_wait=2.0)
    world.lcc.providers[docs] = 70
    world.lcc.put(70, f"{docs}1", pages[f"{docs}1"])
    world.start()
    world.add("all", start, restrict_to=SCOPE, revisit_seconds=100, revisit_least_seconds=50)
    world.settle("all")
    watched = world.lcc.providers[start]
    assert {(told.pid, url["c"]) for told in world.lcc.told for url in told.urls} == {
        *((watched, url) for url in (start, f"{start}news")),
        *((70, url) for url in (docs, f"{docs}1", f"{docs}2")),
    }
    assert sorted(world.lcc.fetched) == sorted([start, f"{start}news", docs, f"{docs}2"]), "each once"
    assert world.lcc.cached == {*pages, f"{docs}2", f"{start}news"}
    world.lcc.told.clear()
    world.advance(400)
    pids = {url["c"]: told.pid for told in world.lcc.told for url in told.urls if url.get("op") == "recheck"}
    assert pids[f"{docs}1"] == 70 and pids[start] == watched


@pytest.mark.parametrize("number", [0, 9])
def test_a_provider_that_was_lost_before_its_robots_txt_was_known_is_asked_for_again(
    worlds: Worlds, number: int
) -> None:
    """No page has come, so that nobody has noticed that a backup was put back (seed 61018s).

    :param number: of the provider that there is by now; 0: none.
    """
    world = worlds({ROOTS[0]: b"<p>"})
    world.lcc.unknown_robots = True
    world.start()
    world.add("all", ROOTS[0], restrict_to=SCOPE)
    world.advance(5)
    assert world.lcc.watches == [(ROOTS[0], False)]
    world.lcc.providers = {ROOTS[1]: world.lcc.providers[ROOTS[0]], **({ROOTS[0]: number} if number else {})}
    world.lcc.unknown_robots = False
    world.settle("all", 60)
    assert world.lcc.cached == {ROOTS[0]} and len(world.lcc.watches) == 2
    assert {told.pid for told in world.lcc.told} == {world.lcc.providers[ROOTS[0]]}


def test_nothing_is_forbidden_while_a_robots_txt_is_asked_for_anew(worlds: Worlds) -> None:
    """What is known of hosts is forgotten between the choice of URLs and their set (seed 62074r)."""
    world = worlds({ROOTS[0]: b"<p>"})
    world.start()
    teller, sites = world.spiders[0].teller, world.spiders[0].sites
    cached = teller._cached

    async def forgotten(told: Sequence[Telling]) -> set[tuple[int, bytes]]:
        sites.forget_all()
        return await cached(told)

    teller._cached = forgotten
    world.add("all", ROOTS[0], restrict_to=SCOPE)
    world.settle("all", 60)
    assert world.lcc.cached == {ROOTS[0]}


def test_what_was_told_of_a_host_that_has_no_provider_now_is_told_again(worlds: Worlds) -> None:
    start = ROOTS[0]
    pages = [f"{start}{number}" for number in range(3)]
    world = worlds(
        {start: b"<a href=/0></a><a href=/1></a><a href=/2></a>", **dict.fromkeys(pages, b"<p>")}, window=1
    )
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    while not world.lcc.fetched:
        world.advance(0.5)
    for _ in range(6):  # told, but not fetched
        world.clock.advance(0.5)
    assert world.status("all").counts["told"] == 1
    world.lcc.forget()
    private = {"settings": {"allow_private": True}}
    world.database.write(lambda txn: ORDERS.give(txn, CRAWL_SET, "all", private, NOW))
    world.settle("all", 120)
    assert set(world.lcc.fetched) == {start, *pages}


def test_a_provider_that_is_gone_is_not_watched_by_a_crawl_that_completes_it(worlds: Worlds) -> None:
    root = ROOTS[0]
    world = worlds({root: b"<a href=/more>more</a>", f"{root}more": b"<p>"})
    world.lcc.providers[root] = 7
    world.lcc.put(7, root, b"<a href=/more>more</a>")
    world.lcc.providers.clear()
    world.start()
    world.add("all", pid=7, roots=(root,))
    world.settle("all")
    assert world.lcc.providers == {} and world.status("all").counts["refused"] == 1
