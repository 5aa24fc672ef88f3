"""A central BOT-M between an upper end and BOT-Ms that the test plays, on the real wires."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from twisted.internet.task import Clock

from lcc.config import BotmConfig
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.work import (
    DOWN,
    Capacity,
    Delete,
    Deleted,
    Done,
    Drop,
    Fetch,
    Gone,
    MachineHello,
    Mark,
    RecordedUpto,
    Running,
    addressed,
)
from lcc.roles.botm.relay import HOPS_MAX, MESSAGE_CHARS_MAX, Relay
from lcc.roles.botm.relay_downstream import UNREAD_BYTES_MAX
from lcc.roles.peer import IDLE_SECONDS, Peer
from tests.support.roles.relay import BOTM_ROLE, Upper, machine_botm
from tests.support.roles.robots import FakePeer, World, done, fetch_order
from tests.support.segments import segmentations
from tests.support.transports import Wire


class Tree(World):
    """Central BOT-Ms, each the parent of the next; the first one's parent is :attr:`top`."""

    def __init__(self, *names: str, **settings: Any) -> None:
        super().__init__()
        self.relays: list[Relay] = []
        self.links: list[Wire] = []
        for number, name in enumerate(names or ("central",)):
            upper = frozenset(["botm" if number else "qm"])
            config = BotmConfig(name=name, serves="botms", **settings)
            self.relays.append(Relay(config, self.clock, f"run-{name}", upper))
        self.top = Upper(self.clock)
        self.connect_up()

    def connect_up(self, first: int = 0) -> None:
        """Connect the central ones with each other, from this one on."""
        for number, relay in enumerate(self.relays[first:], first):
            if not number:
                self.top = Upper(self.clock)
            upper = self.relays[number - 1].downstream_factory().buildProtocol(None) if number else None
            above = upper if number else self.top.build_stream()
            assert above is not None
            self.links[number:] = [self.connect(relay.upstream_factory(int).buildProtocol(None), above)]
            self.settle()

    def join(self, peer: Peer, relay: int = -1) -> Wire:
        """A BOT-M connects to a central one."""
        stream = self.relays[relay].downstream_factory().buildProtocol(None)
        assert stream is not None
        wire = self.connect(peer.build_stream(), stream)
        self.settle()
        return wire

    def machine(self, number: int, run: str = "", relay: int = -1, **said: Any) -> tuple[FakePeer, Wire]:
        peer = machine_botm(self.clock, number, run, **said)
        return peer, self.join(peer, relay)

    def tell(self, machine: int, *messages: Flat, session: str = "") -> None:
        self.top.tell(machine, *messages, session=session)
        self.settle()

    def move(self, way: Wire) -> None:
        """Deliver what is under way downwards on this connection, and nothing else."""
        self.clock.advance(0)
        way.server.stream.flush()
        while way.move(way.server):
            pass

    def say(self, peer: FakePeer, *messages: Flat) -> None:
        for message in messages:
            peer.say(message)
        self.settle()


def result(number: int, machine: int) -> Done:
    """A machine's result."""
    return attrs.evolve(done(fetch_order(number)), number=number, machine=machine, file=number)


@pytest.mark.parametrize("names", [("central",), ("central", "row"), ("a", "b", "c", "d")])
def test_a_machine_is_seen_as_if_it_were_connected_directly(names: tuple[str, ...]) -> None:
    tree = Tree(*names)
    one, _ = tree.machine(1, epoch="e", acked=7, names_upto=30, content="http://10.0.0.1:9200")
    two, _ = tree.machine(2)
    hello = tree.top.hellos()[0]
    assert (hello.role, hello.name, hello.machine, hello.run, hello.capacity) == ("botm", "m1", 1, "r1", 4)
    assert (hello.epoch, hello.acked, hello.names_upto, hello.content) == ("e", 7, 30, "http://10.0.0.1:9200")
    assert [each.via for each in tree.top.hellos()] == [" ".join(names)] * 2
    said = [result(1, 1), Running("q1-2", 2, "ab", 3, 100), Capacity(9), Ready(), Deleted(5)]
    tree.say(one, *said)
    tree.say(two, Ready())
    assert tree.top.of(1) == said and tree.top.of(2) == [Ready()]
    told = [Delete(1, 1, 9), RecordedUpto(1), Mark("e", 8)]
    tree.tell(1, *told, fetch_order(7))
    assert one.heard[:3] == told and two.heard == []
    (order,) = one.of(Fetch)
    assert attrs.evolve(order, sent_ms=None) == fetch_order(7)


