"""Reads an LCC from a script: its HTTP interface behind a few blocking calls, standard library only.

::

    from lcc.client.blocking import Cache

    with Cache("unix:/var/lib/lcc/cu.sock") as cache:          # or https://cache.example.org:9443, with token=…
        for row in cache.urls(mimetype="text/*"):
            print(row["curl"], row["len"])
        changes = cache.changes(since=my_token)
        for row in changes:
            if row["state"] == "cached":
                data = cache.content(row).read()
        my_token = changes.token

Rows and content are read from the connection as you iterate, so that memory does not grow; a second call meanwhile
opens a connection of its own.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

from lcc.client.addresses import UNIX, authorization, check_address
from lcc.numbers import INT64_MAX, parse_number

TIMEOUT_SECONDS = 150.0
"""Longer than the longest ``wait``."""
PIECE_BYTES = 1 << 16
LINE_BYTES_MAX = 4 << 20
"""A robots.txt has up to 512 KiB, and JSON may take six bytes for one."""
_NAMING = frozenset({"next", "key", "item", "origin"})
"""Each line has one of these."""
NO_LCC = "not the content user API of an LCC, or a proxy changes its responses"

Field = str | int | list[str] | list[int] | tuple[str, ...] | tuple[int, ...]
"""The value of a query field (:data:`lcc.roles.cu.query.FIELDS`); a list for several values."""


class CacheError(Exception):
    """The LCC is unreachable, or cannot answer now; try again later."""


class Unavailable(CacheError):
    """The LCC cannot answer now (status 503, or 429 after too many wrong tokens); try again later."""


class Refused(CacheError):
    """The LCC rejects the request.

    :ivar status: HTTP status.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class StartAgain(Refused):
    """The changes since this token are no longer known: drop the copy and begin with ``since="0"``."""


class TokenRefused(Refused):
    """The token is not one of this LCC, or one for another selection: such as that of a user who sees others'
    pages than before."""


class Gone(Refused):
    """The content is not in the cache (any more)."""


class CutOff(CacheError):
    """The response was cut off: what was read of it is right, but incomplete."""


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Rows:
    """The rows of a response; iterate over it once.

    :ivar token: after the last row, where to continue; None: the request was not for changes.
    """

    def __init__(self, cache: Cache, response: _Response) -> None:
        self._cache = cache
        self._response = response
        self.token: str | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._response as response:
            while True:
                line = response.readline(LINE_BYTES_MAX)
                if not line.endswith(b"\n"):
                    raise CutOff("the response ends without an end mark")
                row = read_row(line)
                if "next" in row:
                    self.token = row["next"]
                    response.read(1)  # the end of the response, so that its connection can be reused
                    return
                yield row


class Content:
    """The content of a URL, to be read once.

    :ivar size_bytes: its length.
    :ivar mimetype: with its charset, as it is stored.
    :ivar md5: of the whole.
    """

    def __init__(self, response: _Response) -> None:
        self._response = response
        headers = response.headers
        try:
            self.size_bytes = parse_number(headers["content-length"], INT64_MAX)
            self.mimetype = headers["content-type"]
            self.md5 = headers["etag"].strip('"')
        except (KeyError, ValueError):
            response.close()
            raise CacheError(NO_LCC) from None

    def pieces(self) -> Iterator[bytes]:
        """The content, piece by piece.

        :raises CutOff: the connection was lost.
        """
        left = self.size_bytes
        with self._response as response:
            while left:
                piece = response.read(min(PIECE_BYTES, left))
                if not piece:
                    raise CutOff("the content was cut off")
                left -= len(piece)
                yield piece

    def read(self) -> bytes:
        """All of it."""
        return b"".join(self.pieces())


class Package:
    """A package of rows and their content, to be read once."""

    def __init__(self, response: _Response) -> None:
        self._response = response

    def pieces(self) -> Iterator[bytes]:
        """The package, piece by piece.

        :raises CutOff: the connection was lost.
        """
        with self._response as response:
            while piece := response.read(PIECE_BYTES):
                yield piece


class _Response:
    """A response; its connection is reused if it was read to its end, else closed."""

    def __init__(self, cache: Cache, connection: http.client.HTTPConnection) -> None:
        self._cache = cache
        self._connection = connection
        self._raw = connection.getresponse()
        self.status = self._raw.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in self._raw.getheaders()}

    def read(self, size: int) -> bytes:
        return self._guard(self._raw.read, size)

    def readline(self, size: int) -> bytes:
        return self._guard(self._raw.readline, size)

    def close(self) -> None:
        if self._raw.isclosed() or (self._raw.length == 0 and not self._raw.chunked):
            self._raw.close()
            self._cache._keep(self._connection)
        else:
            self._raw.close()
            self._connection.close()

    def __enter__(self) -> _Response:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _guard(read: Any, size: int) -> bytes:
        try:
            data: bytes = read(size)
        except (OSError, http.client.HTTPException) as error:
            raise CutOff(f"the response was cut off: {_reason(error)}") from error
        return data


