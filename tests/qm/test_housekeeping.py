"""What the queue manager does in the background, and on order, on the real store."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.errors import Busy, StoreUnavailable
from lcc.roles.qm.orders.deleter import LOOK_SECONDS
from lcc.storage.database.tables.order_rows import REBUILD, RETRY, WANT_FULL_SET, add_order
from lcc.storage.queue.maintenance import housekeeping
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, page, pages

from .test_orders import urls

MINUTE, DAY = 60, 86400


def test_deleted_files_stay_for_the_grace_period(make_world: MakeWorld) -> None:
    world = make_world(delete_grace=300)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(*range(5)))
    botm.finish_all()
    uns.send_set(2, pid, [page(number, delete=True) for number in range(3)])
    world.advance(200)
    uns.send_set(3, pid, [page(3, delete=True)])
    world.advance(99)
    assert not botm.deletes
    world.advance(1 + LOOK_SECONDS)
    assert len(botm.deletes) == 3
    botm.delete_all()
    world.advance(180)
    assert not botm.deletes
    world.advance(20 + LOOK_SECONDS)
    assert len(botm.deletes) == 1
    botm.delete_all()
    assert world.count("fsmdb") == 0


def test_content_expires_a_page_a_second(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "PAGE_ROWS", 4)
    world = make_world(age_wanted=20 * MINUTE, age_expired=40 * MINUTE, housekeeping_period=MINUTE)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(*range(20)))
    botm.finish_all()
    world.advance(19 * MINUTE)
    assert world.count("pstats", "wantfullset = ''") == 1
    world.advance(3 * MINUTE)
    assert world.count("pstats", "wantfullset = 'old-files'") == 1
    world.advance(17 * MINUTE)
    assert world.cached_count == 20 and not botm.deletes
    world.advance(3 * MINUTE)
    assert world.cached_count == 0 and len({order.id for order in botm.deletes}) == 20
    assert world.count("pstats", "wantfullset = 'expired-files'") == 1
    assert world.count("urlerrs", "code = 1503") == 20


def test_a_missing_set_is_found_and_its_rows_are_fetched(world: World, logged_errors: Any) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    world.advance(70)
    uns.send_set(1, pid, pages(*range(200)))
    world.database.now(lambda txn: txn.execute("DELETE FROM qpsdb"))
    for fetch in list(botm.out.values()):
        botm.forget(fetch)
    botm.close()
    world.start()
    back = FakeBotm(world)
    world.advance(5)
    assert not back.seen
    world.database.now(lambda txn: txn.execute("UPDATE chores SET due = 0"))
    world.advance(70)
    assert back.finish_all() == 200
    assert world.count("qdb") == world.count("qpsdb") == 0
    assert logged_errors.flush()


def test_rebuilding_by_order_while_it_works(world: World, logged_errors: Any) -> None:
    pids = [world.provider(f"http://site{number}.example/") for number in range(3)]
    uns, botm = FakeUns(world), FakeBotm(world)
    for number, pid in enumerate(pids):
        told = [page(other, curl=f"http://site{number}.example/{other}") for other in range(20)]
        uns.send_set(number + 1, pid, told)
    world.database.now(lambda txn: txn.execute("DELETE FROM qpsdb WHERE pid <> ?", [pids[0]]))
    world.database.now(add_order, REBUILD)
    world.advance(2)
    assert world.count("orders") == 0
    botm.finish_all()
    world.advance(2)
    botm.finish_all()
    assert world.cached_count == 60 and world.count("qdb") == world.count("qpsdb") == 0
    logged_errors.flush()


def test_what_failed_is_fetched_again_by_order(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    botm.done(next(iter(botm.out.values())), code=403)
    botm.finish_all()
    seen = len(botm.seen)
    world.database.now(add_order, RETRY)
    world.advance(2)
    assert urls(botm)[seen:] == ["1.html"]
    botm.finish_all()
    assert world.cached_count == 3
    world.database.now(add_order, RETRY)
    world.advance(2)
    assert not botm.out
    world.database.now(add_order, WANT_FULL_SET, pid, 0, "spring cleaning")
    world.advance(2)
    assert world.count("pstats", "wantfullset = 'spring cleaning'") == 1


def test_a_database_that_is_away_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def away(now: int) -> Any:
        from twisted.internet.defer import fail

        asked.append(now)
        return fail(StoreUnavailable("away"))

    monkeypatch.setattr(world.engine.store, "housekeeping", away)
    world.advance(200)
    assert 3 <= len(asked) <= 4 and not world.stopped


def test_a_newer_queue_manager_ends_this_one(world: World, logged_errors: Any) -> None:
    from twisted.internet.defer import fail

    world.engine.store.housekeeping = lambda now: fail(Busy("newer"))  # type: ignore[method-assign]
    world.advance(70)
    assert world.stopped == 1
    logged_errors.flush()
