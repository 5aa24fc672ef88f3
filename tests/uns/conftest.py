"""Worlds for the tests of the UNS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.roles.uns import World


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes worlds; their files are closed in the end."""
    made: list[World] = []

    def make(**settings: Any) -> World:
        made.append(World(tmp_path / f"spool{len(made)}", **settings))
        return made[-1]

    yield make
    for world in made:
        world.disk.close_all()


@pytest.fixture
def world(worlds: Callable[..., World]) -> World:
    return worlds()


@pytest.fixture
def filing(worlds: Callable[..., World]) -> World:
    """One whose small sets have files before they are on stable storage, as large sets have."""
    return worlds(memory_max_bytes=0)
