"""What the queue manager saves of itself, and what lcc-admin makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from lcc.errors import Busy, StoreUnavailable, StreamError
from lcc.insight.qm_state import Live, read_live
from lcc.protocols.work import ROBOTS_TOLD, Robot, Robots
from lcc.roles.qm.maintenance.state import MACHINES_SHOWN, ORDERS_SHOWN, SAVE_SECONDS
from lcc.storage.queue.maintenance.saved_state import saved_state
from tests.support.logs import LoggedErrors
from tests.support.qm_state import STATE
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, World, page, pages


def live(world: World) -> Live:
    return read_live(world.database.now(saved_state), NOW + int(world.clock.seconds()))


def test_it_says_what_goes_on(world: World) -> None:
    pid = world.provider()
    assert live(world).trouble == "no queue manager has run yet"
    world.advance(1)
    assert live(world).trouble == "no robot is connected"
    uns, botm = FakeUns(world, "uns-7"), FakeBotm(world, machine=3, capacity=4)
    uns.send_set(1, pid, pages(*range(1, 51)))
    world.advance(SAVE_SECONDS)
    now = live(world)
    assert now.alive and now.trouble == "" and now.age_seconds <= SAVE_SECONDS
    state = now.state
    assert (state["run"], state["capacity"], state["orders_out"]) == (world.engine.run, 4, 1)
    assert state["machines"] == [
        {
            "machine": 3,
            "name": "b",
            "via": "",
            "content": "",
            "connected": True,
            "ready": True,
            "capacity": 4,
            "trouble": "",
            "refused": "",
            "paused": "",
            "robots_refused": "",
            "orders": 1,
            "robots_count": 0,
            "robots": [],
        }
    ]
    assert (state["unses"], state["overload"], state["providers_active"]) == (["uns-7"], "", 1)
    (fetch,) = botm.out.values()
    order = now.fetching(bytes.fromhex(fetch.key))
    assert order is not None and order["machine"] == 3 and order["lease_left"] > 0
    assert now.fetching(bytes(20)) is None
    # What the tests of the web monitor take for such a state has all that one has.
    assert {name: set(state[name]) for name in ("counts", "results")} == {
        name: set(STATE[name]) for name in ("counts", "results")
    }
    assert set(state) - {"time"} == set(STATE) and set(state["machines"][0]) == set(STATE["machines"][0])
    botm.finish_all(rounds=20)
    world.advance(SAVE_SECONDS)
    state = live(world).state
    assert state["counts"]["results_recorded"] == 20 and state["counts"]["sets_answered"] == 1
    assert state["rates"]["results_recorded"] == pytest.approx(20 / SAVE_SECONDS)
    botm.close()
    world.advance(SAVE_SECONDS)
    machine = live(world).state["machines"][0]
    assert (machine["connected"], machine["ready"], machine["orders"]) == (False, False, 1)


def test_it_tells_of_robots(world: World) -> None:
    one, two = FakeBotm(world, machine=1), FakeBotm(world, machine=2)
    many = [Robot(f"a{number:03}", 4, 1, False) for number in range(ROBOTS_TOLD + 30)]
    one.say(Robots.telling(many))
    two.say(Robots.telling([Robot("b", 0, 0, True), Robot("a", 2, 1, False)]))
    world.advance(SAVE_SECONDS)
    machines = live(world).state["machines"]
    assert [len(each["robots"]) for each in machines] == [ROBOTS_TOLD, 2]
    assert [each["robots_count"] for each in machines] == [ROBOTS_TOLD + 30, 2]
    assert machines[1]["robots"] == [
        {"name": "a", "capacity": 2, "busy": 1, "paused": False},
        {"name": "b", "capacity": 0, "busy": 0, "paused": True},
    ]
    two.close()
    world.advance(SAVE_SECONDS)
    assert [each["robots_count"] for each in live(world).state["machines"]] == [ROBOTS_TOLD + 30, 0]


@pytest.mark.parametrize(
    "told", ["", "{}", "[1]", '["ab"]', '[["a",1,1]]', '[["a",1,"1",false]]', '[["a",true,1,false]]']
)
def test_what_is_told_of_robots_and_makes_no_sense(told: str) -> None:
    with pytest.raises(StreamError):
        assert Robots(1, told).robots


def test_it_is_taken_for_dead_when_it_is(world: World) -> None:
    FakeBotm(world)
    world.advance(SAVE_SECONDS)
    text = world.database.now(saved_state)
    world.engine.stop()
    assert read_live(text, NOW + int(world.clock.seconds()) + 15).alive
    dead = read_live(text, NOW + int(world.clock.seconds()) + 3600)
    assert not dead.alive and "last seen 60 minutes ago" in dead.trouble


def end(world: World) -> list[None]:
    """Let it say that it stops; what is given gets an item when it has."""
    ended: list[None] = []
    Deferred.fromCoroutine(world.engine.say_that_it_stops()).addCallback(ended.append)
    world.settle()
    return ended


def test_it_says_that_it_stops(world: World) -> None:
    world.advance(1)
    assert live(world).alive
    assert end(world)
    now = live(world)
    assert not now.alive and now.trouble == "the queue manager was stopped 0 seconds ago"
    world.advance(3 * SAVE_SECONDS)  # until its engine is stopped, too
    assert live(world).trouble == "the queue manager was stopped 15 seconds ago"
    world.start()
    world.advance(1)
    assert live(world).alive


def test_a_save_that_is_under_way_does_not_come_after_the_last_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.advance(1)
    save, held = world.engine.store.save_state, Deferred[None]()
    monkeypatch.setattr(world.engine.store, "save_state", lambda text: held)
    world.advance(SAVE_SECONDS)
    monkeypatch.setattr(world.engine.store, "save_state", save)
    ended = end(world)
    assert not ended and live(world).alive
    held.callback(None)
    world.advance(1)
    assert ended and not live(world).alive


def test_a_database_that_is_away_does_not_hold_up_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.advance(1)
    monkeypatch.setattr(world.engine.store, "save_state", lambda text: Deferred())
    ended = end(world)
    world.advance(1)
    assert not ended
    world.advance(2)
    assert ended
    world.engine.stop()


def test_a_newer_queue_manager_is_no_fault_of_one_that_stops(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.advance(1)
    monkeypatch.setattr(world.engine.store, "save_state", lambda text: fail(Busy("a newer one")))
    fatal: list[Busy] = []
    monkeypatch.setattr(world.engine, "fatal", fatal.append)
    assert end(world) and not fatal


def test_its_size_is_bounded(world: World) -> None:
    for number in range(1, MACHINES_SHOWN + 20):
        FakeBotm(world, machine=number, capacity=2)
    uns = FakeUns(world)
    for number in range(1, ORDERS_SHOWN + 20):
        pid = world.provider(f"http://{number}.example/")
        uns.send_set(number, pid, [page(1, curl=f"http://{number}.example/")])
    world.advance(SAVE_SECONDS + 1)
    state = live(world).state
    assert len(state["machines"]) == MACHINES_SHOWN and len(state["orders"]) == ORDERS_SHOWN
    assert state["machines_connected"] == MACHINES_SHOWN + 19 and state["orders_out"] == ORDERS_SHOWN + 19
    assert len(json.dumps(state)) < 50_000


def test_a_database_that_is_away_or_slow(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store = world.engine.store
    answers: list[Any] = [fail(StoreUnavailable("away")), Deferred()]
    slow = answers[1]
    asked = []

    def save_state(text: str) -> Deferred[None]:
        asked.append(json.loads(text)["time"])
        return answers.pop(0)  # type: ignore[no-any-return]

    monkeypatch.setattr(store, "save_state", save_state)
    world.advance(SAVE_SECONDS * 5)
    assert len(asked) == 2  # not again before the second one has come back
    slow.callback(None)
    monkeypatch.undo()
    world.advance(SAVE_SECONDS)
    assert live(world).alive and world.stopped == 0


def test_a_newer_queue_manager(world: World, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors) -> None:
    monkeypatch.setattr(world.engine.store, "save_state", lambda text: fail(Busy("a newer one")))
    world.advance(SAVE_SECONDS + 1)
    assert world.stopped == 1
    assert logged_errors.flush("a newer one")


def test_at_most_one_more_when_it_stops(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.engine.store, "save_state", lambda text: Deferred())
    world.advance(SAVE_SECONDS + 1)
    world.engine.stop()  # nothing is left in the clock: the fixture checks


def test_who_waits_for_another_provider_of_its_host(world: World) -> None:
    botm, uns = FakeBotm(world), FakeUns(world)
    registered, watched = world.provider(), world.provider(watched=True)
    uns.send_set(1, watched, pages(1, 2))
    uns.send_set(2, registered, pages(3))
    world.advance(SAVE_SECONDS + 1)
    (order,) = botm.out.values()
    now = live(world)
    (waiting,) = {registered, watched} - {order.pid}
    assert now.host_turns == [{"turns": [order.pid], "waiting": [waiting], "count": 1}]
    assert now.waits_for(waiting) == [order.pid] and now.waits_for(order.pid) == now.waits_for(99) == []