def test_what_it_knows_of_the_machines() -> None:
    tree = Tree("central", "row")
    tree.machine(1, content="http://one")
    _two, wire = tree.machine(2, relay=0)
    central, row = tree.relays
    assert {number: each.content for number, each in central.machines.items()} == {1: "http://one", 2: ""}
    assert list(row.machines) == [1]
    wire.kill(wire.client)
    tree.settle()
    assert list(central.machines) == [1]
    assert tree.top.of(2) == [Gone(2)]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_upper_end_makes_all_machines_say_everything_anew(lost: int) -> None:
    tree = Tree("central", "row")
    one, _ = tree.machine(1)
    two, _ = tree.machine(2, relay=0)
    tree.links[lost].kill(tree.links[lost].server)
    tree.settle()
    assert one.lost and two.lost is (lost == 0)
    assert not tree.relays[1].connected and not tree.relays[1].machines
    assert tree.relays[1].downstream_factory().buildProtocol(None) is None  # turned away until the upper end is back
    tree.connect_up(lost)
    again, _ = tree.machine(1)
    tree.say(again, Ready())
    assert tree.top.of(1)[-1] == Ready() and tree.top.hellos()[-1].via == "central row"


def test_a_central_one_that_is_its_own_parent_never_gets_a_connection() -> None:
    clock = Clock()
    relay = Relay(BotmConfig(serves="botms"), clock, "run", BOTM_ROLE)
    assert relay.downstream_factory().buildProtocol(None) is None


def test_a_machine_that_connects_again_replaces_its_old_connection() -> None:
    tree = Tree()
    old, _ = tree.machine(1)
    new, _ = tree.machine(1)
    assert old.lost and not new.lost
    assert [type(message) for _, message in tree.top.heard] == [MachineHello, Gone, MachineHello]
    tree.tell(1, Mark("e", 1))
    assert new.heard == [Mark("e", 1)] and old.heard == []


def test_a_machine_that_is_there_twice_is_turned_away() -> None:
    tree = Tree("central", "row")
    first, wire = tree.machine(1, "one")
    other, _ = tree.machine(1, "other")
    behind_row, _ = tree.machine(1, "third", relay=0)
    assert other.lost and behind_row.lost and not first.lost
    assert [hello.run for hello in tree.top.hellos()] == ["one"]
    tree.tell(1, Mark("e", 1))
    assert first.heard == [Mark("e", 1)]
    wire.kill(wire.client)
    tree.settle()
    tree.machine(1, "other", relay=0)
    assert [hello.run for hello in tree.top.hellos()] == ["one", "other"]


def test_a_machine_that_moves_to_another_place_in_the_tree() -> None:
    tree = Tree("central", "row")
    old, _ = tree.machine(1)
    new, _ = tree.machine(1, relay=0)
    assert old.lost and not new.lost
    assert tree.top.hellos()[-1].via == "central"
    back, _ = tree.machine(1)  # and back: the lower one knows nothing of the upper one's machines
    assert new.lost and not back.lost
    assert list(tree.relays[0].machines) == list(tree.relays[1].machines) == [1]
    tree.say(back, Ready())
    assert tree.top.of(1)[-1] == Ready()


