"""TLS to a database server."""

from __future__ import annotations

import ssl
from pathlib import Path

from lcc.config import DatabaseConfig
from lcc.errors import ConfigError

SYSTEM = "system"
"""In place of a file: the authorities that this machine trusts."""


def database_tls(home: Path, settings: DatabaseConfig) -> ssl.SSLContext:
    """What a connection to the database server verifies, and shows: authority, host name, TLS 1.2 or later.

    PyMySQL refuses a server that offers no TLS where it was given this, before it says who it is.

    :param home: the files are relative to it.
    :raises ConfigError: a file cannot be read, or is not what it should be.
    """
    where = settings.tls_authority
    try:
        context = ssl.create_default_context(cafile=None if where == SYSTEM else str(_file(home, where)))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError([f"database.tls_authority = {where!r}: {error}"]) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.tls_certificate:
        certificate, key = settings.tls_certificate, settings.tls_key
        try:
            context.load_cert_chain(_file(home, certificate), _file(home, key) if key else None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError([f"database.tls_certificate = {certificate!r}, tls_key = {key!r}: {error}"]) from None
    return context


def _file(home: Path, name: str) -> Path:
    # OpenSSL's own message names no file.
    path = home / name
    with path.open("rb"):
        return path
