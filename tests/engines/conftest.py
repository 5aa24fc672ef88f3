"""An LCC's interface for content users, with pages, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cache import Cache
from tests.support.databases import Backend
from tests.support.fixtures import api, cache, cu_settings, host
from tests.support.servers.content_host import ContentHost

from .kit import Pages

__all__ = ["api", "cache", "cu_settings", "host"]


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    """SQLite: what is tested here never sees the database."""
    home = tmp_path / "home"
    home.mkdir()
    return Backend("sqlite", "sqlite:lcc.db", home)


@pytest.fixture
def pages(cache: Cache, host: ContentHost) -> Pages:
    return Pages(cache, host)
