"""A world for each test, closed at its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.roles.qm import MakeWorld, World


@pytest.fixture
def hops() -> int:
    """Central BOT-Ms between the queue manager and each BOT-M; modules whose rules must hold behind them say more."""
    return 0


@pytest.fixture
def make_world(tmp_path: Path, hops: int) -> Iterator[MakeWorld]:
    worlds: list[World] = []

    def make(**settings: Any) -> World:
        folder = tmp_path / str(len(worlds))
        folder.mkdir()
        worlds.append(World(folder, hops, **settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()
        assert world.overlaps == 0, "two fetches at once from one provider"


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()
