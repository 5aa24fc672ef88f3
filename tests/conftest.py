"""What all tests share: a private MariaDB, databases on both backends, and that a logged error is a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from twisted.logger import LogEvent, globalLogPublisher

from lcc.testing.galera import PORTS, PrivateGalera
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.databases import Backend, need_galera
from tests.support.logs import LoggedErrors, describe
from tests.support.ports import free_port
from tests.support.switches import BACKENDS, LONG

# A loaded machine is slow, not wrong.
settings.register_profile(
    "lcc", deadline=None, max_examples=100 if LONG else 40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("lcc")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked as long runs in ``make test-long`` only; what takes a minute begins first, or one process would
    end with it while the other has nothing to do."""
    items.sort(key=lambda item: item.path.name != "test_examples.py")
    if LONG:
        return
    long = [item for item in items if _is_long(item)]
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=long)


def _is_long(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("long")
    if marker is None:
        return False
    return not marker.args or (isinstance(item, pytest.Function) and item.callspec.params["backend"] in marker.args)


@pytest.fixture(autouse=True)
def logged_errors() -> Iterator[LoggedErrors]:
    """Fails the test on logged errors, unless it expects and flushes them."""
    errors = LoggedErrors()
    globalLogPublisher.addObserver(errors)
    try:
        yield errors
    finally:
        globalLogPublisher.removeObserver(errors)
    if errors.events:
        texts = "\n\n".join(describe(event) for event in errors.events)
        pytest.fail(f"errors were logged:\n{texts}", pytrace=False)


@pytest.fixture
def logged(logged_errors: LoggedErrors) -> Iterator[list[LogEvent]]:
    """What is logged, as events.  Errors are expected."""
    events: list[LogEvent] = []
    globalLogPublisher.addObserver(events.append)
    yield events
    globalLogPublisher.removeObserver(events.append)
    logged_errors.flush()


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """A role that a test builds in its own process sets one, for all that this process makes from then on."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[PrivateMariaDb]:
    """A private MariaDB server; without one the tests fail, they are not skipped."""
    with PrivateMariaDb(log_mib=64) as server:
        yield server


@pytest.fixture(scope="session")
def galera() -> Iterator[PrivateGalera]:
    """A private Galera cluster; skips where its library is not installed."""
    need_galera()
    with PrivateGalera([free_port() for _ in range(PORTS)]) as cluster:
        yield cluster


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """An empty database, on each backend in turn."""
    if request.param == "sqlite":
        yield Backend("sqlite", "sqlite:lcc.db", tmp_path)
        return
    server: PrivateMariaDb | PrivateGalera = request.getfixturevalue(request.param)
    url = server.new_database()
    yield Backend(request.param, url, tmp_path)
    server.drop_database(url)
