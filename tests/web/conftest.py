"""A web monitor over each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import pytest_twisted

from tests.support.databases import Backend
from tests.support.fixtures import chromium

from .kit import Watch

__all__ = ["chromium"]


@pytest.fixture
def open_watch(backend: Backend) -> Iterator[Callable[..., Watch]]:
    """Makes web monitors, which are stopped at the end."""
    made: list[Watch] = []

    def make(*args: Any, **kwargs: Any) -> Watch:
        watch = Watch(backend, *args, **kwargs)
        watch.add_user()
        watch.says()
        watch.start()
        made.append(watch)
        return watch

    yield make
    for watch in made:
        pytest_twisted.blockon(watch.stop())


@pytest.fixture
def watch(open_watch: Callable[..., Watch]) -> Watch:
    return open_watch()
