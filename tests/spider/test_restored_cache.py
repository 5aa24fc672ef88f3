"""What a spider does about a cache that was put back from a backup, and about pages that come two ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from lcc.errors import code
from lcc.model.notifiers import SourcedSet
from lcc.model.sources import Source
from lcc.model.spider.crawls import BUCKETS, HostRef, Telling
from lcc.model.spider.links import Page
from lcc.model.states import AnsweredUrl, AskedUrl, SiteRobots
from lcc.roles.notifier import NotifierRefused
from tests.spider.kit import ROOTS, SCOPE, Worlds
from tests.support.servers.linked_sites import generate


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


@pytest.mark.parametrize("private", [True, False])
def test_what_was_refused_for_a_provider_that_was_made_again_is_told_again(worlds: Worlds, private: bool) -> None:
    """A restored queue had it without private addresses, until the spider asked for it again (66234r)."""
    start = ROOTS[0]
    world = worlds({start: b"<p>"}, told_wait=5.0)
    world.start()
    world.add("all", start, restrict_to=SCOPE, allow_private=private)
    while not world.lcc.told:
        world.clock.advance(0.5)
        world.clock.pump([0] * 10)
    world.lcc.errors[start] = code("address-forbidden")
    world.lcc.fetch()
    world.lcc.put_back([])
    world.clock.pump([0] * 20)
    world.advance(60)
    assert world.status("all").counts["refused"] == 1 and world.lcc.fetched == [start] * (1 + 2 * private)


@pytest.mark.parametrize("ever", [True, False], ids=["allowed again", "never allowed"])
def test_a_provider_that_has_lost_its_private_addresses_is_asked_for_again(worlds: Worlds, ever: bool) -> None:
    """No change of the cache was lost with them: only the refusal shows it (1004199r)."""
    start = ROOTS[0]
    world = worlds({start: b"<p>"}, told_wait=5.0)
    world.start()
    world.lcc.errors[start] = code("address-forbidden")
    world.add("all", start, restrict_to=SCOPE, allow_private=True)
    for _ in range(200):
        world.advance(1)
        if ever and world.lcc.fetched:
            world.lcc.errors.clear()
    assert world.lcc.fetched == [start] * 2 and world.lcc.watches.count((start, True)) == 2
    counts = world.status("all").counts
    assert counts["cached" if ever else "refused"] == 1


def test_a_slow_host_whose_addresses_are_never_allowed_is_done_at_last(worlds: Worlds) -> None:
    """A round of its URLs takes longer than any pause."""
    start = ROOTS[0]
    pages = [f"{start}{number}" for number in range(20)]
    world = worlds({start: "".join(f"<a href={page}>" for page in pages).encode(), **dict.fromkeys(pages, b"<p>")})
    world.start()
    world.add("all", start, restrict_to=SCOPE, allow_private=True)
    world.lcc.errors.update(dict.fromkeys(pages, code("address-forbidden")))
    for _ in range(200):
        for _ in range(30):
            world.clock.advance(10)
            world.clock.pump([0] * 10)
        world.lcc.fetch(1)
    assert world.status("all").is_done and world.status("all").counts["refused"] == len(pages)


def test_what_was_refused_and_is_queued_again_is_not_told_again(worlds: Worlds) -> None:
    """Its provider was allowed private addresses by then: the fetch is tried once more, in its turn."""
    start = ROOTS[0]
    world = worlds({start: b"<p>"}, told_wait=5.0)
    world.start()
    world.add("all", start, restrict_to=SCOPE, allow_private=True)
    world.lcc.errors[start] = code("address-forbidden")
    while not world.lcc.fetch():
        world.clock.advance(0.5)
        world.clock.pump([0] * 10)
    told = list(world.lcc.told)
    world.lcc.tell(told[0])
    world.lcc.told.pop()
    for _ in range(100):
        world.clock.advance(5)
        world.clock.pump([0] * 10)
    assert world.lcc.told == told and len(world.lcc.watches) == 1


def test_a_host_whose_provider_is_refused_is_told_all_the_same(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the UNS says then shows whether it has a provider."""
    start = ROOTS[0]
    world = worlds({start: b"<p>"}, told_wait=5.0)
    world.start()
    world.add("all", start, restrict_to=SCOPE, allow_private=True)
    world.lcc.errors[start] = code("address-forbidden")
    world.advance(2)
    refusals = [NotifierRefused(code("limit"), "no more"), NotifierRefused(code("try-later"), "no answer")]
    asked: list[str] = []

    def watch(root: str, *_: Any, **__: Any) -> Deferred[int]:
        asked.append(root)
        return fail(refusals.pop())

    monkeypatch.setattr(world.lcc, "watch", watch)
    world.advance(60)
    assert asked == [start] * 2, "only once it has an answer"
    assert world.lcc.fetched == [start] * 2 and world.status("all").counts["refused"] == 1


def test_what_is_told_while_it_is_found_out_what_was_lost_is_of_before(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told to a provider of before, which may have been made anew meanwhile (780351r)."""
    start, other = ROOTS[:2]
    world = worlds({start: b"<a href=%s>x</a>" % other.encode(), other: b"<p>"})
    read, asked = world.lcc.robots, world.lcc.states
    told: list[Telling] = []

    async def robots(origins: Sequence[str]) -> list[SiteRobots]:
        return [each._replace(allow="none") if each.origin == other else each for each in await read(origins)]

    monkeypatch.setattr(world.lcc, "robots", robots)
    spider = world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.advance(30)
    assert world.lcc.fetched == [start] and other in world.lcc.providers

    async def states(urls: Sequence[AskedUrl], notifier: str = "", epoch: str = "") -> list[AnsweredUrl]:
        told.extend(await spider.frontier.tell({HostRef(1, other): ()}, int(world.now())))
        return await asked(urls, notifier, epoch)

    monkeypatch.setattr(world.lcc, "states", states)
    finding = Deferred.fromCoroutine(spider.answers.find_lost(spider.crawls.reading(), range(BUCKETS)))
    world.clock.pump([0] * 20)
    assert finding.called
    (late,) = told
    spider.answers.newest_set = late.number + 1
    (url,) = late.urls
    assert not spider.answers._is_of_now(url)
    assert spider.answers._is_of_now(url._replace(told_set=late.number + 1))


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
