"""The absorber alone: the order of answers, what the store cannot take, a UNS that is lost."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import fromstring

import attrs
import pytest

from lcc.config import QmConfig
from lcc.errors import code
from lcc.model import SetAnswer, SetPiece
from lcc.protocols.flat import Flat
from lcc.protocols.uns_qm import Absorbed, Damage, EndSet, Noted, Set
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.intake.absorber import Absorber
from tests.qm.fake_hub import NOTHING_ABSORBED, FakeConnection, FakeHub
from tests.support.logs import LoggedErrors

BAD_SET = code("bad-set")


def start(message: Flat) -> Start:
    element = fromstring(message.to_xml())
    return Start(element.tag, dict(element.attrib), 1)


class Rig:
    """An absorber and its UNS."""

    def __init__(self, hub: FakeHub, store: Any) -> None:
        self.hub, self.store = hub, store
        self.connection = FakeConnection("uns u")
        self.refused: dict[tuple[str, str, int], str] = {}
        self.settings = QmConfig(absorb_batch=4, absorb_ahead=8)
        self.absorber = self.connect()

    def connect(self) -> Absorber:
        self.absorber = Absorber(self.hub, self.store, self.connection, "u", "e", self.settings, self.refused)
        return self.absorber

    def send(self, number: int, urls: int = 1, told: int | None = None, answered: bool = False) -> Any:
        """A set comes; gives what the UNS's stream waits for."""
        header = Set("e", number, 1, number, False, 0, answered, 0)
        elements = [Start("u", {"c": f"http://h/{number}/{url}"}, 1) for url in range(urls)]
        end = EndSet(urls if told is None else told)
        return self.absorber.elements_received([start(header), *elements, start(end)])

    def absorbed(self) -> list[tuple[int, int]]:
        """Commit what is being absorbed; gives numbers of sets, and how many elements of them."""
        pieces: list[SetPiece] = self.store.open[0].args[0]
        answers = tuple(SetAnswer("e", piece.header.number, 0) for piece in pieces if piece.last)
        self.store.answer(attrs.evolve(NOTHING_ABSORBED, answers=answers), "absorb")
        return [(piece.header.number, len(piece.notices)) for piece in pieces]

    @property
    def answers(self) -> list[tuple[int, int]]:
        return [(message.number, message.code) for message in self.connection.heard(Absorbed)]


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    return Rig(hub, store)


def test_small_sets_share_a_transaction_and_a_big_one_is_cut(rig: Rig) -> None:
    rig.send(1)
    rig.absorber.enable()
    for number in (2, 3, 4):
        rig.send(number)
    rig.send(5, urls=5)
    assert rig.absorbed() == [(1, 1)] and rig.answers == [(1, 0)]
    assert rig.absorbed() == [(2, 1), (3, 1), (4, 1)] and rig.answers[1:] == [(2, 0), (3, 0), (4, 0)]
    assert rig.absorbed() == [(5, 4)] and len(rig.answers) == 4
    assert rig.absorbed() == [(5, 1)] and rig.answers[4:] == [(5, 0)]


def test_the_uns_waits_while_the_database_is_unavailable(rig: Rig) -> None:
    rig.absorber.enable()
    rig.send(1)
    room = rig.send(2, urls=9)
    assert room is not None
    for _ in range(3):
        rig.store.unavailable()
        rig.hub.clock.advance(10)
    assert not room.called and rig.store.names == ["absorb"] and not rig.answers
    while rig.store.open:
        rig.absorbed()
    assert room.called and rig.answers == [(1, 0), (2, 0)] and rig.absorber.waiting_count == 0


def test_a_uns_that_is_lost_gets_no_answer_and_nothing_more_of_it_is_absorbed(rig: Rig) -> None:
    rig.absorber.enable()
    rig.send(1)
    rig.send(2, urls=20)
    rig.absorber.lost()
    assert rig.absorber.waiting_count == rig.absorber.waiting_bytes == 0
    assert rig.absorbed() == [(1, 1)], "what is being absorbed may still be"
    assert not rig.answers and not rig.store.open and len(rig.hub.all_absorbed) == 1


def test_the_set_that_the_store_cannot_take_is_refused_alone(rig: Rig, logged_errors: LoggedErrors) -> None:
    for number in (1, 2, 3):
        rig.send(number)
    rig.absorber.enable()
    rig.store.fail(ValueError("all three"))
    assert rig.absorbed() == [(1, 1)]
    rig.store.fail(ValueError("the second"))
    assert rig.store.answer(None, "note_answered") == ("u", "e", 2)
    assert rig.absorbed() == [(3, 1)]
    assert rig.answers == [(1, 0), (2, BAD_SET), (3, 0)] and list(rig.refused) == [("u", "e", 2)]
    assert len(logged_errors.flush("Cannot absorb")) == 2 and logged_errors.flush("is refused")


def test_a_damaged_set_is_refused_in_its_turn(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.absorber.enable()
    rig.send(1)
    rig.send(2, told=2, answered=True)
    rig.send(3)
    rig.absorbed()
    assert rig.store.answer(None, "lose_set") == (1, rig.hub.now()), "its provider thinks that it is accepted"
    rig.store.unavailable("note_answered")
    assert rig.answers == [(1, 0)], "not before that is noted"
    rig.hub.clock.advance(10)
    rig.store.answer(None, "note_answered")
    rig.absorbed()
    assert rig.answers == [(1, 0), (2, BAD_SET), (3, 0)]
    logged_errors.flush("is refused")


def test_a_refused_set_that_comes_again_is_refused_again(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.absorber.enable()
    rig.send(1, told=2)
    rig.absorber.lost()
    rig.store.answer(None, "note_answered")
    assert not rig.answers
    rig.connect().enable()
    rig.send(1)
    rig.store.answer(None, "note_answered")
    assert rig.answers == [(1, BAD_SET)] and "absorb" not in rig.store.asked
    logged_errors.flush("is refused")


@pytest.mark.parametrize("question", ["absorb", "note_answered"])
def test_a_newer_queue_manager_ends_it_without_an_answer(
    rig: Rig, question: str, logged_errors: LoggedErrors
) -> None:
    rig.absorber.enable()
    rig.send(1, told=None if question == "absorb" else 2)
    rig.store.busy(question)
    assert rig.hub.ended and not rig.answers
    logged_errors.flush("is refused")


def test_draining_answers_what_has_come_and_closes(rig: Rig) -> None:
    rig.absorber.enable()
    rig.send(1)
    rig.absorber.drain()
    assert not rig.connection.left
    rig.send(2)
    rig.absorbed()
    assert rig.answers == [(1, 0)] and rig.connection.left and not rig.store.open


def test_draining_before_the_database_is_claimed_owes_nothing(rig: Rig) -> None:
    rig.send(1)
    rig.absorber.drain()
    assert rig.connection.left and not rig.store.asked


def test_a_lost_set_is_noted_in_its_turn(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.absorber.enable()
    rig.send(1)
    rig.absorber.elements_received([start(Damage(5, 2))])
    assert rig.store.names == ["absorb"]
    rig.absorbed()
    assert rig.store.answer(None, "lose_set") == (5, rig.hub.now())
    assert not rig.connection.heard(Noted)
    assert rig.store.answer(None, "note_answered") == ("u", "e", 2)
    assert rig.connection.heard(Noted) == [Noted(5, 2)]
    logged_errors.flush("has lost an accepted set")
