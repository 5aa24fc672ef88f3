"""The queue manager's end of a central BOT-M's connection, and where it sends a provider's orders."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from lcc.insight.qm_state import read_live
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready, session_name
from lcc.protocols.work import (
    DOWN,
    Capacity,
    Done,
    Drop,
    Fetch,
    Gone,
    MachineHello,
    Running,
    addressed,
    addressee,
    session_of,
)
from lcc.protocols.xmlfeed import Event, Start
from lcc.roles.qm.maintenance.state import SAVE_SECONDS
from lcc.roles.qm.orders.dispatcher import AFFINITY_MAX
from lcc.storage.queue.maintenance.saved_state import saved_state
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, MakeWorld, Remote, World, page, pages


class FakeCentral(Remote):
    """A central BOT-M whose machines are played by the test.

    :ivar told: what each machine was told, in order.
    :ivar meant: of the same: tag, and for which connection it was meant.
    """

    def __init__(self, world: World, *machines: int) -> None:
        self.told: list[tuple[int, Flat]] = []
        self.meant: list[tuple[str, str]] = []
        self.arrivals = 0
        super().__init__(world, False, Hello(role="botm", name="central", run="c1"), DOWN)
        for machine in machines:
            self.arrive(machine)
            self.of(machine, Ready())

    def _read(self, event: Event) -> None:
        super()._read(event)
        if isinstance(event, Start) and event.name != "ping" and self.told:
            self.told[-1] = (addressee(event.name, event.attributes), self.told[-1][1])
            self.meant.append((event.name, session_of(event.attributes)))

    def heard(self, message: Flat) -> None:
        self.told.append((0, message))

    def arrive(self, machine: int, run: str = "", **said: Any) -> None:
        self.arrivals += 1
        run = run or f"r{machine}"
        said = {"capacity": 4, "via": "central", "session": session_name(run, self.arrivals)} | said
        hello = MachineHello(role="botm", name=f"m{machine}", machine=machine, run=run, **said)
        self.write(hello.to_xml())

    def of(self, machine: int, *messages: Flat) -> None:
        self.write("".join(addressed(message, machine) for message in messages))

    def orders(self, machine: int) -> list[Fetch]:
        return [message for number, message in self.told if number == machine and isinstance(message, Fetch)]

    def end(self, machine: int, order: Fetch, number: int) -> None:
        self.of(machine, Done(number, order.id, order.pid, order.key, order.generation, 404))

    @property
    def dropped(self) -> list[int]:
        return [message.machine for _, message in self.told if isinstance(message, Drop)]


def fill(world: World, sites: int = 8, count: int = 2) -> None:
    uns = FakeUns(world)
    for number in range(1, sites + 1):
        uns.send_set(number, world.provider(), pages(*range(count)))


def ready(world: World) -> list[int]:
    return [machine.number for machine in world.engine.machines if machine.ready]


def test_machines_are_served_one_by_one(world: World) -> None:
    central = FakeCentral(world, 1, 2)
    fill(world)
    assert central.orders(1) and central.orders(2)
    assert len(central.orders(1)) + len(central.orders(2)) == 8
    order = central.orders(2)[0]
    central.end(2, order, 1)
    assert world.count("urlerrs") == 1
    central.of(1, Gone(1))
    assert ready(world) == [2]
    central.close()
    assert ready(world) == []


def test_what_two_machines_say_in_one_read(world: World) -> None:
    central = FakeCentral(world)
    hellos = [
        MachineHello("botm", f"m{number}", machine=number, run="r", capacity=4, session=f"r{number}.1").to_xml()
        for number in (1, 2, 3)
    ]
    text = "".join(hellos) + "".join(addressed(Ready(), number) for number in (3, 1, 2))
    central.write(text + Gone(3).to_xml() + hellos[2])
    assert ready(world) == [1, 2]
    assert [machine.number for machine in world.engine.machines if machine.connection is not None] == [1, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        "<garbage machine='1'/>",
        "<done machine='1'/>",
        "<capacity machine='1'/>",
        Running("x", 5, "no key", 1, 5).to_xml().replace("/>", " machine='1'/>"),
    ],
)
def test_garbage_of_a_machine_drops_it_alone(world: World, text: str) -> None:
    central = FakeCentral(world, 1, 2)
    central.write(text + addressed(Capacity(9), 1) + addressed(Capacity(7), 2))
    assert central.dropped == [1] and ready(world) == [2] and not central.closed
    assert world.engine.dispatcher.machines[2].capacity == 7 and world.engine.dispatcher.machines[1].capacity == 4
    central.of(1, Capacity(3))  # was on its way
    central.of(1, Gone(1))
    central.arrive(1)
    central.of(1, Ready())
    assert ready(world) == [1, 2] and central.dropped == [1]


@pytest.mark.parametrize("text", ["<ready/>", "<ready machine='x'/>", "<machine name='x' machine='4'/>"])
def test_garbage_of_the_central_one_drops_it(world: World, text: str) -> None:
    central = FakeCentral(world, 1, 2)
    central.write(text)
    assert central.closed and ready(world) == []


def test_a_machine_that_says_no_run_is_turned_away(world: World) -> None:
    central = FakeCentral(world, 2)
    central.write(MachineHello("botm", "m1", machine=1).to_xml())
    assert central.dropped == [1] and ready(world) == [2]


def test_a_second_botm_of_a_machine_is_turned_away(world: World) -> None:
    fill(world)
    first = FakeBotm(world, 1, run="one")
    out = dict(first.out)
    assert out
    assert FakeBotm(world, 1, run="two").closed
    central = FakeCentral(world)
    central.arrive(1, "three")
    assert central.dropped == [1]
    assert not first.closed and first.out == out and world.engine.dispatcher.orders_lost == 0
    first.finish_all()
    first.close()
    central.of(1, Gone(1))
    central.arrive(1, "three")
    central.of(1, Ready())
    assert central.dropped == [1] and ready(world) == [1]


def test_a_machine_that_moves_below_a_central_one(world: World) -> None:
    fill(world)
    botm = FakeBotm(world, 1, run="r1")
    central = FakeCentral(world)
    central.arrive(1)
    assert botm.closed
    central.of(1, *[Running(f.id, f.pid, f.key, f.generation, 100) for f in botm.out.values()], Ready())
    assert ready(world) == [1] and world.engine.dispatcher.orders_lost == 0


def test_the_same_run_behind_another_central_one(world: World) -> None:
    one, two = FakeCentral(world, 1), FakeCentral(world)
    two.arrive(1)
    assert one.dropped == [1] and ready(world) == []
    two.of(1, Ready())
    one.of(1, Gone(1))
    assert ready(world) == [1]


def test_all_that_is_said_to_a_machine_names_its_connection(world: World) -> None:
    central = FakeCentral(world, 1)
    fill(world)
    central.of(1, Gone(1))
    central.arrive(1)
    central.of(1, Ready())
    central.write(addressed(Capacity(3), 1) + "<garbage machine='1'/>")
    assert central.dropped == [1]
    tags = {tag for tag, _ in central.meant}
    assert {"fetch", "drop"} <= tags
    assert {session for tag, session in central.meant} == {"r1.1", "r1.2"}
    assert [session for tag, session in central.meant if tag == "drop"] == ["r1.2"]


def test_a_hello_that_was_long_on_its_way_does_not_replace_a_later_connection(world: World) -> None:
    fill(world)
    central, other = FakeCentral(world), FakeCentral(world)
    central.arrive(1, session="r1.10")
    central.of(1, Ready())
    assert central.orders(1)
    other.arrive(1, session="r1.9")
    other.of(1, Ready())
    assert other.dropped == [1] and not central.dropped and ready(world) == [1]
    central.of(1, Gone(1))
    other.arrive(1, session="r1.2")  # also when the later one is gone
    other.of(1, Ready())
    assert other.dropped == [1, 1] and ready(world) == []
    assert world.engine.dispatcher.orders_lost == 0
    other.arrive(1, session="r1.11")
    other.of(1, Ready())
    assert ready(world) == [1]


def test_a_central_one_of_an_older_version_gets_no_orders_for_its_machines(world: World) -> None:
    central = FakeCentral(world)
    central.arrive(1, session="", via="central row")  # what it does not know is lost when it passes the hello on
    central.of(1, Ready(), Capacity(4))
    fill(world)
    assert central.orders(1) == [] and not central.dropped
    world.advance(SAVE_SECONDS)
    live = read_live(world.database.now(saved_state), int(NOW + world.clock.seconds()))
    (why,) = live.refused
    assert why.startswith("machine 1 (m1): a central BOT-M on the way") and "central row" in why
    assert live.trouble == why and live.state["capacity"] == 0
    direct = FakeBotm(world, 2)  # names none either: there is nothing in between
    assert direct.out
    direct.finish_all()
    central.of(1, Gone(1))
    central.arrive(1, session="r1.2")
    central.of(1, Ready())
    assert sorted(ready(world)) == [1, 2]
    direct.close()
    FakeUns(world).send_set(99, world.provider(), [page(1)])
    assert central.orders(1)


def test_a_machine_that_remembers_more_than_the_database(world: World, logged_errors: Any) -> None:
    world.advance(1)
    central = FakeCentral(world, 2)
    central.arrive(1, epoch=world.engine.repair.epoch, acked=10_000)
    central.of(1, Ready())
    assert ready(world) == [2, 1] and world.engine.repair.losses == 1
    assert logged_errors.flush("has gone back in time")


def test_a_machine_whose_hello_is_examined_while_it_leaves(world: World, logged_errors: Any) -> None:
    world.advance(1)
    world.database.unavailable = True
    central = FakeCentral(world)
    central.arrive(1, epoch=world.engine.repair.epoch, acked=1)
    central.of(1, Ready())
    assert ready(world) == [] and central.paused
    central.close()
    world.database.unavailable = False
    world.advance(5)
    assert ready(world) == []
    assert logged_errors.flush("has gone back in time")  # what it said is true all the same


def test_the_status_names_the_way(world: World) -> None:
    central = FakeCentral(world)
    central.arrive(1, via="central row", content="http://10.0.0.1:9200")
    FakeBotm(world, 2)
    world.advance(SAVE_SECONDS)
    live = read_live(world.database.now(saved_state), int(NOW + world.clock.seconds()))
    assert live.state["centrals"] == [{"name": "central", "machines": 1}]
    shown = [(each["machine"], each["name"], each["via"], each["content"]) for each in live.state["machines"]]
    assert shown == [(1, "m1", "central row", "http://10.0.0.1:9200"), (2, "b", "", "")]
    central.close()
    assert not world.engine.centrals


def test_orders_tell_when_they_were_sent_on_the_receivers_clock(world: World) -> None:
    central = FakeCentral(world)
    central.write("<ping clock_ms='5000000'/>")
    world.clock.advance(2)
    central.arrive(1)
    central.of(1, Ready())
    fill(world, 1)
    (order,) = central.orders(1)
    assert order.sent_ms == 5_002_000


# The way of a provider.


def test_a_provider_comes_back_to_its_machine(make_world: MakeWorld) -> None:
    world = make_world()
    botms = [FakeBotm(world, number, capacity=20) for number in (1, 2, 3)]
    uns = FakeUns(world)
    pids = [world.provider() for _ in range(12)]
    homes: dict[int, int] = {}
    for round_number in range(1, 5):
        for number, pid in enumerate(pids):
            uns.send_set(round_number * 100 + number, pid, [page(round_number)])
        for botm in botms:
            for order in list(botm.out.values()):
                assert homes.setdefault(order.pid, botm.machine) == botm.machine
                botm.done(order)
        world.advance(30)  # nobody has anything to fetch
    assert set(homes.values()) == {1, 2, 3} and len(homes) == 12


def test_a_full_machine_does_not_hold_up_a_provider(make_world: MakeWorld) -> None:
    world = make_world(overload=1.0)
    one = FakeBotm(world, 1, capacity=1)
    uns, first, second = FakeUns(world), world.provider(), world.provider()
    uns.send_set(1, first, [page(1)])
    one.finish_all()
    uns.send_set(2, second, [page(2)])
    two = FakeBotm(world, 2, capacity=1)
    world.advance(2)
    uns.send_set(3, first, [page(3)])
    assert [order.pid for order in one.out.values()] == [second]
    assert [order.pid for order in two.out.values()] == [first]


def test_only_so_many_ways_are_remembered(world: World) -> None:
    dispatcher = world.engine.dispatcher
    for pid in range(AFFINITY_MAX + 10):
        dispatcher._remember_home(pid, 1)
    dispatcher._remember_home(10, 2)
    dispatcher._remember_home(-1, 1)
    assert len(dispatcher._homes) == AFFINITY_MAX
    assert 10 in dispatcher._homes and 11 not in dispatcher._homes


def test_a_result_is_of_the_machine_that_says_it(world: World) -> None:
    fill(world, 1, 1)
    botm = FakeBotm(world, 1)
    (order,) = botm.out.values()
    botm.done(order, machine=2)
    (url,) = world.cached().values()
    assert url.fetched_machineid == 1
    assert attrs.asdict(order)["pid"] == url.pid


def test_a_machine_that_is_gone_before_it_is_let_in_holds_up_nobody(world: World) -> None:
    central = FakeCentral(world, 1)
    world.database.hold_back()
    hello = MachineHello("botm", "m2", machine=2, run="r2", capacity=4, names_upto=5, session="r2.0")
    central.write(hello.to_xml() + addressed(Ready(), 2) + Gone(2).to_xml())
    world.database.let_go()
    world.settle()
    central.of(1, Capacity(9))
    assert not central.paused
    assert [machine.capacity for machine in world.engine.machines if machine.connection is not None] == [9]
    central.arrive(2, names_upto=5)
    central.of(2, Ready())
    assert ready(world) == [1, 2]
