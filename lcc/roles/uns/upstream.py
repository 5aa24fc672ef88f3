"""One connection from a UNS to the queue manager: who says what to whom."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import FROM_QM, Absorbed, NewEpoch, Noted
from lcc.roles.peer import Peer


class Passing(Protocol):
    """What the connection needs of the forwarder."""

    def peer_ready(self, peer: QmPeer) -> None:
        """A queue manager has said hello."""

    def peer_lost(self, peer: QmPeer) -> None:
        """The link is gone."""

    def answered(self, answer: Absorbed) -> None:
        """The answer to the oldest set.  Raises StreamError."""

    def damage_noted(self, pid: int, number: int) -> None:
        """The queue manager asks this provider for a full set."""

    def end_epoch(self, epoch: str) -> None:
        """No number of this epoch may be given out any longer."""

    def resumed(self) -> None:
        """The transport has room again."""


class QmPeer(Peer):
    """One connection to a queue manager."""

    def __init__(self, clock: IReactorTime, hello: Hello, forwarder: Passing) -> None:
        super().__init__(clock, hello, frozenset(["qm"]), FROM_QM)
        self._forwarder = forwarder

    def peer_ready(self, hello: Hello) -> None:
        self._forwarder.peer_ready(self)

    def messages_received(self, messages: list[Flat]) -> None:
        for message in messages:
            if isinstance(message, Absorbed):
                self._forwarder.answered(message)
            elif isinstance(message, Noted):
                self._forwarder.damage_noted(message.pid, message.number)
            elif isinstance(message, NewEpoch):
                self._forwarder.end_epoch(message.epoch)

    def peer_resumed(self) -> None:
        self._forwarder.resumed()

    def peer_lost(self, reason: Failure) -> None:
        self._forwarder.peer_lost(self)
