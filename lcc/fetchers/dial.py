"""New TCP connections to the hosts that providers name: resolve, judge the addresses, try them one after the other.

Every fetcher of a scheme that goes over the network connects through this, so that no plugin can forget the guards of
:mod:`lcc.fetchers.addresses`.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.error import ConnectError, ConnectionRefusedError, TimeoutError
from twisted.internet.interfaces import IHostnameResolver, IReactorThreads, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.addresses import check_address, check_addresses, literal_address
from lcc.fetchers.names import SystemNames
from lcc.fetchers.resolver import CachingResolver
from lcc.fetchers.steps import Steps

ATTEMPTS_MAX = 6
"""Addresses of one host that are tried."""
_OUR_FAULT = frozenset([errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])

ProtocolT = TypeVar("ProtocolT", bound=Protocol)
ResultT = TypeVar("ResultT")


class One(Factory):
    """Gives the one protocol it was made for."""

    noisy = False

    def __init__(self, protocol: Protocol) -> None:
        self._given = protocol

    def buildProtocol(self, addr: Any) -> Protocol:
        return self._given


class Dialer:
    """Opens connections.

    :param reactor: connects, resolves, and is the clock.
    :param resolver: None: the machine's.
    :param steps: is told of names and connections.
    """

    def __init__(
        self, reactor: Any, settings: BotConfig, resolver: IHostnameResolver | None = None, steps: Steps | None = None
    ) -> None:
        self._reactor = reactor
        self._settings = settings
        self._steps = steps or Steps(reactor)
        self._names: SystemNames | None = None
        if resolver is None and IReactorThreads.providedBy(reactor):
            resolver = self._names = SystemNames(reactor, settings.concurrency)
        elif resolver is None:
            resolver = reactor.nameResolver
        self._resolver = CachingResolver(reactor, resolver, settings.dns_cache, settings.connect_timeout)

    def dial(self, host: str, port: int, private: bool, build: Callable[[], ProtocolT]) -> Deferred[ProtocolT]:
        """A connection to this host.

        Fails with FetchError (13xx); cancelling it leaves nothing behind.

        :param host: as in the URL, IPv6 in brackets.
        :param private: the provider may be fetched from private addresses.
        :param build: makes the protocol for each attempt.
        """

        async def attempt(endpoint: IStreamClientEndpoint, address: str) -> ProtocolT:
            protocol = build()
            await self.connect(endpoint, protocol, address, port)
            self.check_peer(protocol, private)
            return protocol

        return Deferred.fromCoroutine(self.try_each(host, port, private, attempt))

    async def try_each(
        self,
        host: str,
        port: int,
        private: bool,
        attempt: Callable[[IStreamClientEndpoint, str], Awaitable[ResultT]],
    ) -> ResultT:
        """What ``attempt(endpoint, address)`` gives for the first address of the host that answers.

        :raises FetchError: 13xx, or what the attempt raised.
        """
        literal = literal_address(host)
        if literal is not None:
            addresses: tuple[str, ...] = (literal,)
        else:
            addresses = await self._resolver.resolve(host)
            self._steps.tell("resolved", f"{host}: {' '.join(addresses)}")
        check_addresses(addresses, private)
        # Each gets its share of the time, so that one dead address does not hide a live one.
        tried = addresses[:ATTEMPTS_MAX]
        give_up = self._reactor.seconds() + self._settings.connect_timeout
        error: FetchError | None = None
        for index, address in enumerate(tried):
            left = give_up - self._reactor.seconds()
            if left <= 0:
                break
            try:
                return await attempt(self.endpoint(address, port, left / (len(tried) - index)), address)
            except FetchError as failed:
                if failed.entry.name not in ("connect-refused", "connect-timeout"):
                    raise
                error = failed
        raise error or FetchError("connect-timeout")

    def endpoint(self, address: str, port: int, timeout_seconds: float) -> IStreamClientEndpoint:
        """The endpoint of a numeric address."""
        kind = TCP6ClientEndpoint if ":" in address else TCP4ClientEndpoint
        endpoint: IStreamClientEndpoint = kind(self._reactor, address, port, timeout=timeout_seconds)
        return endpoint

    async def connect(self, endpoint: IStreamClientEndpoint, protocol: Protocol, address: str, port: int) -> None:
        """Connect this protocol to an endpoint of this address.

        :raises FetchError: 13xx, "robot-error".
        """
        try:
            await endpoint.connect(One(protocol))
        except ConnectionRefusedError:
            raise FetchError("connect-refused", f"{address} port {port}") from None
        except TimeoutError:
            raise FetchError("connect-timeout", f"{address} port {port}") from None
        except ConnectError as error:
            if error.osError in _OUR_FAULT:
                raise FetchError("robot-error", str(error)[:200]) from None
            raise FetchError("connect-refused", f"{address} port {port}: {error}"[:200]) from None
        self._steps.tell("connected", f"{address} port {port}")

    def check_peer(self, protocol: Protocol, private: bool) -> None:
        """Judge where a connection has led to; a wrong one is cut.

        :raises FetchError: "address-forbidden".
        """
        transport: Any = protocol.transport
        try:
            check_address(transport.getPeer().host, private)
        except FetchError:
            transport.abortConnection()
            raise

    def close(self) -> None:
        """End all lookups."""
        self._resolver.close()
        if self._names is not None:
            self._names.close()
