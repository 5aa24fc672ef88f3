"""An LCC's interface for content users, with pages, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_twisted

from tests.conftest import Backend
from tests.storage.kit import DirectDatabase
from tests.users.kit import Cache
from tests.users.web import Api, ContentHost

from .kit import Pages


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    """SQLite: what is tested here never sees the database."""
    home = tmp_path / "home"
    home.mkdir()
    return Backend("sqlite", "sqlite:lcc.db", home)


@pytest_twisted.async_yield_fixture
async def pages(backend: Backend) -> AsyncIterator[Pages]:
    direct = DirectDatabase(backend.url, backend.home)
    host = ContentHost(backend.home)
    yield Pages(Cache(direct), host)
    await host.stop()
    direct.blocking.close()


@pytest_twisted.async_yield_fixture
async def api(backend: Backend, pages: Pages) -> AsyncIterator[Api]:
    api = Api(backend)
    yield api
    await api.stop()
