"""The PROXY protocol, version 1: a proxy says in the first line of a connection whose connection it is.

::

    PROXY TCP4 192.0.2.7 192.0.2.1 4711 9000\r\n

Over TLS the line is the first that is said within it.  It is believed only of those whom the configuration names; a
connection of theirs that begins with something else is their own.  (haproxy: ``send-proxy``, for ports without TLS.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address as Ip4
from ipaddress import ip_address, ip_network
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IHalfCloseableProtocol,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.numbers import parse_number
from lcc.transport.ports.connection_limits import ConnectionLimits

_log = Logger()

HEADER = b"PROXY "
HEADER_BYTES_MAX = 107
"""The longest line, its end included."""
_LINE = re.compile(
    rb"PROXY (?:UNKNOWN[^\r\n]*|TCP([46]) ([0-9a-fA-F.:]{2,39}) ([0-9a-fA-F.:]{2,39}) (\d{1,5}) (\d{1,5}))"
).fullmatch
_UNANNOUNCED_MAX = 1000
"""Connections of proxies that have not said yet whose they are."""


class BadHeader(Exception):
    """It is no header of the PROXY protocol."""


def proxy_header(peer: Any, host: Any) -> bytes:
    """The line for a connection between these two addresses of Twisted; other than TCP is UNKNOWN."""
    try:
        source, dest = ip_address(peer.host.partition("%")[0]), ip_address(host.host.partition("%")[0])
    except (AttributeError, ValueError):
        return b"PROXY UNKNOWN\r\n"
    if isinstance(source, Ip4) != isinstance(dest, Ip4):
        return b"PROXY UNKNOWN\r\n"
    family = "TCP4" if isinstance(source, Ip4) else "TCP6"
    return f"PROXY {family} {source} {dest} {peer.port} {host.port}\r\n".encode("ascii")


def read_header(line: bytes) -> IAddress | None:
    """The address that a line, without its end, says is the client's; None: it says none.

    :raises BadHeader: it is no such line.
    """
    match = _LINE(line)
    if match is None:
        raise BadHeader
    if match[1] is None:
        return None
    family, source, _, port, _ = (group.decode("ascii") for group in match.groups())
    try:
        address, number = ip_address(source), parse_number(port, 65535)
    except ValueError:
        raise BadHeader from None
    if family != str(address.version):
        raise BadHeader
    kind = IPv4Address if address.version == 4 else IPv6Address
    return kind("TCP", str(address), number)


def trusted_proxies(networks: Sequence[str]) -> Callable[[Any], bool]:
    """Says of an address of Twisted whether it is that of a proxy.

    :param networks: IP addresses, or networks.  UNIX sockets are never proxies'.
    :raises ValueError: one is neither.
    """
    known = [ip_network(text) for text in networks]

    def is_trusted(address: Any) -> bool:
        try:
            ip = ip_address(address.host.partition("%")[0])
        except (AttributeError, ValueError):
            return False
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return any(ip in network for network in known)

    return is_trusted


class BehindProxies(Factory):
    """A port, some of whose connections come through proxies: its protocols are built for the clients' addresses.

    :param port: the factory of its protocols.
    :param is_trusted: as :func:`trusted_proxies` gives it.
    :param timeout_seconds: for the header.
    """

    noisy = False

    def __init__(
        self, port: IProtocolFactory, is_trusted: Callable[[Any], bool], clock: IReactorTime, timeout_seconds: float
    ) -> None:
        self.port = port
        self._is_trusted = is_trusted
        self.clock = clock
        self.timeout_seconds = timeout_seconds
        self.unannounced = ConnectionLimits(_UNANNOUNCED_MAX)

    def buildProtocol(self, addr: IAddress | None) -> Any:
        if not self._is_trusted(addr):
            return self.port.buildProtocol(addr)  # type: ignore[arg-type]  # None: Twisted says so, too
        if self.unannounced.refusal(""):
            return None
        return _Announced(self, addr)


@implementer(IHalfCloseableProtocol)
class _Announced(Protocol):
    """A connection of a proxy: reads the header, then is the client's protocol.

    :param address: of the proxy: that of a connection that begins without a header.
    """

    def __init__(self, factory: BehindProxies, address: IAddress | None) -> None:
        self._behind = factory
        self._address = address
        self._head = bytearray()
        self._client: Any = None
        self._timer: IDelayedCall | None = None

    def connectionMade(self) -> None:
        self._behind.unannounced.enter("")
        self._timer = self._behind.clock.callLater(self._behind.timeout_seconds, self._drop)

    def dataReceived(self, data: bytes) -> None:
        self._head += data
        if not self._head.startswith(HEADER[: len(self._head)]):
            self._begin(self._address, bytes(self._head))
            return
        line, end, rest = bytes(self._head).partition(b"\r\n")
        if not end and len(line) < HEADER_BYTES_MAX:
            return
        try:
            if not end or len(line) + len(end) > HEADER_BYTES_MAX:
                raise BadHeader
            address = read_header(line) or self._address
        except BadHeader:
            _log.warn("{peer}: invalid header of the PROXY protocol", peer=str(self._address))
            self._drop()
            return
        self._begin(address, rest)

    def _begin(self, address: IAddress | None, rest: bytes) -> None:
        self._announced()
        self._head.clear()
        client: IProtocol | None = self._behind.port.buildProtocol(address)  # type: ignore[arg-type]
        if client is None:
            self._drop()
            return
        self._client = client
        self.dataReceived = client.dataReceived  # type: ignore[method-assign]  # nothing more to do with each piece
        client.makeConnection(self.transport)  # type: ignore[arg-type]  # it is connected
        if rest:
            client.dataReceived(rest)

    def _announced(self) -> None:
        if self._timer is not None:
            self._behind.unannounced.leave("")
            if self._timer.active():
                self._timer.cancel()
            self._timer = None

    def _drop(self) -> None:
        transport: Any = self.transport
        transport.abortConnection()

    def readConnectionLost(self) -> None:
        if self._client is None:
            self._drop()
        else:
            self._client.readConnectionLost()

    def writeConnectionLost(self) -> None:
        if self._client is not None:
            self._client.writeConnectionLost()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._announced()
        if self._client is not None:
            self._client.connectionLost(reason)
