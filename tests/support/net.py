"""Connections in memory under one clock, which can be cut after any byte.

A :class:`Net` stands in for the reactor wherever the production code connects to, or listens at, a UNIX socket
(endpoint strings, :func:`lcc.transport.links.link_service`, :class:`lcc.transport.http.client.HttpClient`).  It knows
how much each end of each connection was given, so that a recorded conversation can be cut after each of its bytes.
"""

from __future__ import annotations

import os
from bisect import insort
from collections import Counter
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Literal

import attrs
from twisted.internet.address import UNIXAddress
from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import (
    IConnector,
    IHalfCloseableProtocol,
    IListeningPort,
    IPushProducer,
    IReactorUNIX,
    ITransport,
)
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

BUFFER_BYTES = 1 << 16

How = Literal["fin", "rst", "silence"]
"""``fin``: who was to read the next byte reads the end; what it still says arrives.  ``rst``: both ends lose the
connection, with all that was on its way.  ``silence``: nothing arrives any more, at neither end, not even the end."""
HOWS: tuple[How, ...] = ("fin", "rst", "silence")

SILENT_EVERY = 7
"""Silence is not tried at each byte but at each seventh: it is the timeouts that end it, which takes long."""


@attrs.frozen
class Cut:
    """Where a connection is cut.

    :ivar wire: the name of the socket that it was made to.
    :ivar index: the how manieth connection to it, from 0.
    :ivar up: what the connecting end says is cut; False: what the listening end says.
    :ivar after_bytes: so many of them arrive.
    """

    wire: str
    up: bool
    after_bytes: int
    how: How
    index: int = 0


class Connection:
    """:ivar given: bytes that have arrived at the listening end (``True``) and at the connecting end (``False``)."""

    def __init__(self, net: Net, wire: str, index: int) -> None:
        self.net = net
        self.wire = wire
        self.index = index
        self.given = {True: 0, False: 0}
        self.silent = False
        self.ends = {up: End(self, up) for up in (True, False)}

    @property
    def open(self) -> bool:
        """An end has not noticed yet that it is over."""
        return any(not end.closed for end in self.ends.values())

    def cut(self, how: How, up: bool) -> None:
        """Cut it now; ``up`` as in :class:`Cut`."""
        speaker, listener = self.ends[up], self.ends[not up]
        if how == "silence":
            self.silent = True
            for end in (speaker, listener):
                end.out.clear()
        elif how == "rst":
            for end in (listener, speaker):
                end.swallowing = True
                end.out.clear()
                self.net.soon(end.lose, ConnectionLost())
        else:
            speaker.swallowing = True
            speaker.out.clear()
            self.net.soon(listener.read_end)


