"""The spider's engine, with the real frontier, filters and extraction, in an LCC that is played."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import fail, succeed

from lcc.domain.spider.rules import START_CASH
from lcc.errors import StoreUnavailable
from lcc.model.spider.crawls import UrlOrder
from lcc.model.states import AnsweredUrl
from lcc.storage.spider.claims import spiders
from tests.spider.kit import ROOTS, SCOPE, Worlds
from tests.support.servers.linked_sites import generate


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


def test_pages_of_hosts_that_are_given_away_are_not_read_any_longer(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache has them, and they were to be read on their own; their links would be kept twice (870049s)."""
    monkeypatch.setattr("lcc.roles.spider.follower._CAUGHT_UP_SECONDS", 1e9)  # it will not get so far
    sites = generate(6, ROOTS, pages=4, links=3)
    world = worlds(sites, lease=10.0)
    one = world.start("one")
    world.add("all", sites.start, restrict_to=SCOPE)
    world.settle("all")
    pid_of = world.lcc.providers
    rows = [
        world.lcc.page(pid_of[next(root for root in ROOTS if page.startswith(root))], page).row
        for page in world.lcc.cached
    ]
    world.start("two")
    while len(one.shares.tokens) > 32:
        one.follower.note_unread(
            [AnsweredUrl(row.pid, row.curl, "cached", row.key.hex(), change=row.change) for row in rows]
        )
        assert one.follower._unread
        world.advance(0.5)
    assert not one.follower._unread


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


def test_a_spider_that_was_silent_too_long_begins_anew(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.roles.spider.follower._CAUGHT_UP_SECONDS", 1e9)  # it will not get so far
    sites = generate(7, ROOTS, pages=10, links=4)
    world = worlds(sites, lease=10.0)
    one = world.start("one")
    world.advance(3)
    run = one.run_number
    one.follower.note_unread([AnsweredUrl(1, ROOTS[0], "cached", "00" * 20, change=1)])
    two = world.start("two")
    one.shares.look = lambda: succeed(None)  # type: ignore[assignment, method-assign, return-value]  # it stands still
    world.advance(30)
    assert len(two.shares.tokens) == 64
    del one.shares.look
    world.add("all", sites.start, restrict_to=SCOPE)
    world.settle("all")
    world.advance(30)
    assert one.run_number > run and (len(one.shares.tokens), len(two.shares.tokens)) == (32, 32)
    assert not one.follower._unread, "it may be the other one's"
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


def test_hosts_that_are_taken_over_do_not_wait_by_the_clock_of_the_spider_that_had_them(worlds: Worlds) -> None:
    world = worlds(dict.fromkeys(ROOTS, b""), lease=20)
    one, _two = world.start("one"), world.start("two")
    one.now._now = lambda: world.now() + 365 * 86400
    world.add("all", *ROOTS, restrict_to=SCOPE, revisit_seconds=8, revisit_least_seconds=4, revisit_most_seconds=16)
    world.advance(60)
    world.kill(one)
    world.advance(60)
    before = len(world.lcc.told)
    world.advance(40)
    assert {world.lcc.providers[root] for root in ROOTS} == {told.pid for told in world.lcc.told[before:]}


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
