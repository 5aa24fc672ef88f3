"""The notifier's end: what it sends, what it sends again, and when it waits."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from lcc.errors import StreamError, code
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.model.sources import Source
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import INTERNAL_LIMITS, Hello, read_hello
from lcc.protocols.notifiers import (
    FROM_NOTIFIER,
    Accepted,
    Again,
    Draw,
    Drawn,
    Fault,
    Hold,
    Rejected,
    SetBegin,
    SetEnd,
    Watch,
    Watched,
    Window,
    check_notifier_hello,
    write_url,
)
from lcc.protocols.xmlfeed import End, Start, XmlFeed
from lcc.roles.notifier import NotifierLink, NotifierRefused
from tests.support.segments import segmentations
from tests.support.transports import MemoryTransport

HELLO = Hello(role="uns", name="u1").open_tag()
WINDOW = Window(sets=3, bytes=10_000, set_urls=5, set_bytes=2000)


def a_set(number: int, urls: int = 1, **others: Any) -> SourcedSet:
    names = tuple({"c": f"http://a.example/{number}/{at}"} for at in range(urls))
    return SourcedSet(number, 7, Source.POLLED, names, **others)


class Far:
    """The link, and the UNS's end of one connection after the other, played by the test."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.link = NotifierLink("scheduler", "s1", "e1", "r1", self.clock, **settings)
        self.answers: list[Any] = []

    def connect(self, window: Window | None = WINDOW, capacity: int = 1 << 40) -> None:
        stream = self.link.factory().buildProtocol(None)
        assert stream is not None
        self.transport = MemoryTransport(capacity)
        self.transport.protocol = stream
        self.feed = XmlFeed(INTERNAL_LIMITS)
        stream.makeConnection(self.transport)
        self.say_text(HELLO)
        if window is not None:
            self.say(window)

    def tell(self, *sets: SourcedSet) -> None:
        for each in sets:
            self.link.tell(each).addCallback(self.answers.append)

    def ask(self, question: Any) -> None:
        question.addBoth(self.answers.append)

    def say_text(self, text: str) -> None:
        self.transport.protocol.dataReceived(text.encode())
        self.clock.advance(0)

    def say(self, *messages: Flat) -> None:
        self.say_text("".join(message.to_xml() for message in messages))

    def heard(self) -> list[Any]:
        """What the link has said: messages, and the URLs of elements."""
        self.clock.advance(0)
        self.transport.protocol.flush()
        events = self.feed.receive(self.transport.take())
        starts = [event for event in events if isinstance(event, Start)]
        found: list[Any] = []
        for event in starts:
            if event.depth == 1:
                check_notifier_hello(read_hello(event.name, event.attributes))
            elif event.name == "url":
                found.append(event.attributes["c"])
            elif event.name != "ping":
                found.append(FROM_NOTIFIER.read(event.name, event.attributes))
        return found

    def numbers(self) -> list[int]:
        return [message.number for message in self.heard() if isinstance(message, SetBegin)]


@pytest.fixture
def far() -> Far:
    return Far()


def test_a_set_is_sent_and_answered(far: Far) -> None:
    far.connect()
    far.tell(a_set(5, urls=2, order=9))
    assert far.heard() == [
        SetBegin(5, 7, "polled", 9),
        "http://a.example/5/0",
        "http://a.example/5/1",
        SetEnd(2),
    ]
    far.say(Fault(5, 2, 1204, "outside", "http://x"), Accepted(5))
    (outcome,) = far.answers
    assert (outcome.number, outcome.code) == (5, 0)
    assert [(each.index, each.code) for each in outcome.refused] == [(2, 1204)]
    assert not far.link.waiting_count


def test_numbers_must_grow(far: Far) -> None:
    far.tell(a_set(5))
    with pytest.raises(ValueError):
        far.link.tell(a_set(5))


def test_nothing_is_sent_before_the_window_is_known(far: Far) -> None:
    far.tell(a_set(1))
    far.connect(window=None)
    assert far.heard() == []
    far.say(WINDOW)
    assert far.numbers() == [1]


