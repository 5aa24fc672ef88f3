"""The connection of a role up to the one that it works for: of a BOT to its BOT-M, of a BOT-M or UNS to the QM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.roles.peer import Peer


class LowerEnd(Protocol):
    """What an :class:`Upstream` needs of the engine that it belongs to."""

    def upstream_ready(self, link: Upstream) -> None:
        """The upper end has said its hello."""

    def upstream_messages(self, link: Upstream, messages: Any) -> None:
        """The upper end says this.

        :param messages: :class:`lcc.protocols.flat.Flat`, or what the :class:`Upstream` makes of them.
        :raises StreamError: the connection is dropped.
        """

    def upstream_resumed(self, link: Upstream) -> None:
        """The upper end reads again after its buffer was full."""

    def upstream_lost(self, link: Upstream) -> None:
        """The connection is gone; also one that was never ready."""


class Upstream(Peer):
    """One connection to the upper end.

    :param expected: the roles that may be there.
    :param good_hello: is called when the handshake succeeded (see :class:`lcc.transport.links.RetryPolicy`).
    """

    def __init__(
        self,
        engine: LowerEnd,
        clock: IReactorTime,
        hello: Hello,
        expected: frozenset[str],
        vocabulary: Vocabulary,
        good_hello: Callable[[], None],
    ) -> None:
        super().__init__(clock, hello, expected, vocabulary)
        self.engine = engine
        self._good_hello = good_hello

    def peer_ready(self, hello: Hello) -> None:
        self._good_hello()
        self.engine.upstream_ready(self)

    def messages_received(self, messages: list[Flat]) -> Deferred[None] | None:
        self.engine.upstream_messages(self, messages)
        return None

    def stream_resumed(self) -> None:
        self.engine.upstream_resumed(self)

    def peer_lost(self, reason: Failure) -> None:
        self.engine.upstream_lost(self)
