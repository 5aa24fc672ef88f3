"""A port that serves no more than so many connections at once, and no more than so many of one address."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import (
    IAddress,
    IHalfCloseableProtocol,
    IProtocol,
    IProtocolFactory,
    IProtocolNegotiationFactory,
)
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from zope.interface import alsoProvides, implementer

from lcc.transport.ports.connection_limits import ConnectionLimits, party_of

_log = Logger()


class Limited(ProtocolWrapper):
    """A connection; what is written to it goes straight to its transport.

    :ivar party: who is at the other end.
    """

    party = ""

    def abortConnection(self) -> None:
        self.disconnecting = 1  # as loseConnection does: LineReceiver asks for it
        transport: Any = self.transport
        transport.abortConnection()


@implementer(IHalfCloseableProtocol)
class _HalfCloseable(Limited):
    """Forwards the peer's half-close; without it a half-close would end the connection."""

    wrappedProtocol: Any

    def readConnectionLost(self) -> None:
        self.wrappedProtocol.readConnectionLost()

    def writeConnectionLost(self) -> None:
        self.wrappedProtocol.writeConnectionLost()


def _wrap(factory: Any, protocol: IProtocol | None) -> Limited | None:
    if protocol is None:  # refused
        return None
    wrapper = _HalfCloseable if IHalfCloseableProtocol.providedBy(protocol) else Limited
    return wrapper(factory, protocol)


class LimitedFactory(WrappingFactory):
    """Wraps a factory; connections beyond the limits are closed at once.

    :param connections_max: at once.
    :param what: who connects, for the log.
    :param per_address: of those, of one address (:func:`~lcc.transport.ports.connection_limits.party_of`); 0: no such
    limit.
    """

    noisy = False
    protocol = staticmethod(_wrap)  # type: ignore[assignment]  # None refuses

    def __init__(self, factory: IProtocolFactory, connections_max: int, what: str, per_address: int = 0) -> None:
        super().__init__(factory)
        if IProtocolNegotiationFactory.providedBy(factory):
            alsoProvides(self, IProtocolNegotiationFactory)
        self._limits = ConnectionLimits(connections_max, per_address)
        self._what = what
        self._refused = 0

    def buildProtocol(self, addr: IAddress | None) -> ProtocolWrapper | None:  # type: ignore[override]  # None refuses
        party = party_of(addr)
        why = self._limits.refusal(party)
        if why:
            self._refused += 1
            if self._refused & (self._refused - 1) == 0:  # a flood must not fill the log
                _log.warn(
                    "Too many {what}: {why}; {count} refused so far",
                    what=self._what,
                    why=why,
                    count=self._refused,
                )
            return None
        wrapper: Any = super().buildProtocol(addr)  # a Limited, or None
        if wrapper is not None:
            wrapper.party = party
        return wrapper  # type: ignore[no-any-return]

    def registerProtocol(self, p: Any) -> None:
        super().registerProtocol(p)
        self._limits.enter(p.party)

    def unregisterProtocol(self, p: Any) -> None:
        super().unregisterProtocol(p)
        self._limits.leave(p.party)

    @property
    def connections(self) -> int:
        """That there are now."""
        return self._limits.total

    @property
    def refused(self) -> int:
        """Connections that were refused since the start."""
        return self._refused

    def drop_all(self) -> None:
        """End all connections."""
        for protocol in list(self.protocols):
            protocol.abortConnection()

    def acceptableProtocols(self) -> list[bytes]:
        """As the wrapped factory, for TLS: without it Twisted refuses every client that negotiates (ALPN)."""
        protocols: list[bytes] = self.wrappedFactory.acceptableProtocols()
        return protocols
