"""What all tests share: a private MariaDB, databases on both backends, and that a logged error is a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from lcc.testing.galera import PORTS, PrivateGalera, galera_library
from lcc.testing.mariadb import MariaDbMissing, PrivateMariaDb
from tests.support.ports import free_port
from tests.support.switches import LONG


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked as long runs in ``make test-long`` only."""
    if LONG:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=long)


class LoggedErrors:
    """Errors that a test has logged.  What is not flushed by the test's end makes it fail."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        level = event.get("log_level")
        if (level is not None and level >= LogLevel.error) or event.get("isError"):
            self.events.append(event)

    def flush(self, text: str = "") -> list[str]:
        """Take out the errors whose message or failure contains this text.

        :returns: their texts.
        """
        taken = [event for event in self.events if text in describe(event)]
        self.events = [event for event in self.events if event not in taken]
        return [describe(event) for event in taken]


def describe(event: LogEvent) -> str:
    """The event's message with its failure."""
    failure = event.get("log_failure")
    return f"{formatEvent(event)}\n{failure.getTraceback() if failure is not None else ''}".strip()


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


def need_galera() -> None:
    """Skip where its library is not installed."""
    try:
        galera_library()
    except MariaDbMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def galera() -> Iterator[PrivateGalera]:
    """A private Galera cluster; skips where its library is not installed."""
    need_galera()
    with PrivateGalera([free_port() for _ in range(PORTS)]) as cluster:
        yield cluster


@attrs.frozen
class Backend:
    """An empty database.

    :ivar kind: ``sqlite``, ``mariadb`` or ``galera``.
    :ivar url: as for ``database.url``.
    :ivar home: an empty folder.
    """

    kind: str
    url: str
    home: Path


BACKENDS = os.environ.get("LCC_BACKENDS", "sqlite mariadb").split()


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
