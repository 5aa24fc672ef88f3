"""A machine that has no room for content."""

from __future__ import annotations

import json

from lcc.errors import code
from lcc.insight.qm_state import Live, read_live
from lcc.protocols.work import Capacity
from lcc.roles.qm.maintenance.state import SAVE_SECONDS, TROUBLE_CHARS
from lcc.storage.queue.maintenance.saved_state import saved_state
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, World, pages

NO_ROOM = code("no-room")


def test_other_machines_fetch_what_it_gives_back(world: World) -> None:
    pids = [world.provider() for _ in range(4)]
    uns, full, other = FakeUns(world), FakeBotm(world, 1, "r1", 4), FakeBotm(world, 2, "r2", 2)
    for number, pid in enumerate(pids, 1):
        uns.send_set(number, pid, pages(1, 2))
    assert full.out
    orders = list(full.out.values())
    full.say(Capacity(0, "no room"))
    for order in orders:
        full.done(order, NO_ROOM)
    assert not full.out and full.upto == full.number
    other.finish_all()
    assert world.count("lccurl", "state = 1") == 8 and world.count("qdb") == 0
    assert world.count("urlerrs") == 0 and world.overlaps == 0


def test_no_attempt_is_counted_and_what_travelled_is(world: World) -> None:
    pid = world.provider(bandwidth_bytes=100)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1))
    for _ in range(20):
        (order,) = botm.out.values()
        botm.say(Capacity(0, "no room"))
        botm.done(order, NO_ROOM, wire_bytes=1000)
        world.advance(9)
        botm.say(Capacity(4))
        assert not botm.out  # ten seconds for a thousand bytes
        world.advance(2)
    assert world.count("qdb", "attempts = 0") == 1 and world.count("urlerrs") == 0
    botm.finish_all()
    assert world.count("qdb") == 0


def test_status_says_which_machine_and_why(world: World) -> None:
    def live() -> Live:
        return read_live(world.database.now(saved_state), NOW + int(world.clock.seconds()))

    botm = FakeBotm(world, machine=3)
    botm.say(Capacity(0, "x" * 10_000))
    world.advance(SAVE_SECONDS)
    state = json.loads(world.database.now(saved_state))
    assert state["machines"][0]["trouble"] == "x" * TROUBLE_CHARS
    assert live().trouble.startswith("no machine has room for content; machine 3: xxx")
    other = FakeBotm(world, machine=4, run="r4")
    world.advance(SAVE_SECONDS)
    assert live().trouble == ""
    other.say(Capacity(0))
    world.advance(SAVE_SECONDS)
    assert live().trouble == "no robot is connected"
    botm.say(Capacity(2))
    world.advance(SAVE_SECONDS)
    assert live().trouble == ""
