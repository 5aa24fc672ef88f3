"""New connections to web servers: dial, and speak TLS where asked."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.addresses import literal_address
from lcc.fetchers.dial import Dialer
from lcc.fetchers.http_protocol import HttpConnection, Owner
from lcc.fetchers.steps import Steps
from lcc.fetchers.tls import TlsClient


@attrs.frozen
class Site:
    """Where a URL is fetched from.

    :ivar host: as in the URL, IPv6 in brackets.
    :ivar request_lines: of each request, behind the target: the lines that are always the same.
    """

    secure: bool
    host: str
    port: int
    request_lines: bytes


class ConnectionKey(NamedTuple):
    """What a kept connection may be used for: never for another provider, never with weaker checks."""

    pid: int
    secure: bool
    host: str
    port: int
    private: bool
    insecure: bool


class Connector:
    """Opens connections.

    :param reactor: connects, and is the clock.
    """

    def __init__(self, reactor: Any, settings: BotConfig, dialer: Dialer, steps: Steps) -> None:
        self._reactor = reactor
        self._settings = settings
        self._dialer = dialer
        self._steps = steps
        self.tls = TlsClient(settings.extra_roots)

    def connect(self, key: ConnectionKey, owner: Owner) -> Deferred[HttpConnection]:
        """A connection that is ready for a request.

        Fails with FetchError (13xx); cancelling it leaves nothing behind.
        """
        attempt = partial(self._attempt, key, owner)
        return Deferred.fromCoroutine(self._dialer.try_each(key.host, key.port, key.private, attempt))

    async def _attempt(
        self, key: ConnectionKey, owner: Owner, endpoint: IStreamClientEndpoint, address: str
    ) -> HttpConnection:
        verify = None
        if key.secure:
            literal = literal_address(key.host)
            host, numeric = literal or key.host, literal is not None
            creator = self.tls.creator(key, host, numeric, key.insecure)
            endpoint = wrapClientTLS(creator, endpoint, self._reactor)
            verify = partial(self.tls.verify, host=host, numeric=numeric, insecure=key.insecure)
        connection = HttpConnection(
            self._reactor,
            self._settings,
            owner,
            key,
            secure=key.secure,
            private=key.private,
            verify=verify,
            steps=self._steps,
        )
        await self._dialer.connect(endpoint, connection, address, key.port)
        try:
            return await connection.ready
        except FetchError as error:
            if key.secure and error.entry.name == "tls-failed":
                self.tls.forget(key)
            raise
