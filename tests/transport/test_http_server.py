"""A server over HTTP against peers that do not read, do not end, or send too much: real sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from lcc.transport.http import server as http_server
from lcc.transport.http.server import GuardedRequest, GuardedSite
from lcc.transport.ports.limited import LimitedFactory
from tests.support.waiting import PATIENCE_SECONDS, wait_for

BIG = 1_000_000
GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"


class Numbers(Resource):
    """Answers with its path, or with a megabyte that begins with it; /never is never answered.

    :ivar answered: how many requests were.
    """

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.answered = 0
        self.size_bytes = 0

    def render(self, request: Request) -> bytes | int:
        self.answered += 1
        if request.path == b"/never":
            request.write(b"x" * self.size_bytes)
            return NOT_DONE_YET
        return bytes(request.path).ljust(self.size_bytes, b".")


class Server:
    """A site on a port of loopback.

    :param timeout: seconds that a connection may be idle.
    """

    def __init__(self, timeout: float = PATIENCE_SECONDS) -> None:
        self.numbers = Numbers()
        site = GuardedSite(self.numbers, timeout=timeout, reactor=reactor)
        self.factory = LimitedFactory(site, 100, "of a test")
        self._port: Any = reactor.listenTCP(0, self.factory, interface="127.0.0.1")  # type: ignore[attr-defined]

    def connect(self) -> socket.socket:
        """A connection that buffers little."""
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        peer.settimeout(30)
        peer.connect(("127.0.0.1", self._port.getHost().port))
        return peer

    @property
    def connections(self) -> int:
        return len(self.factory.protocols)

    async def stop(self) -> None:
        await self._port.stopListening()
        for protocol in list(self.factory.protocols):
            protocol.abortConnection()


@pytest_twisted.async_yield_fixture
async def server() -> AsyncIterator[Server]:
    """One that is patient: what does not concern time must not depend on it."""
    server = Server()
    yield server
    await server.stop()


@pytest_twisted.async_yield_fixture
async def impatient(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(HTTPChannel, "abortTimeout", 0.2)
    server = Server(timeout=1.0)
    yield server
    await server.stop()


async def played(server: Server, function: Callable[[Server, socket.socket], None]) -> None:
    """In a thread of its own."""

    def play() -> None:
        with closing(server.connect()) as sock:
            function(server, sock)

    await deferToThread(play)


def peer(function: Callable[[Server, socket.socket], None]) -> Callable[[Server], Any]:
    """A test that is played by a peer in a thread of its own."""

    async def test(server: Server) -> None:
        await played(server, function)

    test.__doc__ = function.__doc__
    return pytest_twisted.ensureDeferred(test)  # type: ignore[no-any-return]


def peer_of_impatient(function: Callable[[Server, socket.socket], None]) -> Callable[[Server], Any]:
    """The same with a server that soon gives up."""

    async def test(impatient: Server) -> None:
        await played(impatient, function)

    test.__doc__ = function.__doc__
    return pytest_twisted.ensureDeferred(test)  # type: ignore[no-any-return]


def can_send(sock: socket.socket) -> bool:
    """Whether the other end still takes a byte."""
    try:
        sock.sendall(b"x")
    except ConnectionError:
        return False
    return True


def closed(sock: socket.socket) -> bool:
    """Whether the other end closes the connection; what it still sends is read."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def read_answers(sock: socket.socket, count: int) -> list[bytes]:
    """The paths that so many answers begin with."""
    paths = []
    with sock.makefile("rb") as stream:
        for _ in range(count):
            length = 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            paths.append(stream.read(length).rstrip(b"."))
    return paths


@peer
def test_many_requests_on_one_connection(server: Server, sock: socket.socket) -> None:
    """One after the other, then all at once."""
    for number in range(300):
        sock.sendall(GET % number)
        assert read_answers(sock, 1) == [b"/%d" % number]
    sock.sendall(b"".join(GET % number for number in range(2000)))
    assert read_answers(sock, 2000) == [b"/%d" % number for number in range(2000)]


