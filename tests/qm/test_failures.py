"""The queue manager killed, replaced, without its database, and given what it cannot use."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest

from lcc.protocols.work import Deleted, Running
from lcc.roles.qm.orders.recorder import GATHER_SECONDS_MAX, GATHER_TIMES
from lcc.storage.providers.providers import change_provider, get_provider, order_removal
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, page, pages


@pytest.fixture(params=[0, 1, 2])
def hops(request: pytest.FixtureRequest) -> int:
    """Directly, and behind central BOT-Ms."""
    return int(request.param)


def test_a_new_queue_manager_takes_over_running_orders(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    for number in range(1, 5):
        uns.send_set(number, world.provider(), pages(1, 2, 3))
    old_run = world.engine.run
    assert len(botm.out) == 4
    world.start()
    assert botm.closed and world.engine.run > old_run
    ended, lost, *_ = list(botm.out.values())
    botm.done(ended)
    botm.forget(lost)
    back = FakeBotm(world, earlier=botm)
    # One was lost, one has ended; the providers of the others stay busy.
    assert {fetch.pid for fetch in back.seen} == {ended.pid, lost.pid}
    assert len(back.out) == 4
    assert back.finish_all() == 11
    assert back.upto == back.number
    assert world.count("qdb") == 0 and world.cached_count == 12
    assert [fetch.id for fetch in back.seen if fetch.id.startswith(f"{old_run}-")] == []


def test_an_order_of_an_earlier_queue_manager_is_given_up_with_its_lease(make_world: MakeWorld) -> None:
    world = make_world(lease=60.0)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    world.start()
    back = FakeBotm(world, earlier=botm)
    assert not back.seen
    world.advance(60)
    back.forget(next(iter(back.out.values())))
    world.advance(10)
    assert back.finish_all() == 2
    assert world.count("qdb") == 0


def test_results_of_an_earlier_run_are_not_fetched_again(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world, capacity=8)
    for number in range(1, 6):
        uns.send_set(number, world.provider(), pages(1))
    world.start()
    for fetch in list(botm.out.values()):
        botm.done(fetch)
    back = FakeBotm(world, earlier=botm)
    assert not back.seen and not back.kept
    assert world.count("qdb") == 0 and world.cached_count == 5


RETRY = {"retry_initial": 1.0, "retry_maximum": 2.0}


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_anything_may_break_at_any_time(make_world: MakeWorld, seed: int, slow: bool) -> None:
    """Whatever happens in whatever order, in the end each URL is as the last set that named it said.

    :param slow: the database answers later, reads in any order.
    """
    random = Random(seed)
    world = make_world(
        absorb_batch=3, record_batch=4, read_ahead=3, lease=60.0, hold_initial=1.0, hold_maximum=2.0, **RETRY
    )
    pids = [world.provider() for _ in range(3)]
    uns, botm = FakeUns(world), FakeBotm(world)
    sets: list[tuple[int, list[tuple[int, bool]]]] = []
    told: dict[tuple[int, int], bool] = {}
    answered = 0

    def deliver(number: int) -> None:
        pid, elements = sets[number - 1]
        uns.send_set(number, pid, [page(url, md5=f"{number:032x}", delete=gone) for url, gone in elements])

    if slow:
        world.database.hold_back()
    for _ in range(150):
        for _ in range(random.randrange(4)):
            if world.database.waiting:
                world.database.step(random.randrange(len(world.database.waiting)))
                world.settle()
        choice = random.randrange(12)
        if choice < 3 and len(sets) < 40:
            pid = random.choice(pids)
            elements = [(random.randrange(8), random.random() < 0.3) for _ in range(random.randrange(6))]
            sets.append((pid, elements))
            told.update({(pid, url): not gone for url, gone in elements})
            deliver(len(sets))
        elif choice < 7 and botm.out:
            fetch = random.choice(list(botm.out.values()))
            botm.done(fetch, random.choice([0, 0, 0, 0, 503, 1301]))
        elif choice == 7:
            botm.delete_all()
        elif choice == 8:
            botm.close()
            if random.random() < 0.3:
                world.fetching.clear()
                botm = FakeBotm(world, run=f"r{random.random()}")
            else:
                if botm.out and random.random() < 0.5:
                    botm.forget(next(iter(botm.out.values())))
                botm = FakeBotm(world, earlier=botm)
        elif choice == 9:
            answered += len(uns.answers)
            if random.random() < 0.5:
                world.start()
                botm = FakeBotm(world, earlier=botm)
            uns.close()
            uns = FakeUns(world)
            for number in range(answered + 1, len(sets) + 1):
                deliver(number)
        elif choice == 10:
            world.database.lose_results = random.randrange(3)
        else:
            world.database.unavailable = random.random() < 0.5
            world.advance(random.choice([0.1, 3.0]))
            if random.random() < 0.5:
                world.database.unavailable = False
    world.database.unavailable = False
    world.database.lose_results = 0
    world.database.let_go()
    for _ in range(100):
        world.advance(3)
        botm.finish_all(2000)
        botm.delete_all()
        if world.count("qdb") == 0 and answered + len(uns.answers) == len(sets):
            break
    assert answered + len(uns.answers) == len(sets)
    assert world.count("qdb") == 0
    expected = {(pid, f"http://site.example/{url}.html") for (pid, url), there in told.items() if there}
    found = {(pid, url) for pid in pids for url in world.cached(pid)}
    final_errors = world.count("urlerrs", "code = 503")
    assert found <= expected and len(expected - found) <= final_errors
    world.advance(5)
    botm.delete_all()
    assert world.count("fsmdb") == 0
    assert world.engine.scheduler.taken_count == 0


@pytest.mark.parametrize("hops", [0])  # its connections are swapped by hand
def test_a_newer_queue_manager_stops_the_older(world: World, logged_errors: LoggedErrors) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    old = world.engine
    world.engine = None  # type: ignore[assignment]  # it is not stopped, it lives on
    remotes = list(world.remotes)
    world.remotes.clear()
    world.start()
    world.remotes.extend(remotes)
    botm.done(next(iter(botm.out.values())))
    assert world.stopped == 1
    assert botm.closed and uns.closed
    assert len(logged_errors.flush("stops")) == 1
    back = FakeBotm(world, earlier=botm)
    back.finish_all()
    assert world.count("qdb") == 0
    assert not old.started


def test_the_database_is_away_while_results_come(make_world: MakeWorld) -> None:
    world = make_world(record_batch=2)
    uns, botm = FakeUns(world), FakeBotm(world, capacity=40)
    for number in range(1, 41):
        uns.send_set(number, world.provider(), pages(1, 2))
    assert len(botm.out) == 40
    world.database.unavailable = True
    botm.finish_all(40)
    assert botm.paused
    assert botm.upto == 0
    world.advance(60)
    assert not botm.closed
    world.database.unavailable = False
    world.advance(10)
    botm.finish_all()
    assert world.count("qdb") == 0 and world.cached_count == 80
    assert botm.upto == botm.number


def test_deletes_that_a_botm_cannot_do_do_not_hold_up_others(make_world: MakeWorld) -> None:
    world = make_world(delete_window=10)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(*range(25)))
    botm.finish_all()
    uns.send_set(2, pid, [page(number, delete=True) for number in range(25)])
    stuck, botm.deletes = botm.deletes, []
    assert len(stuck) == 10
    world.advance(62)
    botm.delete_all()
    assert world.count("fsmdb") == 10
    uns.send_set(3, pid, pages(99))
    botm.finish_all()
    uns.send_set(4, pid, [page(99, delete=True)])
    botm.delete_all()
    assert world.count("fsmdb") == 0


def test_results_that_cannot_be_used(world: World, logged_errors: LoggedErrors) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    for event in ("INSERT", "UPDATE"):
        trigger = f"CREATE TRIGGER no_{event} BEFORE {event} ON lccurl WHEN NEW.etag = 'not this one'"
        world.database.now(lambda txn, text: txn.execute(f"{text} BEGIN SELECT RAISE(ABORT, 'no'); END"), trigger)
    uns.send_set(1, world.provider(), pages(1, 2, 3, 4))
    first = next(iter(botm.out.values()))
    botm.done(first, key="00ff")
    second = next(iter(botm.out.values()))
    botm.done(second, etag="not this one")
    assert logged_errors.flush("Unusable result")
    assert logged_errors.flush("Cannot record")
    world.advance(65)
    botm.finish_all()
    assert botm.upto == botm.number
    assert world.count("qdb") == 0 and world.cached_count == 4


@pytest.mark.parametrize(
    "text", ["<nonsense/>", "<done/>", "<running id='x' pid='1' key='zz' generation='1' lease_seconds='1'/>"]
)
def test_a_botm_that_makes_no_sense_is_dropped(world: World, text: str) -> None:
    botm = FakeBotm(world)
    botm.write(text)
    assert botm.closed
    uns, back = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1))
    assert back.finish_all() == 1


def test_a_botm_must_name_its_machine_and_run(world: World) -> None:
    assert FakeBotm(world, machine=0).closed
    assert FakeBotm(world, run="").closed


def test_answers_that_nobody_asked_for(world: World) -> None:
    botm = FakeBotm(world)
    botm.say(Deleted(77))
    botm.say(Running("1-1", 1, (b"\0\0\0\1" + bytes(16)).hex(), 1, 30))
    assert not botm.closed
    world.advance(80)
    assert world.engine.dispatcher.orders_out == 0


def test_a_provider_that_changes(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    provider = world.database.now(get_provider, pid)
    assert provider is not None
    world.database.now(change_provider, attrs.evolve(provider, insecure=True))
    world.advance(2)
    botm.finish_all()
    assert [fetch.insecure for fetch in botm.seen] == [False, True, True]


def test_a_provider_that_is_removed(world: World) -> None:
    pid, other = world.provider(), world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    uns.send_set(2, other, pages(1))
    botm.done(next(iter(botm.out.values())))
    world.database.now(order_removal, pid)
    world.advance(3)
    botm.finish_all()
    botm.delete_all()
    assert world.count("qdb") == 0
    assert set(world.cached(pid)) == set() and len(world.cached(other)) == 1
    world.advance(2)
    botm.delete_all()
    assert world.count("fsmdb") == 0


@pytest.mark.parametrize(("taken", "pause"), [(0.005, GATHER_TIMES * 0.005), (0.1, GATHER_SECONDS_MAX)])
def test_results_gather_while_some_come(make_world: MakeWorld, taken: float, pause: float) -> None:
    world = make_world()
    uns = FakeUns(world)
    for number in range(1, 13):
        uns.send_set(number, world.provider(), pages(1))
    botm = FakeBotm(world, capacity=12)
    fetches = list(botm.out.values())
    assert len(fetches) == 12

    def writes() -> int:
        return sum(is_write for is_write, _ in world.database.waiting)

    world.database.hold_back()
    for fetch in fetches[:2]:
        botm.done(fetch)
    assert writes() == 1  # the first one goes at once
    world.clock.advance(taken)
    world.database.step(next(at for at, (write, _) in enumerate(world.database.waiting) if write))
    world.settle()
    assert writes() == 0  # one has come meanwhile: more are expected
    for fetch in fetches[2:]:
        botm.done(fetch)
    world.clock.advance(pause * 0.9)
    assert writes() == 0
    world.advance(pause * 0.2)
    assert writes() == 1
    while world.database.waiting:
        world.database.step()
        world.settle()
    assert world.cached_count == 12


@pytest.mark.parametrize(
    "more", [{"files": "bogus"}, {"files": "1:" + "0" * 32, "file": None}, {"files": "-," * 100 + "-"}]
)
def test_a_result_of_a_batch_that_makes_no_sense(
    world: World, logged_errors: LoggedErrors, more: dict[str, Any]
) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    botm.done(next(iter(botm.out.values())), **more)
    assert logged_errors.flush("Unusable result")
    world.advance(65)
    botm.finish_all()
    assert botm.upto == botm.number
    assert world.count("qdb") == 0 and world.cached_count == 2
