"""Over its limits the queue manager takes nothing in from UNSes; it comes back by itself."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import EndSet, Set, write_notice
from lcc.protocols.work import DOWN
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, MakeWorld, Remote, World, page, pages

CHECK = 4.0
"""Longer than the queue is measured anew, in seconds."""


class FakePort:
    """A port whose closing can take time."""

    def __init__(self) -> None:
        self.is_open = True
        self.opened = 0
        self.closing: Deferred[None] | None = None
        self.slow = False
        self.fails = 0

    def open_port(self) -> None:
        assert self.closing is None, "opened while it was still closing"
        if self.fails:
            self.fails -= 1
            raise OSError("taken")
        self.opened += 1
        self.is_open = True

    def close_port(self) -> Deferred[None]:
        self.is_open = False
        if not self.slow:
            return succeed(None)
        self.closing = Deferred()
        return self.closing


def with_port(world: World) -> FakePort:
    port = FakePort()
    world.engine.intake.port = port
    return port


def test_over_its_rows_it_closes_and_below_the_lower_mark_it_opens(make_world: MakeWorld, logged: list[Any]) -> None:
    world = make_world(queue_rows_max=10, overload_low=0.5)
    port = with_port(world)
    pid = world.provider()
    botm, uns = FakeBotm(world, capacity=1), FakeUns(world)
    uns.send_set(1, pid, pages(*range(11)))
    assert uns.answers[-1].code == 0
    world.advance(CHECK)
    assert world.engine.intake.reason and not port.is_open and uns.closed
    assert world.engine.intake.since is not None and world.engine.intake.since >= NOW
    assert "11 URLs are queued" in world.engine.intake.reason
    assert any("Overload" in event.get("log_format", "") for event in logged)
    for _ in range(5):
        botm.done(next(iter(botm.out.values())))
    world.advance(CHECK)
    assert world.count("qdb") == 6 and not port.is_open and world.engine.intake.reason
    botm.done(next(iter(botm.out.values())))
    world.advance(CHECK)
    assert port.is_open and not world.engine.intake.reason
    assert world.engine.intake.since is None and world.engine.intake.reason == ""
    again = FakeUns(world)
    again.send_set(2, pid, pages(100))
    assert again.answers[-1].code == 0
    botm.finish_all()
    assert world.cached_count == 12


def test_the_set_in_passage_is_taken_and_what_follows_is_not(make_world: MakeWorld) -> None:
    world = make_world(queue_rows_max=3, absorb_batch=2)
    with_port(world)
    pid = world.provider()
    uns = FakeUns(world)
    uns.send_set(1, pid, pages(*range(4)))
    uns.write(Set(uns.epoch, 2, pid, 2, False, 0, False, NOW).to_xml() + write_notice(page(50)))
    world.advance(CHECK)
    assert world.engine.intake.reason and not uns.closed, "a set is in passage"
    rest = write_notice(page(51)) + EndSet(2).to_xml() + uns.set_text(3, pid, pages(60))
    uns.write(rest)
    assert [answer.number for answer in uns.answers] == [1, 2] and uns.closed
    assert world.count("qdb") == 6
    again = FakeUns(world)  # somebody whose connection was on its way
    assert again.closed and not again.answers
    FakeBotm(world, capacity=8).finish_all()
    world.advance(CHECK)
    once_more = FakeUns(world)
    once_more.write(uns.set_text(3, pid, pages(60)))
    assert [answer.number for answer in once_more.answers] == [3]


def test_botms_on_the_common_port_stay_and_come(make_world: MakeWorld) -> None:
    world = make_world(queue_rows_max=3)
    with_port(world)
    pid = world.provider()
    botm = Remote(world, True, Hello(role="botm", name="b", machine=2, run="r", capacity=4), DOWN)
    uns = FakeUns(world)
    uns.send_set(1, pid, pages(*range(10)))
    world.advance(CHECK)
    assert uns.closed and not botm.closed
    assert not Remote(world, True, Hello(role="botm", name="c", machine=3, run="r", capacity=4), DOWN).closed


@pytest.mark.parametrize("limit", [{"absorb_backlog_max": 20}, {"absorb_backlog_max_bytes": 20_000}], ids=str)
def test_too_much_that_waits_to_be_absorbed(make_world: MakeWorld, limit: dict[str, int]) -> None:
    world = make_world(**limit, absorb_batch=5, absorb_ahead=1000)
    port = with_port(world)
    pid = world.provider()
    uns = FakeUns(world)
    world.database.unavailable = True
    for number in range(1, 6):
        uns.send_set(number, pid, pages(*range(number * 10, number * 10 + 9)))
    world.advance(2)
    assert world.engine.intake.reason and not port.is_open
    assert "wait to be absorbed" in world.engine.intake.reason
    assert not uns.closed, "what has come is not answered yet"
    world.database.unavailable = False
    world.advance(10)
    assert [answer.number for answer in uns.answers] == [1, 2, 3, 4, 5] and uns.closed
    world.advance(CHECK)
    assert port.is_open and not world.engine.intake.reason


def test_a_start_over_the_limit_takes_nothing_in(make_world: MakeWorld) -> None:
    world = make_world(queue_rows_max=3)
    pid = world.provider()
    FakeUns(world).send_set(1, pid, pages(*range(10)))
    world.database.unavailable = True
    world.start()
    port = with_port(world)
    early = FakeUns(world)
    early.send_set(2, pid, pages(*range(20, 30)))
    world.database.unavailable = False
    world.advance(10)
    assert world.engine.started and world.engine.intake.reason and not port.is_open
    assert early.closed and not early.answers and world.count("qdb") == 10


def test_a_port_that_closes_slowly_and_opens_at_the_third_try(make_world: MakeWorld, logged: list[Any]) -> None:
    world = make_world(queue_rows_max=3)
    port = with_port(world)
    port.slow, port.fails = True, 2
    pid = world.provider()
    FakeUns(world).send_set(1, pid, pages(*range(10)))
    world.advance(CHECK)
    assert port.closing is not None
    botm = FakeBotm(world, capacity=8)
    botm.finish_all()
    world.advance(CHECK)
    assert not world.engine.intake.reason and not port.is_open
    closing, port.closing = port.closing, None
    closing.callback(None)
    world.advance(5)
    assert port.is_open and port.opened == 1
    assert world.engine.intake.reason == ""


def test_without_a_port_of_its_own_uns_are_turned_away_only(make_world: MakeWorld) -> None:
    world = make_world(queue_rows_max=3)
    pid = world.provider()
    uns = FakeUns(world)
    uns.send_set(1, pid, pages(*range(10)))
    world.advance(CHECK)
    assert uns.closed and FakeUns(world).closed
    FakeBotm(world, capacity=8).finish_all()
    world.advance(CHECK)
    assert not FakeUns(world).closed


def test_an_idle_uns_is_let_go_at_once(make_world: MakeWorld) -> None:
    world = make_world(queue_rows_max=3)
    pid = world.provider()
    busy, idle = FakeUns(world, "a", "ea"), FakeUns(world, "b", "eb")
    busy.send_set(1, pid, pages(*range(10)))
    world.advance(CHECK)
    assert busy.closed and idle.closed
