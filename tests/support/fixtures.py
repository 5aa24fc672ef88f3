"""Fixtures of a content user API with a cache on each backend, filled row by row, and content behind it; a browser.

A folder that wants them imports them in its ``conftest.py``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.cache import Cache
from tests.support.chromium import Chromium
from tests.support.databases import Backend, DirectDatabase
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost


@pytest.fixture
def cache(backend: Backend) -> Iterator[Cache]:
    direct = DirectDatabase(backend.url, backend.home)
    yield Cache(direct)
    direct.blocking.close()


@pytest_twisted.async_yield_fixture
async def host(backend: Backend) -> AsyncIterator[ContentHost]:
    host = ContentHost(backend.home)
    yield host
    await host.stop()


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Chromium]:
    """A real browser."""
    browser = Chromium(tmp_path / "chromium")
    yield browser
    browser.stop()


@pytest.fixture
def cu_settings() -> str:
    """Lines of the section ``[cu]``; modules that test others say them."""
    return 'without_token = "content"'


@pytest_twisted.async_yield_fixture
async def api(backend: Backend, host: ContentHost, cache: Cache, cu_settings: str) -> AsyncIterator[Api]:
    api = Api(backend, cu_settings)
    yield api
    await api.stop()
