"""Everything that content users ask, at each step of a move: complete, and as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from twisted.internet.defer import Deferred

from lcc.model.frontend.moves import MoveState
from lcc.roles.access import EVERYTHING
from lcc.roles.cu import resourcesync
from lcc.roles.cu.atom import changed_lately
from lcc.roles.cu.cache import at_home, row_of
from lcc.roles.cu.query import Query
from lcc.roles.cu.resourcesync import Source, change_list, resource_list
from lcc.roles.cu.url_states import Notifier
from lcc.roles.cu.web.resourcesync import ProviderReader
from lcc.roles.cu.web.states import StateReader
from lcc.storage.views import selected
from lcc.storage.views.selected import views
from tests.frontend.caches import Follower, MovingCaches
from tests.frontend.hubs import FrontHub
from tests.support.databases import result_of

P1, P2 = 1, 101
NAMES = "abcdefg"
_SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MovingCaches]:
    for module in (selected, resourcesync):
        monkeypatch.setattr(module, "EXAMINED_ROWS", 2)
    caches = MovingCaches(tmp_path, lambda name: f"sqlite:{tmp_path}/{name}.db")
    for pid in caches.pages:
        for name in NAMES:
            caches.put(pid, name)
    yield caches
    caches.close()


def done(coroutine: Any) -> Any:
    return result_of(Deferred.fromCoroutine(coroutine))


def steps(caches: MovingCaches, pid: int = P1, dest: int = 2) -> Iterator[None]:
    """Each step of a move, and some that come between two questions to the databases."""

    def some(count: int) -> None:
        for _ in range(count):
            if pid in caches.moving:
                caches.step(pid, dest)

    yield
    caches.step(pid, dest)
    for at_once in (1, 2, 4, 6, 9, 12):
        while pid in caches.moving:
            yield
            caches.between = partial(some, at_once)
            yield
            caches.between = None
        yield
        dest = caches.homes[pid] % 3 + 1
        caches.step(pid, dest)
    caches.finish()


def test_a_page_and_its_views(caches: MovingCaches) -> None:
    key = caches.key(P1, "a")
    for _ in steps(caches):
        row = done(row_of(caches.several, key))
        assert row is not None and row.mtime == caches.pages[P1]["a"].version
    assert result_of(caches.several.home(P1)) is not result_of(caches.several.home(2))
    for _ in steps(caches, P1, 3):
        assert len(done(at_home(caches.several, P1, views, key))) == 1
    assert done(row_of(caches.several, caches.key(P1, "unknown"))) is None


def test_states(caches: MovingCaches) -> None:
    reader = StateReader(caches.several)
    asked: list[dict[str, Any]] = [{"key": caches.key(pid, name).hex()} for pid in (P2, P1) for name in "abg"]
    caches.delete(P1, "g")
    for _ in steps(caches):
        lines = done(reader.lines(EVERYTHING, Notifier(), asked)).splitlines()
        states = [json.loads(line)["state"] for line in lines]
        assert states == ["cached"] * 5 + ["deleted"]


def put_files(caches: MovingCaches) -> None:
    """All pages that are cached have files; no robot brings them here."""
    for database in caches.databases.values():
        database.now(lambda txn: txn.execute("UPDATE lccurl SET fetched_machineid = 1, fetched_fileid = 1"))


def read(caches: MovingCaches, make: Any, between: int) -> list[tuple[str, str]]:
    """Locations and times of a provider's document, between two pages of which some steps of a move are done."""

    async def read() -> bytes:
        reader = ProviderReader(await caches.several.home(P1), make, caches.several, P1)
        piece = await reader.first()
        data = piece.data
        while piece.after is not None:
            for _ in range(between):
                if P1 in caches.moving:
                    caches.step(P1, 2)
            put_files(caches)
            piece = await reader.next(piece)
            data += piece.data
        return data

    urls = etree.fromstring(done(read()))
    return [
        (url.findtext(f"{_SITEMAP}loc"), url.findtext(f"{_SITEMAP}lastmod")) for url in urls.iter(f"{_SITEMAP}url")
    ]


