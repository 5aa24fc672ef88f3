"""The connection from a BOT-M up to the queue manager, or to a central BOT-M."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.work import DOWN, session_of
from lcc.protocols.xmlfeed import FastElements, Start
from lcc.roles.peer import Peer
from lcc.transport.stream import XmlStream

_log = Logger()


class Worker(Protocol):
    """What the connection needs of the engine."""

    def hello(self) -> Hello:
        """What this BOT-M says of itself now, on a new connection."""

    def uplink_ready(self, link: UpLink) -> None:
        """The queue manager is there."""

    def uplink_messages(self, link: UpLink, messages: list[Flat]) -> None:
        """It says this."""

    def uplink_lost(self, link: UpLink) -> None:
        """It is gone."""


class UpLink(Peer):
    """One connection to the queue manager, or to the central BOT-M that speaks for it.

    :param upper: the roles that may be at the upper end.
    :param good_hello: is called when the handshake succeeded (see :class:`lcc.transport.links.RetryPolicy`).
    """

    def __init__(
        self, worker: Worker, clock: IReactorTime, upper: frozenset[str], good_hello: Callable[[], None]
    ) -> None:
        super().__init__(clock, worker.hello(), upper, DOWN)
        self._worker = worker
        self._good_hello = good_hello

    def peer_ready(self, hello: Hello) -> None:
        self._good_hello()
        self._worker.uplink_ready(self)

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        """What was meant for an earlier connection is dropped; what names none came by no other."""
        mine = ("", self.hello.session)
        here = [each for each in elements if isinstance(each, FastElements) or session_of(each.attributes) in mine]
        if len(here) < len(elements):
            _log.info("Dropping {count} messages for an earlier connection", count=len(elements) - len(here))
        return super().elements_received(here) if here else None

    def messages_received(self, messages: list[Flat]) -> Deferred[None] | None:
        self._worker.uplink_messages(self, messages)
        return None

    def peer_lost(self, reason: Failure) -> None:
        self._worker.uplink_lost(self)


class UpLinkFactory(Factory):
    """Makes an :class:`UpLink` for each connection."""

    noisy = False

    def __init__(
        self, worker: Worker, clock: IReactorTime, upper: frozenset[str], good_hello: Callable[[], None]
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._upper = upper
        self._good_hello = good_hello

    def buildProtocol(self, address: object) -> XmlStream:
        return UpLink(self._worker, self._clock, self._upper, self._good_hello).build_stream()
