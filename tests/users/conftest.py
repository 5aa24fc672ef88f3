"""A cache on each backend, filled row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.storage.kit import DirectDatabase

from .kit import Cache


@pytest.fixture
def cache(backend: Any) -> Iterator[Cache]:
    direct = DirectDatabase(backend.url, backend.home)
    yield Cache(direct)
    direct.blocking.close()