@pytest.mark.parametrize("passed", [0, 1])
def test_an_order_for_an_earlier_connection_does_not_come_to_the_new_one(passed: int) -> None:
    """It was under way, below so many central ones, when the machine connected again."""
    tree = Tree("central", "row")
    _old, wire = tree.machine(1, session="r1.1")
    tree.top.tell(1, fetch_order(1), Drop(1), session="r1.1")
    for link in tree.links[:passed]:
        tree.move(link)
    wire.kill(wire.client)
    while wire.close_ends():
        pass
    stream = tree.relays[-1].downstream_factory().buildProtocol(None)
    assert stream is not None
    new = machine_botm(tree.clock, 1, session="r1.2")
    wire = tree.connect(new.build_stream(), stream)
    new.stream.flush()
    while wire.move(wire.client):  # the last one knows it before the order comes
        pass
    assert tree.relays[-1].machines[1].session == "r1.2"
    tree.settle()
    tree.tell(1, fetch_order(2), session="r1.1")
    assert not new.lost and new.heard == []
    assert [hello.session for hello in tree.top.hellos()] == ["r1.1", "r1.2"]
    tree.tell(1, fetch_order(3), session="r1.2")
    assert [order.id for order in new.of(Fetch)] == [fetch_order(3).id]


def test_an_upper_end_of_an_older_version_names_no_connection() -> None:
    tree = Tree("central", "row")
    one, _ = tree.machine(1, session="r1.1")
    tree.tell(1, fetch_order(1))
    assert len(one.of(Fetch)) == 1


def test_the_connection_of_a_botm_of_an_older_version_is_named_by_the_one_above_it() -> None:
    tree = Tree("central", "row")
    tree.machine(1)
    again, _ = tree.machine(1)
    first, second = [hello.session for hello in tree.top.hellos()]
    assert first and second and first != second
    tree.tell(1, fetch_order(1), session=first)
    assert again.heard == []
    tree.tell(1, fetch_order(2), session=second)
    assert len(again.of(Fetch)) == 1


def test_a_hello_that_was_long_on_its_way_does_not_replace_a_later_connection() -> None:
    tree = Tree("central", "row")
    new, _ = tree.machine(1, session="r1.10", relay=0)
    late, _ = tree.machine(1, session="r1.9")
    direct, _ = tree.machine(1, session="r1.2", relay=0)
    assert late.lost and direct.lost and not new.lost
    tree.tell(1, Mark("e", 1), session="r1.10")
    assert new.heard == [Mark("e", 1)]
    assert [hello.session for hello in tree.top.hellos()] == ["r1.10"]


@pytest.mark.parametrize(
    "text",
    [
        "<garbage/>",
        "<done/>",
        "<capacity fetches='x'/>",
        "<ready machine='2'/>",
        "<ready machine='no'/>",
        "<ready machine='-1'/>",
        "<ready machine='99999999999'/>",
        "<machine role='botm' name='x' machine='1' run='r'/>",
        "<gone machine='1'/>",
        "<fetch/>",
        addressed(attrs.evolve(done(fetch_order(1)), machine=2, file=1), 2),
        addressed(attrs.evolve(done(fetch_order(1)), detail="x" * MESSAGE_CHARS_MAX), 1),
        "</nonsense",
        "<!DOCTYPE x>",
    ],
)
def test_garbage_drops_only_that_machine(text: str) -> None:
    tree = Tree("central", "row")
    bad, _ = tree.machine(1)
    good, _ = tree.machine(2)
    bad.say(Capacity(3))
    bad.raw(text)
    bad.say(Capacity(5))
    tree.settle()
    assert bad.lost and not good.lost
    assert tree.top.of(1)[:1] in ([Capacity(3)], [Gone(1)]) and tree.top.of(1)[-1] == Gone(1)
    assert Capacity(5) not in tree.top.of(1)
    tree.say(good, Ready())
    assert tree.top.of(2) == [Ready()]


@pytest.mark.parametrize("text", ["<ready/>", "<machine role='botm' name='x' machine='4'/>", "<what machine='4'/>"])
def test_garbage_of_a_central_one_drops_it_with_all_its_machines(text: str) -> None:
    tree = Tree("central", "row")
    lower, _ = tree.machine(1)
    beside, _ = tree.machine(2, relay=0)
    tree.links[1].client.stream.send(text)
    tree.settle()
    assert lower.lost and not beside.lost
    assert tree.top.of(1) == [Gone(1)] and tree.top.of(2) == []


