"""What the UNS's port of notifiers holds, and how much it takes: what passes is told again later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lcc.errors import code
from lcc.protocols.notifiers import (
    Accepted,
    Again,
    Hold,
    Window,
)
from tests.support.logs import LoggedErrors
from tests.support.roles.notifiers import a_set, connect_notifier
from tests.support.roles.uns import World
from tests.uns.kit import Answers


def test_a_paused_uns_holds_sets(world: World) -> None:
    qm = world.connect_qm()
    notifier = connect_notifier(world)
    notifier.heard()
    world.uns.pause()
    notifier.say(a_set(1, "a"))
    assert notifier.heard() == [Hold(True, "an operator has paused this UNS")]
    assert connect_notifier(world, name="n2").answers() == [Hold(True, "an operator has paused this UNS")]
    world.uns.resume()
    assert notifier.heard() == [Hold(False)]
    notifier.say(a_set(2, "b"))  # it was on its way
    assert not qm.sets and not notifier.heard()
    notifier.say(Again(), a_set(1, "a"), a_set(2, "b"))
    assert notifier.heard() == [Accepted(2)]
    assert [taken.begin.said for taken in qm.sets] == [1, 2]


def test_what_is_under_way_when_sets_are_held_is_answered_once(world: World) -> None:
    late = Answers(world)
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a"), a_set(2, "b"))
    world.uns.pause()
    late.answer()
    assert notifier.answers() == [Hold(True, "an operator has paused this UNS"), Accepted(1)]
    world.uns.resume()
    notifier.say(Again(), a_set(2, "b"), a_set(3, "c"))
    late.answer(2)
    assert notifier.answers() == [Hold(False), Accepted(3)]
    assert [taken.begin.said for taken in late.qm.sets] == [1, 2, 3]


def test_the_part_of_the_spool_that_notifiers_get(worlds: Callable[..., World]) -> None:
    world = worlds(spool_max_bytes=200_000)
    notifier = connect_notifier(world)
    notifier.heard()
    number = 0
    while not any(isinstance(each, Hold) for each in notifier.answers()):
        number += 1
        notifier.say(a_set(number, "a"))
        world.clock.advance(1)
        assert number < 100
    assert 100_000 <= world.spool.size_bytes < 180_000
    provider = world.send_set("z")
    assert "set_accepted" in provider.text
    world.connect_qm()
    world.pass_time(3)
    assert notifier.answers()[-1] == Hold(False)
    notifier.say(Again(), a_set(number + 1, "a"))
    assert notifier.answers()[-1] == Accepted(number + 1)


def test_a_database_that_is_away_holds_sets(world: World) -> None:
    qm = world.connect_qm()
    notifier = connect_notifier(world)
    notifier.heard()
    world.database.away = True
    notifier.say(a_set(1, "a"), a_set(2, "b"))
    assert notifier.heard() == [Hold(True, "the database does not answer")]
    world.database.away = False
    world.pass_time(12)
    assert notifier.heard() == [Hold(False)]
    notifier.say(Again(), a_set(1, "a"), a_set(2, "b"))
    assert notifier.answers() == [Accepted(2)]
    assert len(qm.sets) == 2


def test_a_disk_that_fails_holds_sets(world: World, logged_errors: LoggedErrors) -> None:
    world.disk.fail["sync_folder"] = OSError(5, "I/O error")
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a"), a_set(2, "b"))
    assert [type(each) for each in notifier.answers()] == [Hold]
    assert not world.uns.forwarder.deliveries and logged_errors.flush("I/O error")
    del world.disk.fail["sync_folder"]
    world.pass_time(12)
    notifier.heard()
    notifier.say(Again(), a_set(1, "a"), a_set(2, "b"))
    assert notifier.answers()[-1] == Accepted(2)
    assert len(world.set_files()) == 2


def test_a_set_that_fails_again_is_rejected(world: World, logged_errors: LoggedErrors) -> None:
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a"))
    assert notifier.answers() == [Accepted(1)]
    world.disk.fail["sync_folder"] = RuntimeError("a bug")
    notifier.say(a_set(2, "a"))
    assert [type(each) for each in notifier.answers()] == [Hold]
    world.pass_time(12)
    notifier.heard()
    notifier.say(Again(), a_set(2, "a"))
    (answer,) = notifier.answers()
    assert (answer.number, answer.code) == (2, code("internal"))
    assert len(logged_errors.flush("a bug")) == 2


def test_a_disk_that_fails_for_long_rejects_nothing(world: World, logged_errors: LoggedErrors) -> None:
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a"))
    assert notifier.answers() == [Accepted(1)]
    world.disk.fail["sync_folder"] = OSError(5, "I/O error")
    notifier.say(a_set(2, "a"))
    for _ in range(3):
        assert [type(each) for each in notifier.answers()] == [Hold]
        world.pass_time(12)
        notifier.heard()
        notifier.say(Again(), a_set(2, "a"))
    del world.disk.fail["sync_folder"]
    # Nor does it if the notifier connects anew, and is not held.
    again = connect_notifier(world)
    again.say(a_set(2, "a"))
    assert again.answers()[-1] == Accepted(2)
    assert len(world.set_files()) == 2 and len(logged_errors.flush("I/O error")) == 4


def test_who_sends_more_than_its_window_is_not_read_from(worlds: Callable[..., World]) -> None:
    world = worlds(notifier_sets_max=10)
    late = Answers(world)
    notifier, other = connect_notifier(world), connect_notifier(world, name="n2")
    for number in range(1, 101):
        notifier.send(a_set(number, "a"))
    world.pump()
    assert 10 <= len(late.sets) <= 12 and notifier.transport.paused
    other.heard()
    other.say(a_set(1, "a"))
    provider = world.send_set("z")
    assert len(late.sets) <= 14
    late.answer(len(late.sets))
    assert "set_accepted" in provider.text and other.answers() == [Accepted(1)]
    while late.sets:
        late.answer(len(late.sets))
    assert notifier.answers()[-1] == Accepted(100)


def test_who_does_not_read_is_not_read_from(world: World) -> None:
    world.connect_qm()
    notifier = connect_notifier(world, capacity=1000)
    notifier.reads = False
    for number in range(1, 2001):
        notifier.send(a_set(number, "a"))
    world.pump()
    assert notifier.transport.paused and world.uns.counters.notifier_sets_accepted < 2000
    world.pass_time(61)
    assert notifier.transport.closed


def test_sets_that_are_too_large_are_rejected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    qm = world.connect_qm()
    world.uns.notifiers.window = Window(100, 10_000, 3, 200)
    notifier = connect_notifier(world)
    notifier.heard()
    notifier.say(a_set(1, "a", "b", "c", "d"), a_set(2, "x" * 100, "y" * 100), a_set(3, "a", "b", "c"))
    answers = notifier.answers()
    assert [getattr(each, "code", 0) for each in answers] == [1102, 1102, 0]
    assert [taken.begin.said for taken in qm.sets] == [3]
