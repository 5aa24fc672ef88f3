"""The queue manager and content that has not changed: what it orders, and what it makes of the answers."""

from __future__ import annotations

from typing import Any

import attrs

from lcc.errors import CODES
from lcc.protocols.work import Fetch
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import FakeBotm, FakeUns, World, page

SAID: dict[str, Any] = {"etag": '"e"', "modified": 100, "revalidate": True}


def the_order(botm: FakeBotm) -> Fetch:
    """The only one that is out."""
    (fetch,) = botm.out.values()
    return fetch


def cached_page(world: World) -> tuple[FakeUns, FakeBotm, int]:
    """A page that is in the cache, with what the server said of it."""
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, [page(1)])
    first = the_order(botm)
    assert (first.stored, first.etag, first.modified) == ("", "", None)
    botm.done(first, **SAID)
    return uns, botm, pid


def test_it_is_asked_about_and_confirmed(world: World) -> None:
    uns, botm, pid = cached_page(world)
    (before,) = world.cached(pid).values()
    world.advance(100)
    uns.send_set(2, pid, [page(1)])
    fetch = the_order(botm)
    assert (fetch.stored, fetch.etag, fetch.modified, fetch.stored_bytes) == ("1.1001", '"e"', 100, 10)
    botm.done(fetch, status=304, size_bytes=0, md5="", machine=None, file=None, unchanged=fetch.stored)
    (after,) = world.cached(pid).values()
    assert after.confirmed_time is not None and before.confirmed_time is not None
    assert after.confirmed_time > before.confirmed_time
    assert attrs.evolve(after, confirmed_time=before.confirmed_time) == before
    assert not botm.out and not botm.deletes
    assert botm.upto == 2


def test_what_is_no_longer_there_is_fetched_at_once(world: World) -> None:
    """The answer speaks of other content than what is cached: the same URL is ordered once more, without conditions
    that would be out of date."""
    uns, botm, pid = cached_page(world)
    uns.send_set(2, pid, [page(1)])
    fetch = the_order(botm)
    botm.done(fetch, status=304, size_bytes=0, md5="", machine=None, file=None, unchanged="1.7")
    again = the_order(botm)
    assert again.id != fetch.id and again.url == fetch.url
    assert again.stored == "1.1001"
    botm.done(again)
    assert not botm.out
    assert [url.fetched_fileid for url in world.cached(pid).values()] == [botm.file]


def test_neither_content_nor_unchanged_is_the_robots_error(world: World, logged_errors: LoggedErrors) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, [page(1)])
    botm.done(the_order(botm), machine=None, file=None)
    assert not botm.out and world.cached(pid) == {}
    queued = world.database.now(lambda txn: txn.query("SELECT bad_code, attempts FROM qdb"))
    assert queued == [(CODES["robot-error"], 1)]
    assert len(logged_errors.flush("Unusable result")) == 1


def test_a_queue_manager_that_starts_between_order_and_answer(world: World) -> None:
    uns, botm, pid = cached_page(world)
    uns.send_set(2, pid, [page(1)])
    fetch = the_order(botm)
    world.start()
    later = FakeBotm(world, earlier=botm)
    later.done(fetch, status=304, size_bytes=0, md5="", machine=None, file=None, unchanged=fetch.stored)
    world.advance(5)
    assert not later.out
    assert [url.fetched_fileid for url in world.cached(pid).values()] == [1001]
    assert world.database.now(lambda txn: txn.query("SELECT COUNT(*) FROM qdb")) == [(0,)]
