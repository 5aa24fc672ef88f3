"""A pipe is to its protocols what a UNIX socket is: the same is done to both, and must be seen alike."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from twisted.internet.address import UNIXAddress
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IConsumer, IHalfCloseableProtocol, IPushProducer, ITransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.internet.unix import Server
from twisted.python.failure import Failure
from zope.interface import alsoProvides, implementer
from zope.interface.verify import verifyObject

from lcc.transport.pipes import ROUNDS_MAX, UNREAD_BYTES_MAX, PipeEnd, Pipes
from tests.support.switches import LONG

HUGE = 1_000_000
"""More than a pipe, the kernel and a buffer take together."""
QUIET_TURNS = 3


@implementer(IPushProducer)
class Recorder(Protocol):
    """Writes down what it hears, as a protocol and as a producer of its own transport."""

    def __init__(self, half_closeable: bool, reactions: dict[str, str]) -> None:
        self.got = bytearray()
        self.heard: list[str] = []
        self.reactions = reactions
        if half_closeable:
            alsoProvides(self, IHalfCloseableProtocol)

    def _hears(self, what: str) -> None:
        self.heard.append(what)
        for reaction in self.reactions.pop(what, "").split():
            act(self, reaction, 0)

    def dataReceived(self, data: bytes) -> None:
        self.got += data
        if "data" in self.reactions:
            self._hears("data")

    def readConnectionLost(self) -> None:
        self._hears("end")

    def writeConnectionLost(self) -> None:
        self._hears("write ended")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._hears(f"lost: {reason.type.__name__ if reason.type else None}")

    def pauseProducing(self) -> None:
        self.heard.append("pause")

    def resumeProducing(self) -> None:
        self.heard.append("resume")

    def stopProducing(self) -> None:
        self.heard.append("stop")


class PullProducer:
    """Gives some pieces, one each time that it is asked."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.left = 3

    def resumeProducing(self) -> None:
        self.left -= 1
        self.transport.write(b"p" * 100)
        if not self.left:
            self.transport.unregisterProducer()

    def stopProducing(self) -> None:
        self.left = 0


def act(end: Any, what: str, size: int) -> None:
    """Do something to an end's transport."""
    transport = end.transport
    data = bytes(size % 251 for _ in range(min(size, 1))) * size
    if what == "write":
        transport.write(data)
    elif what == "sequence":
        transport.writeSequence([data, b"", data[:1]])
    elif what == "direct":
        # As a stream writes.
        if transport.connected and not (transport.dataBuffer or transport._tempDataBuffer):
            sent = transport.writeSomeData(data)
            data = data[sent:] if isinstance(sent, int) else data
        transport.write(data)
    elif what == "produce":
        if transport.producer is None:
            transport.registerProducer(end, True)
    elif what == "pull":
        if transport.producer is None:
            transport.registerProducer(PullProducer(transport), False)
    elif transport.connected or what != "loseWriteConnection":  # with a socket that is closed Twisted raises
        getattr(transport, what)()


class World:
    """Two connected protocols."""

    ends: tuple[Recorder, Recorder]

    def settle(self) -> None:
        """Let everything happen."""
        raise NotImplementedError

    def heard(self) -> list[tuple[list[str], bool]]:
        """What each end has heard so far, and whether it is connected."""
        return [(end.heard, bool(end.transport.connected)) for end in self.ends]  # type: ignore[union-attr]


class SocketWorld(World):
    """Over a pair of UNIX sockets."""

    def __init__(self, reactor: EPollReactor, ends: tuple[Recorder, Recorder]) -> None:
        self.reactor = reactor
        self.ends = ends
        self.transports = []
        for sock, end in zip(socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM), ends, strict=True):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * UNREAD_BYTES_MAX)
            transport: Any = Server(sock, end, "", None, 0, reactor)
            self.transports.append(transport)
            end.makeConnection(transport)

    def settle(self) -> None:
        quiet = 0
        before = None
        while quiet < QUIET_TURNS:
            self.reactor.iterate(0)
            now = [(len(end.got), len(end.heard)) for end in self.ends]
            quiet = quiet + 1 if now == before else 0
            before = now

    def close(self) -> None:
        for transport in self.transports:
            transport.abortConnection()
        self.reactor.iterate(0)
        self.reactor.iterate(0)