def test_no_more_is_under_way_than_the_window_allows(far: Far) -> None:
    far.connect()
    far.tell(*map(a_set, range(1, 8)))
    assert far.numbers() == [1, 2, 3]
    far.say(Accepted(2))
    assert far.numbers() == [4, 5]
    far.say(Rejected(3, 1105, "gone"), Accepted(5))
    assert far.numbers() == [6, 7]
    assert [(each.number, each.code) for each in far.answers] == [(1, 0), (2, 0), (3, 1105), (4, 0), (5, 0)]


def test_no_more_bytes_are_under_way_than_the_window_allows(far: Far) -> None:
    far.connect(Window(sets=100, bytes=250, set_urls=5, set_bytes=2000))
    far.tell(*map(a_set, range(1, 5)))
    first = far.numbers()
    assert len(first) < 4
    far.say(Accepted(first[-1]))
    assert far.numbers()


def test_a_set_larger_than_the_window_of_bytes_goes_alone(far: Far) -> None:
    far.connect(Window(sets=100, bytes=10, set_urls=5, set_bytes=2000))
    far.tell(a_set(1), a_set(2))
    assert far.numbers() == [1]


def test_what_is_larger_than_a_set_may_be_is_rejected_here(far: Far) -> None:
    far.connect()
    far.tell(a_set(1, urls=6), a_set(2))
    assert far.numbers() == [2]
    assert far.answers == [NoticeOutcome(1, code("set-too-large"), "the set exceeds this server's limit")]


def test_sets_without_an_answer_are_sent_again_in_their_order(far: Far) -> None:
    far.connect()
    far.tell(*map(a_set, range(1, 6)))
    assert far.numbers() == [1, 2, 3]
    far.say(Accepted(1))
    assert far.numbers() == [4]
    far.transport.abortConnection()
    assert not far.link.connected
    far.connect()
    assert far.numbers() == [2, 3, 4]
    far.say(Accepted(4))
    assert far.numbers() == [5]


def test_a_second_connection_takes_the_place_of_the_first(far: Far) -> None:
    far.connect()
    far.tell(a_set(1))
    assert far.numbers() == [1]
    first = far.transport
    far.connect()
    assert first.closed and far.numbers() == [1]
    far.say(Accepted(1))
    assert len(far.answers) == 1


def test_while_sets_are_held_nothing_is_sent_and_then_all_of_it_again(far: Far) -> None:
    far.connect()
    far.tell(a_set(1), a_set(2))
    assert far.numbers() == [1, 2]
    far.say(Hold(True, "the spool is full"))
    assert far.link.held == "the spool is full"
    far.tell(a_set(3))
    assert far.heard() == []
    far.say(Accepted(1), Hold(False))
    assert not far.link.held
    said = far.heard()
    assert said[0] == Again()
    assert [message.number for message in said if isinstance(message, SetBegin)] == [2, 3]


def test_an_answer_that_crosses_again_counts(far: Far) -> None:
    far.connect(Window(sets=1, bytes=10_000, set_urls=5, set_bytes=2000))
    far.tell(a_set(1), a_set(2), a_set(3))
    assert far.numbers() == [1]
    far.say(Accepted(1))
    assert far.numbers() == [2]
    far.say(Hold(True), Hold(False), Accepted(2))
    said = far.heard()
    assert said[0] == Again()
    assert [message.number for message in said if isinstance(message, SetBegin)][-1] == 3
    assert [each.number for each in far.answers] == [1, 2]


@pytest.mark.parametrize(
    "messages",
    [
        [Accepted(1)],
        [Rejected(1, 1105)],
        [Accepted(99)],
        [Fault(9, 1, 1204)],
    ],
)
def test_an_answer_to_nothing_ends_the_connection(far: Far, messages: list[Flat]) -> None:
    far.connect()
    far.tell(a_set(2))
    assert far.numbers() == [2]
    far.say(*messages)
    assert far.transport.closed
    far.connect()
    assert far.numbers() == [2]


