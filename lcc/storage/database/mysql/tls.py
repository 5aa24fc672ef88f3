"""TLS to a database server."""

from __future__ import annotations

import ssl
from pathlib import Path

from lcc.config import DatabaseConfig
from lcc.errors import ConfigError

SYSTEM = "system"
"""In place of a file: the authorities that this machine trusts."""


def database_tls(home: Path, settings: DatabaseConfig) -> ssl.SSLContext:
    """The TLS context for the database server: authority, host name, client certificate, TLS 1.2 or later.

    With it PyMySQL refuses a server without TLS before it sends the login.

    :param home: the files are relative to it.
    :raises ConfigError: a file is unreadable or invalid.
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