class PipeWorld(World):
    """Over a pipe."""

    def __init__(self, ends: tuple[Recorder, Recorder]) -> None:
        self.clock = Clock()
        self.ends = ends
        self.pipes = Pipes(self.clock)
        near, far = PipeEnd.pair(self.pipes, UNIXAddress(None), UNIXAddress("/somewhere"))
        near.begin(ends[0])
        far.begin(ends[1])

    def settle(self) -> None:
        for _ in range(10_000):
            if not self.clock.getDelayedCalls():
                return
            self.clock.advance(0)
        raise AssertionError("it never comes to rest")


@pytest.fixture(scope="module")
def polling() -> Iterator[EPollReactor]:
    """A reactor that runs only while a test turns it."""
    reactor = EPollReactor()
    yield reactor
    for reader in (*reactor.removeAll(), *reactor._internalReaders):
        reader.connectionLost(Failure(Exception()))
    reactor._poller.close()


@contextmanager
def worlds(
    polling: EPollReactor, half_closeable: tuple[bool, bool], reactions: tuple[dict[str, str], dict[str, str]]
) -> Iterator[list[World]]:
    """The same over sockets and over a pipe."""

    def ends() -> tuple[Recorder, Recorder]:
        first, second = (Recorder(half, dict(each)) for half, each in zip(half_closeable, reactions, strict=True))
        return first, second

    sockets = SocketWorld(polling, ends())
    try:
        yield [sockets, PipeWorld(ends())]
    finally:
        sockets.close()


def assert_alike(pipe: World, sockets: World, what: Any) -> None:
    assert pipe.heard() == sockets.heard(), what
    for one, other in zip(pipe.ends, sockets.ends, strict=True):
        if all(connected for _, connected in pipe.heard()):
            assert one.got == other.got, what
        # Of what is too much for them some is under way when a connection ends: how much is their own business.
        shorter = min(len(one.got), len(other.got))
        assert one.got[:shorter] == other.got[:shorter], what
        assert len(one.got) == len(other.got) or max(len(one.got), len(other.got)) > UNREAD_BYTES_MAX, what


WRITES = ("write", "sequence", "direct")
CLOSES = ("loseConnection", "loseWriteConnection", "abortConnection", "stopConsuming")
OTHERS = ("pauseProducing", "resumeProducing", "produce", "pull", "unregisterProducer")


@attrs.frozen
class Act:
    """What is done to one end; ``settles``: everything happens before the next one."""

    end: int
    what: str
    size: int
    settles: bool


def acts() -> st.SearchStrategy[list[Act]]:
    """Some of them, in an order in which sockets have only one outcome: no end overtakes the other."""
    one = st.builds(
        Act,
        st.integers(0, 1),
        st.one_of(st.sampled_from(WRITES), st.sampled_from(OTHERS), st.sampled_from(CLOSES)),
        st.sampled_from([0, 1, 10, 1000, HUGE]),
        st.booleans(),
    )

    def without_races(found: list[Act]) -> list[Act]:
        def is_last(number: int) -> bool:
            return found[number].what in CLOSES or found[number].end != found[min(number + 1, len(found) - 1)].end

        return [attrs.evolve(each, settles=each.settles or is_last(number)) for number, each in enumerate(found)]

    return st.lists(one, max_size=20).map(without_races)


REACTIONS = st.fixed_dictionaries(
    {},
    optional={
        "data": st.sampled_from([*CLOSES, "pauseProducing", "write", "write loseConnection"]),
        "end": st.sampled_from([*CLOSES, "write", "write loseConnection", "resumeProducing"]),
        "write ended": st.sampled_from(["loseConnection", "abortConnection", "pauseProducing"]),
    },
)


@settings(max_examples=10_000 if LONG else 500, deadline=None)
@given(acts(), st.tuples(st.booleans(), st.booleans()), st.tuples(REACTIONS, REACTIONS))
def test_a_pipe_is_seen_as_a_socket(
    polling: EPollReactor,
    done: list[Act],
    half_closeable: tuple[bool, bool],
    reactions: tuple[dict[str, str], dict[str, str]],
) -> None:
    if any(reactions):
        # What is written meanwhile may come before a reaction, or after it: nothing is.
        alone = [each for each in done if each.what != "pull" and each.size < HUGE]
        done = [attrs.evolve(each, settles=True) for each in alone]
    with worlds(polling, half_closeable, reactions) as (sockets, pipe):
        for world in (sockets, pipe):
            world.settle()
        for each in done:
            for world in (sockets, pipe):
                act(world.ends[each.end], each.what, each.size)
                if each.settles:
                    world.settle()
            if each.settles:
                assert_alike(pipe, sockets, each)
        for world in (sockets, pipe):
            world.settle()
        assert_alike(pipe, sockets, "at the end")
        for heard, _ in pipe.heard():
            event(" ".join(heard[-1:]) or "open")