@implementer(ITransport, IPushProducer)
class End:
    """The transport of one end.

    :ivar up: it is the connecting one.
    """

    disconnecting = False

    def __init__(self, connection: Connection, up: bool) -> None:
        self.connection = connection
        self.up = up
        self.protocol: Any = None
        self.out = bytearray()
        self.closed = False
        self.half_closed = False
        self.told_end = False
        self.swallowing = False
        self.reading = True
        self.producer: Any = None
        self.producer_paused = False

    @property
    def other(self) -> End:
        return self.connection.ends[not self.up]

    # ITransport.

    def write(self, data: bytes) -> None:
        if self.closed or self.disconnecting or self.half_closed:
            return
        if not (self.swallowing or self.connection.silent):
            self.out += data
            self._moved()
            if len(self.out) > BUFFER_BYTES and self.producer is not None and not self.producer_paused:
                self.producer_paused = True
                self.producer.pauseProducing()

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        self.disconnecting = True
        self._moved()

    def loseWriteConnection(self) -> None:
        self.half_closed = True
        self._moved()

    def abortConnection(self) -> None:
        if not self.closed:
            self.disconnecting = True
            self.out.clear()
            self.connection.net.soon(self.lose, ConnectionAborted())
            if not self.connection.silent:
                self.connection.net.soon(self.other.lose, ConnectionLost())

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert streaming, "the LCC's own producers push"
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def getPeer(self) -> UNIXAddress:
        return UNIXAddress(self.connection.wire)

    getHost = getPeer

    # IPushProducer.

    def pauseProducing(self) -> None:
        self.reading = False

    def resumeProducing(self) -> None:
        self.reading = True
        self._moved()

    def stopProducing(self) -> None:
        self.loseConnection()

    # The net's side.

    def _moved(self) -> None:
        self.connection.net.soon(self.move)
        self.connection.net.soon(self.other.move)

    def move(self) -> None:
        """Give what was written to the other end, up to where the connection is to be cut."""
        other = self.other
        if self.out and other.reading and not other.closed:
            self._give(other)
        if self.out or self.connection.silent:
            if self.disconnecting and self.connection.silent:
                self.lose(ConnectionDone())
            return
        if self.producer is not None and self.producer_paused and not self.closed:
            self.producer_paused = False
            self.producer.resumeProducing()
            return
        if self.disconnecting:
            self.lose(ConnectionDone())
        if (self.half_closed or self.disconnecting) and other.reading and not self.swallowing:
            other.read_end()

    def _give(self, other: End) -> None:
        connection = self.connection
        cut = connection.net.cut_of(connection)
        data = bytes(self.out)
        if cut is not None and cut.up is self.up:
            data = data[: cut.after_bytes - connection.given[self.up]]
        del self.out[: len(data)]
        connection.given[self.up] += len(data)
        if data:
            other.protocol.dataReceived(data)
        connection.net.check_cut(connection)
        self._moved()

    def read_end(self) -> None:
        """The other end says nothing more."""
        if self.closed or self.told_end or self.connection.silent:
            return
        self.told_end = True
        half_closeable = IHalfCloseableProtocol(self.protocol, None)
        if half_closeable is None:
            self.lose(ConnectionDone())
        else:
            half_closeable.readConnectionLost()
            if self.half_closed:
                self.lose(ConnectionDone())

    def lose(self, reason: Exception) -> None:
        """It is over for this end."""
        if self.closed:
            return
        self.closed = True
        self.disconnecting = True
        if self.producer is not None:
            self.producer.stopProducing()
        self.protocol.connectionLost(Failure(reason))
        other = self.other
        if not self.connection.silent:
            # What was given to the system before still arrives; then the end.
            self.connection.net.soon(self.move)
            self.connection.net.soon(other.move)
            if self.swallowing:
                self.connection.net.soon(other.read_end)


@implementer(IListeningPort)
class Port:
    """A port that listens."""

    def __init__(self, net: Net, address: str, factory: Any) -> None:
        self.net = net
        self.address = address
        self.factory = factory

    def startListening(self) -> None:
        assert self.address not in self.net.ports, f"{self.address} is taken"
        self.net.ports[self.address] = self
        self.factory.doStart()

    def stopListening(self) -> Deferred[None]:
        if self.net.ports.pop(self.address, None) is not None:
            self.factory.doStop()
        return succeed(None)

    def getHost(self) -> UNIXAddress:
        return UNIXAddress(self.address)


@implementer(IConnector)
class Connector:
    """An attempt to connect."""

    def __init__(self, net: Net, address: str, factory: Any) -> None:
        self.net = net
        self.address = address
        self.factory = factory
        self._over = False

    def connect(self) -> None:
        self.factory.doStart()
        self.factory.startedConnecting(self)
        self.net.soon(self._connected)

    def stopConnecting(self) -> None:
        self._over = True

    def disconnect(self) -> None:
        self.stopConnecting()

    def getDestination(self) -> UNIXAddress:
        return UNIXAddress(self.address)

    def _connected(self) -> None:
        if self._over:
            return
        self._over = True
        port = self.net.ports.get(os.path.normpath(self.address))
        if port is None:
            self.factory.clientConnectionFailed(self, Failure(ConnectionRefusedError()))
            return
        address = UNIXAddress(self.address)
        connecting = self.factory.buildProtocol(address)
        if connecting is None:
            return
        connection = self.net.new_connection(PurePath(self.address).name)
        connection.ends[True].protocol = connecting
        listening = port.factory.buildProtocol(address)
        if listening is None:
            connection.ends[False].closed = True
            connection.ends[False].disconnecting = True
        else:
            connection.ends[False].protocol = listening
            listening.makeConnection(connection.ends[False])
        connecting.makeConnection(connection.ends[True])
        if listening is None:
            self.net.soon(connection.ends[True].lose, ConnectionDone())
        self.net.check_cut(connection)


