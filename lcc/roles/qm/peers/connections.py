"""Connections to the queue manager: UNSes and BOT-Ms, told apart by their hello."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import NOTICE_SPELLINGS
from lcc.protocols.work import UP
from lcc.protocols.xmlfeed import Start
from lcc.roles.peer import Peer
from lcc.roles.qm.intake.absorber import Absorber
from lcc.transport.stream import XmlStream

UNS_AND_BOTM = frozenset(["uns", "botm"])
BOTM_ONLY = frozenset(["botm"])


class Guest(Protocol):
    """What a connection is good for, once it has said who is there."""

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        """It says this; a Deferred pauses it."""

    def stream_failed(self, error: StreamError) -> None:
        """What it says cannot be understood; the connection is closed."""

    def lost(self) -> None:
        """It is gone."""


class Caller(Protocol):
    """Somebody who has said hello: a connection, or a machine behind the one of a central BOT-M."""

    def describe(self) -> str:
        """Who this is, for the log."""

    def say(self, message: Flat) -> None:
        """Send it this."""

    def stream_failed(self, error: StreamError) -> None:
        """What it says makes no sense, or cannot be let in: log that, and close its connection."""

    def leave(self) -> None:
        """Close its connection once everything that was said to it is on its way; nothing more is heard of it."""

    def drop(self) -> None:
        """Close its connection at once; nothing is heard of it any longer."""


class Host(Protocol):
    """What a connection needs of the engine."""

    def welcome(self, visitor: Visitor, hello: Hello) -> Guest:
        """Somebody has said hello.

        :raises StreamError: and is refused.
        """

    def gone(self, visitor: Visitor) -> None:
        """The connection is closed."""


class Visitor(Peer):
    """One connection."""

    def __init__(self, host: Host, clock: IReactorTime, hello: Hello, expected: frozenset[str]) -> None:
        super().__init__(clock, hello, expected, Vocabulary())
        self._host = host
        self._guest: Guest | None = None
        self.absorber: Absorber | None = None

    def peer_ready(self, hello: Hello) -> None:
        self._guest = self._host.welcome(self, hello)
        if hello.role == "uns":
            self.feed.spellings = NOTICE_SPELLINGS
        elif hello.machine:
            self.feed.spellings = UP.spellings

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        assert self._guest is not None
        return self._guest.elements_received(elements)

    def stream_failed(self, error: StreamError) -> None:
        if self._guest is not None:
            self._guest.stream_failed(error)
        super().stream_failed(error)

    def peer_lost(self, reason: Failure) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.lost()
        self._host.gone(self)

    def leave(self) -> None:
        """Close the connection once everything that was said to it is on its way; nothing more is heard of it."""
        self.stream.finish()

    def drop(self) -> None:
        """Close the connection at once; nothing is heard of it any longer."""
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.lost()
        self.stream.abort()


class VisitorFactory(Factory):
    """Makes a :class:`Visitor` for each connection.

    :param expected: the roles that may connect here.
    """

    noisy = False

    def __init__(self, host: Host, clock: IReactorTime, hello: Hello, expected: frozenset[str]) -> None:
        self._host = host
        self._clock = clock
        self._hello = hello
        self._expected = expected

    def buildProtocol(self, addr: IAddress | None) -> XmlStream:
        return Visitor(self._host, self._clock, self._hello, self._expected).build_stream()
