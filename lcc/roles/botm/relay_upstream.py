"""The connection from a central BOT-M up to the queue manager, or to the BOT-M above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.work import DOWN, addressee, session_of
from lcc.protocols.xmlfeed import Start
from lcc.roles.peer import Peer
from lcc.transport.stream import XmlStream


class Trunk(Protocol):
    """What the connection needs of the engine."""

    def trunk_ready(self, link: TrunkLink) -> None:
        """The upper end is there."""

    def trunk_message(self, link: TrunkLink, machine: int, session: str, message: Flat) -> None:
        """It says this to a machine, on this of its connections (empty: it does not say on which)."""

    def trunk_resumed(self, link: TrunkLink) -> None:
        """It reads again."""

    def trunk_lost(self, link: TrunkLink) -> None:
        """It is gone."""


class TrunkLink(Peer):
    """One connection to the upper end.

    :param upper: the roles that may be there.
    :param good_hello: is called when the handshake succeeded (see :class:`lcc.transport.links.RetryPolicy`).
    """

    def __init__(
        self,
        relay: Trunk,
        clock: IReactorTime,
        hello: Hello,
        upper: frozenset[str],
        good_hello: Callable[[], None],
    ) -> None:
        super().__init__(clock, hello, upper, Vocabulary())
        self._relay = relay
        self._good_hello = good_hello

    def peer_ready(self, hello: Hello) -> None:
        self._good_hello()
        self._relay.trunk_ready(self)

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        for name, attributes, _depth in elements:
            message = DOWN.read(name, attributes)
            machine = addressee(name, attributes)
            if not machine:
                raise StreamError("syntax", f"<{name}> to no machine, at a BOT-M that has none of its own")
            self._relay.trunk_message(self, machine, session_of(attributes), message)
        return None

    def peer_resumed(self) -> None:
        self._relay.trunk_resumed(self)

    def peer_lost(self, reason: Failure) -> None:
        self._relay.trunk_lost(self)


class TrunkFactory(Factory):
    """Makes a :class:`TrunkLink` for each connection."""

    noisy = False

    def __init__(
        self,
        relay: Trunk,
        clock: IReactorTime,
        hello: Hello,
        upper: frozenset[str],
        good_hello: Callable[[], None],
    ) -> None:
        self._make = lambda: TrunkLink(relay, clock, hello, upper, good_hello)

    def buildProtocol(self, address: object) -> XmlStream:
        return self._make().build_stream()
