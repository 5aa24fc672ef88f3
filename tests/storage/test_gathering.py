"""Questions that are asked together: one interaction, answers in order, failures to whom they belong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from twisted.internet.defer import Deferred, succeed

from lcc.errors import StoreUnavailable
from lcc.storage.database.gathering import TOGETHER_MAX, Gathering
from tests.support.databases import result_of


class Slow:
    """An interaction that ends when it is told to."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.running: Deferred[Sequence[int]] = Deferred()

    def __call__(self, questions: list[int]) -> Deferred[Sequence[int]]:
        self.asked.append(questions)
        self.running = Deferred()
        return self.running

    def answer(self) -> None:
        self.running.callback([10 * question for question in self.asked[-1]])


def test_who_comes_alone_is_asked_at_once_and_who_comes_meanwhile_together() -> None:
    slow = Slow()
    gathering: Gathering[int, int] = Gathering(slow)
    answers = [gathering.ask(number) for number in range(4)]
    assert slow.asked == [[0]]
    slow.answer()
    assert slow.asked == [[0], [1, 2, 3]]
    slow.answer()
    assert [result_of(answer) for answer in answers] == [0, 10, 20, 30]
    gathering.ask(7)
    assert slow.asked[-1] == [7], "it goes on after a pause"


def test_an_interaction_has_only_so_many() -> None:
    slow = Slow()
    gathering: Gathering[int, int] = Gathering(slow)
    for number in range(2 + TOGETHER_MAX):
        gathering.ask(number)
    slow.answer()
    slow.answer()
    assert [len(asked) for asked in slow.asked] == [1, TOGETHER_MAX, 1]


def test_without_the_database_all_fail() -> None:
    slow = Slow()
    gathering: Gathering[int, int] = Gathering(slow)
    answers = [gathering.ask(number) for number in range(3)]
    slow.answer()
    slow.running.errback(StoreUnavailable("away"))
    assert result_of(answers[0]) == 0
    for answer in answers[1:]:
        with pytest.raises(StoreUnavailable):
            result_of(answer)
    assert len(slow.asked) == 2


def test_who_asks_nonsense_fails_alone() -> None:
    first: Deferred[Sequence[int]] = Deferred()

    def interact(questions: list[int]) -> Deferred[Sequence[int]]:
        if questions == [0]:
            return first
        if 2 in questions:
            raise ValueError("nonsense")
        return succeed([10 * question for question in questions])

    gathering: Gathering[int, int] = Gathering(interact)
    answers = [gathering.ask(number) for number in range(4)]
    first.callback([0])
    assert [result_of(answers[number]) for number in (0, 1, 3)] == [0, 10, 30]
    with pytest.raises(ValueError, match="nonsense"):
        result_of(answers[2])
