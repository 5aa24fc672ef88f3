"""The internal wires from both ends: hello, flat messages, keep-alive, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.work import DOWN, UP, Capacity, Done, Fetch
from lcc.roles.peer import HELLO_SECONDS, IDLE_SECONDS, PING_SECONDS, Peer

FETCH = Fetch("1-1", 7, "00" * 20, 3, "http://a/?x=1&y=<2>", "http://a/", 300)


class Recorder(Peer):
    """A peer that writes down what it hears."""

    def __init__(self, clock: Clock, hello: Hello, expected: str, vocabulary: Any) -> None:
        super().__init__(clock, hello, frozenset({expected}), vocabulary)  # type: ignore[arg-type]
        self.ready: list[Hello] = []
        self.heard: list[Flat] = []
        self.lost = 0
        self.transport = StringTransport()
        self.transport.abortConnection = self.transport.loseConnection  # type: ignore[method-assign]

    def peer_ready(self, hello: Hello) -> None:
        self.ready.append(hello)

    def messages_received(self, messages: list[Flat]) -> None:
        self.heard += messages

    def peer_lost(self, reason: Failure) -> None:
        self.lost += 1


class Pair:
    """A BOT and its BOT-M, joined by a pump that cuts the bytes into pieces of one size."""

    def __init__(self, size: int = 65536, bot_role: str = "bot") -> None:
        self.clock = Clock()
        self.botm = Recorder(self.clock, Hello("botm", "m"), "bot", UP)
        self.bot = Recorder(self.clock, Hello(bot_role, "b", capacity=4), "botm", DOWN)
        self.size = size
        for end in (self.botm, self.bot):
            end.build_stream().makeConnection(end.transport)

    def pump(self) -> None:
        for _ in range(4):
            self.clock.advance(0)
            for source, target in ((self.botm, self.bot), (self.bot, self.botm)):
                data = source.transport.value()
                source.transport.clear()
                for start in range(0, len(data), self.size):
                    if not target.transport.disconnecting:
                        target.stream.dataReceived(data[start : start + self.size])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65536])
def test_messages_arrive_however_the_bytes_are_cut(size: int) -> None:
    pair = Pair(size)
    pair.pump()
    assert pair.botm.ready[0].capacity == 4
    assert pair.bot.ready[0].role == "botm"
    pair.botm.say(FETCH)
    pair.bot.say(Capacity(9))
    done = Done(0, "1-1", 7, "00" * 20, 3, 0, 200, detail='a "b" <c> & \n\t ü', headers='["a","b"]', modified=0)
    pair.bot.say(done)
    pair.pump()
    assert pair.bot.heard == [FETCH]
    assert pair.botm.heard == [Capacity(9), done]


def test_another_role_is_refused() -> None:
    pair = Pair(bot_role="uns")
    pair.pump()
    assert not pair.botm.ready
    assert pair.botm.transport.disconnecting


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n<x>",
        b"<stream role='bot'>",
        b"<stream role='bot' name='b' version='99'>",
        b"<other role='bot' name='b'>",
        b"<stream role='bot' name='b' version='1'><nonsense/>",
        b"<stream role='bot' name='b' version='1'><capacity fetches='many'/>",
        b"<stream role='bot' name='b' version='1'><capacity/>",
        b"<!DOCTYPE stream><stream role='bot' name='b' version='1'>",
    ],
)
def test_what_is_no_stream_of_ours_is_dropped(data: bytes) -> None:
    pair = Pair()
    pair.botm.stream.dataReceived(data)
    assert pair.botm.transport.disconnecting
    assert pair.botm.heard == []


def test_no_hello_in_time_is_dropped() -> None:
    pair = Pair()
    pair.clock.pump([1.0] * int(HELLO_SECONDS + 1))
    assert pair.botm.transport.disconnecting


def test_silence_is_dropped_and_pings_prevent_it() -> None:
    pair = Pair()
    pair.pump()
    for _ in range(20):
        pair.clock.advance(PING_SECONDS)
        pair.pump()
    assert not pair.botm.transport.disconnecting
    assert pair.botm.heard == []
    pair.clock.pump([PING_SECONDS] * int(IDLE_SECONDS / PING_SECONDS + 1))
    assert pair.botm.transport.disconnecting


def test_nothing_is_left_on_the_clock_after_the_end() -> None:
    pair = Pair()
    pair.pump()
    for end in (pair.botm, pair.bot):
        end.stream.connectionLost(Failure(ConnectionDone()))
        assert end.lost == 1
    assert pair.clock.getDelayedCalls() == []


def test_a_hello_of_another_version_names_both() -> None:
    from lcc.protocols.hello import read_hello

    with pytest.raises(StreamError, match="version 99; this end speaks 1"):
        read_hello("stream", {"role": "bot", "name": "b", "version": "99"})