def test_it_is_a_transport() -> None:
    world = PipeWorld((Recorder(True, {}), Recorder(True, {})))
    near, far = (end.transport for end in world.ends)
    for interface in (ITransport, IConsumer, IPushProducer):
        assert verifyObject(interface, near)
    assert (near.getHost(), near.getPeer()) == (UNIXAddress(None), UNIXAddress("/somewhere"))  # type: ignore[union-attr]
    assert (far.getHost(), far.getPeer()) == (UNIXAddress("/somewhere"), UNIXAddress(None))  # type: ignore[union-attr]


def test_what_is_written_in_a_turn_is_delivered_in_a_later_one_joined() -> None:
    world = PipeWorld((Recorder(True, {}), Recorder(True, {"data": ""})))
    near, far = world.ends
    for number in range(100):
        act(near, ("write", "direct", "sequence")[number % 3], 3)
    assert not far.got
    world.settle()
    assert len(far.got) == 100 * 3 + 33
    assert far.heard == ["data"]


class Echo(Protocol):
    """Answers each delivery with one."""

    def __init__(self) -> None:
        self.times = 0

    def dataReceived(self, data: bytes) -> None:
        self.times += 1
        assert self.transport is not None
        self.transport.writeSomeData(data)  # type: ignore[attr-defined]


def test_a_turn_has_a_bound(polling: EPollReactor) -> None:
    """Else two that answer each other would keep the reactor for themselves."""
    near, far = PipeEnd.pair(Pipes(polling), UNIXAddress(None), UNIXAddress("/s"))
    ends = Echo(), Echo()
    near.begin(ends[0])
    far.begin(ends[1])
    near.writeSomeData(b"x")
    for turn in range(1, 10):
        polling.iterate(0)
        assert sum(end.times for end in ends) == turn * ROUNDS_MAX
    near.abortConnection()
    polling.iterate(0)
    polling.iterate(0)
    assert not polling.getDelayedCalls()


@settings(deadline=None)
@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=20))
def test_a_writer_that_heeds_its_producer_is_bounded(sizes: list[int]) -> None:
    world = PipeWorld((Recorder(True, {}), Recorder(True, {})))
    near, far = world.ends
    act(near, "produce", 0)
    act(far, "pauseProducing", 0)
    transport: Any = near.transport
    written = 0
    for size in sizes:
        if near.heard[-1:] == ["pause"]:
            break
        act(near, "direct", size)
        written += size
        world.settle()
    assert written <= 2 * UNREAD_BYTES_MAX + max(sizes)
    assert far.transport._unread_bytes <= UNREAD_BYTES_MAX  # type: ignore[union-attr]
    assert (transport.producerPaused or near.heard[-1:] != ["pause"]) and not far.got
    act(far, "resumeProducing", 0)
    world.settle()
    assert len(far.got) == written
    assert near.heard[-1:] in (["resume"], [])


class Failing(Protocol):
    """Cannot take anything."""

    lost: Failure | None = None

    def dataReceived(self, data: bytes) -> None:
        raise ValueError("a fault")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason
        raise ValueError("another one")


def test_a_protocol_that_fails_loses_its_connection_and_no_other(logged_errors: Any) -> None:
    world = PipeWorld((Recorder(True, {}), Recorder(True, {})))
    failing, peer = Failing(), Recorder(False, {})
    ends = PipeEnd.pair(world.pipes, UNIXAddress(None), UNIXAddress("/s"))
    for end, protocol in zip(ends, (failing, peer), strict=True):
        end.begin(protocol)
    ends[1].write(b"x")
    act(world.ends[0], "write", 5)
    world.settle()
    assert failing.lost is not None and failing.lost.check(ValueError)
    assert peer.heard == ["lost: ConnectionDone"]
    assert len(world.ends[1].got) == 5
    act(world.ends[0], "write", 5)
    world.settle()
    assert len(world.ends[1].got) == 10
    assert len(logged_errors.flush("a fault")) == 1
    assert len(logged_errors.flush("another one")) == 1
