"""Somebody sets the wall clock: nothing waits for longer or shorter, and hours are those of the new time."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.domain.notices.rules import QueueRules
from lcc.errors import code
from lcc.insight.qm_state import read_live
from lcc.roles.wall_clock import WallClock
from lcc.storage.database.tables.order_rows import RETRY, add_order
from lcc.storage.queue.maintenance.repair import machines
from lcc.storage.queue.maintenance.saved_state import saved_state
from lcc.storage.queue.store import QueueStore
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, page, pages

DNS, UNAVAILABLE = code("dns-failed"), 503
STEPS = [-86400.0, -3600.0, 3600.0, 86400.0]
BACK = [step for step in STEPS if step < 0]
LEASE = 100.0

both_ways = pytest.mark.parametrize("step", STEPS)
back = pytest.mark.parametrize("step", BACK)


def finish(botm: FakeBotm, answer: int, **changes: Any) -> None:
    (fetch,) = botm.out.values()
    botm.done(fetch, answer, **changes)


def wait(world: World, botm: FakeBotm, least: float, most: float) -> None:
    """Nothing comes before the one, something does before the other."""
    world.advance(least)
    assert not botm.out, "too early"
    world.advance(most - least)
    assert botm.out, "too late"


def set_clock(world: World, step: float, restart: bool) -> FakeBotm:
    """Set the wall clock, under a queue manager or between two of them."""
    if restart:
        world.engine.stop()
    world.ahead += step
    if restart:
        world.start()
        return FakeBotm(world)
    return next(remote for remote in world.remotes if isinstance(remote, FakeBotm))


@both_ways
@pytest.mark.parametrize("restart", [False, True])
def test_a_site_that_is_away(make_world: MakeWorld, step: float, restart: bool) -> None:
    world = make_world(hold_initial=60.0, hold_maximum=60.0)
    FakeUns(world).send_set(1, world.provider(), pages(1))
    finish(FakeBotm(world), DNS)
    world.advance(6)
    botm = set_clock(world, step, restart)
    if restart and step > 0:
        world.advance(1)  # it cannot be told from a queue manager that was away for so long
        assert botm.out
    else:
        wait(world, botm, 35, 66)


@both_ways
@pytest.mark.parametrize("restart", [False, True])
def test_bandwidth_that_is_not_paid_for(world: World, step: float, restart: bool) -> None:
    FakeUns(world).send_set(1, world.provider(bandwidth_bytes=100), pages(1, 2))
    finish(FakeBotm(world), 0, wire_bytes=6000)
    world.advance(6)
    botm = set_clock(world, step, restart)
    if restart and step > 0:
        world.advance(1)
        assert botm.out
    else:
        wait(world, botm, 48, 66)


@pytest.mark.parametrize("step", [3600.0, 36000.0])
@pytest.mark.parametrize("why", ["site-error", "bandwidth", "hours"])
def test_it_is_killed_right_after_a_step_that_is_taken_back(make_world: MakeWorld, step: float, why: str) -> None:
    """What is saved with a delay tells of the step: nothing else may have been saved since."""
    world = make_world(hold_initial=60.0, hold_maximum=60.0)
    limits: dict[str, dict[str, Any]] = {"hours": {"hours": "22"}, "bandwidth": {"bandwidth_bytes": 100}}
    FakeUns(world).send_set(1, world.provider(**limits.get(why, {})), pages(1, 2))
    botm = FakeBotm(world)
    world.advance(6)
    world.ahead += step
    finish(botm, DNS if why == "site-error" else 0, wire_bytes=6000)
    world.engine.delay_timer.tick()  # it does so each second
    assert not botm.out and world.count("pdelays", f"reason = '{why}'") == 1
    botm = set_clock(world, -step, restart=True)
    if why == "hours":
        world.advance(1)
        assert botm.out, "they are open"
    else:
        wait(world, botm, 35, 66)


@back
@pytest.mark.parametrize("restart", [False, True])
def test_what_is_tried_again(make_world: MakeWorld, step: float, restart: bool) -> None:
    world = make_world(retry_initial=60.0, retry_maximum=60.0)
    FakeUns(world).send_set(1, world.provider(), pages(*range(300)))
    botm = FakeBotm(world)
    while botm.out:
        finish(botm, UNAVAILABLE)
    world.advance(6)
    botm = set_clock(world, step, restart)
    world.advance(80)
    assert botm.finish_all() == 300


@both_ways
def test_an_operator_has_it_tried_at_once(make_world: MakeWorld, step: float) -> None:
    world = make_world(retry_initial=1000.0, retry_maximum=200_000.0)
    FakeUns(world).send_set(1, world.provider(), pages(1))
    finish(FakeBotm(world), UNAVAILABLE)
    botm = set_clock(world, step, restart=False)
    world.database.now(add_order, RETRY, 0, 0)
    world.advance(2)
    assert botm.finish_all() == 1


@both_ways
def test_whether_it_runs(world: World, step: float) -> None:
    """``status`` knows within seconds, whatever the wall clock shows."""

    def alive() -> bool:
        return read_live(world.database.now(saved_state), int(world.wall_clock())).alive

    world.advance(6)
    world.ahead += step
    assert not alive()
    world.advance(6)
    assert alive()
    live = read_live(world.database.now(saved_state), int(world.wall_clock() + step))  # it was killed
    assert not live.alive and ("in the future" if step < 0 else "ago") in live.trouble


@both_ways
def test_orders_go_out(make_world: MakeWorld, step: float) -> None:
    """What is noted of a machine counts on the clock that nobody sets."""
    world = make_world(lease=LEASE)
    FakeUns(world).send_set(1, world.provider(), pages(*range(30)))
    botm = FakeBotm(world)
    world.advance(2)
    world.ahead += step
    for _ in range(20):
        world.advance(LEASE / 20)
        finish(botm, 0)
        assert botm.out
    assert not world.overlaps and world.engine.dispatcher.leases_passed == 0


@both_ways
def test_an_order_is_given_up_after_its_lease(make_world: MakeWorld, step: float) -> None:
    world = make_world(lease=LEASE)
    FakeUns(world).send_set(1, world.provider(), pages(1))
    botm = FakeBotm(world)
    world.advance(1)
    world.ahead += step
    world.advance(LEASE - 5)
    assert world.engine.dispatcher.leases_passed == 0
    for fetch in botm.seen:
        world.order_ended(fetch)
    world.advance(6)
    assert world.engine.dispatcher.leases_passed == 1 and len(botm.seen) == 2


@pytest.mark.parametrize("step", [*STEPS, 0.0])
def test_a_new_queue_manager_waits_a_full_lease(make_world: MakeWorld, step: float) -> None:
    world = make_world(lease=LEASE)
    uns = FakeUns(world)
    for number in (1, 2):
        uns.send_set(number, world.provider(f"http://site{number}.example/"), pages(1, 2))
    one, two = FakeBotm(world, 1, capacity=1), FakeBotm(world, 2, capacity=1)
    assert one.out and two.out
    set_clock(world, step, restart=True).close()
    here = FakeBotm(world, 1, earlier=one)
    here.finish_all()
    seen = len(here.seen)
    world.advance(LEASE - 1)
    assert len(here.seen) == seen, "machine 2 may be fetching still"
    for fetch in list(two.out.values()):
        world.order_ended(fetch)  # it has given up
    world.advance(0.4 * LEASE)
    assert here.finish_all() and not world.overlaps
    # It is known from now on that machine 2 has nothing: nobody waits for it again.
    world.advance(6)
    assert {state.machine: bool(state.lease_until) for state in world.database.now(machines)} == {1: False, 2: False}
    here.close()
    world.start()
    assert not world.engine.leases.awaited


def test_that_a_machine_has_nothing_is_noted_as_soon_as_it_can_be(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE)
    FakeUns(world).send_set(1, world.provider(), pages(1))
    botm = FakeBotm(world)
    botm.finish_all()
    world.database.unavailable = True
    world.advance(3)
    botm.close()
    world.database.unavailable = False
    world.advance(10)
    assert not any(state.lease_until for state in world.database.now(machines))


@both_ways
@pytest.mark.parametrize("restart", [False, True])
def test_a_deleted_file_stays_for_its_grace(make_world: MakeWorld, step: float, restart: bool) -> None:
    """So that who reads it can finish."""
    world = make_world(delete_grace=300)
    uns, pid = FakeUns(world), world.provider()
    uns.send_set(1, pid, pages(1))
    FakeBotm(world).finish_all()
    uns.send_set(2, pid, [page(1, delete=True)])
    world.advance(12)
    botm = set_clock(world, step, restart)
    if restart and step > 0:
        world.advance(20)  # it cannot be told from a queue manager that was away for so long
        assert botm.deletes
    else:
        world.advance(285)
        assert not botm.deletes, "too early"
        world.advance(30)
        assert botm.deletes, "too late"


# Hours; it is 22:13.


@pytest.mark.parametrize("whose", ["provider", "url"])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("hours", "step"), [("20-22", -3600.0), ("22-23", -86400.0 - 3600.0), ("21-23", 23.5 * 3600.0), ("23-24", 3600.0)]
)
def test_hours_that_are_open_after_the_step(world: World, whose: str, hours: str, step: float, restart: bool) -> None:
    if hours == "22-23":
        world.begin += 3600.0  # they are over for today
    if hours == "21-23":
        world.begin += 3600.0
    FakeUns(world).send_set(1, world.provider(hours=hours if whose == "provider" else ""), [page(1, hours=hours)])
    botm = FakeBotm(world)
    world.advance(6)
    assert not botm.out and world.count("qdb") == 1
    botm = set_clock(world, step, restart)
    world.advance(3)
    assert botm.out


@pytest.mark.parametrize("whose", ["provider", "url"])
@both_ways
def test_hours_that_are_closed_after_the_step(world: World, whose: str, step: float) -> None:
    hours = "22-23"
    notices = [page(number, hours="" if whose == "provider" else hours) for number in range(3)]
    FakeUns(world).send_set(1, world.provider(hours=hours if whose == "provider" else ""), notices)
    botm = FakeBotm(world)
    world.advance(6)
    world.ahead += step
    world.advance(3)
    finish(botm, 0)
    assert bool(botm.out) == (abs(step) == 86400.0)
    if step == -3600.0:
        wait(world, botm, 46 * 60, 48 * 60)


# It is noticed.


def test_a_step_is_told_once(world: World, logged: list[Any]) -> None:
    world.advance(5)
    world.engine.pause()
    paused = world.engine.dispatcher.paused_since
    assert paused is not None
    for step, text in ((-3600.0, "back by 3600 s"), (86400.0, "forward by 86400 s"), (1.0, "")):
        logged.clear()
        world.ahead += step
        world.advance(5)
        told = [str(event.get("log_format")).format(**event) for event in logged]
        told = [line for line in told if line.startswith("The wall clock was set")]
        assert len(told) == bool(text) and all(text in line for line in told)
    assert world.engine.dispatcher.paused_since == paused - 3600 + 86400, "it is as long ago as before"


def test_a_process_that_stood_still_sees_no_step() -> None:
    steps: list[float] = []
    seconds = iter([0.0, 1.0, 5.0, 6.0, 6.0, 7.0, 7.0])

    class Stands:
        def seconds(self) -> float:
            return next(seconds)

    walls = iter([1000.0, 1001.0, 1006.0, 1017.0])
    clock: Any = Stands()
    wall = WallClock(lambda: next(walls), clock, steps.append)
    assert [wall(), wall(), wall()] == [1001.0, 1006.0, 1017.0]  # four seconds pass within the first look
    assert steps == [10.0]


def test_an_old_state_says_nothing(world: World) -> None:
    rules = QueueRules.configured(world.settings, world.timeslots)
    for text in ("", "nonsense", "{}", '{"time": "x"}', "[]"):
        world.engine.stop()
        world.database.now(lambda txn, text=text: txn.upsert("qmstate", ["id", "state"], [(1, text)], ["id"]))
        world.start(QueueStore(world.database, rules, world.settings))  # type: ignore[arg-type]
        assert world.engine.started
