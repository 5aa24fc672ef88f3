"""``lcc-admin`` as tests call it, on an LCC of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lcc.admin.context import Admin
from tests.support.admin import Lcc
from tests.support.databases import Backend, DirectDatabase
from tests.support.queue import Queue

from .site import NOW, Site


@pytest.fixture
def lcc(backend: Backend) -> Lcc:
    """An LCC that was initialised, on each kind of database."""
    made = Lcc(backend.home, backend.url)
    made.admin("init")
    return made


@pytest.fixture
def site(lcc: Lcc, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An LCC with one provider, its queue, and a queue manager that says it is alive."""
    monkeypatch.setattr(Admin, "now", lambda _: NOW)
    lcc.config_path.write_text('timezone = "UTC"\n' + lcc.config_path.read_text())
    database = DirectDatabase(backend.url, lcc.folder / "home")
    yield Site(lcc, Queue(database))
    database.blocking.close()
