"""The PROXY protocol: whose connection it is, said by those who may say so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock

from lcc.transport.ports.proxy_protocol import BadHeader, BehindProxies, proxy_header, read_header, trusted_proxies
from tests.support.transports import MemoryTransport

HERE = IPv4Address("TCP", "192.0.2.1", 9000)
PROXY = "10.0.0.5"


@given(st.ip_addresses(), st.integers(0, 65535))
def test_what_is_said_is_read(ip: Any, port: int) -> None:
    kind = IPv4Address if ip.version == 4 else IPv6Address
    host = HERE if ip.version == 4 else IPv6Address("TCP", "::1", 9000)
    line = proxy_header(kind("TCP", str(ip), port), host)
    assert line.endswith(b"\r\n") and len(line) <= 107
    read: Any = read_header(line[:-2])
    assert (read.host, read.port) == (str(ip), port)


def test_other_connections_are_unknown() -> None:
    for peer, host in ((UNIXAddress(b"/s"), UNIXAddress(b"/t")), (IPv6Address("TCP", "::1", 1), HERE), (None, HERE)):
        assert proxy_header(peer, host) == b"PROXY UNKNOWN\r\n"
    assert read_header(b"PROXY UNKNOWN") is None
    assert read_header(b"PROXY UNKNOWN ffff:: ffff:: 1 2") is None


@pytest.mark.parametrize(
    "line",
    [
        b"PROXY",
        b"PROXY TCP4",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1",
        b"PROXY TCP4 1.2.3 1.2.3.4 1 2",
        b"PROXY TCP4 ::1 ::1 1 2",
        b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3",
        b"PROXY  TCP4 1.2.3.4 1.2.3.4 1 2",
        b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2",
        b"GET / HTTP/1.1",
    ],
)
def test_what_is_no_header(line: bytes) -> None:
    with pytest.raises(BadHeader):
        read_header(line)


def test_who_is_believed() -> None:
    is_trusted = trusted_proxies(["10.0.0.5", "10.1.0.0/16", "2001:db8::/32"])
    for host in ("10.0.0.5", "10.1.2.3"):
        assert is_trusted(IPv4Address("TCP", host, 1))
    for host in ("2001:db8::7", "2001:db8::7%eth0", "::ffff:10.0.0.5"):
        assert is_trusted(IPv6Address("TCP", host, 1))
    for address in (IPv4Address("TCP", "10.0.0.6", 1), IPv6Address("TCP", "::1", 1), UNIXAddress(b"/s"), None):
        assert not is_trusted(address)


class Heard(Protocol):
    def __init__(self, address: Any) -> None:
        self.address = address
        self.data = b""
        self.events: list[str] = []

    def connectionMade(self) -> None:
        self.events.append("made")

    def dataReceived(self, data: bytes) -> None:
        self.data += data

    def readConnectionLost(self) -> None:
        self.events.append("read")

    def writeConnectionLost(self) -> None:
        self.events.append("write")

    def connectionLost(self, reason: Any = None) -> None:
        self.events.append("lost")


class Port(Factory):
    def __init__(self, refuses: bool = False) -> None:
        self.heard: list[Heard] = []
        self.refuses = refuses

    def buildProtocol(self, addr: Any) -> Any:
        if self.refuses:
            return None
        self.heard.append(Heard(addr))
        return self.heard[-1]


class World:
    def __init__(self, refuses: bool = False) -> None:
        self.clock = Clock()
        self.port = Port(refuses)
        self.factory = BehindProxies(self.port, trusted_proxies([PROXY]), self.clock, 5.0)

    def connect(self, host: str = PROXY) -> Any:
        protocol = self.factory.buildProtocol(IPv4Address("TCP", host, 4711))
        transport = MemoryTransport(host=host)
        transport.protocol = protocol
        protocol.makeConnection(transport)
        return protocol


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_the_client_is_who_the_proxy_says(piece: int) -> None:
    world = World()
    protocol = world.connect()
    said = b"PROXY TCP4 198.51.100.9 192.0.2.1 5555 9000\r\n<init>\r\n"
    for i in range(0, len(said), piece):
        protocol.dataReceived(said[i : i + piece])
    (heard,) = world.port.heard
    assert (heard.address.host, heard.address.port, heard.data) == ("198.51.100.9", 5555, b"<init>\r\n")
    assert not world.clock.getDelayedCalls() and not world.factory.unannounced.total
    for name in ("readConnectionLost", "writeConnectionLost", "connectionLost"):
        getattr(protocol, name)()
    assert heard.events == ["made", "read", "write", "lost"]


@pytest.mark.parametrize("said", [b"<init>", b" <init>", b"PROXX", b"\xef\xbb\xbf<init>"])
def test_a_proxys_own_connection(said: bytes) -> None:
    world = World()
    protocol = world.connect()
    for i in range(len(said)):
        protocol.dataReceived(said[i : i + 1])
    (heard,) = world.port.heard
    assert heard.address.host == PROXY and heard.data == said


def test_an_unknown_client_is_the_proxy_itself() -> None:
    world = World()
    world.connect().dataReceived(b"PROXY UNKNOWN\r\nx")
    assert world.port.heard[0].address.host == PROXY and world.port.heard[0].data == b"x"


def test_nobody_else_is_believed() -> None:
    world = World()
    said = b"PROXY TCP4 198.51.100.9 192.0.2.1 5555 9000\r\n"
    world.connect("10.0.0.6").dataReceived(said)
    assert world.port.heard[0].address.host == "10.0.0.6" and world.port.heard[0].data == said


@pytest.mark.parametrize(
    "said", [b"PROXY TCP4 nonsense\r\n", b"PROXY " + b"x" * 200, b"PROXY " + b"x" * 200 + b"\r\n"]
)
def test_a_bad_header_ends_the_connection(said: bytes) -> None:
    world = World()
    protocol = world.connect()
    for i in range(0, len(said), 50):
        if not protocol.transport.closed:
            protocol.dataReceived(said[i : i + 50])
    assert protocol.transport.closed and not world.port.heard and not world.factory.unannounced.total


def test_no_header_in_time_and_half_closed() -> None:
    world = World()
    slow, ended = world.connect(), world.connect()
    slow.dataReceived(b"PROXY TC")
    ended.readConnectionLost()
    assert ended.transport.closed and not slow.transport.closed
    world.clock.advance(5)
    assert slow.transport.closed and not world.factory.unannounced.total


def test_the_port_may_refuse() -> None:
    protocol = World(refuses=True).connect()
    protocol.dataReceived(b"PROXY UNKNOWN\r\n")
    assert protocol.transport.closed


def test_connections_without_a_header_yet_are_counted() -> None:
    world = World()
    found = [world.factory.buildProtocol(IPv4Address("TCP", PROXY, 1)) for _ in range(1001)]
    for protocol in found[:1000]:
        protocol.makeConnection(MemoryTransport())  # type: ignore[arg-type]
    assert world.factory.buildProtocol(IPv4Address("TCP", PROXY, 1)) is None
