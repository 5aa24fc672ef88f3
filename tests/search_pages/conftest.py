"""A search server over each test's cache."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.cache import Cache
from tests.support.databases import Backend
from tests.support.fixtures import api, cache, chromium, cu_settings, host
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost

from .kit import Searching

__all__ = ["api", "cache", "chromium", "cu_settings", "host"]


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    """SQLite: the pages never see the database but for users."""
    home = tmp_path / "home"
    home.mkdir()
    return Backend("sqlite", "sqlite:lcc.db", home)


@pytest_twisted.async_yield_fixture
async def open_search(
    backend: Backend, api: Api, cache: Cache, host: ContentHost
) -> AsyncIterator[Callable[..., Searching]]:
    """Makes search servers, which are stopped at the end."""
    made: list[Searching] = []

    def make(more: str = "open = true") -> Searching:
        made.append(Searching(backend, api, cache, host, more))
        return made[-1]

    yield make
    for each in made:
        await each.stop()
