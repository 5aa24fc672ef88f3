"""Reading content ports from a thread that may block (:mod:`lcc.client.content` does the same on the reactor)."""

from __future__ import annotations

import http.client
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from lcc.client.addresses import UNIX
from lcc.client.blocking import UnixConnection
from lcc.transport.tls.blocking import RoleConnection
from lcc.transport.tls.contexts import CONTENT_ROLES
from lcc.transport.tls.files import CertificateFiles

REDIRECTS_MAX = 3
CONNECTIONS_KEPT = 16
MACHINES_REMEMBERED = 10_000
PIECE_BYTES = 1 << 18
REASON_BYTES = 200


class BodyGone(Exception):
    """There is no such file (any longer)."""


class BodyUnavailable(Exception):
    """The content cannot be read now."""


class Taking(Protocol):
    """A file that content is written to, or a wrapper around one.  Its methods raise OSError."""

    def write(self, data: bytes, /) -> object:
        """Take the next bytes."""

    def seek(self, offset: int, /) -> object:
        """Go to this place."""

    def truncate(self) -> object:
        """Forget what is behind this place."""


class ContentPorts:
    """Content files of all machines; for one thread at a time, but for :meth:`abort`.

    :param address: of the (central) BOT-M's content port: ``https://host:port``, ``http://host:port`` or
        ``unix:/path``; or what gives it for each machine.
    :param timeout_seconds: to connect, and for each silence of the other end.
    :param certificates: what this end shows over https, and whom it trusts; None: only for addresses without TLS.
    """

    def __init__(
        self,
        address: str | Callable[[int], str],
        timeout_seconds: float,
        certificates: CertificateFiles | None = None,
    ) -> None:
        self._address = address
        self._certificates = certificates
        self._timeout = timeout_seconds
        self._known: dict[int, str] = {}
        self._kept: OrderedDict[str, http.client.HTTPConnection] = OrderedDict()
        self._busy: http.client.HTTPConnection | None = None
        self._aborted = False

    def read(self, machine: int, file: int, length: int, into: Taking) -> None:
        """Write a content file into another one.

        :param length: what the row says; a file of another length is not read.
        :raises BodyGone, BodyUnavailable: something of it may have been written.
        """
        known = self._known.pop(machine, None)
        if known is not None:
            try:
                self._read(known, machine, file, length, into)
            except (BodyGone, BodyUnavailable):
                into.seek(0)  # it may have moved: who knows where says so
                into.truncate()
            else:
                self._known[machine] = known
                return
        address = first_address = self._address if isinstance(self._address, str) else self._address(machine)
        if not address:
            raise BodyUnavailable(f"nobody knows the content port of machine {machine}")
        for _ in range(REDIRECTS_MAX + 1):
            sent_on = self._read(address, machine, file, length, into)
            if sent_on is None:
                if address != first_address and len(self._known) < MACHINES_REMEMBERED:
                    self._known[machine] = address
                return
            address = sent_on
        raise BodyUnavailable("too many redirects")

    def abort(self) -> None:
        """From another thread: nothing more is read; who is reading gets BodyUnavailable."""
        self._aborted = True
        busy = self._busy
        sock = None if busy is None else busy.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has just ended by itself

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._kept:
            self._kept.popitem()[1].close()

    def _read(self, address: str, machine: int, file: int, length: int, into: Taking) -> str | None:
        """
        :returns: where to ask instead; None: it was read.
        """
        kept = self._kept.pop(address, None)
        try:
            connection = self._connect(address) if kept is None else kept
        except OSError as error:  # its certificates cannot be used
            raise BodyUnavailable(f"machine {machine}: {error!r}") from error
        self._busy = connection
        try:
            try:
                response = self._ask(connection, machine, file)
            except (OSError, http.client.HTTPException):
                # A connection that was kept may have been closed at the other end.
                connection.close()
                if kept is None or self._aborted:
                    raise
                connection = self._busy = self._connect(address)
                response = self._ask(connection, machine, file)
            sent_on = self._take(response, length, into)
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            # Users see this: no address of the LCC's own network belongs there.
            raise BodyUnavailable(f"machine {machine}: {error!r}") from error
        except (BodyGone, BodyUnavailable):
            connection.close()
            raise
        finally:
            self._busy = None
        self._kept[address] = connection
        if len(self._kept) > CONNECTIONS_KEPT:
            self._kept.popitem(last=False)[1].close()
        return sent_on

    def _connect(self, address: str) -> http.client.HTTPConnection:
        if address.startswith(UNIX):
            return UnixConnection(address.removeprefix(UNIX), self._timeout)
        netloc = urlsplit(address).netloc
        if not address.startswith("https:"):
            return http.client.HTTPConnection(netloc, timeout=self._timeout)
        if self._certificates is None:
            raise OSError("there are no certificates for TLS")
        return RoleConnection(netloc, self._certificates, CONTENT_ROLES, self._timeout)

    def _ask(self, connection: http.client.HTTPConnection, machine: int, file: int) -> http.client.HTTPResponse:
        if self._aborted:
            raise OSError("aborted")
        connection.request("GET", f"/{machine}/{file}")
        return connection.getresponse()

    def _take(self, response: http.client.HTTPResponse, length: int, into: Taking) -> str | None:
        if response.status == 307:
            response.read(PIECE_BYTES)
            target = urlsplit(response.headers["Location"] or "")
            if target.scheme not in ("http", "https") or not target.netloc:
                raise BodyUnavailable("redirected to something that is not a content port")
            return f"{target.scheme}://{target.netloc}"
        if response.status != 200:
            said = response.read(REASON_BYTES).decode("ascii", "replace").partition("\n")[0]
            raise (BodyGone if response.status in (404, 410) else BodyUnavailable)(
                said or f"status {response.status}"
            )
        if response.length != length:
            raise BodyUnavailable(f"{response.length} bytes instead of {length}")
        left = length
        while left:
            piece = response.read(min(PIECE_BYTES, left))
            if not piece:
                raise BodyUnavailable("truncated")
            into.write(piece)
            left -= len(piece)
        response.read(1)  # the end of the reply, so that its connection can be used again
        return None
