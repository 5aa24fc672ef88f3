"""The stream: joined writes, back-pressure both ways, timeouts, ending in order."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from lcc.errors import StreamError
from lcc.interfaces import IConversation
from lcc.protocols.xmlfeed import End, Event, FeedLimits, Start, XmlFeed
from lcc.transport.stream import StreamLimits, XmlStream


class CountingTransport(StringTransport):
    """A string transport that counts writes and knows about half-closing."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.pauses = 0
        self.write_half_closed = False
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.writes += 1
        super().write(data)

    def pauseProducing(self) -> None:
        self.pauses += 1
        super().pauseProducing()

    def loseWriteConnection(self) -> None:
        self.write_half_closed = True

    def abortConnection(self) -> None:
        self.aborted = True


@implementer(IConversation)
class Recorder:
    """A conversation that writes down what it hears."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.events: list[Event] = []
        self.failures: list[StreamError] = []
        self.resumed = 0
        self.closed: list[Failure] = []
        self.finished_peer = 0
        self.answer: Any = None

    def stream_opened(self, stream: Any) -> None:
        self.stream = stream

    def events_received(self, events: list[Event]) -> Any:
        self.events += events
        return self.answer() if self.answer else None

    def stream_failed(self, error: StreamError) -> None:
        self.failures.append(error)

    def stream_resumed(self) -> None:
        self.resumed += 1

    def peer_finished(self) -> None:
        self.finished_peer += 1

    def stream_closed(self, reason: Failure) -> None:
        self.closed.append(reason)


class Rig:
    """A stream over an in-memory transport with a clock."""

    def __init__(self, limits: StreamLimits | None = None, feed: FeedLimits | None = None) -> None:
        self.clock = Clock()
        self.conversation = Recorder()
        self.stream = XmlStream(self.conversation, self.clock, XmlFeed(feed), limits)
        self.transport = CountingTransport()
        self.stream.makeConnection(self.transport)

    @property
    def reading(self) -> bool:
        return self.transport.producerState == "producing"


def test_recorder_is_a_conversation() -> None:
    assert verifyObject(IConversation, Recorder())


def test_what_is_sent_in_one_turn_is_one_write() -> None:
    rig = Rig()
    for number in range(100):
        rig.stream.send(f"<m n='{number}'/>")
    assert rig.transport.writes == 0
    rig.clock.advance(0)
    assert rig.transport.writes == 1
    assert rig.transport.value().count(b"<m ") == 100


def test_a_deferred_pauses_the_peer_until_it_fires() -> None:
    rig = Rig()
    waiting: Deferred[None] = Deferred()
    rig.conversation.answer = lambda: waiting
    rig.stream.dataReceived(b"<a><b/>")
    assert not rig.reading
    rig.conversation.answer = None
    # A transport may still deliver once after it was paused: kept, in order, and not yet handed on.
    rig.stream.dataReceived(b"<c/>")
    assert [e.name for e in rig.conversation.events if isinstance(e, Start)] == ["a", "b"]
    waiting.callback(None)
    assert rig.reading
    assert [e.name for e in rig.conversation.events if isinstance(e, Start)] == ["a", "b", "c"]


def test_a_stream_that_was_closed_meanwhile_hands_nothing_on() -> None:
    rig = Rig()
    waiting: Deferred[None] = Deferred()
    rig.conversation.answer = lambda: waiting
    rig.stream.dataReceived(b"<a><b/>")
    rig.stream.dataReceived(b"<c/>")
    rig.stream.connectionLost(Failure(ConnectionDone()))
    waiting.callback(None)
    assert [e.name for e in rig.conversation.events if isinstance(e, Start)] == ["a", "b"]
    assert len(rig.conversation.closed) == 1


def test_a_failed_deferred_drops_the_stream(logged_errors: Any) -> None:
    rig = Rig()
    waiting: Deferred[None] = Deferred()
    rig.conversation.answer = lambda: waiting
    rig.stream.dataReceived(b"<a>")
    waiting.errback(RuntimeError("the handler broke"))
    assert rig.transport.aborted
    assert logged_errors.flush("the handler broke")


def test_a_stream_error_from_a_deferred_is_told_to_the_conversation() -> None:
    rig = Rig()
    waiting: Deferred[None] = Deferred()
    rig.conversation.answer = lambda: waiting
    rig.stream.dataReceived(b"<a>")
    waiting.errback(StreamError("limit", "too much"))
    assert [f.detail for f in rig.conversation.failures] == ["too much"]


def test_the_transport_waits_between_documents() -> None:
    rig = Rig()
    rig.stream.dataReceived(b"<a/><b/>")
    assert not rig.reading
    assert [e.name for e in rig.conversation.events] == ["a", "a"]
    rig.stream.next_document()
    assert [e.name for e in rig.conversation.events] == ["a", "a", "b", "b"]
    assert not rig.reading
    rig.stream.next_document()
    assert rig.reading


def test_who_goes_on_at_once_is_not_paused() -> None:
    rig = Rig()

    def go_on() -> None:
        if rig.stream.feed.waiting:
            rig.stream.next_document()

    rig.conversation.answer = go_on
    rig.stream.dataReceived(b"<a/><b/><c>")
    assert [event.name for event in rig.conversation.events] == ["a", "a", "b", "b", "c"]
    assert rig.reading and not rig.transport.pauses


def test_what_can_wait_leaves_with_what_is_sent_next() -> None:
    rig = Rig()
    rig.stream.send("<a>", soon=False)
    rig.clock.advance(0)
    assert rig.transport.value() == b""
    rig.stream.send("</a>")
    rig.clock.advance(0)
    assert (rig.transport.value(), rig.transport.writes) == (b"<a></a>", 1)
    rig.stream.send("<b/>", soon=False)
    rig.stream.finish()
    assert rig.transport.value() == b"<a></a><b/>"


def test_events_before_a_fault_are_delivered_then_the_fault() -> None:
    rig = Rig()
    rig.stream.dataReceived(b"<a><b/><</a>")
    assert [type(e) for e in rig.conversation.events] == [Start, Start, End]
    assert [f.entry.name for f in rig.conversation.failures] == ["syntax"]
    # Whatever comes now is thrown away.
    rig.stream.dataReceived(b"<c/>")
    assert len(rig.conversation.events) == 3
    assert len(rig.conversation.failures) == 1


def test_the_last_answer_is_not_lost_when_the_peer_still_sends() -> None:
    rig = Rig(StreamLimits(linger_seconds=5, linger_bytes=1000))
    rig.stream.send("<no/>")
    rig.stream.finish()
    assert rig.transport.value() == b"<no/>"
    assert rig.transport.write_half_closed
    assert not rig.transport.disconnecting
    rig.stream.dataReceived(b"x" * 500)
    assert not rig.transport.aborted
    rig.stream.readConnectionLost()
    assert rig.transport.disconnecting


def test_a_peer_that_never_stops_sending_is_cut_off() -> None:
    rig = Rig(StreamLimits(linger_bytes=1000))
    rig.stream.finish()
    for _ in range(3):
        rig.stream.dataReceived(b"x" * 500)
    assert rig.transport.aborted


def test_a_peer_that_never_closes_is_cut_off() -> None:
    rig = Rig(StreamLimits(linger_seconds=5))
    rig.stream.finish()
    rig.clock.advance(4.9)
    assert not rig.transport.aborted
    rig.clock.advance(0.2)
    assert rig.transport.aborted


def test_a_silent_peer_fails_with_timeout() -> None:
    rig = Rig(StreamLimits(idle_timeout_seconds=10))
    rig.clock.advance(9)
    rig.stream.dataReceived(b"<a>")
    rig.clock.advance(9)
    assert not rig.conversation.failures
    rig.clock.advance(2)
    assert [f.entry.name for f in rig.conversation.failures] == ["timeout"]


def test_a_paused_peer_is_not_called_silent() -> None:
    rig = Rig(StreamLimits(idle_timeout_seconds=10))
    rig.stream.pause_reading()
    rig.clock.pump([5] * 6)
    assert not rig.conversation.failures


def test_a_peer_that_never_reads_is_dropped() -> None:
    rig = Rig(StreamLimits(stall_timeout_seconds=30))
    rig.transport.producer.pauseProducing()
    assert not rig.stream.writable
    rig.clock.advance(29)
    assert not rig.transport.aborted
    rig.clock.advance(2)
    assert rig.transport.aborted


def test_draining_tells_the_conversation() -> None:
    rig = Rig()
    rig.transport.producer.pauseProducing()
    rig.transport.producer.resumeProducing()
    assert rig.stream.writable
    assert rig.conversation.resumed == 1


@pytest.mark.parametrize("idle", [0, 10])
def test_nothing_is_left_on_the_clock_after_the_end(idle: int) -> None:
    rig = Rig(StreamLimits(idle_timeout_seconds=idle))
    rig.stream.send("<a/>")
    rig.transport.producer.pauseProducing()
    rig.stream.connectionLost(Failure(ConnectionDone()))
    assert len(rig.conversation.closed) == 1
    assert rig.clock.getDelayedCalls() == []
    rig.stream.send("<late/>")
    rig.stream.finish()
    assert rig.clock.getDelayedCalls() == []


def test_an_exception_in_a_handler_drops_only_this_stream(logged_errors: Any) -> None:
    rig = Rig()

    def broken() -> None:
        raise KeyError("oops")

    rig.conversation.answer = broken
    rig.stream.dataReceived(b"<a>")
    assert rig.transport.aborted
    assert logged_errors.flush("oops")


def test_who_waited_for_an_answer_has_its_whole_time_for_the_next_question() -> None:
    rig = Rig(StreamLimits(idle_timeout_seconds=10))
    rig.stream.dataReceived(b"<a/>")
    assert not rig.reading
    rig.clock.pump([1] * 29)
    rig.stream.next_document()
    rig.clock.pump([1] * 9)
    assert not rig.conversation.failures
    rig.clock.pump([1] * 2)
    assert [error.entry.name for error in rig.conversation.failures] == ["timeout"]
