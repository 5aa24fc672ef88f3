"""pause() and resume() of a UNS, and what its commands says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lcc.protocols.uns_qm import Paused
from lcc.roles.uns.console import UnsCommands
from tests.support.roles.uns import FakeQm, World, codes, partial


class Listening(FakeQm):
    """A queue manager that hears of pauses."""

    paused: bool | None = None

    def elements_received(self, elements: list[object]) -> None:
        for element in elements:
            if element.name == "paused":  # type: ignore[attr-defined]
                self.paused = Paused.from_attributes(element.attributes).paused  # type: ignore[attr-defined]
        super().elements_received([element for element in elements if element.name != "paused"])  # type: ignore[attr-defined]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_providers_are_told_to_try_again_later(world: World) -> None:
    commands = UnsCommands(world.uns)
    qm = world.connect_qm(make=Listening)
    inside = world.login()
    commands.pause()
    world.pump()
    assert qm.paused is True
    assert codes(world.send_set("a").text) == [1012]  # at the door
    inside.send(partial("b"))
    world.pump()
    assert codes(inside.text.partition("</lococa:init_accepted>")[2]) == [1012]  # one that was in already
    assert not qm.sets and "PAUSED for" in str(commands.est())
    commands.resume()
    world.pump()
    assert qm.paused is False
    assert "set_accepted" in world.send_set("c").text and qm.numbers == [1]


def test_a_set_that_is_arriving_is_taken(world: World) -> None:
    qm = world.connect_qm()
    cp = world.login()
    text = partial("a", "b")
    cp.send(text[: text.index("<url") + 10])
    world.pump()
    UnsCommands(world.uns).pause()
    cp.send(text[text.index("<url") + 10 :])
    world.pump()
    assert "set_accepted" in cp.text and qm.numbers == [1]


def test_a_queue_manager_that_comes_later_is_told(world: World) -> None:
    UnsCommands(world.uns).pause()
    assert world.connect_qm(make=Listening).paused is True


def test_what_the_commands_say(world: World) -> None:
    commands = UnsCommands(world.uns)
    assert commands.queue(10) == [("queue", "no sets waiting")]
    cp = world.send_set("a")  # without a queue manager it is answered from the spool
    assert "set_accepted" in cp.text
    ((_, queued),) = commands.queue(10)
    assert "of provider 7, set of 1 elements" in queued and "was told that it is accepted" in queued
    assert "disconnected" in str(commands.est()) and "provider 7 from 192.0.2.7: between sets" in str(commands.est())
    assert {name for name, _ in commands.provider(7)} == {"connection", "set"}
    assert "not connected" in str(commands.provider(8))
    for _ in range(10):
        world.login(8, "wrong")
    assert "throttled" in str(commands.provider(8))
