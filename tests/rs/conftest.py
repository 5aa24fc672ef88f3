"""A registration server on each database, and a site."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import pytest_twisted

from tests.support.databases import Backend
from tests.support.fixtures import chromium
from tests.support.servers.web_site import WebSite

from .kit import Office

__all__ = ["chromium"]


@pytest.fixture
def site() -> Iterator[WebSite]:
    web = WebSite()
    yield web
    web.stop()


@pytest.fixture
def open_office(backend: Backend) -> Iterator[Callable[..., Office]]:
    """Makes registration servers, which are stopped at the end."""
    made: list[Office] = []

    def make(*args: Any, **kwargs: Any) -> Office:
        made.append(Office(backend, *args, **kwargs))
        return made[-1]

    yield make
    for office in made:
        pytest_twisted.blockon(office.stop())


@pytest.fixture
def office(open_office: Callable[..., Office]) -> Office:
    return open_office()
