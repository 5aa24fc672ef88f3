"""Listening for, and connecting to, a port in the same process (:mod:`lcc.transport.pipes`)."""

from __future__ import annotations

from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred, execute, succeed
from twisted.internet.error import CannotListenError, ConnectingCancelledError, ConnectionRefusedError, NoProtocol
from twisted.internet.interfaces import (
    IListeningPort,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)
from twisted.logger import Logger
from zope.interface import implementer

from lcc.transport.pipes import PipeEnd, Pipes

_log = Logger()

_CLIENT = UNIXAddress(None)
"""A UNIX socket that connects has no name."""


@implementer(IListeningPort)
class PipePort:
    """Listens for connections of this process.

    :param path: of the UNIX socket that it stands for.
    """

    def __init__(self, pipes: Pipes, path: str, factory: IProtocolFactory) -> None:
        self._pipes = pipes
        self._path = path
        self._factory = factory

    def startListening(self) -> None:
        """:raises CannotListenError: another port of this process has the path."""
        if self._path in self._pipes.ports:
            raise CannotListenError(None, self._path, OSError("in use by this process"))
        self._pipes.ports[self._path] = self._factory
        self._factory.doStart()

    def stopListening(self) -> Deferred[None]:
        """Connections stay."""
        if self._pipes.ports.get(self._path) is self._factory:
            del self._pipes.ports[self._path]
            self._factory.doStop()
        return succeed(None)

    def getHost(self) -> UNIXAddress:
        return UNIXAddress(self._path)


@implementer(IStreamServerEndpoint)
class PipeServerEndpoint:
    """Listens for connections of this process.

    :param path: of the UNIX socket that it stands for.
    """

    def __init__(self, pipes: Pipes, path: str) -> None:
        self._pipes = pipes
        self._path = path

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        port = PipePort(self._pipes, self._path, protocolFactory)
        return execute(port.startListening).addCallback(lambda _: port)


@implementer(IStreamClientEndpoint)
class PipeClientEndpoint:
    """Connects to a port of this process.

    :param path: of the UNIX socket that it stands for.
    """

    def __init__(self, pipes: Pipes, path: str) -> None:
        self._pipes = pipes
        self._path = path

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """:raises ConnectionRefusedError: (as the Deferred's failure) nobody listens."""
        connecting: Deferred[IProtocol] = Deferred(lambda each: cancelled(each))
        soon = self._pipes.call_soon(self._connect, protocolFactory, connecting)

        def cancelled(each: Deferred[IProtocol]) -> None:
            soon.cancel()
            each.errback(ConnectingCancelledError(UNIXAddress(self._path)))

        return connecting

    def _connect(self, factory: IProtocolFactory, connecting: Deferred[IProtocol]) -> None:
        listening = self._pipes.ports.get(self._path)
        if listening is None:
            connecting.errback(ConnectionRefusedError())
            return
        server = UNIXAddress(self._path)
        factory.doStart()
        try:
            protocol = factory.buildProtocol(server)
            if protocol is None:
                raise NoProtocol
        except Exception:
            factory.doStop()
            connecting.errback()
            return
        near, far = PipeEnd.pair(self._pipes, _CLIENT, server)
        near.when_lost = factory.doStop
        near.begin(protocol)
        connecting.callback(protocol)
        try:
            accepted = listening.buildProtocol(_CLIENT)
        except Exception:
            _log.failure("Cannot make a protocol for a connection")
            accepted = None
        if accepted is None:
            far.refuse()
        else:
            far.begin(accepted)


@implementer(IStreamClientEndpoint)
class NearEndpoint:
    """Connects by a pipe to a port of this process, by the socket to one of another.

    :param path: of the socket.
    :param socket: connects by it.
    """

    def __init__(self, pipes: Pipes, path: str, socket: IStreamClientEndpoint) -> None:
        self._pipes = pipes
        self._path = path
        self._pipe = PipeClientEndpoint(pipes, path)
        self._socket = socket

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        chosen = self._pipe if self._path in self._pipes.ports else self._socket
        connecting: Deferred[IProtocol] = chosen.connect(protocolFactory)
        return connecting