def test_a_transport_that_is_full_is_waited_for() -> None:
    far = Far()
    far.connect(Window(sets=4000, bytes=1 << 30, set_urls=5, set_bytes=2000), capacity=100_000)
    far.tell(*map(a_set, range(1, 3001)))
    first = far.numbers()
    assert 0 < len(first) < 3000
    more = first
    while more:
        more = far.numbers()
        first += more
    assert sorted(set(first)) == list(range(1, 3001))


def test_who_tells_too_much_sees_that_there_is_no_room() -> None:
    far = Far(waiting_max=2)
    far.connect()
    far.tell(a_set(1))
    assert far.link.has_room
    far.tell(a_set(2))
    assert not far.link.has_room
    rooms: list[None] = []
    far.link.wait_for_room().addCallback(rooms.append)
    far.heard()
    assert not rooms
    far.say(Accepted(1))
    assert rooms == [None]


def test_questions_are_answered_and_asked_again_on_the_next_connection(far: Far) -> None:
    far.ask(far.link.watch("http://a.example/"))
    far.connect()
    far.ask(far.link.draw(7, held=3))
    assert far.heard() == [Watch(1, "http://a.example/"), Draw(2, 7, 3)]
    far.transport.abortConnection()
    far.connect()
    assert far.heard() == [Watch(1, "http://a.example/"), Draw(2, 7, 3)]
    far.say(Drawn(2, 12), Watched(1, 8))
    assert far.answers == [12, 8]


def test_questions_that_are_refused_or_late(far: Far) -> None:
    far.connect()
    for _ in range(2):
        far.ask(far.link.watch("http://a.example/"))
    far.say(Watched(1, code=1011, text="too many"))
    far.clock.advance(31)
    assert [failure.check(NotifierRefused) and failure.value.code for failure in far.answers] == [1011, 1012]
    far.connect()
    far.say(Watched(2, 8))  # too late
    assert not far.transport.closed


def test_nothing_fires_after_the_end(far: Far) -> None:
    far.connect()
    far.tell(a_set(1))
    far.ask(far.link.draw(7))
    far.link.close()
    assert far.transport.closed
    far.clock.advance(100)
    assert not far.answers and not far.clock.getDelayedCalls()


def test_answers_at_every_segmentation() -> None:
    said = "".join(
        message.to_xml()
        for message in (
            WINDOW,
            Fault(1, 1, 1204, "<&>"),
            Accepted(1),
            Rejected(2, 1105, "ä"),
            Drawn(1, 5),
            Accepted(3),
        )
    )
    whole: list[Any] = []
    for pieces in segmentations(said.encode()):
        far = Far()
        far.tell(*map(a_set, range(1, 4)))
        far.ask(far.link.draw(7))
        far.connect()
        far.heard()
        for piece in pieces:
            far.transport.protocol.dataReceived(piece)
        assert not far.transport.closed
        whole = whole or far.answers
        assert far.answers == whole
    assert [each if each == 5 else (each.number, each.code) for each in whole] == [(1, 0), (2, 1105), 5, (3, 0)]


@pytest.mark.parametrize("names", [("", "e"), ("n", ""), ("n" * 41, "e"), ("n", "ä"), ("n\t", "e"), ('n"', "e")])
def test_names_of_notifiers_are_bounded(names: tuple[str, str]) -> None:
    with pytest.raises(StreamError):
        check_notifier_hello(Hello(role="push", name=names[0], epoch=names[1]))


def test_urls_are_written_as_elements() -> None:
    feed = XmlFeed(INTERNAL_LIMITS)
    feed.receive(HELLO.encode())
    attributes = {"c": "http://a.example/?a=1&b='\"<", "op": "retract"}
    starts = [each for each in feed.receive(write_url(attributes).encode()) if not isinstance(each, End)]
    assert [each.attributes for each in starts] == [attributes]
    assert isinstance(FROM_NOTIFIER, Vocabulary)
