"""The connection from a robot to its BOT-M."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.work import Fetch, Ping, Ready
from lcc.roles.peer import Peer
from lcc.transport.stream import XmlStream

FROM_MASTER = Vocabulary(Fetch, Ping, often=[Fetch])


class Fetching(Protocol):
    """What the connection needs of the engine."""

    def hello(self) -> Hello:
        """What this robot says of itself."""

    def link_ready(self, link: BotLink) -> None:
        """The BOT-M is there."""

    def order(self, link: BotLink, fetch: Fetch) -> None:
        """It orders this."""

    def link_lost(self, link: BotLink) -> None:
        """It is gone."""


class BotLink(Peer):
    """One connection to the BOT-M.

    :param good_hello: is called when the handshake succeeded (see :class:`lcc.transport.links.RetryPolicy`).
    """

    def __init__(self, robot: Fetching, clock: IReactorTime, good_hello: Callable[[], None]) -> None:
        super().__init__(clock, robot.hello(), frozenset(["botm"]), FROM_MASTER)
        self._robot = robot
        self._good_hello = good_hello

    def peer_ready(self, hello: Hello) -> None:
        self._good_hello()
        self.say(Ready())
        self._robot.link_ready(self)

    def messages_received(self, messages: list[Flat]) -> Deferred[None] | None:
        for message in messages:
            if type(message) is Fetch:
                self._robot.order(self, message)
        return None

    def peer_lost(self, reason: Failure) -> None:
        self._robot.link_lost(self)


class BotLinkFactory(Factory):
    """Makes a :class:`BotLink` for each connection."""

    noisy = False

    def __init__(self, robot: Fetching, clock: IReactorTime, good_hello: Callable[[], None]) -> None:
        self._robot = robot
        self._clock = clock
        self._good_hello = good_hello

    def buildProtocol(self, address: object) -> XmlStream:
        return BotLink(self._robot, self._clock, self._good_hello).build_stream()
