"""Ports and links of one process: by a pipe where the port is in the process, else by the socket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest_twisted
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet import reactor as _reactor
from twisted.internet.address import UNIXAddress
from twisted.internet.error import CannotListenError, ConnectingCancelledError, ConnectionRefusedError, NoProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.internet.unix import Client
from twisted.python.failure import Failure

from lcc.protocols.xmlfeed import Start, XmlFeed
from lcc.transport.links import PortService, RetryPolicy, link_service
from lcc.transport.pipe_endpoints import PipeClientEndpoint, PipePort, PipeServerEndpoint
from lcc.transport.pipes import PipeEnd, Pipes
from lcc.transport.ports.limited import LimitedFactory
from lcc.transport.stream import StreamLimits, XmlStream
from tests.support.waiting import until
from tests.transport.test_stream import Recorder

reactor: Any = _reactor
PATH = "/somewhere/qm.sock"


class Kept(Protocol):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got = b""
        self.lost: Failure | None = None

    def dataReceived(self, data: bytes) -> None:
        self.got += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason


class Building(Factory):
    """Makes protocols its own way."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def buildProtocol(self, addr: object) -> Any:
        return self._make()


class Kit:
    """A port, and what has connected to it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pipes = Pipes(self.clock)
        self.accepted: list[Kept] = []
        self.factory = Factory.forProtocol(self._accept)
        self.port = PipePort(self.pipes, PATH, self.factory)

    def _accept(self) -> Kept:
        self.accepted.append(Kept())
        return self.accepted[-1]

    def connect(self, factory: Any) -> list[Any]:
        """What becomes of it."""
        outcome: list[Any] = []
        PipeClientEndpoint(self.pipes, PATH).connect(factory).addBoth(outcome.append)
        assert not outcome, "not in the call"
        self.clock.advance(0)
        return outcome


def test_a_connection_is_made_and_outlives_its_port() -> None:
    kit = Kit()
    kit.port.startListening()
    factory = Factory.forProtocol(Kept)
    (near,) = kit.connect(factory)
    (far,) = kit.accepted
    assert near.transport.getPeer() == far.transport.getHost() == kit.port.getHost() == UNIXAddress(PATH)
    kit.port.stopListening()
    assert kit.factory.numPorts == 0 and factory.numPorts == 1
    near.transport.write(b"question")
    far.transport.write(b"answer")
    kit.clock.advance(0)
    assert (near.got, far.got) == (b"answer", b"question")
    near.transport.loseConnection()
    kit.clock.advance(0)
    assert near.lost and far.lost and factory.numPorts == 0
    assert not kit.clock.getDelayedCalls()


def test_where_nobody_listens_a_connection_is_refused() -> None:
    kit = Kit()
    for _ in range(2):
        (refused,) = kit.connect(Factory.forProtocol(Kept))
        assert refused.check(ConnectionRefusedError)
        kit.port.startListening()
        kit.port.stopListening()


def test_a_path_is_listened_on_once(logged_errors: Any) -> None:
    kit = Kit()
    kit.port.startListening()
    failed: list[Failure] = []
    PipeServerEndpoint(kit.pipes, PATH).listen(Factory()).addErrback(failed.append)
    assert failed[0].check(CannotListenError)
    kit.port.stopListening()
    PipeServerEndpoint(kit.pipes, PATH).listen(kit.factory)
    assert kit.connect(Factory.forProtocol(Kept))[0].transport.connected


def test_either_end_may_not_want_the_connection(logged_errors: Any) -> None:
    kit = Kit()
    kit.port.startListening()
    (refused,) = kit.connect(Building(lambda: None))
    assert refused.check(NoProtocol)
    assert not kit.accepted
    kit.port.stopListening()
    for unwilling in (lambda: None, lambda: 1 / 0):
        PipePort(kit.pipes, PATH, Building(unwilling)).startListening()
        (near,) = kit.connect(Factory.forProtocol(Kept))
        kit.clock.advance(0)
        assert near.lost
        kit.pipes.ports.clear()
    assert len(logged_errors.flush("Cannot make a protocol")) == 1


def test_connecting_is_cancelled() -> None:
    kit = Kit()
    kit.port.startListening()
    outcome: list[Any] = []
    connecting = PipeClientEndpoint(kit.pipes, PATH).connect(Factory.forProtocol(Kept))
    connecting.addErrback(outcome.append)
    connecting.cancel()
    kit.clock.advance(0)
    assert outcome[0].check(ConnectingCancelledError) and not kit.accepted


class Greeter(Protocol):
    """Says by which way it was reached."""

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(b"pipe" if isinstance(self.transport, PipeEnd) else b"socket")


@pytest_twisted.ensureDeferred
async def test_a_link_takes_the_pipe_of_its_own_process_and_comes_back(tmp_path: Path) -> None:
    endpoint, pipes = f"unix:{tmp_path / 's'}", Pipes(reactor)
    port = PortService(reactor, endpoint, Factory.forProtocol(Greeter), "", pipes)
    made: list[Kept] = []

    def make() -> Kept:
        made.append(Kept())
        return made[-1]

    link = link_service(reactor, endpoint, Factory.forProtocol(make), RetryPolicy(lambda: 0.1), pipes)
    port.startService()
    link.startService()
    await until(lambda: made and made[-1].got == b"pipe")
    # Others come by the socket: another process, or one that has other pipes.
    other = link_service(reactor, endpoint, Factory.forProtocol(make), RetryPolicy(lambda: 0.1), Pipes(reactor))
    other.startService()
    await until(lambda: len(made) == 2 and made[-1].got == b"socket")
    assert isinstance(made[0].transport, PipeEnd) and isinstance(made[1].transport, Client)
    # Closed, it refuses both; reopened, both are back.
    await port.close_port()
    made[0].transport.abortConnection()
    made[1].transport.abortConnection()
    await until(lambda: all(each.lost for each in made[:2]))
    assert len(made) == 2
    port.open_port()
    await until(lambda: sorted(each.got for each in made[2:]) == [b"pipe", b"socket"])
    await other.stopService()
    await link.stopService()
    await port.stopService()
    assert not pipes.ports
    await until(lambda: all(each.lost for each in made))


@settings(deadline=None)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 30_000), st.sampled_from(["", "flush", "turn", "hold", "read"])),
        max_size=40,
    ),
)
def test_streams_get_everything_in_order(wrapped: bool, steps: list[tuple[int, int, str]]) -> None:
    clock = Clock()
    pipes = Pipes(clock)
    streams: list[XmlStream] = []

    def make() -> XmlStream:
        streams.append(XmlStream(Recorder(), clock, XmlFeed(), StreamLimits(stall_timeout_seconds=0)))
        return streams[-1]

    factory: Any = Factory.forProtocol(make)
    PipePort(pipes, PATH, LimitedFactory(factory, 5, "tests") if wrapped else factory).startListening()
    PipeClientEndpoint(pipes, PATH).connect(factory)
    clock.advance(0)
    sent: list[list[str]] = [[], []]
    for stream in streams:
        stream.send("<r>")
        assert isinstance(stream._direct, PipeEnd)
    for end, size, then in steps:
        if streams[end].writable:
            text = f"<n{len(sent[end])}/>"
            streams[end].send(text + "<x/>" * (size // 4))
            sent[end].append(text[1:-2])
        if then == "flush":
            streams[end].flush()
        elif then == "turn":
            clock.advance(0)
        elif then == "hold":
            streams[end].pause_reading()
        elif then == "read":
            streams[end].resume_reading()
    for stream in streams:
        stream.resume_reading()
    clock.advance(0)
    for end in (0, 1):
        heard: Any = streams[1 - end].conversation
        names = [each.name for each in heard.events if isinstance(each, Start)]
        assert [name for name in names if name != "x"] == ["r", *sent[end]]
        assert streams[end].writable
        streams[end].finish()
    clock.advance(0)
    assert all(len(stream.conversation.closed) == 1 for stream in streams)  # type: ignore[attr-defined]
    assert not clock.getDelayedCalls()


def test_waiting_writers_go_on_when_there_is_room() -> None:
    kit = Kit()
    kit.port.startListening()
    (near,) = kit.connect(Factory.forProtocol(Kept))
    (far,) = kit.accepted
    far.transport.pauseProducing()
    near.transport.write(b"x" * 1_000_000)
    near.transport.loseConnection()
    kit.clock.advance(0)
    assert near.lost is None, "not before all is with the other end"
    far.transport.resumeProducing()
    kit.clock.advance(0)
    assert len(far.got) == 1_000_000 and near.lost and far.lost
