"""Robots hang: the others at their BOT-M get as much to do as before."""

from __future__ import annotations

from lcc.protocols.hello import Ready
from lcc.protocols.work import Capacity
from tests.qm.test_runs import of
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, pages

LEASE_SECONDS = 100.0


def providers(world: World, first: int, count: int, rows: int) -> list[int]:
    """So many new ones, each with rows."""
    pids = [world.provider(f"http://{number}/") for number in range(first, first + count)]
    uns = FakeUns(world)
    for number, pid in enumerate(pids, first):
        uns.send_set(number, pid, pages(*range(rows)))
    return pids


def pids_at(botm: FakeBotm) -> set[int]:
    return {fetch.pid for fetch in botm.out.values()}


def test_the_other_robot_goes_on_until_the_lease_of_what_hangs_has_passed(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE_SECONDS, run_rows=2, overload=1.0)
    botm = FakeBotm(world, capacity=2, orders_max=1000)
    first, *_ = providers(world, 1, 5, rows=4)
    botm.say(Capacity(1, hanging=1))
    world.advance(0.9 * LEASE_SECONDS - 1)
    for fetch in of(botm, first):  # it is dropped there, and given up here later
        botm.forget(fetch)
    for _ in range(9):
        assert len(pids_at(botm)) == 1
        for fetch in list(botm.out.values())[:1]:
            botm.done(fetch)
        world.advance(1)


def test_what_hangs_is_not_overloaded(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE_SECONDS, run_rows=2, overload=2.0)
    botm = FakeBotm(world, capacity=5, orders_max=1000)
    hanging = set(providers(world, 1, 30, rows=2)[:4])
    assert len(pids_at(botm)) == 10
    botm.say(Capacity(1, hanging=4))
    for fetch in list(botm.out.values()):
        if fetch.pid not in hanging:
            botm.done(fetch)
    world.advance(1)
    assert len(pids_at(botm) - hanging) == 2, "one robot, two runs"


def test_runs_go_to_where_a_robot_is_free(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE_SECONDS, run_rows=2, overload=1.5)
    lame = FakeBotm(world, 1, capacity=44, orders_max=1000)
    hanging = set(providers(world, 1, 40, rows=2))
    assert pids_at(lame) == hanging
    lame.say(Capacity(4, hanging=40))
    well = FakeBotm(world, 2, capacity=16, orders_max=1000)
    new = set(providers(world, 41, 12, rows=2))
    assert len(pids_at(lame) & new) <= 4 and len(pids_at(well) & new) >= 8


def test_what_a_hung_robot_of_a_restarted_botm_may_fetch_waits_for_its_lease(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE_SECONDS, run_rows=2, overload=1.0)
    dead = FakeBotm(world, capacity=2, orders_max=1000)
    other = FakeBotm(world, 2, capacity=4, orders_max=1000)
    hung = set(providers(world, 1, 5, rows=2)) & pids_at(dead)
    assert hung
    dead.close()
    again = FakeBotm(world, run="r2", capacity=2, orders_max=1000, ready=False)
    again.say(Ready(unsure=True))
    world.advance(0.9 * LEASE_SECONDS - 1)
    assert not hung & (pids_at(other) | pids_at(again))
    new = set(providers(world, 6, 10, rows=2))
    assert len(new & pids_at(again)) == 2, "its robots have as much to do as before"
    for fetch in list(again.out.values()):  # they did not arrive there
        again.forget(fetch)
    again.close()
    again = FakeBotm(world, run="r2", capacity=2, orders_max=1000, ready=False)
    again.say(Ready(unsure=True))
    assert len(new & pids_at(again)) == 2, "what went to this run is lost, and goes out again"
    for fetch in list(other.out.values()):
        other.done(fetch)
    assert not hung & (pids_at(other) | pids_at(again))
    for fetch in list(dead.out.values()):
        dead.forget(fetch)
    world.advance(0.1 * LEASE_SECONDS + 2)
    for botm in (other, again):
        for fetch in list(botm.out.values()):
            botm.done(fetch)
    assert hung <= {fetch.pid for botm in (other, again) for fetch in botm.seen}


def test_when_the_robot_has_ended_its_orders_go_out_again_at_once(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE_SECONDS, run_rows=1, overload=1.0)
    botm = FakeBotm(world, capacity=2, orders_max=1000)
    (pid,) = providers(world, 1, 1, rows=1)
    botm.close()
    second = FakeBotm(world, run="r2", capacity=2, orders_max=1000, ready=False)
    second.say(Ready(unsure=True))
    (machine,) = world.engine.machines
    assert len(machine.earlier) == 1 and (machine.places(1.0), machine.contended) == (3, False)
    second.close()
    for fetch in list(botm.out.values()):
        botm.forget(fetch)
    again = FakeBotm(world, run="r3", capacity=2, orders_max=1000)
    assert not machine.earlier and pids_at(again) == {pid}


def test_what_waits_for_its_lease_takes_no_room_of_others(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE_SECONDS, run_rows=4, overload=1.0)
    dead = FakeBotm(world, capacity=4, orders_max=32)
    providers(world, 1, 4, rows=8)
    assert len(dead.out) == 16
    dead.close()
    again = FakeBotm(world, run="r2", capacity=2, orders_max=32, ready=False)
    again.say(Ready(unsure=True))
    new = providers(world, 11, 2, rows=4)
    assert [len(of(again, pid)) for pid in new] == [4, 4]
    (machine,) = world.engine.machines
    assert (machine.room, machine.contended) == (8, False)
    world.engine.dispatcher.recall_all()
    assert (machine.load, machine.places(1.0), machine.contended) == (0, 2, False)


def test_what_waits_for_its_lease_makes_no_room_when_it_is_recalled(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE_SECONDS, run_rows=2, overload=1.0)
    other = FakeBotm(world, 2, capacity=1, orders_max=1000)
    (low,) = providers(world, 1, 1, rows=2)
    dead = FakeBotm(world, capacity=2, orders_max=1000)
    hung = set(providers(world, 2, 2, rows=2))
    assert (pids_at(other), pids_at(dead)) == ({low}, hung)
    dead.close()
    again = FakeBotm(world, run="r2", capacity=1, orders_max=1000, ready=False)
    again.say(Ready(unsure=True))
    high = [world.provider(f"http://{number}/", priority=2) for number in (4, 5)]
    uns = FakeUns(world, "other")
    uns.send_set(1, high[0], pages(0, 1))
    assert pids_at(again) == {high[0]}
    uns.send_set(2, high[1], pages(0, 1))
    assert (again.recalls, other.recalls) == ([], [low])
    assert pids_at(other) == {low, high[1]}


def test_what_waited_for_its_lease_is_not_what_a_robot_cannot_end(make_world: MakeWorld) -> None:
    world = make_world(lease=LEASE_SECONDS, run_rows=1, overload=1.0)
    botm = FakeBotm(world, capacity=2, orders_max=1000)
    (pid,) = providers(world, 1, 1, rows=1)
    for run in ("r2", "r3"):
        assert pids_at(botm) == {pid}
        botm.close()
        fetches, botm = list(botm.out.values()), FakeBotm(world, run=run, capacity=2, orders_max=1000, ready=False)
        botm.say(Ready(unsure=True))
        assert not botm.out
        for fetch in fetches:
            world.order_ended(fetch)
        world.advance(LEASE_SECONDS + 1)
    assert pids_at(botm) == {pid}, "it goes out again, and has not failed"
