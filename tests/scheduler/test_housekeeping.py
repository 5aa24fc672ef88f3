"""How often old jobs and items are looked for."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred

from lcc.config import SchedulerConfig
from lcc.errors import StoreUnavailable
from lcc.roles.scheduler.housekeeping import Housekeeping
from lcc.storage.tasks.feeds.item_purge import Place
from tests.support.databases import result_of


class Store:
    """Has so many pages to forget.

    :ivar places: where it was to go on with items.
    :ivar fails: it does.
    """

    def __init__(self, jobs: int, items: int) -> None:
        self.jobs, self.items = jobs, items
        self.purges = 0
        self.places: list[Place] = []
        self.fails = False

    async def purge_page(self, now: int, jobs_kept: float, statistics_kept: float) -> bool:
        if self.fails:
            raise StoreUnavailable("away")
        self.purges += 1
        self.jobs -= 1
        return self.jobs > 0

    async def purge_items(self, now: int, items_kept: float, place: Place) -> Place | None:
        if self.fails:
            raise StoreUnavailable("away")
        self.places.append(place)
        self.items -= 1
        return Place(self.items) if self.items > 0 else None


def done(work: Coroutine[Any, Any, None]) -> None:
    result_of(Deferred.fromCoroutine(work))


def ticks(store: Any, first: int, last: int, subject: Housekeeping | None = None) -> Housekeeping:
    """Each second from then on."""
    subject = subject or Housekeeping(SchedulerConfig(), store)
    for clock in range(first, last + 1):
        done(subject.purge(float(clock), 1000))
        done(subject.purge_items(float(clock), 1000))
    return subject


def test_a_page_each_second_until_there_is_no_more_then_after_a_while() -> None:
    store = Store(jobs=3, items=3)
    subject = ticks(store, 0, 0)
    assert store.purges == 1 and store.places == [Place()]
    ticks(store, 1, 30, subject)
    assert store.purges == 3 and store.places == [Place(), Place(2), Place(1)]
    ticks(store, 300, 301, subject)
    assert store.purges == 3
    ticks(store, 302, 310, subject)
    assert store.purges == 4, "five minutes after the last one"
    ticks(store, 6 * 3600 - 20, 6 * 3600 + 1, subject)
    assert len(store.places) == 3
    ticks(store, 6 * 3600 + 2, 6 * 3600 + 20, subject)
    assert store.places[3:] == [Place()], "six hours after the last one, from the first item"


def test_one_that_failed_is_tried_again_after_a_while() -> None:
    store = Store(jobs=1, items=1)
    store.fails = True
    subject = Housekeeping(SchedulerConfig(), cast(Any, store))
    with pytest.raises(StoreUnavailable):
        done(subject.purge(1.0, 1000))
    with pytest.raises(StoreUnavailable):
        done(subject.purge_items(1.0, 1000))
    store.fails = False
    ticks(store, 2, 300, subject)
    assert store.purges == 0 and store.places == []
    ticks(store, 301, 302, subject)
    assert store.purges == 1 and store.places == []


def test_nothing_is_forgotten_for_a_day_after_the_clock_was_set_forward() -> None:
    store = Store(jobs=1, items=1)
    subject = Housekeeping(SchedulerConfig(), cast(Any, store))
    subject.postpone(10.0)
    ticks(store, 86400, 86409, subject)
    assert store.purges == 0 and store.places == []
    ticks(store, 86410, 86410, subject)
    assert store.purges == 1 and store.places == [Place()]
