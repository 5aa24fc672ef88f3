"""After a restart no provider is fetched by one BOT-M while an absent one may still be fetching it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from lcc.domain.notices.rules import QueueRules
from lcc.model import MachineState
from lcc.protocols.hello import Ready
from lcc.storage.queue.maintenance.repair import machines
from lcc.storage.queue.store import QueueStore
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, MakeWorld, World, pages

LEASE = 100.0


@pytest.fixture(params=[0, 1, 2])
def hops(request: pytest.FixtureRequest) -> int:
    """Directly, and behind central BOT-Ms."""
    return int(request.param)


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world(lease=LEASE)


def noted(world: World) -> dict[int, MachineState]:
    return {state.machine: state for state in world.database.now(machines)}


def leases(world: World) -> dict[int, int]:
    """Machine -> seconds that its orders may still be running, as the table says."""
    now = NOW + world.clock.seconds()
    return {number: max(0, int(state.lease_until - now)) for number, state in noted(world).items()}


def work(world: World, count: int = 4, sites: int = 4) -> list[int]:
    pids = [world.provider(f"http://site{number}.example/") for number in range(sites)]
    uns = FakeUns(world)
    for number, pid in enumerate(pids, 1):
        uns.send_set(number, pid, pages(*range(count)))
    return pids


def test_it_is_noted_before_an_order_goes_out(world: World) -> None:
    work(world)
    world.database.unavailable = True
    botm = FakeBotm(world)
    assert not botm.out
    world.database.unavailable = False
    world.advance(2)
    assert botm.out and LEASE <= leases(world)[1] <= 1.3 * LEASE


class TakesTime(QueueStore):
    """Notes a machine a moment after it was told to."""

    def __init__(self, world: World) -> None:
        rules = QueueRules.configured(world.settings, world.timeslots)
        super().__init__(world.database, rules, world.settings)  # type: ignore[arg-type]
        self.world = world

    def save_machines(self, states: Sequence[MachineState]) -> Deferred[None]:
        done = deferLater(self.world.clock, 0.1)
        return done.addCallback(lambda _: super(TakesTime, self).save_machines(states))


def test_its_hello_and_its_lease_are_noted_within_the_same_second(world: World) -> None:
    work(world)
    world.start(TakesTime(world))
    botm = FakeBotm(world)
    assert not botm.out
    for _ in range(2):
        world.clock.advance(0.1)
        world.settle()
    assert botm.out and leases(world)[1] >= LEASE


def test_one_botm_that_is_back_waits_for_nothing(world: World) -> None:
    work(world)
    botm = FakeBotm(world)
    out = dict(botm.out)
    world.start()
    assert world.engine.leases.awaited
    botm = FakeBotm(world, earlier=botm)
    assert len(botm.out) == len(out)
    botm.finish_all()
    assert world.cached_count == 16 and not world.engine.leases.awaited


def test_a_machine_that_is_connected_and_has_not_said_what_is_running_is_waited_for(world: World) -> None:
    """It may be there before the queue manager has read what is noted."""
    pid, *_ = work(world, sites=1)
    botm = FakeBotm(world)
    assert {fetch.pid for fetch in botm.out.values()} == {pid}
    world.database.unavailable = True
    world.start()
    other, back = FakeBotm(world, 2), FakeBotm(world, earlier=botm, ready=False)
    world.database.unavailable = False
    world.advance(5)
    assert set(world.engine.leases.awaited) == {1}
    assert not other.out, "machine 1 may be fetching from it"
    back.say(Ready())
    world.settle()
    assert not world.engine.leases.awaited


def test_an_absent_machine_is_waited_for(world: World, logged: list[Any]) -> None:
    work(world)
    one, two = FakeBotm(world, 1, capacity=1), FakeBotm(world, 2, capacity=1)
    assert one.out and two.out
    world.start()
    (known,) = {fetch.pid for fetch in one.out.values()}
    here = FakeBotm(world, 1, earlier=one)
    here.finish_all()
    world.advance(LEASE / 2)
    assert not here.out and {fetch.pid for fetch in here.seen} == {known}, "machine 2 may be fetching from the others"
    assert world.cached_count == 4
    # Who had nothing in the queue is not being fetched from.
    new = world.provider("http://new.example/")
    FakeUns(world).send_set(9, new, pages(1, 2))
    here.finish_all()
    assert len(world.cached(new)) == 2
    # Whatever is told of the others, they wait.
    FakeUns(world).send_set(10, next(iter(two.out.values())).pid, pages(1))
    world.advance(1)
    assert not here.out
    state = world.engine.state_saver.describe({})
    assert state["awaited"][0]["machine"] == 2 and len(state["withheld"]["pids"]) == 3
    assert any("may still have orders" in event.get("log_format", "") for event in logged)
    there = FakeBotm(world, 2, earlier=two, capacity=1)
    assert here.out, "all that is running is known now"
    while here.out or there.out:
        here.finish_all()
        there.finish_all()
    assert world.cached_count == 18
    assert world.engine.state_saver.describe({})["awaited"] == []


def test_an_absent_machine_is_waited_for_until_its_orders_are_over(world: World) -> None:
    work(world)
    one, two = FakeBotm(world, 1, capacity=1), FakeBotm(world, 2, capacity=1)
    for fetch in list(two.out.values()):
        world.order_ended(fetch)  # its robots have died with it
    world.start()
    here = FakeBotm(world, 1, earlier=one)
    here.finish_all()
    world.advance(LEASE)
    assert len({fetch.pid for fetch in here.seen}) == 1
    world.advance(0.4 * LEASE)
    here.finish_all()
    assert world.cached_count == 16


def test_a_machine_without_orders_is_not_waited_for(world: World) -> None:
    work(world)
    one, two = FakeBotm(world, 1, capacity=1), FakeBotm(world, 2, capacity=1)
    two.done(next(iter(two.out.values())))
    for fetch in list(two.out.values()):
        two.done(fetch)
    for _ in range(20):
        if not two.out:
            break
        two.done(next(iter(two.out.values())))
    one.finish_all()
    two.finish_all()
    assert world.cached_count == 16
    world.advance(5)
    assert leases(world) == {1: 0, 2: 0}, "the queue is empty"
    FakeUns(world).send_set(9, world.provider("http://late.example/"), pages(1))
    assert one.out or two.out, "and it is noted anew when there is something"
    world.advance(2)
    one.finish_all()
    two.finish_all()
    world.advance(5)
    two.close()
    world.start()
    assert not world.engine.leases.awaited


def test_a_machine_that_left_in_order_is_not_waited_for(world: World) -> None:
    pids = work(world, count=50, sites=1)
    one, two = FakeBotm(world, 1, capacity=1), FakeBotm(world, 2, capacity=1)
    idle = two if one.out else one
    assert leases(world)[idle.machine] > 0
    idle.close()
    world.advance(2)
    assert leases(world)[idle.machine] == 0 and pids


def test_the_note_is_kept_ahead_and_written_rarely(world: World) -> None:
    work(world, count=1000, sites=1)
    botm = FakeBotm(world)
    untils = set()
    for _ in range(40):
        world.advance(LEASE / 20)
        botm.done(next(iter(botm.out.values())))
        assert botm.out
        assert leases(world)[1] >= LEASE
        untils.add(noted(world)[1].lease_until)
    assert len(untils) < 25


def test_no_more_orders_while_it_cannot_be_noted(world: World) -> None:
    work(world, count=1000, sites=1)
    botm = FakeBotm(world)
    world.database.unavailable = True
    world.advance(LEASE / 2)
    assert not world.engine.dispatcher.machines[1].granted
    world.database.unavailable = False
    world.advance(6)
    assert world.engine.dispatcher.machines[1].granted and botm.out


def test_a_lease_that_was_made_shorter_does_not_shorten_those_that_are_out(world: World) -> None:
    """Nor twice: the second restart comes while those of the first queue manager are out."""
    work(world, count=20)
    one, two = FakeBotm(world, 1, capacity=1), FakeBotm(world, 2, capacity=1)
    assert one.out and two.out
    world.advance(6)
    world.settings = attrs.evolve(world.settings, lease=LEASE / 10)
    for _ in range(2):
        known = {fetch.pid for fetch in one.out.values()}
        world.start()
        one = FakeBotm(world, 1, earlier=one, capacity=4)
        world.advance(0.45 * LEASE)
        assert {fetch.pid for fetch in one.seen} <= known, "what machine 2 had is still out there"
    for fetch in list(two.out.values()):
        world.order_ended(fetch)  # its robots have given up
    for _ in range(30):
        one.finish_all()
        world.advance(LEASE / 20)
    assert world.cached_count == 80
    assert world.engine.state_saver.describe({})["lease"] == LEASE / 10


def test_a_clock_that_was_set_back_does_not_hold_everything_up(world: World) -> None:
    work(world)
    FakeBotm(world)
    state = noted(world)[1]._replace(machine=7, lease_until=NOW + 10_000_000)
    world.database.now(lambda txn: txn.insert("machines", state._fields, [tuple(state)]))
    for fetch in list(world.fetching):
        del world.fetching[fetch]
    world.start()
    botm = FakeBotm(world)
    world.advance(LEASE)
    assert not botm.seen
    world.advance(LEASE / 2)
    assert botm.seen