def test_what_is_no_botm_is_refused() -> None:
    tree = Tree()
    for hello in (
        Hello("bot", "b", run="r", capacity=3),
        Hello("botm", "m", machine=1),
        Hello("botm", "m", machine=-1, run="r"),
    ):
        peer = FakePeer(tree.clock, hello, "botm", DOWN)
        tree.join(peer)
        assert peer.lost
    assert tree.top.heard == []


def test_the_upper_end_says_nonsense() -> None:
    tree = Tree()
    one, _ = tree.machine(1)
    tree.top.stream.send(Mark("e", 1).to_xml())  # to no machine
    tree.settle()
    assert one.lost and not tree.relays[0].connected


def test_what_is_for_a_machine_that_is_not_there_is_nobodys() -> None:
    tree = Tree()
    one, _ = tree.machine(1)
    tree.tell(2, fetch_order(1), Drop(2))
    tree.tell(1, Mark("e", 1))
    assert one.heard == [Mark("e", 1)] and tree.relays[0].connected


def test_the_upper_end_has_a_machine_dropped() -> None:
    tree = Tree("central", "row")
    one, _ = tree.machine(1)
    two, _ = tree.machine(2)
    tree.tell(1, Drop(1))
    assert one.lost and not two.lost
    assert tree.top.of(1) == [Gone(1)]


def test_too_many() -> None:
    tree = Tree(robots_max=2)
    tree.machine(1)
    _, wire = tree.machine(2)
    assert tree.relays[0].downstream_factory().buildProtocol(None) is None
    wire.kill(wire.client)
    tree.settle()
    tree.machine(3)
    assert list(tree.relays[0].machines) == [1, 3]


def test_a_way_that_is_too_long() -> None:
    tree = Tree("central", *["x"] * HOPS_MAX)
    tree.machine(1)
    assert len(tree.top.hellos()) == 1
    tree = Tree("central", *["x"] * (HOPS_MAX + 1))
    tree.machine(1)
    assert tree.top.hellos() == []


# Back-pressure.


def test_nothing_is_read_from_below_while_the_upper_end_does_not_read() -> None:
    tree = Tree()
    one, wire = tree.machine(1)
    two, other = tree.machine(2)
    trunk = tree.links[0].client.stream
    trunk.pauseProducing()  # the transport's buffer is full
    tree.say(one, Capacity(1))
    assert wire.server.paused and other.server.paused
    late, third = tree.machine(3)
    tree.say(late, Ready())
    assert third.server.paused
    for number in range(100):
        tree.say(two, Capacity(number))
    assert Capacity(5) not in tree.top.of(2)
    trunk.resumeProducing()
    tree.settle()
    assert not any(each.server.paused for each in (wire, other, third))
    assert tree.top.of(2) == [Capacity(number) for number in range(100)]