@pytest.mark.parametrize("between", [1, 4, 9, 30])
def test_a_resource_list_goes_on_where_the_provider_is(caches: MovingCaches, between: int) -> None:
    source = Source("http://x/", P1)
    caches.move(P1, 2, MoveState.FLIPPED)
    put_files(caches)
    found = read(caches, lambda txn: resource_list(txn, source), between)
    wanted = [f"http://x/content/{key.hex()}" for key in sorted(caches.cached(lambda pid, _: pid == P1))]
    assert [location for location, _ in found] == wanted


def test_a_change_list_that_is_left_goes_on_with_the_next_one(caches: MovingCaches) -> None:
    """Whoever goes on from the latest time that it has seen misses nothing."""
    source = Source("http://x/", P1)

    # The new home's clock is behind.
    caches.databases[1].now(
        lambda txn: txn.execute("UPDATE counters SET value = value + 50 WHERE name = 'change_time'")
    )
    for name in NAMES:
        caches.put(P1, name)
    for name in "abcd":
        caches.delete(P1, name)
    caches.move(P1, 2, MoveState.FLIPPED)
    first = read(caches, lambda txn: change_list(txn, source), 4)
    assert caches.homes[P1] == 2 and len(first) < len(NAMES)
    caches.finish()
    second = read(caches, lambda txn: change_list(txn, source), 0)
    latest = max(time for _, time in first)
    late = {location for location, time in second if time >= latest}
    told = {location for location, _ in first} | late
    assert {f"http://x/content/{caches.key(P1, name).hex()}" for name in "abcd"} <= told
    assert min(time for _, time in second) >= latest


def test_an_atom_feed(caches: MovingCaches) -> None:
    """Its last changes are those of pages, whatever has moved."""
    caches.move(P1, 2)
    caches.clock.advance(2)
    caches.put(P1, "a")
    caches.put(P2, "b")
    rows, token = done(changed_lately(caches.several, Query()))
    assert {(row.pid, row.mtime) for row in rows[-2:]} == {
        (P1, caches.pages[P1]["a"].version),
        (P2, caches.pages[P2]["b"].version),
    }
    assert len({row.key for row in rows}) == len(rows)
    caches.move(P1, 3)
    caches.clock.advance(2)
    follower = Follower(Query())
    follower.token = token
    assert follower.answer(caches.several) == 0


def test_subscribers_of_the_hub(caches: MovingCaches) -> None:
    hub = FrontHub(caches)
    try:
        hub.pass_time(2)
        hub.subscribe()
        assert hub.told() == []
        caches.put(P1, "a")
        assert hub.told() == ["a"]
        # Some changes come just before the move, and one whose new home is away.
        for _ in steps(caches):
            hub.pass_time(0.5)
        assert hub.told() == []
        caches.put(P1, "b")
        caches.delete(P1, "c")
        caches.move(P1, 3)
        caches.put(P1, "d")
        assert hub.told() == ["-", "b", "d"]
        caches.put(P1, "e")
        caches.move(P1, 1, MoveState.ACTIVE)
        hub.kill()
        caches.put(P1, "f")
        assert hub.told() == ["e", "f"]
        caches.finish()
        assert hub.told() == []
    finally:
        hub.hub.stop()


def test_one_subscriber_that_is_far_behind(caches: MovingCaches) -> None:
    hub = FrontHub(caches)
    try:
        hub.pass_time(2)
        hub.subscribe()
        hub.callbacks.answers["user.example.net"] = 503
        for number, name in enumerate("abcd"):
            caches.put(P1, name)
            hub.pass_time(2)
            caches.move(P1, (2, 3, 1, 2)[number])
            hub.pass_time(2)
        assert hub.told() == []
        hub.callbacks.answers["user.example.net"] = 200
        hub.pass_time(600)
        assert hub.told() == ["a", "b", "c", "d"]
        assert hub.told() == []
    finally:
        hub.hub.stop()
