"""Fixtures of the tests of searches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search.kit import SearchWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SearchWorld]:
    world = SearchWorld(tmp_path)
    yield world
    world.close()
