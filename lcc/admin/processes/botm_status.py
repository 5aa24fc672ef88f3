"""Asking the BOT-M of this machine what it holds, at its content port."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from twisted.internet.endpoints import serverFromString

from lcc.config import Config, unix_socket_path
from lcc.transport.tls.blocking import RoleConnection
from lcc.transport.tls.contexts import CONTENT_ROLES
from lcc.transport.wires import certificate_files

TIMEOUT_SECONDS = 10.0
STATUS_BYTES_MAX = 16 << 20
_NO_BOTM = "the service at the content port is not a BOT-M"


class NotAsked(Exception):
    """The BOT-M cannot be asked; says why."""


@frozen
class BotmStatus:
    """What a BOT-M holds (:meth:`lcc.roles.botm.engine.BotMaster.status`).

    :ivar settled: a file that is in no row of the database, and not in ``files``, never will be in one.
    :ivar files: of orders, and of results that are not recorded yet.
    :ivar attempts: that may be being written.
    """

    machine: int
    settled: bool
    files: frozenset[int]
    attempts: frozenset[str]


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask_botm(config: Config) -> BotmStatus:
    """What the BOT-M of this configuration holds now.

    :raises NotAsked: it does not run, or has no content port that this host reaches.
    """
    said = status_of(_connection(config))
    try:
        return BotmStatus(
            int(said["machine"]), bool(said["settled"]), frozenset(said["files"]), frozenset(said["attempts"])
        )
    except (ValueError, KeyError, TypeError):
        raise NotAsked(_NO_BOTM) from None


def ask_machine(config: Config, address: str) -> dict[str, Any]:
    """What the BOT-M of a machine says of itself (:meth:`lcc.roles.botm.engine.BotMaster.status`).

    :param address: where its content is read, as the queue manager has it; empty: that of this configuration.
    :raises NotAsked: as before.
    """
    return status_of(_connection_to(config, address) if address else _connection(config))


def status_of(connection: HTTPConnection) -> dict[str, Any]:
    """Ask at a content port.

    :raises NotAsked: nobody answers there, or no BOT-M.
    """
    try:
        connection.request("GET", "/status")
        answer = connection.getresponse()
        text = answer.read(STATUS_BYTES_MAX)
        if answer.status != 200:
            raise NotAsked(f"the BOT-M answered {answer.status}: {text[:200].decode('ascii', 'replace').strip()}")
        said = json.loads(text)
        if not isinstance(said, dict):
            raise NotAsked(_NO_BOTM)
        return said
    except (OSError, HTTPException) as error:
        raise NotAsked(f"cannot query the BOT-M: {error or type(error).__name__}") from None
    except ValueError:
        raise NotAsked(_NO_BOTM) from None
    finally:
        connection.close()


def _connection_to(config: Config, address: str) -> HTTPConnection:
    path = unix_socket_path(address)
    if path:
        return _UnixConnection(path)
    url = urlsplit(address)
    if url.scheme == "https" and url.netloc:
        return _by_certificate(config, url.netloc)
    if url.scheme == "http" and url.netloc:
        return HTTPConnection(url.netloc, timeout=TIMEOUT_SECONDS)
    raise NotAsked(f"lcc-admin cannot connect to {address}")


def _connection(config: Config) -> HTTPConnection:
    text = config.endpoint(config.botm.content_listen)
    if not text:
        raise NotAsked("the BOT-M has no content port ([botm] content_listen)")
    return _tls_connection(config, text) if text.startswith("tls:") else connection_here(text)


def connection_here(text: str) -> HTTPConnection:
    """To who listens on this machine.

    :param text: the endpoint.
    :raises NotAsked: it is none that can be connected to without a certificate.
    """
    path = unix_socket_path(text)
    if path:
        return _UnixConnection(path)
    endpoint = serverFromString(object(), text)
    port = getattr(endpoint, "_port", None)
    if not isinstance(port, int) or text.startswith("ssl"):
        raise NotAsked(f"lcc-admin cannot connect to {text}")
    host = str(getattr(endpoint, "_interface", "") or "127.0.0.1")
    return HTTPConnection({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port, timeout=TIMEOUT_SECONDS)


def _tls_connection(config: Config, text: str) -> HTTPConnection:
    url = urlsplit(config.botm.content_url)
    if url.scheme != "https" or not url.netloc:
        raise NotAsked(f"[botm] content_listen is {text}, but content_url is not https://host:port")
    return _by_certificate(config, url.netloc)


def _by_certificate(config: Config, place: str) -> HTTPConnection:
    try:
        return RoleConnection(place, certificate_files(config, "admin"), CONTENT_ROLES, TIMEOUT_SECONDS)
    except OSError as error:
        raise NotAsked(f"cannot use the certificates of lcc-admin: {error}") from None
