"""Runs of orders in the queue manager as a whole, on the real store, directly and behind central BOT-Ms."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from lcc.errors import code
from lcc.protocols.work import Fetch
from lcc.roles.qm.console import QmCommands
from lcc.storage.providers.providers import change_provider, get_provider, order_removal, provider_status
from lcc.testing.inline_database import InlineDatabase
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, page, pages

LEASE = 100.0
HOURS_OVER = code("hours-over")


@pytest.fixture(params=[0, 1])
def hops(request: pytest.FixtureRequest) -> int:
    """Directly, and behind a central BOT-M."""
    return int(request.param)


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world(lease=LEASE, run_rows=4, overload=1.0)


def numbers(fetches: list[Fetch]) -> list[int]:
    return [int(fetch.url.rsplit("/", 1)[-1].partition(".")[0]) for fetch in fetches]


def of(botm: FakeBotm, pid: int) -> list[Fetch]:
    """What is out of this provider."""
    return [fetch for fetch in botm.out.values() if fetch.pid == pid]


def change(world: World, pid: int, **changes: object) -> None:
    provider = world.database.now(get_provider, pid)
    assert provider is not None
    world.database.now(change_provider, attrs.evolve(provider, **changes))  # type: ignore[arg-type]
    world.advance(2)


def botm_of(world: World, capacity: int = 1, **options: Any) -> FakeBotm:
    return FakeBotm(world, capacity=capacity, orders_max=1000, **options)


def drain(world: World, *botms: FakeBotm) -> None:
    """All goes well from now on."""
    for _ in range(500):
        for botm in botms:
            for pid in dict.fromkeys(fetch.pid for fetch in botm.out.values()):
                botm.done(of(botm, pid)[0])
        world.advance(1)
        if world.count("qdb") == 0:
            return
    raise AssertionError("rows are left over")


def assert_at_rest(world: World) -> None:
    engine = world.engine
    assert engine.dispatcher.orders_out == 0 and engine.scheduler.taken_count == 0
    assert all(not m.runs and m.load == 0 for m in engine.machines)
    assert engine.scheduler.active_count == 0 and not engine.scheduler._growing
    assert not any(engine.scheduler._fetching) and not engine.scheduler.recalls


@pytest.mark.parametrize("run_rows", [1, 2, 16])
def test_all_is_fetched_once_and_in_order(make_world: MakeWorld, run_rows: int) -> None:
    world = make_world(run_rows=run_rows)
    pid = world.provider()
    uns, botm = FakeUns(world), botm_of(world)
    uns.send_set(1, pid, pages(*range(50)))
    assert len(botm.out) == run_rows
    assert botm.finish_all() == 50
    world.advance(2)
    assert numbers(botm.seen) == list(range(50)) and world.cached_count == 50
    assert_at_rest(world)


def test_an_older_version_gets_one_order_of_a_provider_at_a_time(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world, capacity=2)
    for number in (1, 2, 3):
        uns.send_set(number, world.provider(f"http://{number}/"), pages(*range(5)))
    assert len(botm.out) == 2 == len({fetch.pid for fetch in botm.out.values()})
    high = world.provider(priority=2)
    uns.send_set(4, high, pages(*range(5)))
    assert not botm.recalls and len(botm.out) == 2
    assert botm.finish_all() == 20


def test_a_higher_priority_is_sent_at_once_and_what_came_back_later(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    low, high = world.provider(), world.provider(priority=2)
    uns.send_set(1, low, pages(*range(10)))
    assert numbers(of(botm, low)) == [0, 1, 2, 3]
    uns.send_set(2, high, pages(20, 21))
    assert botm.recalls == [low] and numbers(of(botm, high)) == [20, 21]
    (begun,) = botm.hand_back(low)
    world.advance(5)
    assert of(botm, low) == [begun] and botm.recalls == [low]
    botm.done(begun)
    world.advance(1)
    assert not of(botm, low), "there is no place for it"
    for fetch in of(botm, high):
        botm.done(fetch)
    world.advance(1)
    assert numbers(of(botm, low)) == [1, 2, 3, 4]
    drain(world, botm)
    assert numbers([fetch for fetch in botm.seen if fetch.pid == low]) == [0, 1, 2, 3, 1, 2, 3, 4, *range(5, 10)]
    assert world.count("qdb", "attempts > 0") == 0 and world.cached_count == 12
    assert_at_rest(world)


def test_many_that_wait_recall_one_run_each_and_lower_ones_get_on(make_world: MakeWorld) -> None:
    world = make_world(run_rows=4, overload=1.0)
    uns, botm = FakeUns(world), botm_of(world, capacity=3)
    for number in range(1, 6):
        uns.send_set(number, world.provider(f"http://{number}/"), pages(*range(6)))
    for number in range(6, 12):
        uns.send_set(number, world.provider(f"http://{number}/", priority=1), pages(*range(2)))
    world.advance(5)
    assert sorted(botm.recalls) == [1, 2, 3] and world.engine.dispatcher.runs_recalled == 3
    for pid in (1, 2, 3):
        for fetch in botm.hand_back(pid):
            botm.done(fetch)
    assert {fetch.pid for fetch in botm.out.values()} == {6, 7, 8}
    drain(world, botm)
    assert world.cached_count == 42
    assert_at_rest(world)


def limits(world: World, pid: int) -> None:
    change(world, pid, bandwidth_bytes=1_000_000)


def removed(world: World, pid: int) -> None:
    world.database.now(order_removal, pid)
    world.advance(2)


def paused(world: World, pid: int) -> None:
    QmCommands(world.engine).pause()
    world.settle()


@pytest.mark.parametrize("why", [limits, removed, paused])
def test_what_makes_the_rest_of_a_run_come_back(world: World, why: Callable[[World, int], None]) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(*range(10)))
    why(world, pid)
    assert botm.recalls == [pid]
    world.advance(3)
    assert botm.recalls == [pid] and len(botm.out) == 4
    botm.close()
    again = botm_of(world, earlier=botm)
    assert again.recalls == [pid], "it may not have been heard"
    (begun,) = again.hand_back(pid)
    world.advance(3)
    assert list(again.out.values()) == [begun], "nothing before all of it is answered"
    again.done(begun)
    world.advance(3)
    if why is limits:
        assert numbers(of(again, pid))[0] == 1
        assert all(fetch.rate == 1_000_000 for fetch in of(again, pid))
    else:
        assert not again.out
    QmCommands(world.engine).resume()
    drain(world, again)
    assert world.cached_count == (0 if why is removed else 10)
    world.advance(2)
    assert_at_rest(world)


def test_a_queue_manager_that_stops_recalls_all_and_sends_nothing_more(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    for number in (1, 2, 3):
        uns.send_set(number, world.provider(f"http://{number}/"), pages(*range(5)))
    coroutine = world.engine.say_that_it_stops()
    with pytest.raises(StopIteration):
        while True:
            coroutine.send(None)
    world.settle()
    assert botm.recalls == [1]
    botm.done(botm.hand_back(1)[0])
    assert not botm.out


def test_roots_that_are_narrowed_hold_for_what_is_not_begun(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(*range(12)))
    change(world, pid, roots=("http://site.example/1",))
    assert botm.recalls == [pid]
    before = len(botm.seen)
    botm.done(botm.hand_back(pid)[0])
    drain(world, botm)
    assert set(numbers(botm.seen[before:])) == {1, 10, 11}
    errors = world.database.now(provider_status, pid, 100).errors
    assert {error.code for error in errors} == {code("outside-roots")} and world.count("qdb") == 0


def test_told_again_or_deleted_while_it_is_in_a_run_and_not_begun(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(0, 1, 2, 3, 4))
    again, gone = page(2, md5="f" * 32), page(3, delete=True)
    uns.send_set(2, pid, [again, gone])
    drain(world, botm)
    seen = numbers(botm.seen)
    assert seen.count(2) == 2 and seen.count(1) == 1 and 3 not in [int(n) for n in seen[4:]]
    assert {url.rsplit("/", 1)[-1] for url in world.cached()} == {f"{n}.html" for n in (0, 1, 2, 4)}
    assert_at_rest(world)


def test_the_rest_of_a_run_that_came_back_as_its_hours_are_over_costs_nothing(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider(hours="22")
    world.advance(2700)
    uns.send_set(1, pid, pages(*range(6)))
    first, *rest = botm.out.values()
    assert len(rest) == 3 and all(fetch.start_seconds is not None for fetch in rest)
    world.advance(98)
    botm.done(first)
    for fetch in rest:
        botm.done(fetch, HOURS_OVER)
    world.advance(5)
    assert not botm.out and world.count("qdb", "attempts > 0") == 0
    botm.close()
    world.clock.advance(23 * 3600)
    world.advance(60)
    drain(world, botm_of(world, earlier=botm))
    assert world.cached_count == 6


@pytest.mark.parametrize("step", [-7200, -10, 10, 7200])
def test_a_step_of_the_clock_changes_nothing(world: World, step: int) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider(bandwidth_bytes=1000)
    uns.send_set(1, pid, pages(*range(12)))
    world.ahead += step
    world.advance(2)
    drain(world, botm)
    assert numbers(botm.seen) == list(range(12)) and world.cached_count == 12
    assert_at_rest(world)


def test_the_next_queue_manager_waits_for_all_that_is_left_of_a_run(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world, capacity=2)
    pid, other = world.provider("http://a/"), world.provider("http://b/")
    uns.send_set(1, pid, pages(*range(10)))
    uns.send_set(2, other, pages(*range(4)))
    assert len(of(botm, pid)) == 4
    for fetch in of(botm, other):
        botm.done(fetch)
    world.start()
    botm = botm_of(world, capacity=2, earlier=botm)
    world.advance(3)
    left = of(botm, pid)
    assert len(left) == 4 and len(botm.out) == 4
    for fetch in left:
        assert len(botm.seen) == 0
        botm.done(fetch)
    world.advance(2)
    assert numbers(of(botm, pid))[0] == 4
    drain(world, botm)
    assert world.cached_count == 14
    assert_at_rest(world)


def test_results_that_were_not_acknowledged_come_again_and_count_once(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(*range(10)))
    world.database.hold_back()
    for fetch in list(botm.out.values())[:3]:
        botm.done(fetch)
    kept = list(botm.kept)
    assert kept
    botm.close()
    botm = botm_of(world, earlier=botm)
    world.database.let_go()
    world.advance(2)
    assert not botm.kept and world.engine.dispatcher.results_again == len(kept)
    drain(world, botm)
    assert world.cached_count == 10
    assert_at_rest(world)


def test_a_row_that_hangs_robots_fails_the_second_time_and_the_others_of_its_runs_do_not(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(*range(6)))
    for _ in range(2):
        assert numbers(list(botm.out.values()))[0] == 0
        late = list(botm.out.values())
        for fetch in late:
            botm.forget(fetch)
        world.advance(LEASE + 2)
    assert numbers(list(botm.out.values()))[0] == 1
    drain(world, botm)
    assert world.cached_count == 6 and numbers(botm.seen).count(5) == 1
    assert_at_rest(world)


def test_a_site_error_holds_the_provider_and_its_rest_costs_no_attempt(world: World) -> None:
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(*range(6)))
    botm.done(next(iter(botm.out.values())), code("dns-failed"))
    botm.hand_back(pid, begun=0)
    world.advance(2)
    assert not botm.out and pid in world.engine.scheduler.delays
    assert world.count("qdb", "attempts > 1") == 0
    world.advance(400)
    drain(world, botm)
    assert world.cached_count == 6


def test_what_is_handed_back_at_once_again_and_again_does_not_spin(world: World) -> None:
    """A BOT-M with no room, say: each order goes out once for each time that it comes back, and others get on."""
    uns, botm = FakeUns(world), botm_of(world, capacity=2)
    first, second = world.provider("http://a/"), world.provider("http://b/")
    uns.send_set(1, first, pages(*range(8)))
    uns.send_set(2, second, pages(*range(8)))
    for _ in range(20):
        botm.hand_back(first, begun=0)
        for fetch in of(botm, second)[:1]:
            botm.done(fetch)
    assert len([fetch for fetch in botm.seen if fetch.pid == first]) <= 21 * 4
    assert len(world.cached(second)) == 8
    drain(world, botm)
    assert world.cached_count == 16 and world.count("qdb", "attempts > 0") == 0


class Robots:
    """Robots at a BOT-M: each carries out the run that has waited for longest, to its end."""

    def __init__(self, botm: FakeBotm, count: int) -> None:
        self._botm = botm
        self._count = count
        self._runs: list[int] = []

    def fetch(self) -> None:
        """One page each."""
        out = dict.fromkeys(fetch.pid for fetch in self._botm.out.values())
        self._runs += [pid for pid in out if pid not in self._runs]
        for pid in self._runs[: self._count]:
            run = of(self._botm, pid)
            if len(run) == 1:  # what comes next of its provider is another one
                self._runs.remove(pid)
            self._botm.done(run[0])


@pytest.mark.parametrize("priority", [0, 1])
def test_a_run_that_waits_at_the_botm_comes_to_its_turn(make_world: MakeWorld, priority: int) -> None:
    world = make_world(run_rows=4, quantum_urls=8, overload=1.5)
    uns, botm = FakeUns(world), botm_of(world, capacity=2)
    for number in (1, 2):
        uns.send_set(number, world.provider(f"http://{number}/"), pages(*range(100)))
    late = world.provider("http://late/", priority=priority)
    uns.send_set(3, late, pages(0))
    robots = Robots(botm, 2)
    steps = 0
    assert of(botm, late)
    while of(botm, late):
        robots.fetch()
        world.advance(1)
        steps += 1
        assert steps <= (4 if priority else 8) + 1, "robots go on with others"
    drain(world, botm)
    assert world.cached_count == 201
    assert_at_rest(world)


@pytest.mark.parametrize("run_rows", [1, 4])
def test_a_partial_set_passes_the_full_set_in_runs_as_well(make_world: MakeWorld, run_rows: int) -> None:
    world = make_world(run_rows=run_rows, quantum_urls=8, overload=1.0)
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(*range(100)), full=True)
    uns.send_set(2, pid, pages(200, 201))
    drain(world, botm)
    seen = numbers(botm.seen)
    assert max(seen.index(200), seen.index(201)) < 40 and world.cached_count == 102


def test_a_bandwidth_of_the_whole_site_means_one_order_of_a_provider(make_world: MakeWorld) -> None:
    world = make_world(run_rows=16, bandwidth_bytes=1000)
    uns, botm = FakeUns(world), botm_of(world, capacity=4)
    uns.send_set(1, world.provider(), pages(*range(5)))
    assert len(botm.out) == 1


def test_a_database_that_was_put_back_while_a_run_was_out(world: World, tmp_path: Path) -> None:
    """What is running is not known there, or is to be done again: nothing of it is fetched beside it."""
    home = tmp_path / "0"
    uns, botm = FakeUns(world), botm_of(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(*range(8)))
    world.database._database._holder.connect().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(home / "lcc.db", tmp_path / "copy.db")
    botm.done(next(iter(botm.out.values())))
    world.advance(1)
    left = list(botm.out.values())
    world.engine.stop()
    for remote in list(world.remotes):
        remote.close()
    world.database.close()
    for name in ("lcc.db-wal", "lcc.db-shm"):
        (home / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy.db", home / "lcc.db")
    world.database = InlineDatabase(home, world.random)
    world.start()
    botm = botm_of(world, earlier=botm)
    world.advance(2)
    assert list(botm.out.values()) == left
    drain(world, botm)
    assert {fetch.url for fetch in botm.seen} >= {page(number).curl for number in (5, 6, 7)}
    assert_at_rest(world)
