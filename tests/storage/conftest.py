"""A queue store with one provider, and the frontier of a spider, on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.databases import DirectDatabase
from tests.support.frontier import Spider, frontier_database
from tests.support.queue import Queue


@pytest.fixture
def database(backend: Any) -> Iterator[DirectDatabase]:
    direct = DirectDatabase(backend.url, backend.home)
    yield direct
    direct.blocking.close()


@pytest.fixture
def queue(database: DirectDatabase) -> Queue:
    return Queue(database)


@pytest.fixture
def long_lived(database: DirectDatabase) -> Queue:
    """One for all examples of a test."""
    return Queue(database)


@pytest.fixture
def frontier(backend: Any) -> Iterator[DirectDatabase]:
    direct = frontier_database(backend)
    yield direct
    direct.blocking.close()


@pytest.fixture
def spider(frontier: DirectDatabase) -> Iterator[Spider]:
    one = Spider(frontier)
    yield one
    one.check()
