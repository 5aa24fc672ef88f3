"""A port that serves no more than so many connections at once."""

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

_log = Logger()


@implementer(IHalfCloseableProtocol)
class _HalfCloseable(ProtocolWrapper):
    """Passes on that the peer has said all it has to say; else it would be taken for the connection's end."""

    wrappedProtocol: Any

    def readConnectionLost(self) -> None:
        self.wrappedProtocol.readConnectionLost()

    def writeConnectionLost(self) -> None:
        self.wrappedProtocol.writeConnectionLost()


def _wrap(factory: Any, protocol: IProtocol) -> ProtocolWrapper:
    wrapper = _HalfCloseable if IHalfCloseableProtocol.providedBy(protocol) else ProtocolWrapper
    return wrapper(factory, protocol)


class LimitedFactory(WrappingFactory):
    """Wraps a factory; connections beyond the limit are closed at once.

    :param what: who connects, for the log.
    """

    noisy = False
    protocol = staticmethod(_wrap)

    def __init__(self, factory: IProtocolFactory, connections_max: int, what: str) -> None:
        super().__init__(factory)
        if IProtocolNegotiationFactory.providedBy(factory):
            alsoProvides(self, IProtocolNegotiationFactory)
        self._connections_max = connections_max
        self._what = what

    def buildProtocol(self, addr: IAddress | None) -> ProtocolWrapper | None:  # type: ignore[override]  # None refuses
        if len(self.protocols) >= self._connections_max:
            _log.warn("More than {limit} {what}: refusing one more", limit=self._connections_max, what=self._what)
            return None
        return super().buildProtocol(addr)

    def acceptableProtocols(self) -> list[bytes]:
        """As the wrapped factory, for TLS: without it Twisted refuses every client that negotiates (ALPN)."""
        protocols: list[bytes] = self.wrappedFactory.acceptableProtocols()
        return protocols
