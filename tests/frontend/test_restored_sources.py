"""The source of a move is restored after the flip, before all rows have arrived: nobody misses a change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcc.errors import StoreUnavailable
from lcc.model.frontend.moves import MoveState
from lcc.roles.cu.front import changes
from lcc.roles.cu.front.cache import FrontCache
from lcc.roles.cu.query import Query
from lcc.roles.cu.tokens import StartAgain
from lcc.storage.views.moved import knows_flips
from tests.frontend.caches import FORM, Follower, MovingCaches
from tests.frontend.kit import NOW
from tests.support.databases import dumped, put_back, result_of

NAMES = "abcdef"
P1, P4 = 1, 2
"""Both are in the same sub-LCC."""


@pytest.fixture
def caches(tmp_path: Path) -> Iterator[MovingCaches]:
    caches = MovingCaches(tmp_path, lambda name: f"sqlite:{tmp_path}/{name}.db")
    for pid in caches.pages:
        for name in NAMES:
            caches.put(pid, name)
    yield caches
    caches.close()


def flip_and_restore(caches: MovingCaches) -> None:
    """P1 changes and flips; then its source is as before that, and its other pages get numbers that P1's had."""
    database = caches.databases[1]
    backup = database.now(dumped)
    for name in NAMES:
        caches.put(P1, name)
    caches.move(P1, 2, MoveState.FLIPPED)
    database.now(put_back, backup)
    result_of(caches.stores[1].claim(NOW))
    for name in NAMES * 2:
        caches.put(P4, name)


def start_again(cache: FrontCache, follower: Follower) -> None:
    with pytest.raises(StartAgain):
        follower.answer(cache)
    follower.token = "0"
    follower.newest.clear()
    follower.copy.clear()
    follower.catch_up(cache)


@pytest.mark.parametrize("map_seconds", [0, 2])
def test_who_had_read_what_the_backup_has(caches: MovingCaches, map_seconds: float) -> None:
    """:param map_seconds: later the reader asks again; at 0 it would use its map of before the flip."""
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    flip_and_restore(caches)
    caches.clock.advance(map_seconds)
    follower.catch_up(cache)
    caches.finish()
    follower.catch_up(cache)
    assert follower.copy == caches.cached()


def test_who_had_read_more_and_starts_again(caches: MovingCaches) -> None:
    cache, follower = caches.reader(), Follower(Query())
    database = caches.databases[1]
    backup = database.now(dumped)
    for name in NAMES:
        caches.put(P1, name)
    follower.catch_up(cache)
    caches.move(P1, 2, MoveState.FLIPPED)
    database.now(put_back, backup)
    result_of(caches.stores[1].claim(NOW))
    for name in NAMES * 2:
        caches.put(P4, name)
    caches.clock.advance(2)
    start_again(cache, follower)
    caches.finish()
    follower.catch_up(cache)
    assert follower.copy == caches.cached()


def test_a_listing_waits(caches: MovingCaches) -> None:
    """It would have pages that are older than those at the new home."""
    cache = caches.reader()
    flip_and_restore(caches)
    caches.clock.advance(2)
    with pytest.raises(StoreUnavailable, match="sub-LCC a"):
        result_of(cache.begin(Query(), FORM))
    caches.finish()
    piece: Any = result_of(cache.begin(Query(), FORM))
    found = list(piece.urls)
    while piece.after is not None:
        piece = result_of(cache.go_on(piece.after, FORM))
        found += piece.urls
    assert {row.key: row.mtime for row in found} == caches.cached()


def test_a_queue_manager_that_is_restarted_changes_nothing(caches: MovingCaches) -> None:
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    caches.put(P1, "a")
    caches.move(P1, 2, MoveState.FLIPPED)
    result_of(caches.stores[1].claim(NOW))
    caches.put(P4, "a")
    caches.clock.advance(2)
    assert follower.answer(cache) == 2
    assert follower.copy == caches.cached()


def test_these_tests_find_it(caches: MovingCaches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "knows_flips", lambda txn, view: knows_flips(txn, view.__class__(view.newest)))
    with pytest.raises(AssertionError):
        test_who_had_read_what_the_backup_has(caches, 2)