class Cache:
    """An LCC as content users see it.

    :param address: of ``lcc-cu``: ``http://host:port``, ``https://host:port`` or ``unix:/path``.
    :param token: from ``lcc-admin user add``; None: without.
    :param timeout_seconds: without any data.
    :param context: for https; None: the system's certificate authorities.
    :raises AddressError: an invalid address or token.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        context: ssl.SSLContext | None = None,
    ) -> None:
        check_address(address)
        self._address = address
        self._headers = authorization(token)
        self._timeout = timeout_seconds
        self._context = context
        self._idle: http.client.HTTPConnection | None = None

    def urls(self, **fields: Field) -> Rows:
        """The current content of the cache.

        :param fields: as :data:`lcc.roles.cu.query.FIELDS`.
        :raises CacheError: or a subclass; also while iterating.
        """
        return Rows(self, self._get("/urls", fields))

    def changes(self, since: str = "0", *, wait: int = 0, **fields: Field) -> Rows:
        """The changes since a token, deletions included.

        :param wait: for the first change, in seconds; 0: do not wait.
        :raises StartAgain: the changes since then are no longer known.
        """
        return Rows(self, self._get("/changes", {"since": since, "wait": wait, **fields}))

    def content(self, row: Mapping[str, Any] | str) -> Content:
        """The current content of a URL.

        :param row: a row, or its key.
        :raises Gone: it is not in the cache (any more).
        """
        key = row if isinstance(row, str) else row["key"]
        return Content(self._get(f"/content/{key}", {}))

    def items(self, since: str = "0", **fields: Field) -> Rows:
        """New and changed items of feeds since a token.

        :param fields: ``feed``: only of these; ``limit``: items at most.
        :raises StartAgain: the items since then are not known.
        """
        return Rows(self, self._get("/items", {"since": since, **fields}))

    def text(self, row: Mapping[str, Any] | str) -> str:
        """The text of a page, without navigation and markup.

        :param row: a row, or its key.
        :raises Gone: it is not in the cache (any more), or has no text (yet).
        """
        key = row if isinstance(row, str) else row["key"]
        return Content(self._get(f"/content/{key}", {"as": "text"})).read().decode()

    def package(self, kind: str, **fields: Field) -> Package:
        """Rows with their content in one file.

        :param kind: ``tar``, ``tar.gz``, ``warc`` or ``warc.gz``.
        :param fields: as :data:`lcc.roles.cu.query.FIELDS`; with ``since``, the changes since that token.
        :raises StartAgain: the changes since then are no longer known.
        """
        return Package(self._get("/package", {"kind": kind, **fields}))

    def close(self) -> None:
        """Close the connection."""
        if self._idle is not None:
            self._idle.close()
            self._idle = None

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _get(self, path: str, fields: Mapping[str, Field]) -> _Response:
        target = f"{path}?{urlencode(fields, doseq=True)}" if fields else path
        response = self._ask(target)
        if response.status == 200:
            return response
        with response:
            body = response.read(PIECE_BYTES)
        raise reply_error(path, response.status, body)

    def _ask(self, target: str) -> _Response:
        connection, self._idle = self._idle, None
        if connection is not None:
            try:
                return self._send(connection, target)
            except (OSError, http.client.HTTPException):
                connection.close()  # the server may have closed an idle connection
        connection = self._connection()
        try:
            return self._send(connection, target)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise CacheError(f"{self._address} is unreachable: {_reason(error)}") from error

    def _send(self, connection: http.client.HTTPConnection, target: str) -> _Response:
        connection.request("GET", target, headers=self._headers)
        return _Response(self, connection)

    def _connection(self) -> http.client.HTTPConnection:
        if self._address.startswith(UNIX):
            return UnixConnection(self._address.removeprefix(UNIX), self._timeout)
        url = urlsplit(self._address)
        assert url.hostname is not None
        if url.scheme == "https":
            return http.client.HTTPSConnection(url.hostname, url.port, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(url.hostname, url.port, timeout=self._timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        if self._idle is None:
            self._idle = connection
        else:
            connection.close()


def read_row(line: bytes) -> dict[str, Any]:
    """A row, or the end mark.

    :raises CacheError: neither.
    """
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or _NAMING.isdisjoint(row):
        raise CacheError(NO_LCC)
    return row


def _reason(error: OSError | http.client.HTTPException) -> str:
    """What went wrong, without the class, and the number, of the exception."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def reply_error(path: str, status: int, body: bytes) -> CacheError:
    """The exception for an error response."""
    faults: list[str] = []
    try:
        said = json.loads(body)
        faults = [*map(str, said.get("faults", ()))]
        text = "; ".join([str(said["error"]), *faults])
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace").strip() or f"status {status}"
    if status == 410 and path in ("/changes", "/package", "/items"):
        return StartAgain(410, text)
    if status == 400 and faults and all(fault.startswith("since: ") for fault in faults):
        return TokenRefused(400, text)
    if status in (404, 410) and path.startswith("/content"):
        return Gone(status, text)
    if status in (429, 503):
        return Unavailable(text)
    return CacheError(text) if status >= 500 else Refused(status, text)
