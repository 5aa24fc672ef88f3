"""pause() and resume() of the queue manager, and that a pause of any role is seen."""

from __future__ import annotations

from lcc.insight.qm_state import read_live
from lcc.protocols.uns_qm import Paused
from lcc.protocols.work import Capacity
from lcc.roles.qm.console import QmCommands
from lcc.roles.qm.maintenance.state import SAVE_SECONDS
from lcc.storage.queue.maintenance.saved_state import saved_state
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, World, pages


def state(world: World) -> dict[str, object]:
    world.advance(SAVE_SECONDS)
    return read_live(world.database.now(saved_state), NOW + int(world.clock.seconds())).state


def test_no_orders_go_out_until_it_goes_on(world: World) -> None:
    commands = QmCommands(world.engine)
    pids = [world.provider(f"http://site{number}.example/") for number in range(3)]
    uns, botm = FakeUns(world), FakeBotm(world, capacity=2)
    uns.send_set(1, pids[0], pages(1, 2))
    world.advance(1)
    assert len(botm.out) == 1
    commands.pause()
    commands.pause()
    assert state(world)["paused_since"] is not None
    uns.send_set(2, pids[1], pages(1))
    assert botm.finish_all() == 1  # what was out comes back, and nothing follows it
    world.advance(10)
    assert not botm.out and world.cached_count == 1
    text = str(commands.est())
    assert "PAUSED for" in text and "sends no orders" in text
    assert {line[0] for line in commands.queue(10)} <= {"turn", "waits"}
    commands.resume()
    world.settle()
    assert botm.out
    botm.finish_all()
    world.advance(1)
    assert world.cached_count == 3 and state(world)["paused_since"] is None
    assert commands.queue(10) == [("queue", "nobody has work")]


def test_what_is_paused_elsewhere_is_seen(world: World) -> None:
    uns, botm = FakeUns(world, "uns-7"), FakeBotm(world, capacity=2)
    uns.say(Paused(True))
    botm.say(Capacity(0, "", "BOT-M, robot bot2"))
    found = state(world)
    live = read_live(world.database.now(saved_state), NOW + int(world.clock.seconds()))
    assert found["unses_paused"] == ["uns-7"]
    assert live.pauses == ["machine 1: BOT-M, robot bot2"]
    assert live.trouble == "the robots are paused by an operator"
    uns.say(Paused(False))
    botm.say(Capacity(2))
    found = state(world)
    assert found["unses_paused"] == []
    assert read_live(world.database.now(saved_state), NOW + int(world.clock.seconds())).trouble == ""


def test_what_the_commands_say_of_a_provider(world: World) -> None:
    commands = QmCommands(world.engine)
    pid, waiting = world.provider("http://a.example/"), world.provider("http://b.example/", hours="3")
    uns, botm = FakeUns(world), FakeBotm(world, capacity=1)
    uns.send_set(1, pid, pages(*range(5)))
    uns.send_set(2, waiting, pages(1))
    world.advance(2)
    (fetch,) = botm.out.values()
    lines = dict(reversed(commands.provider(pid)))
    assert (
        "is being fetched from" in lines["turn"] and fetch.id in lines["order"] and lines["next"].startswith("http")
    )
    assert "hours" in str(commands.provider(waiting)) or "waits" in str(commands.provider(waiting))
    assert "no work" in str(commands.provider(999))
    assert f"provider {pid} at machine 1, order {fetch.id}" in str(commands.est())
    botm.finish_all()
