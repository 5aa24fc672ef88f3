"""What is looked at when sites register (:mod:`tests.simulation.registration_promises`)."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.storage.providers.passwords import hash_password
from lcc.testing.simulated.timeline import Timeline

from .newcomers import Newcomer
from .registration_promises import RegistrationPromises
from .sites import Site


class Tables:
    """Of an LCC: root, provider, password."""

    def __init__(self) -> None:
        self.registered: list[tuple[str, int, str]] = []

    def rows(self, _: str) -> list[tuple[str, int, str]]:
        return self.registered


class World:
    def __init__(self) -> None:
        timeline = Timeline("1")
        self.newcomers = [Newcomer(timeline, number, f"10.1.1.{number}") for number in (1, 2)]
        self.tables: list[Any] = [Tables(), Tables()]
        self.broken: list[str] = []
        others = [Site(timeline, 1, "10.1.0.1")]
        self.promises = RegistrationPromises(
            self.newcomers, others, self.tables, None, lambda promise, text: self.broken.append(text)
        )
        for newcomer in self.newcomers:
            newcomer.password = "secret"
            newcomer.proofs["lcc-1.txt"] = "1"
            newcomer.was_served("lcc-1.txt")

    def make(self, which: int, pid: int, password: str = "secret", lcc: int = 0) -> None:
        row = (self.newcomers[which].root, pid, hash_password(password, generated=True))
        self.tables[lcc].registered.append(row)
        self.promises.committed(self.tables[lcc])


@pytest.fixture
def world() -> World:
    return World()


def test_each_has_a_provider_and_may_move(world: World) -> None:
    world.make(0, 2)
    world.make(1, 3, lcc=1)
    world.make(0, 2, lcc=1)
    world.tables[0].registered.clear()
    world.promises.committed(world.tables[0])
    world.promises.answered(world.newcomers[0], 2)
    assert not world.broken


def test_two_providers_are_found(world: World) -> None:
    world.make(0, 2)
    world.make(0, 3, lcc=1)
    assert world.broken == ["http://new1.example/ has the providers [2, 3], it had 2"]


def test_a_provider_that_vanishes_is_found(world: World) -> None:
    world.make(0, 2)
    world.tables[0].registered.clear()
    world.promises.committed(world.tables[0])
    assert world.broken == ["http://new1.example/ has the providers [], it had 2"]


@pytest.mark.parametrize("pid", [1, 2])
def test_a_number_that_somebody_has_is_found(world: World, pid: int) -> None:
    world.make(1, 2)
    world.make(0, pid)
    assert "which is that of" in world.broken[0]


def test_a_provider_without_a_proof_is_found(world: World) -> None:
    world.newcomers[0].proven.clear()
    world.newcomers[0].spoilt.add("lcc-1.txt")
    world.newcomers[0].was_served("lcc-1.txt")
    world.make(0, 2)
    assert world.broken == ["http://new1.example/ is provider 2, and its secret was not read"]


def test_a_provider_of_another_registration_is_found(world: World) -> None:
    world.make(0, 2, "of another one")
    assert "of another registration" in world.broken[0]


def test_a_wrong_answer_is_found(world: World) -> None:
    world.promises.answered(world.newcomers[0], 2)
    assert world.broken == ["http://new1.example/ is told that it is 2, it is None"]