@implementer(IReactorUNIX)
class Net(Clock):
    """The clock, and all connections.

    :ivar to_cut: what is to be cut, once; None: nothing.
    :ivar was_cut: it was.
    """

    def __init__(self, to_cut: Cut | None = None) -> None:
        super().__init__()
        self.to_cut = to_cut
        self.was_cut = False
        self.ports: dict[str, Port] = {}
        self.connections: list[Connection] = []
        self.traffic: dict[tuple[str, int], Connection] = {}
        self._counts: Counter[str] = Counter()
        self._soon: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    # IReactorUNIX.

    def listenUNIX(self, address: str, factory: Any, *_: Any, **__: Any) -> Port:
        port = Port(self, os.path.normpath(address), factory)
        port.startListening()
        return port

    def connectUNIX(self, address: str, factory: Any, *_: Any, **__: Any) -> Connector:
        connector = Connector(self, address, factory)
        connector.connect()
        return connector

    def stop(self) -> None:
        raise AssertionError("a role has ended the process")

    # As a Clock, which sorts all calls at each new one.

    def callLater(self, delay: float, callable: Callable[..., object], *args: Any, **kw: Any) -> DelayedCall:
        call = DelayedCall(
            self.seconds() + delay, callable, args, kw, self.calls.remove, lambda _: None, self.seconds
        )
        insort(self.calls, call, key=DelayedCall.getTime)
        return call

    # For threads: there are none.

    def getThreadPool(self) -> Net:
        return self

    def callInThreadWithCallback(
        self, on_result: Callable[[bool, Any], None], function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        try:
            result = function(*args, **kwargs)
        except Exception:
            on_result(False, Failure())
        else:
            on_result(True, result)

    def callFromThread(self, function: Callable[..., Any], *args: Any) -> None:
        self.soon(function, *args)

    # For connections.

    def soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """In a turn of its own, at this time."""
        if not self._soon:
            self.callLater(0, self._turn)
        self._soon.append((function, arguments))

    def _turn(self) -> None:
        calls, self._soon = self._soon, []
        for function, arguments in calls:
            function(*arguments)

    def new_connection(self, wire: str) -> Connection:
        """The next one to this address."""
        connection = Connection(self, wire, self._counts[wire])
        self._counts[wire] += 1
        self.connections = [one for one in self.connections if one.open]
        self.connections.append(connection)
        self.traffic[wire, connection.index] = connection
        return connection

    def next_index(self, wire: str) -> int:
        """Which one that will be."""
        return self._counts[wire]

    def cut_of(self, connection: Connection) -> Cut | None:
        """Where this connection is to be cut."""
        cut = self.to_cut
        if cut is None or self.was_cut or (cut.wire, cut.index) != (connection.wire, connection.index):
            return None
        return cut

    def check_cut(self, connection: Connection) -> None:
        """Cut it, if it is time."""
        cut = self.cut_of(connection)
        if cut is not None and connection.given[cut.up] >= cut.after_bytes:
            self.was_cut = True
            connection.cut(cut.how, cut.up)

    # For tests.

    @property
    def open_connections(self) -> list[Connection]:
        """Those of which an end has not noticed that they are over."""
        return [connection for connection in self.connections if connection.open]

    def settle(self) -> None:
        """Everything that happens at this time."""
        self.advance(0)

    def skip(self, seconds: float) -> None:
        """Let this much time pass, from one event to the next."""
        end = self.seconds() + seconds
        while (calls := self.getDelayedCalls()) and (due := min(call.getTime() for call in calls)) <= end:
            self.advance(max(0.0, due - self.seconds()))
        self.advance(max(0.0, end - self.seconds()))
