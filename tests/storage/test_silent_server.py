"""A database server that hangs: its kernel takes connections, and it says nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import attrs
import pytest

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.probe import ping
from lcc.testing.mariadb import PrivateMariaDb

SETTINGS = DatabaseConfig(connect_timeout=0.2, query_timeout=3600.0, retries=0)
"""A statement may take an hour; who waited for that would not come to an end."""


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_its_first_word_is_not_waited_for_as_long_as_a_statement(silent: int, tmp_path: Path) -> None:
    database = BlockingDatabase(f"mysql://lcc:x@127.0.0.1:{silent}/lcc", tmp_path, SETTINGS, random=Random(1))
    try:
        with pytest.raises(StoreUnavailable):
            database.interact(ping)
    finally:
        database.close()


def test_the_next_of_several_is_asked(silent: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"mysql://lcc:x@127.0.0.1:{silent},127.0.0.1:{other.getsockname()[1]}/lcc"
        database = BlockingDatabase(url, tmp_path, SETTINGS, random=Random(1))
        try:
            with pytest.raises(StoreUnavailable):
                database.interact(ping)
        finally:
            database.close()
        connection, _ = other.accept()  # somebody has been there
        connection.close()


def test_statements_have_their_own_time(mariadb: PrivateMariaDb, tmp_path: Path) -> None:
    url = mariadb.new_database()
    database = BlockingDatabase(url, tmp_path, attrs.evolve(SETTINGS, connect_timeout=2.0), random=Random(1))
    try:
        assert database.interact(lambda txn: txn.value("SELECT SLEEP(3)")) == 0
    finally:
        database.close()
        mariadb.drop_database(url)
