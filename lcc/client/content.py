"""Reads content files from any machine, on Twisted.

One address is enough, that of the (central) BOT-M's content port, which redirects to where each machine's content is.
The client remembers the address of each machine until it fails.  Connections are reused; a file is never held whole
unless you ask for that::

    client = ContentClient(reactor, "unix:/var/lib/lcc/content.sock")
    content = await client.open(row["fetched_machineid"], row["fetched_fileid"])
    await content.pipe_to(consumer)          # or: await content.read(1_000_000)
    await client.close()

A file that is gone (:class:`ContentGone`) was replaced or deleted since its row was read: read the row again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer

from lcc.numbers import INT64_MAX, parse_number
from lcc.transport.http.client import Answer, HttpClient, HttpFailed, is_address
from lcc.transport.tls.certificates import Credentials
from lcc.transport.tls.contexts import CONTENT_ROLES, ClientTls
from lcc.transport.tls.files import CertificateFiles

REDIRECTS_MAX = 3
MACHINES_REMEMBERED = 10_000
_GONE = frozenset([404, 410])


class ContentUnavailable(Exception):
    """The content cannot be read now; try again later."""


class ContentGone(Exception):
    """There is no such file (any more)."""


class Content:
    """A content file or a range of it, to be read once.

    :ivar size_bytes: of the range.
    :ivar whole_bytes: of the whole file.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        try:
            self.size_bytes = parse_number(answer.header("Content-Length") or "", INT64_MAX)
            total = (answer.header("Content-Range") or "").rpartition("/")[2]
            self.whole_bytes = parse_number(total, INT64_MAX) if answer.status == 206 else self.size_bytes
        except ValueError:
            answer.drop()
            raise ContentUnavailable("the response has no valid length") from None

    def pipe_to(self, consumer: IConsumer) -> Deferred[int]:
        """Send it to a consumer, with back-pressure; fires with the number of bytes.

        :raises ContentUnavailable: (as the Deferred's failure) the connection was lost.
        """
        return self._answer.pipe_to(consumer).addErrback(_translate)

    def read(self, bytes_max: int) -> Deferred[bytes]:
        """All of it.

        :raises ContentUnavailable: it is longer than ``bytes_max``, or the connection was lost.
        """
        return self._answer.read(bytes_max).addErrback(_translate)

    def drop(self) -> None:
        """Drop it unread."""
        self._answer.drop()


class ContentOpener(Protocol):
    """What opens content files."""

    def open(self, machine: int, file: int, first: int = 0, length: int | None = None) -> Deferred[Content]:
        """As :meth:`ContentClient.open`."""


class ContentClient:
    """Reads content files.

    :param address: of a content port: ``https://host:port``, ``http://host:port`` or ``unix:/path``; or what gives it
        for each machine.
    :param connections_max: at once; further requests wait.
    :param timeout_seconds: to connect, and without any data.
    :param certificates: this client's certificate and its trusted authorities, for https
        (``lcc.transport.wires.certificate_files``); None: only for addresses without TLS.
    :raises ValueError: an invalid address.
    """

    def __init__(
        self,
        reactor: Any,
        address: str | Callable[[int], str],
        connections_max: int = 20,
        timeout_seconds: float = 30.0,
        certificates: CertificateFiles | None = None,
    ) -> None:
        if isinstance(address, str) and not is_address(address):
            raise ValueError(f"{address!r} is not an address: use https://host:port, http://host:port or unix:/path")
        self._address = address
        tls = None
        if certificates is not None:
            tls = ClientTls(Credentials(certificates), CONTENT_ROLES)
        self._http = HttpClient(reactor, connections_max, timeout_seconds, tls=tls)
        self._known: dict[int, str] = {}

    def open(self, machine: int, file: int, first: int = 0, length: int | None = None) -> Deferred[Content]:
        """Open a file.

        :param first: the first byte to read.
        :param length: at most so many bytes; None: to the end.
        :raises ContentGone: (as the Deferred's failure) there is no such file, or it has no such byte.
        :raises ContentUnavailable: it cannot be read now.
        """
        return Deferred.fromCoroutine(self._open(machine, file, first, length))

    async def _open(self, machine: int, file: int, first: int, length: int | None) -> Content:
        headers: dict[str, str] = {}
        if first or length is not None:
            headers["Range"] = f"bytes={first}-{'' if length is None else first + max(1, length) - 1}"
        known = self._known.get(machine)
        if known is not None:
            try:
                return self._content(await self._http.get(known, f"/{machine}/{file}", headers))
            except (HttpFailed, ContentUnavailable, ContentGone):
                # It may have moved: ask again.
                self._known.pop(machine, None)
        address = first_address = self._address if isinstance(self._address, str) else self._address(machine)
        if not is_address(address):
            raise ContentUnavailable(f"nobody knows the content port of machine {machine}")
        for _ in range(REDIRECTS_MAX + 1):
            try:
                answer = await self._http.get(address, f"/{machine}/{file}", headers)
            except HttpFailed as error:
                raise ContentUnavailable(str(error)) from error
            if answer.status != 307:
                content = self._content(answer)
                if address != first_address and len(self._known) < MACHINES_REMEMBERED:
                    self._known[machine] = address
                return content
            target = urlsplit(answer.header("Location") or "")
            answer.drop()
            address = f"{target.scheme}://{target.netloc}"
            if not is_address(address):
                raise ContentUnavailable(f"redirected to {address!r}")
        raise ContentUnavailable("too many redirects")

    def close(self) -> Deferred[None]:
        """Close the idle connections."""
        return self._http.close()

    def _content(self, answer: Answer) -> Content:
        if answer.status in (200, 206):
            return Content(answer)
        answer.drop()
        if answer.status in _GONE or answer.status == 416:
            raise ContentGone(f"status {answer.status}")
        raise ContentUnavailable(f"status {answer.status}")


def _translate(failure: Any) -> Any:
    failure.trap(HttpFailed)
    raise ContentUnavailable(failure.getErrorMessage()) from failure.value
