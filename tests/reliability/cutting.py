"""An endpoint whose connections break after so many bytes."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from zope.interface import implementer


class _Cut(ProtocolWrapper):
    factory: _CutFactory

    def write(self, data: bytes) -> None:
        self.factory.owner.written(self, data)

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))

    def pass_on(self, data: bytes) -> None:
        super().write(data)


class _CutFactory(WrappingFactory):
    protocol = _Cut
    noisy = False

    def __init__(self, wrapped: IProtocolFactory, owner: CutEndpoint) -> None:
        super().__init__(wrapped)
        self.owner = owner


@implementer(IStreamClientEndpoint)
class CutEndpoint:
    """Passes on no more than ``at`` bytes, then ends the connection.

    :ivar at: None: it passes on everything.
    :ivar abort: end it by a reset, which may take back what was passed on; else in order.
    :ivar done: it was cut, and more than white space is missing: behind its last tag a set is complete.
    """

    def __init__(self, endpoint: IStreamClientEndpoint, at: int | None, abort: bool = False) -> None:
        self._endpoint = endpoint
        self.at = at
        self.abort = abort
        self.done = False
        self._over = False

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """As IStreamClientEndpoint says."""
        return self._endpoint.connect(factory if self.at is None else _CutFactory(factory, self))

    def written(self, protocol: _Cut, data: bytes) -> None:
        """The client writes."""
        assert self.at is not None
        if self._over:
            self.done = self.done or not data.isspace()
            return
        if len(data) <= self.at:
            self.at -= len(data)
            protocol.pass_on(data)
            return
        self._over = True
        self.done = not data[self.at :].isspace()
        protocol.pass_on(data[: self.at])
        if self.abort:
            protocol.abortConnection()
        else:
            protocol.loseConnection()
