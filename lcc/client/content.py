"""Reading content from wherever it is: for content users' software, on Twisted.

One address is enough, that of the (central) BOT-M's content port; it knows where each machine's content is read.
Where it says "there", this client goes there, and remembers it for the machine until that fails.  Connections are
kept and used again; a file is never held whole unless that is asked for::

    client = ContentClient(reactor, "unix:/var/lib/lcc/content.sock")
    content = await client.open(row["fetched_machineid"], row["fetched_fileid"])
    await content.pipe_to(consumer)          # or: await content.read(1_000_000)
    await client.close()

A file that is gone (:class:`ContentGone`) was replaced or deleted since its row was read: read the row again.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer

from lcc.numbers import INT64_MAX, parse_number
from lcc.transport.certificates import CertificateFiles, Credentials
from lcc.transport.http_client import Answer, HttpClient, HttpFailed, is_address
from lcc.transport.tls import CONTENT_ROLES, ClientTls

REDIRECTS_MAX = 3
MACHINES_REMEMBERED = 10_000
_GONE = frozenset([404, 410])


class ContentUnavailable(Exception):
    """The content cannot be read now; later it may be."""


class ContentGone(Exception):
    """There is no such file (any longer)."""


class Content:
    """A content file, or a part of it, that can be read once.

    :ivar size_bytes: of what is read now.
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
            raise ContentUnavailable("the answer does not tell how long it is") from None

    def pipe_to(self, consumer: IConsumer) -> Deferred[int]:
        """Give it to a consumer as fast as that takes it; fires with the number of bytes.

        :raises ContentUnavailable: (as the Deferred's failure) the connection broke off.
        """
        return self._answer.pipe_to(consumer).addErrback(_translate)

    def read(self, bytes_max: int) -> Deferred[bytes]:
        """All of it.

        :raises ContentUnavailable: it is longer than ``bytes_max``, or the connection broke off.
        """
        return self._answer.read(bytes_max).addErrback(_translate)

    def drop(self) -> None:
        """It is not wanted after all."""
        self._answer.drop()


class ContentClient:
    """Reads content files.

    :param address: of a content port: ``https://host:port``, ``http://host:port`` or ``unix:/path``.
    :param connections_max: at once; who asks beyond that waits.
    :param timeout_seconds: to connect, and for each silence of the other end.
    :param certificates: what this end shows over https, and whom it trusts
        (``lcc.transport.wires.certificate_files``); None: only for addresses without TLS.
    :raises ValueError: the address is none.
    """

    def __init__(
        self,
        reactor: Any,
        address: str,
        connections_max: int = 20,
        timeout_seconds: float = 30.0,
        certificates: CertificateFiles | None = None,
    ) -> None:
        if not is_address(address):
            raise ValueError(f"{address!r} is none of https://host:port, http://host:port and unix:/path")
        self._address = address
        tls = None
        if certificates is not None:
            tls = ClientTls(Credentials(certificates), CONTENT_ROLES)
        self._http = HttpClient(reactor, connections_max, timeout_seconds, tls=tls)
        self._known: dict[int, str] = {}

    def open(self, machine: int, file: int, first: int = 0, length: int | None = None) -> Deferred[Content]:
        """Begin to read a file.

        :param first: the first byte that is wanted.
        :param length: so many bytes at most; None: up to the end.
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
                # It may have moved: who knows where says so.
                self._known.pop(machine, None)
        address = self._address
        for _ in range(REDIRECTS_MAX + 1):
            try:
                answer = await self._http.get(address, f"/{machine}/{file}", headers)
            except HttpFailed as error:
                raise ContentUnavailable(str(error)) from error
            if answer.status != 307:
                content = self._content(answer)
                if address != self._address and len(self._known) < MACHINES_REMEMBERED:
                    self._known[machine] = address
                return content
            target = urlsplit(answer.header("Location") or "")
            answer.drop()
            address = f"{target.scheme}://{target.netloc}"
            if not is_address(address):
                raise ContentUnavailable(f"sent on to {address!r}")
        raise ContentUnavailable("sent on too often")

    def close(self) -> Deferred[None]:
        """Close the connections that are kept."""
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
