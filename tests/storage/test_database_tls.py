"""TLS to a database server: a real MariaDB on loopback, as if it were on another machine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from lcc.config import Config, DatabaseConfig, parse_config
from lcc.errors import ConfigError, StoreUnavailable
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.dialects import dialect_for
from lcc.storage.database.transactions import Txn
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.certificates import Authority
from tests.support.ports import free_port


@attrs.frozen
class Servers:
    """One server with TLS, one without.

    :ivar folder: has ``ca.pem``, whose authority the first one's certificate is of, ``other.pem``, which is another
        authority, and ``client/certificate.pem`` with its key.
    :ivar port, plain_port: on 127.0.0.1.  The certificate is for ``localhost``, and not for this address.
    """

    folder: Path
    port: int
    plain_port: int


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    (folder / "ca.pem").write_bytes(authority.pem())
    (folder / "other.pem").write_bytes(Authority().pem())
    for name in ("server", "client"):
        (folder / name).mkdir()
    files = authority.write(folder / "server", "localhost")
    authority.write(folder / "client", "lcc")
    ports = free_port(), free_port()
    with (
        PrivateMariaDb(log_mib=16, port=ports[0], tls=files) as tls,
        PrivateMariaDb(log_mib=16, port=ports[1]) as plain,
    ):
        for server in (tls, plain):
            server.execute("CREATE DATABASE lcc")
        for user, clause in (("lcc", "REQUIRE SSL"), ("strict", "REQUIRE X509")):
            tls.execute(f"CREATE USER {user} IDENTIFIED BY 'secret' {clause}")
            tls.execute(f"GRANT ALL ON lcc.* TO {user}")
        plain.execute("CREATE USER lcc IDENTIFIED BY 'secret'")
        plain.execute("GRANT ALL ON lcc.* TO lcc")
        yield Servers(folder, *ports)


def cipher(servers: Servers, url: str, **settings: str) -> str:
    """The cipher of a connection; empty: it is plain."""

    def asked(txn: Txn) -> str:
        ((_, name),) = txn.query("SHOW STATUS LIKE 'Ssl_cipher'")
        return str(name)

    database = BlockingDatabase(url, servers.folder, DatabaseConfig(retries=0, **settings), random=random.Random(1))  # type: ignore[arg-type]  # all are texts
    try:
        return database.write(asked)
    finally:
        database.close()


def test_a_verified_server(servers: Servers) -> None:
    assert "TLS" in cipher(servers, f"mysql://lcc:secret@localhost:{servers.port}/lcc", tls_authority="ca.pem")


def test_tls_that_is_not_asked_for(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.storage.database.dialects.is_local_host", lambda host: False)
    monkeypatch.setattr("ssl.create_default_context", lambda **_: pytest.fail("the authorities are not needed"))
    assert "TLS" in cipher(servers, f"mysql://lcc:secret@127.0.0.1:{servers.port}/lcc")
    assert cipher(servers, f"mysql://lcc:secret@127.0.0.1:{servers.plain_port}/lcc") == ""


def test_a_server_that_asks_for_a_certificate(servers: Servers) -> None:
    url = f"mysql://strict:secret@localhost:{servers.port}/lcc"
    client = {"tls_certificate": "client/certificate.pem", "tls_key": "client/key.pem"}
    assert cipher(servers, url, tls_authority="ca.pem", **client)
    with pytest.raises(StoreUnavailable, match="Access denied"):
        cipher(servers, url, tls_authority="ca.pem")


@pytest.mark.parametrize(
    ("host", "authority", "said"),
    [
        ("localhost", "other.pem", "certificate verify failed"),
        ("localhost", "system", "certificate verify failed"),
        ("127.0.0.1", "ca.pem", "not valid for '127.0.0.1'"),
    ],
)
def test_a_server_that_may_be_another_is_told_nothing(servers: Servers, host: str, authority: str, said: str) -> None:
    with pytest.raises(StoreUnavailable, match=said):
        cipher(servers, f"mysql://lcc:secret@{host}:{servers.port}/lcc", tls_authority=authority)


def test_a_server_without_tls_is_told_nothing(servers: Servers) -> None:
    url = f"mysql://lcc:secret@localhost:{servers.plain_port}/lcc"
    with pytest.raises(StoreUnavailable, match="SSL"):
        cipher(servers, url, tls_authority="ca.pem")
    assert cipher(servers, url) == ""


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"tls_authority": "none.pem"}, "tls_authority = 'none.pem'"),
        ({"tls_authority": "empty.pem"}, "tls_authority = 'empty.pem'"),
        ({"tls_authority": "ca.pem", "tls_certificate": "none.pem"}, "tls_certificate = 'none.pem'"),
        ({"tls_authority": "ca.pem", "tls_certificate": "ca.pem"}, "tls_certificate = 'ca.pem'"),
    ],
)
def test_files_that_are_of_no_use(tmp_path: Path, settings: dict[str, str], named: str) -> None:
    (tmp_path / "ca.pem").write_bytes(Authority().pem())
    (tmp_path / "empty.pem").touch()
    with pytest.raises(ConfigError, match=named):
        dialect_for("mysql://lcc:secret@db.example/lcc", tmp_path, DatabaseConfig(**settings))  # type: ignore[arg-type]  # all are texts


def parsed(url: str, more: str = "") -> Config:
    return parse_config(f'[database]\nurl = "{url}"\n{more}', Path("/nowhere"))


@pytest.mark.parametrize("host", ["10.0.0.9", "db.example", "db.example:3306", "[2001:db8::1]:3306"])
def test_a_server_on_another_machine_needs_tls(host: str) -> None:
    url = f"mysql://lcc:topsecret@{host}/lcc"
    with pytest.raises(ConfigError, match=r"database\.tls_authority") as caught:
        parsed(url)
    assert "topsecret" not in str(caught.value)
    parsed(url, 'tls_authority = "ca.pem"')
    parsed(url, "[tls]\ninsecure = true")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9:3307", "[::1]", "db.example"])
def test_a_server_on_this_machine_needs_none(host: str) -> None:
    parsed(f"mysql://lcc:x@{host}/lcc{'?unix_socket=/run/sock' if host == 'db.example' else ''}")
