"""A content user API with a cache and content behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_twisted

from tests.conftest import Backend
from tests.users.conftest import cache
from tests.users.kit import Cache
from tests.users.web import Api, ContentHost

__all__ = ["api", "cache", "host"]


@pytest_twisted.async_yield_fixture
async def host(backend: Backend) -> AsyncIterator[ContentHost]:
    host = ContentHost(backend.home)
    yield host
    await host.stop()


@pytest_twisted.async_yield_fixture
async def api(backend: Backend, host: ContentHost, cache: Cache) -> AsyncIterator[Api]:
    api = Api(backend)
    yield api
    await api.stop()
