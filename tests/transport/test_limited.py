"""A port's limits: connections in all, and of one address."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport
from twisted.logger import LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from lcc.transport.ports.connection_limits import party_of
from lcc.transport.ports.limited import LimitedFactory


class Port:
    """A limited factory, and what it logs."""

    def __init__(self, total: int, each: int, factory: Factory | None = None) -> None:
        self.factory = LimitedFactory(factory or Factory.forProtocol(Protocol), total, "tests", each)

    def connect(self, address: Any) -> Any:
        """A connection; None: refused."""
        protocol = self.factory.buildProtocol(address)
        if protocol is not None:
            protocol.makeConnection(StringTransport(peerAddress=address))
        return protocol


def at(host: str) -> Any:
    return (IPv6Address if ":" in host else IPv4Address)("TCP", host, 1)


@pytest.mark.parametrize(
    ("address", "party"),
    [
        (at("192.0.2.7"), "192.0.2.7"),
        (at("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64"),
        (at("::ffff:192.0.2.7"), "192.0.2.7"),
        (at("fe80::1%eth0"), "fe80::/64"),
        (UNIXAddress("/x"), ""),
        (None, ""),
    ],
)
def test_who_counts_as_one(address: Any, party: str) -> None:
    assert party_of(address) == party


def test_no_more_than_so_many_in_all_and_of_each() -> None:
    port = Port(5, 2)
    first = port.connect(at("192.0.2.1"))
    assert port.connect(at("192.0.2.1")) is not None
    assert port.connect(at("192.0.2.1")) is None
    others = [port.connect(at(f"192.0.2.{number}")) for number in (2, 3, 4)]
    assert None not in others
    assert port.connect(at("192.0.2.5")) is None
    others[0].connectionLost(Failure(ConnectionDone()))
    assert port.connect(at("192.0.2.1")) is None
    first.connectionLost(Failure(ConnectionDone()))
    assert port.connect(at("192.0.2.1")) is not None
    assert len(port.factory.protocols) == 4


def test_without_addresses_there_is_only_the_whole() -> None:
    port = Port(3, 1)
    assert [port.connect(UNIXAddress("/x")) is None for _ in range(4)] == [False, False, False, True]
    port = Port(3, 0)
    assert [port.connect(at("192.0.2.1")) is None for _ in range(4)] == [False, False, False, True]


def test_what_the_factory_itself_refuses_takes_no_place() -> None:
    class Refusing(Factory):
        def buildProtocol(self, addr: Any) -> None:
            return None

    port = Port(1, 1, Refusing())
    assert [port.connect(at("192.0.2.1")) for _ in range(3)] == [None] * 3


def test_a_flood_does_not_fill_the_log() -> None:
    events: list[LogEvent] = []
    globalLogPublisher.addObserver(events.append)
    try:
        port = Port(1, 1)
        for _ in range(1001):
            port.connect(at("192.0.2.1"))
    finally:
        globalLogPublisher.removeObserver(events.append)
    counts = [event["count"] for event in events if "count" in event]
    assert counts == [1 << power for power in range(10)]
