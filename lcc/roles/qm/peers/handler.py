"""Where the connections of peers and what handles their messages meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from twisted.internet.defer import Deferred

from lcc.errors import StreamError
from lcc.protocols.flat import Flat
from lcc.protocols.xmlfeed import Start


class Handler(ABC):
    """Handles the messages of a connection after its hello."""

    @abstractmethod
    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        """The peer says this.

        :returns: pauses the connection until it fires; None: it goes on.
        :raises StreamError: it makes no sense.
        """

    def stream_failed(self, error: StreamError) -> None:  # noqa: B027  # most have nothing to do
        """What the peer says cannot be understood; the connection is about to be dropped."""

    @abstractmethod
    def lost(self) -> None:
        """The connection is lost."""


class Connection(Protocol):
    """A connection of a UNS or a BOT-M, be it direct or relayed by a central BOT-M.

    :ivar handler: gets what the peer says; None: it has said no hello yet, or is lost.
    """

    handler: Handler | None

    def describe(self) -> str:
        """Who this is, for the log."""

    def say(self, message: Flat) -> None:
        """Send a message."""

    def peer_clock_ms(self) -> int | None:
        """What the peer's clock shows now, or a little less (:class:`lcc.roles.peer.Peer`)."""

    def stream_failed(self, error: StreamError) -> None:
        """What the peer says makes no sense, or it is refused: log that, and drop the connection."""

    def leave(self) -> None:
        """Close the connection once everything is sent; nothing more is heard of the peer."""

    def drop(self) -> None:
        """Close the connection at once; nothing more is heard of the peer."""
