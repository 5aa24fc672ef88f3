"""Who reads the cache, how far behind, and when last: noted by both interfaces, on each database."""

from __future__ import annotations

import time
from pathlib import Path

import pytest_twisted
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from lcc.errors import StoreUnavailable
from lcc.roles.access import Access
from lcc.roles.cu.readership import WRITE_SECONDS, Readership
from lcc.storage.database.tables.timeline import current_timeline
from lcc.storage.providers.content_users import ContentUser, add_content_user, remove_content_user
from lcc.storage.views.readers import Reader, Reading, count_readers, list_readers, note_readings
from tests.support.cache import Cache, add_user
from tests.support.roles.content_users import Api
from tests.support.roles.xml_users import World, query

A = "http://a.example.org/"
LIMIT = 100


def readers(cache: Cache) -> dict[int, Reader]:
    found = cache.database.now(list_readers, LIMIT)
    return {each.user.cuid if each.user else 0: each for each in found}


@pytest_twisted.ensureDeferred
async def test_who_reads_is_known(api: Api, cache: Cache) -> None:
    (engine, token), (idle, _) = add_user(cache), add_user(cache)
    for number in range(3):
        cache.put(1, f"{A}{number}")
    assert [each.last_time for each in readers(cache).values()] == [None, None]
    begun = int(time.time())
    await api.get("/urls", Authorization=f"Bearer {token}")
    reply = await api.get("/changes?limit=2", Authorization=f"Bearer {token}")
    place = reply.lines()[-1]["next"]
    await api.get(f"/changes?since={place}&limit=1", Authorization=f"Bearer {token}")
    await api.get("/urls")
    await api.stop()
    found = readers(cache)
    assert found[idle].last_time is None and found[engine].last_time is not None
    assert begun <= found[engine].last_time <= time.time()
    # It has said that it has two of three.
    assert found[engine].behind == 1 and not found[engine].lost
    # Whoever has no token: nobody knows how far that is.
    assert found[0].last_time is not None and found[0].behind is None
    assert cache.database.now(count_readers)[0] == 2


def test_who_reads_xml_is_known(tmp_path: Path) -> None:
    world = World(tmp_path)
    cuid, token = add_user(world.cache)
    for number in range(3):
        world.put(f"{A}{number}", b"x")
    (told,) = world.ask(query(since="0", limit="2", token=token))
    world.ask(query(since=told.end["next"], limit="1", token=token))
    world.readership.stop()
    assert readers(world.cache)[cuid].behind == 1


def test_how_far_behind_somebody_is(cache: Cache) -> None:
    database = cache.database
    for number in range(3):
        cache.put(1, f"{A}{number}")
    timeline = database.now(current_timeline)
    database.now(lambda txn: txn.execute("UPDATE lccurl SET change_time = 1000 + change_number"))
    cuids = [database.now(add_content_user, ContentUser(0, name, f"hash {name}", created=50)) for name in "abcdef"]
    a, b, c, d, e, f = cuids
    note = {
        a: Reading(100, timeline, 3),
        b: Reading(100, timeline, 1),
        c: Reading(100, "", 0),
        d: Reading(100, "another-timeline", 2),
        e: Reading(100),
    }
    database.now(note_readings, note)
    found = readers(cache)
    assert (found[a].behind, found[a].behind_time) == (0, None)
    assert (found[b].behind, found[b].behind_time) == (2, 1002)
    assert (found[c].behind, found[c].behind_time) == (3, 1001)
    assert found[d].lost and found[e].behind is None and found[f].last_time is None
    # A request for something else says nothing of how far it is; an older one is no news.
    database.now(note_readings, {a: Reading(200), b: Reading(90)})
    found = readers(cache)
    assert (found[a].last_time, found[a].behind) == (200, 0)
    assert (found[b].last_time, found[b].behind) == (100, 2)
    # The id of a user who is removed may be given again: to another one.
    database.now(remove_content_user, f)
    database.now(note_readings, {f: Reading(100)})
    assert database.now(add_content_user, ContentUser(0, "new", "hash new", created=300)) == f
    assert readers(cache)[f].last_time is None


def test_what_cannot_be_written_is_tried_again() -> None:
    clock, written, broken = Clock(), list[object](), [True]

    def write(readings: object) -> Deferred[None]:
        if broken[0]:
            return fail(StoreUnavailable("away"))
        written.append(readings)
        return succeed(None)

    noted = Readership(write, clock, clock.seconds)
    noted.start()
    user = Access("user", cuid=7)
    noted.asked(user)
    noted.has(user, "epoch-name.12.0.0")
    clock.advance(WRITE_SECONDS)
    assert written == []
    broken[0] = False
    clock.advance(WRITE_SECONDS)
    assert written == [{7: Reading(0, "epoch-name", 12)}]
    # Nothing is written where nobody asks.
    clock.advance(10 * WRITE_SECONDS)
    assert len(written) == 1
    noted.asked(user)
    noted.has(user, "now")
    noted.has(user, "no token")
    noted.stop()
    assert written[1:] == [{7: Reading(int(clock.seconds()))}]
