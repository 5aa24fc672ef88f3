"""New connections: resolve, judge the addresses, try them one after the other, speak TLS where asked."""

from __future__ import annotations

import errno
from functools import partial
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, ConnectionRefusedError, TimeoutError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.addresses import check_addresses, literal_address
from lcc.fetchers.http_exchange import Owner
from lcc.fetchers.http_protocol import HttpConnection
from lcc.fetchers.resolver import CachingResolver
from lcc.fetchers.tls import TlsClient

ATTEMPTS_MAX = 6
"""Addresses of one host that are tried."""
_OUR_FAULT = frozenset([errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])


@attrs.frozen
class Site:
    """Where a URL is fetched from.

    :ivar host: as in the URL, IPv6 in brackets.
    :ivar request_tail: everything of the request behind the target.
    """

    secure: bool
    host: str
    port: int
    request_tail: bytes


class ConnectionKey(NamedTuple):
    """What a kept connection may be used for: never for another provider, never with weaker checks."""

    pid: int
    secure: bool
    host: str
    port: int
    private: bool
    insecure: bool


class _One(Factory):
    """Gives the one protocol it was made for."""

    noisy = False

    def __init__(self, protocol: Protocol) -> None:
        self._given = protocol

    def buildProtocol(self, addr: Any) -> Protocol:
        return self._given


class Connector:
    """Opens connections.

    :param reactor: connects, and is the clock.
    """

    def __init__(self, reactor: Any, settings: BotConfig, resolver: CachingResolver) -> None:
        self._reactor = reactor
        self._settings = settings
        self._resolver = resolver
        self.tls = TlsClient(settings.extra_roots)

    def connect(self, key: ConnectionKey, owner: Owner) -> Deferred[HttpConnection]:
        """A connection that is ready for a request.

        Fails with FetchError (13xx); cancelling it leaves nothing behind.
        """
        return Deferred.fromCoroutine(self._connect(key, owner))

    async def _connect(self, key: ConnectionKey, owner: Owner) -> HttpConnection:
        literal = literal_address(key.host)
        addresses = (literal,) if literal is not None else await self._resolver.resolve(key.host)
        check_addresses(addresses, key.private)
        # Each gets its share of the time, so that one dead address does not hide a live one.
        tried = addresses[:ATTEMPTS_MAX]
        give_up = self._reactor.seconds() + self._settings.connect_timeout
        error: FetchError | None = None
        for index, address in enumerate(tried):
            left = give_up - self._reactor.seconds()
            if left <= 0:
                break
            try:
                return await self._attempt(key, owner, address, literal, left / (len(tried) - index))
            except FetchError as failed:
                if failed.entry.name not in ("connect-refused", "connect-timeout"):
                    raise
                error = failed
        raise error or FetchError("connect-timeout")

    async def _attempt(
        self, key: ConnectionKey, owner: Owner, address: str, literal: str | None, timeout_seconds: float
    ) -> HttpConnection:
        kind = TCP6ClientEndpoint if ":" in address else TCP4ClientEndpoint
        endpoint: IStreamClientEndpoint = kind(self._reactor, address, key.port, timeout=timeout_seconds)
        verify = None
        if key.secure:
            host, numeric = literal or key.host, literal is not None
            creator = self.tls.creator(key, host, numeric, key.insecure)
            endpoint = wrapClientTLS(creator, endpoint, self._reactor)
            verify = partial(self.tls.verify, host=host, numeric=numeric, insecure=key.insecure)
        connection = HttpConnection(
            self._reactor, self._settings, owner, key, secure=key.secure, private=key.private, verify=verify
        )
        try:
            await endpoint.connect(_One(connection))
        except ConnectionRefusedError:
            raise FetchError("connect-refused", f"{address} port {key.port}") from None
        except TimeoutError:
            raise FetchError("connect-timeout", f"{address} port {key.port}") from None
        except ConnectError as error:
            if error.osError in _OUR_FAULT:
                raise FetchError("robot-error", str(error)[:200]) from None
            raise FetchError("connect-refused", f"{address} port {key.port}: {error}"[:200]) from None
        try:
            return await connection.ready
        except FetchError as error:
            if key.secure and error.entry.name == "tls-failed":
                self.tls.forget(key)
            raise
