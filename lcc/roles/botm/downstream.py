"""The connections down to whoever works for a BOT-M: robots, or the BOT-Ms behind a central one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.roles.peer import Peer, PeerFactory
from lcc.transport.stream import XmlStream

_log = Logger()


class UpperEnd(Protocol):
    """What a :class:`Downstream` needs of the engine that it belongs to."""

    def downstream_messages(self, peer: Any, messages: Any) -> None:
        """The lower end says this.

        :param messages: :class:`lcc.protocols.flat.Flat`, or what the :class:`Downstream` makes of them.
        :raises StreamError: the connection is dropped.
        """

    def downstream_lost(self, peer: Any) -> None:
        """The connection is gone."""


class Downstream(Peer):
    """One connection from a lower end."""

    def __init__(
        self, engine: UpperEnd, clock: IReactorTime, hello: Hello, expected: str, vocabulary: Vocabulary
    ) -> None:
        super().__init__(clock, hello, frozenset([expected]), vocabulary)
        self.engine = engine

    def messages_received(self, messages: list[Flat]) -> Deferred[None] | None:
        self.engine.downstream_messages(self, messages)
        return None

    def peer_lost(self, reason: Failure) -> None:
        self.engine.downstream_lost(self)


class DownstreamFactory(PeerFactory):
    """Makes a peer for each connection, up to a maximum.

    :param who: is at the lower end, in the plural, for the log.
    """

    def __init__(self, make: Callable[[], Peer | None], peers_max: int, who: str) -> None:
        super().__init__(make)
        self._peers_max = peers_max
        self._who = who
        self._peers: set[Peer] = set()

    def buildProtocol(self, address: object) -> XmlStream | None:
        if len(self._peers) >= self._peers_max:
            _log.warn("More than {limit} {who}: refusing one more", limit=self._peers_max, who=self._who)
            return None
        peer = self._make()
        if peer is None:
            return None
        self._peers.add(peer)
        return peer.build_stream()

    @property
    def peers(self) -> list[Peer]:
        """All connections."""
        return list(self._peers)

    def discard(self, peer: Peer) -> None:
        """This one is gone."""
        self._peers.discard(peer)

    def drop_all(self) -> None:
        """End all connections."""
        for peer in self.peers:
            peer.stream.abort()
