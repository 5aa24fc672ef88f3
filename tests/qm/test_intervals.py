"""Intervals between fetches, and what web servers ask for, in the queue manager as a whole, on the real store."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from lcc.errors import code
from lcc.protocols.hello import KNOWS_INTERVAL
from lcc.roles.qm.schedule.delays import SAVED_SECONDS
from lcc.storage.providers.providers import change_provider, get_provider
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, pages

from .test_limits import only

HANDED_BACK = code("handed-back")


def peers(world: World, **options: Any) -> tuple[FakeUns, FakeBotm]:
    """A queue manager that has just begun does not know what an earlier one had just fetched."""
    world.advance(SAVED_SECONDS + 0.5)
    return FakeUns(world), FakeBotm(world, **options)


def pass_time(world: World, seconds: float) -> None:
    """In one step, as :meth:`World.advance` cannot."""
    world.clock.advance(seconds)
    world.settle()


def test_the_interval_counts_from_the_start(world: World) -> None:
    pid = world.provider(interval_seconds=10.0)
    uns, botm = peers(world, orders_max=1000)
    uns.send_set(1, pid, pages(1, 2, 3))
    assert only(botm).interval_ms == 10_000
    world.advance(4)
    botm.done(only(botm), elapsed_ms=3000)  # a second more or less was spent on the way
    world.advance(6.5)
    assert not botm.out
    world.advance(0.5)
    botm.done(only(botm), 404, elapsed_ms=20_000)  # failures count, too; this one took longer than the interval
    world.advance(0.5)
    assert len(botm.out) == 1


def test_runs_bring_what_a_second_has_room_for(make_world: MakeWorld) -> None:
    for interval, old, count in ((0.25, False, 4), (0.25, True, 1), (2.0, False, 1), (None, False, 8)):
        world = make_world(run_rows=8)
        uns, botm = peers(world, orders_max=1000, knows="" if old else KNOWS_INTERVAL)
        uns.send_set(1, world.provider(interval_seconds=interval), pages(*range(20)))
        assert len(botm.out) == count


def test_a_short_interval_and_a_run(make_world: MakeWorld) -> None:
    world = make_world(run_rows=8)
    uns, botm = peers(world, orders_max=1000)
    uns.send_set(1, world.provider(interval_seconds=0.5), pages(*range(4)))
    first, second = botm.out.values()
    pass_time(world, 0.6)
    botm.done(first, elapsed_ms=100)
    botm.done(second, HANDED_BACK, owed_ms=400)
    assert not botm.out
    pass_time(world, 0.39)
    assert not botm.out
    pass_time(world, 0.02)
    assert len(botm.out) == 2


def test_with_an_unknown_start_it_counts_from_the_loss(make_world: MakeWorld) -> None:
    world = make_world(lease=50.0)
    uns, botm = peers(world)
    uns.send_set(1, world.provider(interval_seconds=30.0), pages(1, 2))
    world.advance(10)
    botm.forget(only(botm))
    botm.close()
    botm = FakeBotm(world, run="r1", earlier=botm)
    world.advance(29)
    assert not botm.out
    world.advance(2)
    assert len(botm.out) == 1
    world.advance(49)
    assert len(botm.seen) == 1
    world.order_ended(only(botm))
    world.advance(2)  # its lease has passed
    botm.out.clear()
    world.advance(28)
    assert len(botm.seen) == 1
    world.advance(2)
    assert len(botm.seen) == 2


@pytest.mark.parametrize("interval", [0.9, 60.0])
def test_a_restart_forgets_no_interval(world: World, interval: float) -> None:
    pid = world.provider(interval_seconds=interval)
    uns, botm = peers(world)
    uns.send_set(1, pid, pages(1, 2))
    botm.done(only(botm))
    assert botm.upto == 1 and not botm.out
    saved = world.count("pdelays", f"pid = {pid} AND reason = 'interval'")
    assert saved == (interval > 1)
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(interval - 0.6)
    pass_time(world, 0.05)
    assert not back.out
    world.advance(1.5)
    assert len(back.out) == 1


def test_what_an_earlier_queue_manager_sent(world: World) -> None:
    uns, botm = peers(world)
    uns.send_set(1, world.provider(interval_seconds=60.0), pages(1, 2))
    world.advance(20)
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(5)
    back.done(only(back), elapsed_ms=25_000)
    world.advance(34)
    assert not back.out
    world.advance(2)
    assert len(back.out) == 1


def test_a_machine_that_is_lost_with_what_it_had_begun(make_world: MakeWorld) -> None:
    world = make_world(lease=40.0)
    uns, botm = peers(world)
    uns.send_set(1, world.provider(interval_seconds=300.0), pages(1, 2))
    free = world.provider()
    uns.send_set(2, free, pages(3))
    world.order_ended(botm.out[next(iter(botm.out))])
    world.start()
    other = FakeBotm(world, machine=2, run="r2")
    for fetch in botm.out.values():
        world.order_ended(fetch)
    world.advance(60)
    assert [fetch.pid for fetch in other.seen] == [free]
    other.finish_all()
    world.advance(280)
    assert len(other.seen) == 1
    world.advance(30)
    assert len(other.seen) == 2


def test_a_change_of_the_interval_takes_effect_at_once(world: World) -> None:
    pid = world.provider(interval_seconds=3600.0)
    uns, botm = peers(world)
    uns.send_set(1, pid, pages(1, 2, 3, 4))

    def change(interval: float | None) -> None:
        provider = world.database.now(get_provider, pid)
        assert provider is not None
        world.database.now(change_provider, attrs.evolve(provider, interval_seconds=interval))
        world.advance(2)

    botm.done(only(botm))
    world.advance(60)
    assert not botm.out
    change(90.0)
    assert not botm.out
    world.advance(30)
    botm.done(only(botm))
    change(None)
    botm.done(only(botm))
    assert len(botm.out) == 1


def test_what_a_web_server_asks_for(make_world: MakeWorld) -> None:
    world = make_world(retry_after_max=1000.0, retry_initial=1.0, retry_maximum=1.0)
    pid, other = world.provider(), world.provider()
    uns, botm = peers(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    botm.done(only(botm), 503, retry_seconds=120)
    assert not botm.out
    uns.send_set(2, other, pages(1))
    assert only(botm).pid == other
    botm.finish_all()
    world.advance(2)
    assert world.count("pdelays", f"pid = {pid} AND reason = 'retry-after' AND code = 503 AND failures = 0") == 1
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(116)
    assert not back.out
    world.advance(3)
    back.done(only(back), 429, retry_seconds=10**9)
    world.advance(990)
    assert not back.out
    world.advance(11)
    assert len(back.out) == 1
    back.finish_all()
    world.advance(3)
    back.finish_all()
    assert world.count("qdb") == 0 and world.cached_count == 4


def test_nothing_is_asked_for_where_it_is_ignored(make_world: MakeWorld) -> None:
    world = make_world(retry_after_max=0.0)
    uns, botm = peers(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    botm.done(only(botm), 503, retry_seconds=120)
    assert len(botm.out) == 1


def test_the_wall_clock_is_set_back(world: World) -> None:
    """No interval becomes longer."""
    uns, botm = peers(world)
    uns.send_set(1, world.provider(interval_seconds=20.0), pages(1, 2))
    botm.done(only(botm))
    world.ahead -= 86400.0
    world.advance(18)
    assert not botm.out
    world.advance(3)
    assert len(botm.out) == 1
