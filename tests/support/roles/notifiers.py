"""Notifiers that say whatever a test likes, in the world of a UNS."""

from __future__ import annotations

from typing import Any

from lcc.model.notifiers import NOTIFIERS
from lcc.protocols.flat import Flat
from lcc.protocols.hello import INTERNAL_LIMITS, Hello
from lcc.protocols.notifiers import FROM_PORT, Accepted, Fault, Hold, Rejected, SetBegin, SetEnd, write_url
from lcc.protocols.xmlfeed import Start, XmlFeed
from lcc.roles.uns.notifiers.connection import notifier_port
from lcc.transport.ports.connection_limits import ConnectionLimits
from tests.support.roles.uns import Cp, World
from tests.support.transports import MemoryTransport


class RawNotifier(Cp):
    """One connection of a notifier.

    :ivar said: what the UNS has said, parsed, but for its hello and pings.
    """

    def __init__(self, world: World, transport: MemoryTransport, protocol: Any) -> None:
        super().__init__(transport, protocol)
        self.world = world
        self.said: list[Any] = []
        self._feed = XmlFeed(INTERNAL_LIMITS)
        self._read_bytes = 0

    def say(self, *messages: Flat | str) -> None:
        """Messages, and elements as text; then everything moves."""
        self.send("".join(each if isinstance(each, str) else each.to_xml() for each in messages))
        self.world.pump()

    def heard(self) -> list[Any]:
        """What the UNS has said since the last time."""
        self.world.pump()
        new = bytes(self.received[self._read_bytes :])
        self._read_bytes += len(new)
        found: list[Any] = []
        for event in self._feed.receive(new) if new else []:
            if isinstance(event, Start) and event.depth == 2 and event.name != "ping":
                found.append(FROM_PORT.read(event.name, event.attributes))
        self.said += found
        return found

    def answers(self) -> list[Any]:
        """The answers to sets among them, cumulative ones as one message."""
        return [each for each in self.heard() if isinstance(each, Accepted | Rejected | Fault | Hold)]


def connect_notifier(
    world: World,
    role: str = "scheduler",
    name: str = "n1",
    epoch: str = "e1",
    *,
    roles: frozenset[str] = frozenset(NOTIFIERS),
    hello: str | None = None,
    capacity: int = 1 << 40,
) -> RawNotifier:
    """A notifier that has said hello, and read the window."""
    port = notifier_port(world.uns.notifiers, roles, ConnectionLimits(20))
    protocol: Any = port.buildProtocol(None)
    transport = MemoryTransport(capacity)
    transport.protocol = protocol
    notifier = RawNotifier(world, transport, protocol)
    world.cps.append(notifier)
    protocol.makeConnection(transport)
    notifier.send(Hello(role=role, name=name, epoch=epoch).open_tag() if hello is None else hello)
    world.pump()
    return notifier


def a_set(number: int, *names: str, pid: int = 7, source: str = "polled", order: int = 0, more: str = "") -> str:
    """A set, as text; names are relative to the site of the world's providers."""
    urls = [write_url({"c": f"http://site.example/{name}", **({"op": more} if more else {})}) for name in names]
    return SetBegin(number, pid, source, order).to_xml() + "".join(urls) + SetEnd(len(urls)).to_xml()