@pytest_twisted.ensureDeferred
async def test_an_answer_leaves_in_one_write_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a change of the poll set, and a turn of the reactor."""
    asked: list[object] = []
    pieces: list[bytes] = []
    start, write = Connection.startWriting, Connection.writeSomeData
    monkeypatch.setattr(Connection, "startWriting", lambda self: asked.append(self) or start(self))
    monkeypatch.setattr(Connection, "writeSomeData", lambda self, data: pieces.append(data) or write(self, data))
    with closing(server.connect()) as sock:
        for number in range(2):
            sock.sendall(GET % number)
            got = await deferToThread(sock.recv, 65536)
            assert got.startswith(b"HTTP/1.1 200 OK\r\n") and got.endswith(b"\r\n\r\n/%d" % number)
            assert pieces == [got] and asked == []
            pieces.clear()
        server.numbers.size_bytes = 8 * BIG
        sock.sendall(GET % 2)
        await deferToThread(sock.recv, 65536)
        assert asked != [], "what the socket does not take goes by way of the reactor"


@peer
def test_requests_ahead_of_what_is_read(server: Server, sock: socket.socket) -> None:
    """They are answered as their answers are taken; all of them, in order."""
    server.numbers.size_bytes = BIG
    sock.sendall(b"".join(GET % number for number in range(200)))
    time.sleep(0.7)
    assert server.numbers.answered < 20
    assert read_answers(sock, 200) == [b"/%d" % number for number in range(200)]


@peer_of_impatient
def test_answers_that_nobody_takes(server: Server, sock: socket.socket) -> None:
    """The connection does not stay for ever."""
    server.numbers.size_bytes = 10 * BIG
    sock.sendall(GET % 1 + GET % 2)
    wait_for("it is answered", lambda: server.numbers.answered, every_seconds=0.05)
    wait_for("the connection is closed", lambda: server.connections == 0, every_seconds=0.05)


@peer_of_impatient
def test_a_last_answer_that_nobody_takes(server: Server, sock: socket.socket) -> None:
    """The same where the connection would be closed after it."""
    server.numbers.size_bytes = 10 * BIG
    sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    wait_for("it is answered", lambda: server.numbers.answered, every_seconds=0.05)
    wait_for("the connection is closed", lambda: server.connections == 0, every_seconds=0.05)


@peer
def test_who_sends_and_does_not_read(server: Server, sock: socket.socket) -> None:
    """The server stops reading."""
    server.numbers.size_bytes = 10 * BIG
    sock.sendall(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for("it is answered", lambda: server.numbers.answered == 1, every_seconds=0.05)
    time.sleep(0.2)
    sock.settimeout(1)
    sent = 0
    try:
        while sent < 100 * BIG:
            sent += sock.send(GET % 1 * 1000)
    except TimeoutError:
        pass
    assert sent < 20 * BIG


@pytest.mark.parametrize(
    "text", [b"G", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"]
)
@pytest_twisted.ensureDeferred
async def test_a_request_that_never_ends(impatient: Server, text: bytes) -> None:
    """It may come slowly, but not for ever."""

    def play() -> None:
        with closing(impatient.connect()) as sock:
            sock.sendall(text)
            wait_for("it does not go on", lambda: not can_send(sock))

    await deferToThread(play)
    assert impatient.numbers.answered == 0


@peer
def test_bodies(server: Server, sock: socket.socket) -> None:
    """A short one is thrown away, with its length or in chunks."""
    sock.sendall(b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + GET % 2)
    assert read_answers(sock, 2) == [b"/1", b"/2"]
    sock.sendall(b"POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert read_answers(sock, 1) == [b"/3"]


@pytest.mark.parametrize("head", [b"Content-Length: 100000", b"Transfer-Encoding: chunked"])
@pytest_twisted.ensureDeferred
async def test_a_body_that_is_too_long(server: Server, head: bytes) -> None:
    """The connection is closed."""

    def play() -> None:
        with closing(server.connect()) as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n186a0\r\n" + b"x" * 2000)
            assert closed(sock)

    await deferToThread(play)
    assert server.numbers.answered == 0


POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
REFUSED = {
    "long head": (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: %s\r\n" % (b"y" * 1000) * 40 + b"\r\n", 431),
    "long line": (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 60_000 + b"\r\n\r\n", 431),
    "long address": (b"GET /" + b"y" * 60_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
    "many fields": (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 600 + b"\r\n", 431),
    "long body": (POST + b"Content-Length: 4000000\r\n\r\n" + b"x" * 4_000_000, 413),
    "long body, announced": (POST + b"Expect: 100-continue\r\nContent-Length: 4000000\r\n\r\n", 413),
    "long body in chunks": (CHUNKED + b"186a0\r\n%s\r\n" % (b"x" * 100_000) * 40, 413),
    "a length of many digits": (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + b"x" * 4_000_000, 413),
    "a length that is none": (POST + b"Content-Length: 1_0\r\n\r\n" + b"x" * 100_000, 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    "two hosts, HTTP/1.0": (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "no HTTP": (b"\x16\x03\x01" + b"z" * 5000 + b"\r\n" + b"x" * 100_000, 400),
}


@pytest.mark.parametrize(("sent", "status"), REFUSED.values(), ids=REFUSED)
@pytest_twisted.ensureDeferred
async def test_what_is_refused_is_told_why(server: Server, sent: bytes, status: int) -> None:
    """Also to a client that has it all written before it reads: a reset would take the answer away."""

    def play() -> None:
        for _ in range(3):
            with closing(server.connect()) as sock:
                sock.sendall(sent)
                sock.sendall(b"more")
                with sock.makefile("rb") as stream:
                    head, _, body = stream.read().partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 %d " % status) and b"Unknown Status" not in head
                assert b"Connection: close" in head and body.endswith(b"\n") and body.count(b"\n") == 1

    await deferToThread(play)
    assert server.numbers.answered == 0


@peer
def test_http_1_0_names_no_host(server: Server, sock: socket.socket) -> None:
    sock.sendall(b"GET /7 HTTP/1.0\r\n\r\n")
    assert read_answers(sock, 1) == [b"/7"]


@pytest_twisted.ensureDeferred
async def test_who_is_refused_may_not_send_on_for_ever(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LINGER_SECONDS", 0.5)

    def trickle() -> None:
        with closing(server.connect()) as sock:
            sock.sendall(b"nonsense\r\n")
            wait_for("it does not go on", lambda: not can_send(sock))

    def flood() -> None:
        with closing(server.connect()) as sock, pytest.raises(ConnectionError):
            for _ in range(1000):
                sock.sendall(b"nonsense\r\n" + b"x" * 100_000)

    await deferToThread(trickle)
    monkeypatch.setattr(http_server, "LINGER_SECONDS", 30.0)
    await deferToThread(flood)


@pytest.mark.parametrize("status", [421, 425, 429, 431, 451, 511])
def test_each_status_has_its_reason(status: int) -> None:
    site = GuardedSite(Numbers(), reactor=Clock())
    channel = site.buildProtocol(None)
    channel.makeConnection(StringTransport())
    request: Any = GuardedRequest(channel, False)
    request.setResponseCode(status)
    assert request.code_message not in (b"", b"Unknown Status")
    channel.connectionLost(Failure(ConnectionDone()))


@peer_of_impatient
def test_who_says_nothing(server: Server, sock: socket.socket) -> None:
    """A connection on which nothing is asked is closed."""
    assert closed(sock)


def test_the_address_of_a_connection_is_asked_for_once() -> None:
    hosts: list[Any] = []

    class Hosts(Numbers):
        def render(self, request: Request) -> bytes | int:
            hosts.append(request.getHost())
            return super().render(request)

    transport, asked = StringTransport(IPv4Address("TCP", "192.0.2.1", 80)), []
    address = transport.getHost()
    transport.getHost = lambda: (asked.append(1), address)[1]  # type: ignore[method-assign]
    protocol = GuardedSite(Hosts(), reactor=Clock()).buildProtocol(None)
    assert protocol is not None
    protocol.makeConnection(transport)
    for number in range(3):
        protocol.dataReceived(GET % number)
    assert (hosts, len(asked)) == ([address] * 3, 1)


def test_what_comes_after_the_end_is_not_looked_at() -> None:
    """Over TLS bytes still arrive after the connection was closed here."""
    site = GuardedSite(Numbers(), reactor=Clock())
    huge = b"GET /1 HTTP/1.1\r\nContent-Length: " + b"7" * 5000 + b"\r\nX: y\r\n"
    for begin, status in ((b"nonsense\r\n", b"400 Bad Request"), (huge, b"413 Request Entity Too Large")):
        channel = site.buildProtocol(None)
        transport = StringTransport()
        channel.makeConnection(transport)
        channel.dataReceived(begin)
        said = transport.value()
        assert said.startswith(b"HTTP/1.1 %s\r\n" % status) and transport.disconnecting
        channel.dataReceived(b"Host: a\r\n\r\n")
        channel.connectionLost(Failure(ConnectionDone()))
        assert transport.value() == said and said.count(b"HTTP/1.1") == 1


def test_of_an_aborted_connection_no_more_requests_are_read() -> None:
    numbers = Numbers()
    factory = LimitedFactory(GuardedSite(numbers, reactor=Clock()), 10, "tests")
    wrapper: Any = factory.buildProtocol(None)
    wrapper.makeConnection(StringTransport())
    body = b"x" * (http_server.BODY_BYTES_MAX + 1)
    request = b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    wrapper.dataReceived(request + body + GET % 2)
    wrapper.connectionLost(Failure(ConnectionDone()))
    assert not numbers.answered