def test_a_machine_that_does_not_read_is_dropped_alone() -> None:
    tree = Tree("central", "row")
    slow, wire = tree.machine(1)
    good, _ = tree.machine(2)
    wire.server.stream.pauseProducing()
    text = "x" * 100_000
    for number in range(UNREAD_BYTES_MAX // len(text)):
        tree.tell(1, attrs.evolve(fetch_order(number), url=text))
    assert not slow.lost
    tree.tell(1, attrs.evolve(fetch_order(0), url=text))
    assert slow.lost and not good.lost
    assert tree.top.of(1) == [Gone(1)]
    tree.tell(2, Mark("e", 1))
    assert good.heard == [Mark("e", 1)]


def test_a_machine_that_reads_again_in_time_stays() -> None:
    tree = Tree()
    slow, wire = tree.machine(1)
    text = "x" * 100_000
    for _round in range(3):
        wire.server.stream.pauseProducing()
        for number in range(UNREAD_BYTES_MAX // len(text)):
            tree.tell(1, attrs.evolve(fetch_order(number), url=text))
        wire.server.stream.resumeProducing()
    assert not slow.lost


def test_a_machine_that_hangs_is_noticed_and_the_others_go_on() -> None:
    tree = Tree()
    _hanging, wire = tree.machine(1)
    good, _ = tree.machine(2)
    wire.client.hung = True
    tree.pass_time(IDLE_SECONDS + 1)
    assert tree.top.of(1) == [Gone(1)]
    tree.tell(2, Mark("e", 1))
    assert good.heard == [Mark("e", 1)]


# Leases.


def test_the_time_on_the_way_counts() -> None:
    tree = Tree("central", "row")
    one, wire = tree.machine(1)
    tree.pass_time(100)
    sent = tree.top.peer_clock_ms()
    assert sent == 100_000
    order = attrs.evolve(fetch_order(1), sent_ms=sent, start_seconds=30)
    tree.top.tell(1, order)
    tree.clock.advance(0)
    for delay, (sender, receiver) in (
        (7, (tree.links[0].server, tree.links[0].client)),
        (4, (tree.links[1].server, tree.links[1].client)),
        (2, (wire.server, wire.client)),
    ):
        tree.clock.advance(delay)
        sender.stream.flush()
        assert sender.other is receiver
        while tree.links and sender.out:
            Wire.move(wire, sender)
    (fetch,) = one.of(Fetch)
    assert (fetch.lease_seconds, fetch.start_seconds) == (300 - 7 - 4, 30 - 7 - 4)
    assert fetch.sent_ms is not None and one.clock_ms() - fetch.sent_ms >= 2000
    assert one.sent_seconds(fetch.sent_ms) <= 111


def test_a_lease_that_has_passed_on_the_way() -> None:
    tree = Tree()
    one, _ = tree.machine(1)
    tree.pass_time(50)
    tree.tell(1, attrs.evolve(fetch_order(1, lease=10), sent_ms=20_000))
    assert one.of(Fetch)[0].lease_seconds == 0


# Bytes.


def test_every_cut_of_the_bytes_gives_the_same() -> None:
    up = [result(1, 1), Running("q1-2", 2, "ab", 3, 100), Ready(), Capacity(9), Deleted(5)]
    down = [fetch_order(7), Delete(1, 1, 9), RecordedUpto(1), Mark("é", 8)]
    hello = Hello("botm", "m1", machine=1, run="r1", capacity=4)
    from_below = (hello.open_tag() + "".join(message.to_xml() for message in up)).encode()
    from_above = "".join(addressed(message, 1) for message in down).encode()
    cuts = list(segmentations(from_below))
    for number, pieces in enumerate(cuts):
        tree = Tree()
        stream = tree.relays[0].downstream_factory().buildProtocol(None)
        assert stream is not None
        peer = machine_botm(tree.clock, 1)
        tree.connect(peer.build_stream(), stream).client.out.clear()  # the test speaks for it
        tree.clock.advance(0)
        tree.wires[-1].client.out.clear()
        for piece in pieces:
            stream.dataReceived(piece)
        tree.settle()
        assert tree.top.of(1) == up
        trunk = tree.links[0].client.stream
        size = number % len(from_above) + 1
        for start in range(0, len(from_above), size):
            trunk.dataReceived(from_above[start : start + size])
        tree.settle()
        assert [attrs.evolve(each, sent_ms=None) if isinstance(each, Fetch) else each for each in peer.heard] == down


def test_nothing_is_left_in_the_reactor_after_stop() -> None:
    tree = Tree()
    tree.machine(1)
    tree.machine(2)
    tree.relays[0].stop()
    tree.settle()
    assert tree.top.of(1) == [Gone(1)] and tree.top.of(2) == [Gone(2)]
    tree.links[0].client.stream.abort()
    tree.settle()
    assert not tree.clock.getDelayedCalls()
