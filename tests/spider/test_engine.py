"""The spider's engine, with the real frontier, filters and extraction, in an LCC that is played."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from lcc.domain.spider.rules import START_CASH
from lcc.errors import StoreUnavailable
from lcc.model.crawls import Telling, UrlOrder
from lcc.model.links import Page
from lcc.model.notifiers import SourcedSet
from lcc.model.sources import Source
from lcc.model.states import AnsweredUrl, AskedUrl
from lcc.storage.spider.claims import spiders
from lcc.storage.spider.orders import CRAWL_SET, ORDERS
from tests.support.roles.spider import NOW, SpiderWorld
from tests.support.servers.linked_sites import LinkedSites, generate

ROOTS = ("http://one.example/", "http://two.example/", "http://three.example/")
SCOPE = r"http://(one|two|three)\.example/"
Worlds = Callable[..., SpiderWorld]


def contents(sites: LinkedSites) -> dict[str, bytes]:
    return {page: sites.html(page).encode() for page in sites.links}


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Worlds]:
    made: list[SpiderWorld] = []

    def make(sites: LinkedSites | dict[str, bytes], **settings: Any) -> SpiderWorld:
        web = contents(sites) if isinstance(sites, LinkedSites) else sites
        world = SpiderWorld(tmp_path, web, **settings)
        if isinstance(sites, LinkedSites):
            world.lcc.robots_of = {root: sites.robots(root) for root in sites.roots}
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


def test_a_crawl_reads_the_closure_and_fetches_each_page_once(worlds: Worlds) -> None:
    sites = generate(1, ROOTS, pages=40, links=6)
    world = worlds(sites, window=10)
    world.start()
    world.add("all", sites.start, restrict_to=SCOPE)
    world.settle("all")
    assert set(world.lcc.fetched) == sites.closure()
    assert len(world.lcc.fetched) == len(set(world.lcc.fetched))
    kept = {(page.row.curl, link.url) for page, links in world.kept.pages for link in links.links}
    assert kept == sites.edges(sites.closure())
    assert all(len(told.urls) <= 10 for told in world.lcc.told)


@pytest.mark.parametrize("order", list(UrlOrder))
def test_links_to_what_is_known_count_and_need_no_look(worlds: Worlds, order: UrlOrder) -> None:
    pages = [f"{ROOTS[0]}{number}" for number in range(30)]
    start = b"".join(b"<a href=/%d>x</a>" % number for number in range(30))
    every = start + b"<area href=/1><area href=/2 rel=nofollow><a href=http://elsewhere.example/>x</a>"
    world = worlds({ROOTS[0]: start, **dict.fromkeys(pages, every)}, window=4)
    spider = world.start()
    world.add("all", ROOTS[0], restrict_to=SCOPE, order=order)
    looked_at, commit = [], spider.frontier.commit

    def noted(batch: Any, now: int) -> Any:
        looked_at.extend(len(page.links) for page in batch.pages)
        return commit(batch, now)

    spider.frontier.commit = noted  # type: ignore[method-assign]
    world.settle("all")
    status = world.status("all")
    assert status.counts["cached"] == 31 and len(looked_at) == 31
    assert status.counts["links"] == 30 + 30 * 29, "distinct ones, without those to the page itself"
    assert status.dropped == {"visited": 30 * 31, "nofollow": 30, "scope": 30}
    assert sum(looked_at) < 30 * 31 * 0.75, "what was read, or in an order by depth what is known, changes no longer"


@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again(worlds: Worlds, seed: int) -> None:
    chance = Random(seed)
    sites = generate(seed, ROOTS, pages=30, links=5)
    world = worlds(sites, window=7, pages_at_once=5, told_wait=2.0, stores=("links",), segment_bytes=1 << 16)
    spider = world.start()
    world.add("all", sites.start, restrict_to=SCOPE)
    for _ in range(12):
        world.database.lose_results = chance.choice([0, 0, 0, 1, 3])
        for _ in range(chance.randrange(1, 12)):
            world.clock.advance(chance.choice([0, 0.2, 1.0]))
            world.lcc.fetch(chance.randrange(4))
        world.kill(spider)
        spider = world.start()
    world.settle("all")
    assert set(world.lcc.fetched) == sites.closure()
    assert len(world.lcc.fetched) == len(set(world.lcc.fetched)), "the cache has it: a hint changes nothing"
    counts = world.status("all").counts
    assert counts["cached"] == counts["known"] - counts.get("refused", 0) == len(sites.closure())
    edges = logged(world.home / "spider" / "links")
    assert set(edges) == sites.edges(sites.closure())
    assert len(edges) == len(set(edges)), "whatever was written and not committed is taken back"


def logged(folder: Path) -> list[tuple[str, str]]:
    """Source and target of each line of a link log."""
    found = []
    for path in sorted(folder.iterdir()):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            link = json.loads(line)
            found.append((link["source"], link["target"]))
    return found


def test_what_is_cached_already_is_read_and_not_fetched(worlds: Worlds) -> None:
    sites = generate(5, ROOTS, pages=30, links=5)
    world = worlds(sites)
    for page in sorted(sites.closure()):
        root = next(root for root in ROOTS if page.startswith(root))
        pid = world.lcc.providers.setdefault(root, len(world.lcc.providers) + 1)
        world.lcc.put(pid, page, sites.html(page).encode())
    world.start()
    world.add("all", sites.start, restrict_to=SCOPE)
    world.settle("all", 60)
    assert world.lcc.fetched == [] and world.lcc.told == []
    assert world.status("all").counts["cached"] == len(sites.closure())


def test_two_spiders_share_the_hosts_and_one_takes_over(worlds: Worlds) -> None:
    roots = tuple(
        f"http://{name}.example/"
        for name in ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "kiwi", "lynx"]
    )
    sites = generate(6, roots, pages=12, links=5)
    world = worlds(sites, lease=10.0, told_wait=2.0, window=5)
    one, two = world.start("one"), world.start("two")
    world.advance(30)
    assert (len(one.shares.tokens), len(two.shares.tokens)) == (32, 32)
    assert not one.shares.tokens.keys() & two.shares.tokens.keys()
    world.add("all", sites.start, restrict_to=r"http://\w{3,4}\.example/")
    world.advance(6)
    assert one.counters.told and two.counters.told
    world.kill(two)
    world.settle("all")
    assert len(one.shares.tokens) == 64
    assert set(world.lcc.fetched) == sites.closure()
    assert len(world.lcc.fetched) == len(sites.closure())


def test_a_spider_that_was_silent_too_long_begins_anew(worlds: Worlds) -> None:
    sites = generate(7, ROOTS, pages=10, links=4)
    world = worlds(sites, lease=10.0)
    one = world.start("one")
    world.advance(3)
    run = one.run_number
    two = world.start("two")
    one.shares.look = lambda: succeed(None)  # type: ignore[assignment, method-assign, return-value]  # it stands still
    world.advance(30)
    assert len(two.shares.tokens) == 64
    del one.shares.look
    world.add("all", sites.start, restrict_to=SCOPE)
    world.settle("all")
    world.advance(30)
    assert one.run_number > run and (len(one.shares.tokens), len(two.shares.tokens)) == (32, 32)
    assert set(world.lcc.fetched) == sites.closure()


def test_pages_that_change_and_go(worlds: Worlds) -> None:
    start, more = ROOTS[0], f"{ROOTS[0]}more"
    world = worlds({start: b"<a href=/more>more</a>", more: b"<p>text"})
    world.start()
    revisits = {"revisit_seconds": 100, "revisit_least_seconds": 50, "revisit_most_seconds": 1000}
    world.add("all", start, restrict_to=SCOPE, **revisits)
    world.settle("all")
    world.lcc.sites[start] = b"<a href=/new>new</a>"
    world.lcc.sites[f"{start}new"] = b"<p>new"
    del world.lcc.sites[more]
    world.advance(200)
    assert {f"{start}new"} < set(world.lcc.fetched)
    counts = world.status("all").counts
    assert (counts["cached"] + counts.get("rechecks", 0), counts["gone"]) == (2, 1)
    assert {told["op"] for each in world.lcc.told for told in each.urls if "op" in told} == {"recheck"}
    world.lcc.sites[more] = b"<p>back"
    world.advance(1000)
    counts = world.status("all").counts
    assert (counts["cached"] + counts.get("rechecks", 0), counts["gone"]) == (3, 0), "it is back"


def test_errors_and_what_is_refused(worlds: Worlds) -> None:
    start = ROOTS[0]
    links = b"".join(b"<a href=/%s>x</a>" % name for name in (b"404", b"500", b"outside", b"quota", b"robots"))
    world = worlds({start: links})
    world.lcc.robots_of[start] = "User-agent: *\nDisallow: /robots"
    world.lcc.errors = {f"{start}500": 500, f"{start}outside": 1407, f"{start}quota": 1501}
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.advance(400)
    counts = world.status("all").counts
    assert {name: counts.get(name) for name in ("cached", "gone", "refused")} == {
        "cached": 1,
        "gone": 1,
        "refused": 1,
    }
    assert world.status("all").dropped["robots"] == 1
    waiting = counts.get("failed", 0) + counts.get("waiting", 0) + counts["told"]
    assert waiting == 2, "500 is tried again, and what is over quota waits"
    assert counts["parked"] == 1
    assert f"{start}robots" not in world.lcc.fetched


def test_a_claim_that_takes_long_is_one_claim(worlds: Worlds) -> None:
    world = worlds({})
    world.database.hold_back()
    spider = world.start()
    world.clock.pump([1] * 5)
    world.database.let_go()
    world.clock.pump([1] * 5)
    assert spider.run_number == 1


def test_others_see_what_a_spider_waits_for(worlds: Worlds) -> None:
    world = worlds({ROOTS[0]: b""})
    spider = world.start()
    world.add("all", ROOTS[0], restrict_to=SCOPE)
    world.lcc.silent, world.lcc.connected = True, False
    world.advance(30)
    [seen] = world.database.now(spiders)
    assert seen.trouble == "cannot reach the UNS's port of notifiers; lcc-cu is unreachable"
    spider.pause()
    world.lcc.silent, world.lcc.connected = False, True
    world.advance(30)
    [seen] = world.database.now(spiders)
    assert seen.trouble == "paused at its console: it tells nothing"
    assert seen.seen_time > world.now() - 30


def test_a_page_that_comes_two_ways_at_once_is_kept_once(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.roles.spider.follower._CAUGHT_UP_SECONDS", 0)
    one = ROOTS[0]
    world = worlds({one: b"<a href=/late>x</a>"})
    spider = world.start()
    world.add("all", one, restrict_to=SCOPE)
    world.advance(3)
    world.lcc.forget()
    pid = world.lcc.providers[one]
    world.lcc.put(pid, f"{one}late", b"<a href=/more>x</a>")
    # The cache is asked what became of it while the change is on its way.
    assert spider.follower.is_caught_up
    page = world.lcc.page(pid, f"{one}late").row
    spider.follower.note_unread([AnsweredUrl(pid, page.curl, "cached", page.key.hex(), change=page.change)])
    reading = Deferred.fromCoroutine(spider.follower.read_unread())
    world.clock.pump([0] * 20)
    assert reading.called and not isinstance(reading.result, Failure)
    kept = [page.row.curl for page, _ in world.kept.pages]
    assert kept == [one, f"{one}late"]
    assert world.status("all").counts["pages"] == 2


def test_redirects_to_other_hosts_are_followed_as_links(worlds: Worlds) -> None:
    one, two, three = ROOTS
    world = worlds({f"{two}a": b"<a href=http://three.example/loop>x</a><a href=/b>x</a><a href=/away>y</a>"})
    world.lcc.redirects = {
        one: f"{two}a",
        f"{three}loop": f"{one}loop",
        f"{one}loop": f"{three}loop",
        f"{two}b": f"{three}b",
        f"{two}away": "http://elsewhere.example/",
    }
    world.lcc.sites[f"{three}b"] = b"<p>b"
    world.start()
    world.add("all", one, restrict_to=SCOPE, depth_max=1)
    world.settle("all")
    fetched = [one, f"{two}a", f"{three}loop", f"{two}b", f"{two}away"]
    assert sorted(world.lcc.fetched) == sorted(fetched), "further ones are too far from the start"
    assert world.status("all").counts["cached"] == 1
    assert world.status("all").dropped["depth"] == 2 and world.status("all").dropped["scope"] == 1

    world.add("deeper", one, restrict_to=SCOPE)
    world.settle("deeper")
    assert {f"{one}loop", f"{three}b"} < set(world.lcc.fetched)
    assert world.status("deeper").counts["cached"] == 2 and world.status("deeper").counts["refused"] == 5


def test_a_page_that_is_not_there_as_linked_is_asked_for_by_the_name_that_compares(worlds: Worlds) -> None:
    one = ROOTS[0]
    world = worlds({one: b"<a href=/t//2.html>x</a><a href=/T/3.html>x</a><a href=/Index.html>x</a>"})
    world.lcc.sites[f"{one}t/2.html"] = world.lcc.sites[f"{one}T/3.html"] = b"<p>there"
    world.start()
    world.add("all", one, restrict_to=SCOPE, names="larm")
    world.settle("all")
    assert sorted(world.lcc.fetched) == [one, f"{one}T/3.html", f"{one}t//2.html", f"{one}t/2.html"]
    assert world.status("all").counts["cached"] == 3

    world.add("as linked", one, restrict_to=SCOPE)
    world.settle("as linked")
    assert world.status("as linked").counts["gone"] == 2, "with the names of RFC 3986 it is another page"


def test_what_a_start_redirects_to_has_its_importance(worlds: Worlds) -> None:
    one, two, _ = ROOTS
    world = worlds({two: b"<a href=/b>x</a>", f"{two}b": b"<p>"})
    world.lcc.redirects = {one: two}
    world.start()
    world.add("all", one, restrict_to=SCOPE, order=UrlOrder.OPIC)
    world.settle("all")
    rows = world.database.now(lambda txn: txn.query("SELECT cash, history FROM spurl ORDER BY told_set"))
    assert rows == [(0, 0), (0, START_CASH), (START_CASH, 0)], "the start, its target, a link of that"


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


def test_folders_of_ftp_are_followed(worlds: Worlds) -> None:
    root = "ftp://files.example/"
    folders = {root: f"{root}a.html\r\n{root}sub/\r\n".encode(), f"{root}sub/": f"{root}sub/c.txt\r\n".encode()}
    pages = {f"{root}a.html": b"<a href=b.html>b</a>", f"{root}b.html": b"<p>", f"{root}sub/c.txt": b"text"}
    world = worlds({**folders, **pages})
    world.lcc.mimetypes = {**dict.fromkeys(folders, "text/uri-list"), f"{root}sub/c.txt": "text/plain"}
    world.start()
    world.add("all", root, restrict_to="ftp://files\\.example/")
    world.settle("all")
    assert set(world.lcc.fetched) == {*folders, *pages}


def test_trouble_is_told_and_passes(worlds: Worlds) -> None:
    sites = generate(8, ROOTS, pages=10, links=4)
    world = worlds(sites)
    spider = world.start()
    world.add("all", sites.start, restrict_to=SCOPE)
    world.lcc.silent = True
    world.advance(20)
    assert "unreachable" in spider.trouble
    world.lcc.silent = False
    world.database.unavailable = True
    world.advance(20)
    assert spider.trouble
    world.database.unavailable = False
    world.settle("all")
    world.advance(10)
    assert spider.trouble == ""
    world.lcc.timeline = "another"
    world.advance(130)
    assert set(world.lcc.fetched) == sites.closure()


def test_what_a_cache_has_lost_that_was_put_back_is_told_again(worlds: Worlds) -> None:
    """Pages that were read, and sets that had not arrived: at once, not after they were waited for.  And that hosts
    may have private addresses (seed 60006s)."""
    sites = generate(8, ROOTS, pages=12, links=4)
    world = worlds(sites, told_wait=5.0)
    world.start()
    world.add("all", sites.start, restrict_to=SCOPE, allow_private=True)
    world.advance(2)
    world.clock.advance(0.5)
    assert world.status("all").counts["told"]
    kept = {*world.lcc.fetched[::3]}
    world.lcc.put_back(kept)
    world.lcc.watches.clear()
    world.settle("all", 60)
    assert {*world.lcc.watches} == {(root, True) for root in ROOTS}
    again = {url for url, count in Counter(world.lcc.fetched).items() if count > 1}
    assert set(world.lcc.fetched) == sites.closure() == world.lcc.cached
    assert again and not kept & again


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


def test_numbers_of_changes_of_before_a_restore_say_nothing(worlds: Worlds) -> None:
    """The cache is put back, and what is fetched since has lower numbers than what was read (61013s, 62032r)."""
    start = ROOTS[0]
    pages = {start: b"<a href=/1>1</a><a href=/2>2</a>", f"{start}1": b"<p>1", f"{start}2": b"<p>2"}
    world = worlds({**pages, f"{start}new": b"<p>"})
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.settle("all")
    pid = world.lcc.providers[start]
    world.lcc.put_back([], last_change=0)
    world.lcc.put(pid, f"{start}1", b"<a href=/new>new</a>")  # with the number that another page had
    world.settle("all", 120)
    world.advance(5)
    world.settle("all", 120)
    assert world.lcc.cached == {*pages, f"{start}new"}
    assert [row.change for row in world.read] == world.lcc.changes


def test_a_cache_that_is_put_back_again_while_it_is_asked_what_it_lost(worlds: Worlds) -> None:
    """What the first answers have said is not so any longer: not what it has, nor under which numbers."""
    start = ROOTS[0]
    pages = {start: b"<a href=/1>1</a><a href=/2>2</a>", f"{start}1": b"<p>1", f"{start}2": b"<p>2"}
    world = worlds({**pages, f"{start}new": b"<p>"})
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.settle("all")
    pid, lcc, asked = world.lcc.providers[start], world.lcc, world.lcc.states

    async def states(urls: Sequence[AskedUrl], notifier: str = "", epoch: str = "") -> list[AnsweredUrl]:
        found = await asked(urls, notifier, epoch)
        lcc.states = asked  # type: ignore[method-assign]
        assert [each.state for each in found] == ["cached"] * 3
        lcc.put_back([start], last_change=0)
        lcc.put(pid, f"{start}1", b"<a href=/new>new</a>")
        return found

    lcc.states = states  # type: ignore[method-assign]
    lcc.put_back(pages)
    world.settle("all", 120)
    world.advance(5)
    world.settle("all", 120)
    assert lcc.states == asked and lcc.cached == {*pages, f"{start}new"}
    assert [row.change for row in world.read] == lcc.changes


def test_a_page_that_is_fetched_again_is_not_read_again_after_a_restore(worlds: Worlds) -> None:
    """It is cached as it was read, though it is queued (64039r)."""
    start = ROOTS[0]
    world = worlds({start: b"<p>"})
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.settle("all")
    world.lcc.put_back([start])
    world.lcc.tell(SourcedSet(99, world.lcc.providers[start], Source.LINK, ({"c": start, "op": "recheck"},)))
    world.clock.pump([0.5] + [0] * 20)
    assert [asked.curl for asked in world.lcc.asked][-1] == start
    world.advance(60)
    assert world.lcc.fetched == [start, start] and len(world.kept.pages) == 1


def test_a_page_that_has_changed_since_it_was_asked_for_on_its_own_is_not_committed(worlds: Worlds) -> None:
    start = ROOTS[0]
    world = worlds({start: b"<p>"})
    spider = world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.settle("all")
    pid, asked = world.lcc.providers[start], spider.follower._reading.moment
    before = world.lcc.page(pid, start)
    world.lcc.put(pid, start, b"<p>changed")
    world.advance(2)
    before = Page(attrs.evolve(before.row, md5="01" * 16), b"<p>before")
    stream: Any = SlowStream(before, succeed(None))
    Deferred.fromCoroutine(spider.follower._process(stream, list(spider.crawls.reading()), asked=asked))
    world.advance(2)
    assert [row.change for row in world.read] == world.lcc.changes and len(world.kept.pages) == 2


def test_a_version_that_cannot_be_had_is_not_waited_for_for_ever(worlds: Worlds) -> None:
    """Its page is looked at again when it is due, as long as it was read before (65155r)."""
    start = ROOTS[0]
    world = worlds({start: b"<p>"}, told_wait=1.0)
    world.start()
    world.add("all", start, restrict_to=SCOPE, revisit_seconds=5, revisit_least_seconds=5, revisit_most_seconds=5)
    world.advance(3)
    world.lcc.unreadable.add(start)
    world.lcc.put(world.lcc.providers[start], start, b"<p>gone")
    world.advance(50)
    assert world.status("all").counts["rechecks"] == 1 and world.lcc.fetched == [start] * 2
    world.advance(120)
    assert world.lcc.fetched == [start] * 3
    world.lcc.unreadable.clear()
    world.advance(10)
    assert [row.change for row in world.read] == world.lcc.changes


def test_what_a_restored_cache_has_as_deleted_is_told_again(worlds: Worlds) -> None:
    """It was deleted before it was read, and is there (65169r)."""
    start = ROOTS[0]
    world = worlds({start: b"<a href=/1>1</a>", f"{start}1": b"<p>1"})
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.settle("all")
    world.lcc.put_back([start, f"{start}1"])
    world.lcc.delete(world.lcc.providers[start], f"{start}1")
    world.settle("all", 120)
    assert world.lcc.fetched == [start, f"{start}1", f"{start}1"]
    assert world.status("all").counts["cached"] == 2


class SlowStream:
    """A package with one page, which comes slowly."""

    token = None

    def __init__(self, page: Page, goes_on: Deferred[None]) -> None:
        self._page = page
        self._goes_on = goes_on

    async def __aiter__(self) -> AsyncIterator[Page]:
        yield self._page
        await self._goes_on

    def close(self) -> None:
        pass


def test_pages_of_before_a_restore_are_not_committed_after_it(worlds: Worlds) -> None:
    """A page that is read on its own is being extracted while the changes tell that a backup was put back."""
    start = ROOTS[0]
    world = worlds({start: b"<p>"})
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.settle("all")
    spider, page = world.spiders[0], world.lcc.page(world.lcc.providers[start], start)
    goes_on: Deferred[None] = Deferred()
    lost = Page(attrs.evolve(page.row, change=50, md5="01" * 16), b"<a href=/gone>x</a>")
    stream: Any = SlowStream(lost, goes_on)
    done = Deferred.fromCoroutine(spider.follower._process(stream, list(spider.crawls.reading())))
    world.lcc.put_back([start])
    world.advance(60)
    goes_on.callback(None)
    world.advance(1)
    assert done.called and [row.change for row in world.read] == world.lcc.changes


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


def test_a_clock_that_is_set_back_holds_nothing_up(worlds: Worlds) -> None:
    start, other = ROOTS[:2]
    world = worlds({start: b"<a href=/404>x</a>", other: b""})
    world.ahead_seconds = 365 * 86400
    spider = world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.advance(3)
    spider.pause()
    world.add("two", other, restrict_to=SCOPE)
    world.advance(3)
    world.ahead_seconds = 0
    spider.resume()
    world.settle("all")
    world.settle("two")
    assert world.status("all").counts["gone"] == world.status("two").counts["cached"] == 1


def test_told_by_an_earlier_run_and_lost_with_it(worlds: Worlds) -> None:
    """Its sets have numbers of another epoch: in the new one the cache would wait for them for ever."""
    start = ROOTS[0]
    world = worlds({start: b"<a href=/more>more</a>", f"{start}more": b"<p>"}, told_wait=2.0)
    spider = world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.advance(5)
    assert world.status("all").counts["cached"] == 2
    world.lcc.sites.update({f"{start}{number}": b"<p>" for number in range(3)})
    world.lcc.sites[start] = b"".join(b"<a href=/%d>x</a>" % number for number in range(3))
    world.lcc.put(1, start, world.lcc.sites[start])
    for _ in range(10):  # told, but not fetched
        world.clock.advance(0.5)
    assert world.status("all").counts["told"] == 3
    world.kill(spider)
    world.lcc.forget()
    world.start()
    world.settle("all", 60)
    assert world.status("all").counts["cached"] == 5


def test_a_set_that_never_arrives_is_told_again(worlds: Worlds) -> None:
    """It was accepted, and lost with the spool of a UNS (seed 60002s)."""
    start = ROOTS[0]
    world = worlds({start: b"<a href=/more>more</a>", f"{start}more": b"<p>"}, told_wait=1.0)
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    for _ in range(4):  # told, but not fetched
        world.clock.advance(0.5)
    assert world.status("all").counts["told"] == 1
    world.lcc.forget()
    world.lcc.set_numbers.clear()
    world.advance(50)
    assert world.lcc.fetched == [], "it may be on its way"
    world.settle("all", 90)
    assert len(world.lcc.told) == 3 and set(world.lcc.fetched) == {start, f"{start}more"}


def test_what_is_kept_and_not_committed_is_taken_back(worlds: Worlds) -> None:
    sites = generate(9, ROOTS, pages=8, links=4)
    world = worlds(sites, stores=("links",))
    spider = world.start()
    commit, failures = spider.frontier.commit, [StoreUnavailable("away"), StoreUnavailable("away")]

    def failing(*arguments: Any) -> Any:
        return fail(failures.pop()) if failures and arguments[0].pages else commit(*arguments)

    spider.frontier.commit = failing  # type: ignore[method-assign]
    world.add("all", sites.start, restrict_to=SCOPE)
    world.settle("all")
    edges = logged(world.home / "spider" / "links")
    assert not failures and len(edges) == len(set(edges)) == len(sites.edges(sites.closure()))
