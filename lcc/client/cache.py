"""Reads an LCC from a Twisted program: its HTTP interface, with Deferreds and coroutines.

::

    cache = CacheClient(reactor, "unix:/var/lib/lcc/cu.sock")     # or https://cache.example.org:9443, with a token
    changes = await cache.changes(since=my_token, wait=60)
    async for row in changes:
        if row["state"] == "cached":
            data = await (await cache.content(row)).read(10_000_000)
    my_token = changes.token
    await cache.close()

Rows are read as you iterate: a slow reader pauses the LCC, and memory does not grow.  For scripts there is
:mod:`lcc.client.blocking`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer
from twisted.python.failure import Failure

from lcc.client.addresses import authorization, check_address
from lcc.client.ahead import Ahead
from lcc.client.blocking import (
    LINE_BYTES_MAX,
    NO_LCC,
    PIECE_BYTES,
    TIMEOUT_SECONDS,
    CacheError,
    CutOff,
    Field,
    read_row,
    reply_error,
)
from lcc.client.packages import PageStream
from lcc.client.questions import URLS_MAX, answered_url, robots_body, site_robots, states_body
from lcc.model.states import AnsweredUrl, AskedUrl, SiteRobots
from lcc.numbers import INT64_MAX, parse_number
from lcc.transport.http.client import Answer, HttpClient, HttpFailed

CONTENT_BYTES_MAX = 8 << 20
LINES_AHEAD = 1000
"""Rows that are taken from the connection before they are asked for, about."""


class _Lines:
    """Takes bytes apart into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def split(self, data: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends.

        :raises CacheError: a line is too long to be one of an LCC.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise CacheError(NO_LCC)
        return lines


class RowStream:
    """The rows of a response; iterate over it once (``async for``), or ``close`` it.

    :ivar token: after the last row, where to continue; None: the request was not for changes.
    """

    def __init__(self, answer: Answer) -> None:
        self.token: str | None = None
        self._lines = Ahead(_Lines().split, lambda _: 1, LINES_AHEAD)
        self._body: Deferred[int] = answer.pipe_to(self._lines)
        self._body.addBoth(self._lines.end)

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self._rows()

    async def _rows(self) -> AsyncIterator[dict[str, Any]]:
        try:
            while True:
                try:
                    line = await self._lines.next()
                except HttpFailed as error:
                    raise CutOff(str(error)) from error
                if line is None:
                    raise CutOff("the response ends without an end mark")
                row = read_row(line)
                if "next" in row:
                    self.token = row["next"]
                    with suppress(HttpFailed):  # all rows were read
                        await self._lines.next()  # the end of the response, so that its connection can be reused
                    return
                yield row
        finally:
            self.close()

    def close(self) -> None:
        """Stop reading."""
        self._body.cancel()


class RemoteContent:
    """The content of a URL, to be read once.

    :ivar size_bytes: its length.
    :ivar mimetype: with its charset, as it is stored.
    :ivar md5: of the whole.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        length, etag = answer.header("content-length"), answer.header("etag")
        try:
            if etag is None:
                raise ValueError(etag)
            self.size_bytes = parse_number(length or "", INT64_MAX)
        except ValueError:
            answer.drop()
            raise CacheError(NO_LCC) from None
        self.mimetype = answer.header("content-type") or ""
        self.md5 = etag.strip('"')

    def pipe_to(self, consumer: IConsumer) -> Deferred[int]:
        """Send it to a consumer, with back-pressure.

        :raises CutOff: (as the Deferred's failure) the connection was lost.
        """
        return self._answer.pipe_to(consumer).addErrback(_translate)

    def read(self, bytes_max: int) -> Deferred[bytes]:
        """All of it.

        :raises CutOff: (as the Deferred's failure) it is longer than ``bytes_max``, or the connection was lost.
        """
        return self._answer.read(bytes_max).addErrback(_translate)

    def close(self) -> None:
        """Drop it unread."""
        self._answer.drop()


class CacheClient:
    """An LCC as content users see it.

    :param address: of ``lcc-cu``: ``http://host:port``, ``https://host:port`` or ``unix:/path``.
    :param token: from ``lcc-admin user add``; None: without.
    :param connections_max: at once; further requests wait.
    :param timeout_seconds: without any data.
    :param trust_root: for https: trusted authorities (``ssl.trustRootFromCertificates``); None: the system's.
    :raises AddressError: an invalid address or token.
    """

    def __init__(
        self,
        reactor: Any,
        address: str,
        token: str | None = None,
        *,
        connections_max: int = 10,
        timeout_seconds: float = TIMEOUT_SECONDS,
        trust_root: Any = None,
    ) -> None:
        check_address(address)
        self._address = address.rstrip("/")
        self._headers = authorization(token)
        self._http = HttpClient(reactor, connections_max, timeout_seconds, trust_root)

    async def urls(self, **fields: Field) -> RowStream:
        """The current content of the cache.

        :param fields: as :data:`lcc.roles.cu.query.FIELDS`.
        :raises CacheError: or a subclass (:mod:`lcc.client.blocking`); also while iterating.
        """
        return RowStream(await self._get("/urls", fields))

    async def changes(self, since: str = "0", *, wait: int = 0, **fields: Field) -> RowStream:
        """The changes since a token, deletions included.

        :param wait: for the first change, in seconds; 0: do not wait.
        :raises StartAgain: the changes since then are no longer known.
        """
        return RowStream(await self._get("/changes", {"since": since, "wait": wait, **fields}))

    async def follow(
        self,
        apply: Callable[[dict[str, Any]], Awaitable[None]],
        commit: Callable[[str], Awaitable[None]],
        since: str = "0",
        *,
        wait: int = 60,
        **fields: Field,
    ) -> None:
        """Apply all changes, and those to come, until cancelled or failed.

        :param apply: called with each row in turn.
        :param commit: called with the token once all rows up to it are applied: store it, and continue with it.
        :raises StartAgain: the copy must be dropped.
        :raises CacheError: the LCC is unreachable: wait a little and call again with the last token.
        """
        while True:
            changes = await self.changes(since, wait=wait, **fields)
            async for row in changes:
                await apply(row)
            assert changes.token is not None
            if changes.token != since:
                since = changes.token
                await commit(since)

    async def content(self, row: Mapping[str, Any] | str) -> RemoteContent:
        """The current content of a URL.

        :param row: a row, or its key.
        :raises Gone: it is not in the cache (any more).
        """
        key = row if isinstance(row, str) else row["key"]
        return RemoteContent(await self._get(f"/content/{key}", {}))

    async def packages(
        self, since: str | None = "0", *, wait: int = 0, content_bytes_max: int = CONTENT_BYTES_MAX, **fields: Field
    ) -> PageStream:
        """The changes since a token with their content, as a stream of pages.

        With ``limit`` you get a token after so many pages at most, and continue with it; do not read more slowly than
        the LCC allows (``[cu] package_rate_min``).

        :param since: None: no changes, but what is there now.
        :param wait: for the first change, in seconds; 0: do not wait.
        :param content_bytes_max: of each content; the rest is left out, and the page not ``whole``.
        :raises StartAgain: the changes since then are no longer known.
        """
        changes: dict[str, Field] = {} if since is None else {"since": since, "wait": wait}
        return PageStream(await self._get("/package", {"kind": "tar", **changes, **fields}), content_bytes_max)

    async def states(self, urls: Sequence[AskedUrl], notifier: str = "", epoch: str = "") -> list[AnsweredUrl]:
        """What became of URLs, in their order.

        :param notifier: role and name of the notifier whose sets tell them, as ``spider/main``.
        :param epoch: of its sets' numbers.
        """
        target = f"/states?{urlencode({'notifier': notifier, 'epoch': epoch})}" if notifier else "/states"
        found: list[AnsweredUrl] = []
        for start in range(0, len(urls), URLS_MAX):
            asked = urls[start : start + URLS_MAX]
            rows = [row async for row in RowStream(await self._post(target, states_body(asked)))]
            if len(rows) != len(asked):
                raise CacheError(NO_LCC)
            found += map(answered_url, asked, rows)
        return found

    async def robots(self, origins: Sequence[str]) -> list[SiteRobots]:
        """What robots.txt of sites say, as far as the LCC knows it, in their order.  It asks for those of its
        providers that it does not know: ask again some seconds later.

        :param origins: ``scheme://host[:port]/``.
        """
        found: list[SiteRobots] = []
        for start in range(0, len(origins), URLS_MAX):
            answer = await self._post("/robots", robots_body(origins[start : start + URLS_MAX]))
            found += [site_robots(row) async for row in RowStream(answer)]
        if len(found) != len(origins):
            raise CacheError(NO_LCC)
        return found

    async def items(self, since: str = "0", **fields: Field) -> RowStream:
        """New and changed items of feeds since a token.

        :param fields: ``feed``: only of these; ``limit``: items at most.
        :raises StartAgain: the items since then are not known.
        """
        return RowStream(await self._get("/items", {"since": since, **fields}))

    async def text(self, row: Mapping[str, Any] | str, bytes_max: int = 10_000_000) -> str:
        """The text of a page, without navigation and markup.

        :param row: a row, or its key.
        :raises Gone: it is not in the cache (any more), or has no text (yet).
        """
        key = row if isinstance(row, str) else row["key"]
        content = RemoteContent(await self._get(f"/content/{key}", {"as": "text"}))
        return (await content.read(bytes_max)).decode()

    def close(self) -> Deferred[None]:
        """Close the idle connections."""
        return self._http.close()

    async def _get(self, path: str, fields: Mapping[str, Field]) -> Answer:
        target = f"{path}?{urlencode(fields, doseq=True)}" if fields else path
        return await self._answered(target, self._http.get(self._address, target, self._headers))

    async def _post(self, target: str, body: bytes) -> Answer:
        return await self._answered(target, self._http.post(self._address, target, body, self._headers))

    async def _answered(self, target: str, asked: Deferred[Answer]) -> Answer:
        try:
            answer = await asked
            if answer.status == 200:
                return answer
            body = await answer.read(PIECE_BYTES)
        except HttpFailed as error:
            raise CacheError(f"{self._address} is unreachable: {error}") from error
        raise reply_error(target.partition("?")[0], answer.status, body)


def _translate(failure: Failure) -> Any:
    failure.trap(HttpFailed)
    raise CutOff(failure.getErrorMessage()) from failure.value
