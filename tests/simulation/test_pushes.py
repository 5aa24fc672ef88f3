"""What is looked at when sites push (:mod:`tests.simulation.push_promises`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lcc.model.push.pushes import KeyState
from lcc.storage.database.migrations import PUSH
from lcc.testing.simulated.timeline import Timeline

from .promises import Promises
from .run import run_seed
from .system import System

SEED = "500040"
"""A world with four sites that push."""


class World:
    """A world that has not begun, and the tables of its push server."""

    def __init__(self) -> None:
        self.system = System(Timeline(SEED))
        self.promises = Promises(self.system)
        self.site: Any = self.system.pushing[-1]
        self.tables = self.system.database.connection(PUSH)

    def store(self, number: int, state: int = 0, answer: str = "") -> None:
        """A push of the site's first page is in the tables, and its key."""
        pushed = self.site.pushed
        values = {
            "id": b"1",
            "site": self.site.root,
            "keytext": pushed.key,
            "location": "",
            "folder": pushed.root,
            "state": "waiting",
            "pid": 0,
            "why": "",
            "made_time": 0,
            "proven_time": 0,
            "due_time": 0,
            "failures": 0,
        }
        marks = ", ".join("?" * len(values))
        self.tables.execute(f"INSERT OR REPLACE INTO pushkey VALUES ({marks})", list(values.values()))
        urls = json.dumps([{"c": self.site.url(pushed.paths[0])}]) if state < 2 else ""
        row = (number, b"1", state, 0, 0, urls, 1, answer, 0)
        self.tables.execute(f"INSERT OR REPLACE INTO pushset VALUES ({', '.join('?' * len(row))})", row)
        self.committed()

    def prove(self) -> None:
        """Its key is."""
        self.tables.execute("UPDATE pushkey SET state = ?", [KeyState.PROVEN.value])
        self.committed()

    def committed(self) -> None:
        assert self.system.database.committed is not None
        self.system.database.committed(PUSH)

    @property
    def broken(self) -> list[str]:
        return [text.partition(": ")[2] for text in self.promises.violations]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.system.close()


def test_what_is_accepted_and_stored_keeps_the_promise(world: World) -> None:
    path = world.site.pushed.paths[0]
    began = world.system.timeline.now
    world.store(1)
    world.site.pushed.was_accepted({path: world.site.pushed.states[path]}, began)
    assert not world.broken and path not in world.site.pushed.untold


def test_what_is_accepted_and_not_stored_is_found(world: World) -> None:
    first, second, *_ = world.site.pushed.paths
    world.store(1)
    world.site.pushed.was_accepted({second: 1}, world.system.timeline.now)
    assert world.broken == [f"the push of {world.site.url(second)} is accepted, and is not stored"]
    assert world.site.url(first) not in world.broken[0]


def test_what_was_stored_before_is_not_this_push(world: World) -> None:
    world.store(1)
    world.site.pushed.was_accepted({world.site.pushed.paths[0]: 1}, world.system.timeline.now + 1.0)
    assert "is not stored" in world.broken[0]


def test_a_key_that_is_proven_and_was_not_read_is_found(world: World) -> None:
    world.store(1, state=1)
    assert not world.broken
    world.site.pushed.key_was_read = False
    world.prove()
    assert world.broken == [f"the key of {world.site.pushed.root} is proven, and was not read"]


def test_a_key_that_was_read_may_be_proven(world: World) -> None:
    world.store(1, state=1)
    world.site.pushed.is_spoilt = False
    world.site.was_served(world.site.pushed.key_path)
    world.prove()
    assert not world.broken


@pytest.mark.parametrize("was_spoilt", [False, True])
def test_a_push_that_is_dropped_is_found_unless_its_key_was_wrong(world: World, was_spoilt: bool) -> None:
    world.site.pushed.was_spoilt = was_spoilt
    world.store(1)
    world.store(1, state=3, answer="no key")
    found = f"a push of {world.site.pushed.root}, whose key file was never wrong, is dropped: no key"
    assert world.broken == ([] if was_spoilt else [found])


def test_a_push_that_is_told_and_nowhere_is_found(world: World) -> None:
    world.tables.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('push_epoch', 'e')")
    world.store(1)
    world.store(1, state=2)
    assert world.broken == ["the notifier's set 1 is accepted, and is nowhere"]


def test_what_waits_is_left_to_be_done(world: World) -> None:
    world.store(7)
    left = world.promises.undone()
    assert "pushed set 7 waits" in left and f"the key of {world.site.root} is waiting" in left


def test_a_seed_decides_everything_there_too() -> None:
    first, again = run_seed("500010"), run_seed("500010")
    assert (first.digest, first.counts) == (again.digest, again.counts)
    assert first.counts["pushes 200"] and not first.violations
