"""What is sent goes to the socket at once; in order also when the socket takes only a part of it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.endpoints import serverFromString
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater

from lcc.protocols.xmlfeed import XmlFeed
from lcc.transport.ports.limited import LimitedFactory
from lcc.transport.stream import StreamLimits, XmlStream
from tests.transport.test_stream import Recorder

reactor: Any = _reactor


class Ends:
    """A stream on a real socket, and the plain socket at its other end."""

    def __init__(self, stream: XmlStream, plain: socket.socket) -> None:
        self.stream = stream
        self.plain = plain
        self.got = b""

    def read(self, most: int = 1 << 20) -> None:
        """What has arrived."""
        try:
            self.got += self.plain.recv(most)
        except BlockingIOError:
            pass


@inlineCallbacks
def connected(kind: str, folder: Path) -> Any:
    """Both ends, and the port to be closed."""
    made: Deferred[XmlStream] = Deferred()
    stream = XmlStream(Recorder(), reactor, XmlFeed(), StreamLimits(stall_timeout_seconds=0))
    opened = stream.conversation.stream_opened

    def stream_opened(each: Any) -> None:
        opened(each)
        made.callback(each)

    stream.conversation.stream_opened = stream_opened  # type: ignore[method-assign]
    factory: Any = Factory.forProtocol(lambda: stream)
    if kind == "limited":
        factory = LimitedFactory(factory, 10, "tests")
    text = f"unix:{folder / 's'}:lockfile=0" if kind == "unix" else "tcp:0:interface=127.0.0.1"
    port = yield serverFromString(reactor, text).listen(factory)
    plain = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    plain.connect(str(folder / "s") if kind == "unix" else ("127.0.0.1", port.getHost().port))
    plain.setblocking(False)
    yield made
    stream._direct.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    return Ends(stream, plain), port


@pytest.mark.parametrize("kind", ["unix", "tcp", "limited"])
@inlineCallbacks
def test_all_bytes_come_in_order_whatever_the_socket_takes(kind: str, tmp_path: Path) -> Any:
    ends, port = yield connected(kind, tmp_path)
    sent = b""
    for number in range(400):
        piece = f"<n{number}/>" * (1 + number * 37 % 700)
        sent += piece.encode()
        ends.stream.send(piece)
        # Some are flushed while bytes of the ones before still wait in the transport; the reader is slow.
        yield deferLater(reactor, 0, lambda: None)
        if number % 3 == 0:
            ends.read(most=2000)
    assert ends.stream._direct.dataBuffer or ends.stream._direct._tempDataBuffer
    while len(ends.got) < len(sent):
        ends.read()
        yield deferLater(reactor, 0, lambda: None)
    assert ends.got == sent
    # Once all has gone, the next one is written at once again.
    ends.stream.send("<end/>")
    ends.stream.flush()
    ends.read()
    assert ends.got == sent + b"<end/>"
    ends.plain.close()
    ends.stream.abort()
    yield port.stopListening()


@inlineCallbacks
def test_nothing_is_sent_after_an_abort(tmp_path: Path) -> Any:
    ends, port = yield connected("unix", tmp_path)
    ends.stream.send("<before/>")
    ends.stream.flush()
    ends.stream.abort()
    ends.stream.send("<after/>")
    ends.stream.flush()
    yield deferLater(reactor, 0.01, lambda: None)
    ends.read()
    ends.plain.close()
    assert ends.got == b"<before/>"
    yield port.stopListening()


@inlineCallbacks
def test_a_peer_that_is_gone_is_noticed_by_the_write(tmp_path: Path) -> Any:
    ends, port = yield connected("unix", tmp_path)
    ends.plain.close()
    ends.stream.send("<a/>")
    ends.stream.flush()
    for _ in range(100):
        if ends.stream.conversation.closed:
            break
        yield deferLater(reactor, 0.01, lambda: None)
    assert len(ends.stream.conversation.closed) == 1
    yield port.stopListening()
