"""A database that several servers have, on a real MariaDB: which one is connected to, what is told where none serves.

Where they are a real cluster: :mod:`tests.galera`.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lcc.config import DatabaseConfig
from lcc.config.endpoints import mysql_hosts
from lcc.config.mysql_url import parse_mysql_url
from lcc.errors import StoreUnavailable
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.mysql.connection import RowsConnection
from lcc.storage.database.transactions import Txn
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.ports import free_port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server with an empty database ``lcc``."""
    port = free_port()
    with PrivateMariaDb(log_mib=16, port=port) as server:
        server.execute("CREATE DATABASE lcc")
        server.execute("CREATE USER lcc IDENTIFIED BY 'topsecret'")
        server.execute("GRANT ALL ON lcc.* TO lcc")
        yield port


def opened(folder: Path, *ports: int) -> BlockingDatabase:
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    url = f"mysql://lcc:topsecret@{servers}/lcc"
    return BlockingDatabase(url, folder, DatabaseConfig(retries=0, connect_timeout=2.0), random=Random(1))


def port_of(txn: Txn) -> int:
    return int(txn.value("SELECT @@port"))


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("behind", [0, 1])
def test_the_first_that_serves(before: int, behind: int, port: int, tmp_path: Path) -> None:
    ports = [*(free_port() for _ in range(before)), port, *(free_port() for _ in range(behind))]
    database = opened(tmp_path, *ports)
    assert database.interact(port_of) == port
    assert not database.dialect.certifies
    database.close()


def test_it_stays_with_the_one_that_has_answered(port: int, tmp_path: Path) -> None:
    ports = free_port(), free_port(), port
    database = opened(tmp_path, *ports)
    assert database.interact(port_of) == port
    database.close()
    # Now somebody listens at the first, and would never answer.
    with socket.create_server(("127.0.0.1", ports[0])) as other:
        assert database.interact(port_of) == port
        other.settimeout(0)
        with pytest.raises(BlockingIOError):
            other.accept()
    database.close()


@pytest.mark.parametrize("password", ["topsecret", "wrongsecret"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_connection_that_failed_is_not_kept(password: str, alone: bool, port: int, tmp_path: Path) -> None:
    servers = f"127.0.0.1:{free_port()}" if password == "topsecret" else f"127.0.0.1:{port}"
    url = f"mysql://lcc:{password}@{servers}{'' if alone else f',127.0.0.1:{free_port()}'}/lcc"
    database = BlockingDatabase(url, tmp_path, DatabaseConfig(retries=0), random=Random(1))
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(StoreUnavailable):
            database.interact(port_of)
        # They are not to wait for the garbage collector: an outage has many.
        assert not [value for value in gc.get_objects() if type(value) is RowsConnection]
    finally:
        gc.enable()


def test_why_each_does_not_serve(port: int, tmp_path: Path) -> None:
    away = free_port()
    url = f"mysql://lcc:wrongsecret@127.0.0.1:{away},127.0.0.1:{port}/lcc"
    database = BlockingDatabase(url, tmp_path, DatabaseConfig(retries=0), random=Random(1))
    with pytest.raises(StoreUnavailable) as caught:
        database.interact(port_of)
    told = str(caught.value)
    assert f"127.0.0.1:{away}: Can't connect" in told and f"127.0.0.1:{port}: Access denied" in told
    assert "secret" not in told + repr(database.dialect)


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("mysql://u:p@a,b:33,c/n", [("a", 3306), ("b", 33), ("c", 3306)]),
        ("mysql://u:p@[::1]:33,[fe80::2],10.0.0.1/n", [("::1", 33), ("fe80::2", 3306), ("10.0.0.1", 3306)]),
        ("mysql://u:a%2Cb%40@A.example/n", [("a.example", 3306)]),
        ("mysql:///n", [("localhost", 3306)]),
    ],
)
def test_urls(url: str, servers: list[tuple[str, int]]) -> None:
    assert list(parse_mysql_url(url).servers) == servers
    assert mysql_hosts(url) == [host for host, _ in servers]


@pytest.mark.parametrize("url", ["mysql://a,b", "mysql://a:x,b/n", "mysql://a?b,c/n", "mysql://[::1,b/n", "mysql:n"])
def test_urls_that_make_no_sense(url: str) -> None:
    with pytest.raises(ValueError):
        parse_mysql_url(url)
    assert mysql_hosts(url) == []
