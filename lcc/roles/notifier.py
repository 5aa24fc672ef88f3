"""A role's link to the port of notifiers of a UNS: sets of URLs, watched providers, order numbers.

*Owns* the sets that have no answer yet, in memory.  Who tells them keeps them where a crash of the process does not
reach them (an outbox in the transaction that made them), and after a restart tells all again that had no answer, with
the same epoch and numbers: the UNS and the queue manager apply each once.

*Strategy.*  Sets are sent one behind the other, as many as the UNS's window and the transport take; the others wait.
Answers come in the order of the sets.

*Failures.*  When the link is made again, everything without an answer is sent again, from the oldest on.  While the
UNS takes no sets (its spool is full, it is paused, or has no database) they wait here: whoever tells sees
:attr:`NotifierLink.has_room`.  Questions are repeated on the next connection, and given up after ``ask_seconds``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from lcc.errors import ERRORS, StreamError, code
from lcc.model.notifiers import NoticeOutcome, RefusedElement, SourcedSet
from lcc.model.sources import source_text
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import (
    FROM_PORT,
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
    write_url,
)
from lcc.roles.peer import PeerFactory
from lcc.roles.upstream import Upstream

_log = Logger()

_PIECE_BYTES = 65536
_ASKED_MAX = 1000


class NotifierRefused(Exception):
    """A question was not answered.

    :ivar code: of the error table; "try-later" where nobody answered in time.
    """

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{number} {text}")
        self.code = number
        self.text = text


@attrs.define(eq=False)
class _Told:
    """A set without an answer."""

    number: int
    text: str
    count: int
    outcome: Deferred[NoticeOutcome]
    refused: dict[int, RefusedElement] = attrs.field(factory=dict)


@attrs.define(eq=False)
class _Question:
    """A question without an answer; ``message`` is sent again on each connection."""

    message: Watch | Draw
    answer: Deferred[int]
    timer: IDelayedCall


class NotifierLink:
    """See :mod:`lcc.roles.notifier`.

    :param role: ``scheduler``, ``push`` or ``spider``.
    :param name: which one of them, unique among those of the role: 1 to 40 of ``A-Z a-z 0-9 . _ @ -``.
    :param epoch: of its sets' numbers: it changes where numbers may be given out again; the same bounds.
    :param run: names this run of the process.
    :param good_hello: called when a UNS has said hello (:class:`lcc.transport.links.RetryPolicy`).
    :param waiting_max: sets without an answer, from which on there is no room for more.
    :param waiting_bytes_max: the same of their bytes.
    :param ask_seconds: how long an answer to a question is waited for.
    :ivar held: why the UNS takes no sets for now, for people; empty: it does.
    """

    def __init__(
        self,
        role: str,
        name: str,
        epoch: str,
        run: str,
        clock: IReactorTime,
        good_hello: Callable[[], None] = lambda: None,
        waiting_max: int = 4000,
        waiting_bytes_max: int = 16 << 20,
        ask_seconds: float = 30.0,
    ) -> None:
        self._hello = Hello(role=role, name=name, epoch=epoch, run=run)
        self._clock = clock
        self._good_hello = good_hello
        self._waiting_max = waiting_max
        self._waiting_bytes_max = waiting_bytes_max
        self._ask_seconds = ask_seconds
        self.held = ""
        self._told: dict[int, _Told] = {}
        self._unsent: deque[_Told] = deque()
        self._bytes = self._sent_bytes = 0
        self._newest = 0
        """Number of the newest set."""
        self._said = 0
        """That of the newest set that was sent on this connection."""
        self._questions: dict[int, _Question] = {}
        self._last_question = 0
        self._room: list[Deferred[None]] = []
        self._peer: Upstream | None = None
        self._window: Window | None = None
        self._turn: IDelayedCall | None = None
        self._closed = False

    # For the role.

    @property
    def connected(self) -> bool:
        """A UNS is there."""
        return self._peer is not None

    @property
    def waiting_count(self) -> int:
        """Sets without an answer."""
        return len(self._told)

    @property
    def has_room(self) -> bool:
        """More sets may be told now.  (One that is told all the same is kept.)"""
        return len(self._told) < self._waiting_max and self._bytes < self._waiting_bytes_max

    def wait_for_room(self) -> Deferred[None]:
        """Fires when :attr:`has_room`."""
        if self.has_room:
            return succeed(None)
        room: Deferred[None] = Deferred()
        self._room.append(room)
        return room

    def tell(self, told: SourcedSet, gaps: bool = False) -> Deferred[NoticeOutcome]:
        """Tell a set; it is sent until it is answered.

        :param gaps: as :class:`lcc.protocols.notifiers.SetBegin` says.
        :returns: fires with the answer; never after :meth:`close`.
        :raises ValueError: its number is not higher than that of the set before.
        """
        if told.number <= self._newest:
            raise ValueError(f"set {told.number} after set {self._newest}")
        self._newest = told.number
        begin = SetBegin(told.number, told.pid, source_text(told.source), told.order, gaps=gaps)
        parts = chain([begin.to_xml()], map(write_url, told.urls), [SetEnd(len(told.urls)).to_xml(), "\n"])
        each = _Told(told.number, "".join(parts), len(told.urls), Deferred())
        self._told[each.number] = each
        self._bytes += len(each.text)
        self._unsent.append(each)
        self._pump_soon()
        return each.outcome

    def watch(
        self, root: str, crawl_delay_ms: int | None = None, hours: str = "", private: bool = False
    ) -> Deferred[int]:
        """The id of the provider that has this root; it is made, as a watched one, if there is none.

        :param crawl_delay_ms, hours, private: as :class:`lcc.protocols.notifiers.Watch` says.
        :returns: fails with NotifierRefused: with "limit" where there are too many watched providers, or of its
            registered domain.
        """
        return self._ask(lambda number: Watch(number, root, crawl_delay_ms, private, hours))

    def draw(self, pid: int, held: int = 0) -> Deferred[int]:
        """The order number of an asking of this provider that begins now.  To be stored with the asking, and repeated
        with its sets, however often these are sent.

        :param held: as :class:`lcc.protocols.notifiers.Draw` says.
        :returns: fails with NotifierRefused.
        """
        return self._ask(lambda number: Draw(number, pid, held))

    def disconnect(self) -> None:
        """Drop the connection; what has no answer goes to the next one."""
        if self._peer is not None:
            self._peer.stream.abort()

    def close(self) -> None:
        """Drop the connection; nothing fires any more."""
        self._closed = True
        self._cancel_turn()
        for question in self._questions.values():
            question.timer.cancel()
        self._questions.clear()
        if self._peer is not None:
            self._peer.stream.abort()

    def factory(self) -> PeerFactory:
        """For the connection (:func:`lcc.transport.links.link_service`)."""
        return PeerFactory(
            lambda: Upstream(self, self._clock, self._hello, frozenset(["uns"]), FROM_PORT, self._good_hello)
        )

    # What the UNS says.

    def upstream_ready(self, link: Upstream) -> None:
        """A UNS has said hello; sets are sent when it has told its window."""
        _log.info(
            "Connected to {peer}'s port of notifiers; {count} sets waiting",
            peer=link.describe(),
            count=self.waiting_count,
        )
        if self._peer is not None:
            self._peer.stream.abort()
            self._peer_is_gone()
        self._peer = link
        for question in self._questions.values():
            link.say(question.message)

    def upstream_messages(self, link: Upstream, messages: list[Flat]) -> None:
        """Answers.

        :raises StreamError: one belongs to nothing.
        """
        if link is not self._peer:
            return
        for message in messages:
            self._message(link, message)
        self._tell_room()
        self._pump()

    def upstream_resumed(self, link: Upstream) -> None:
        """The transport has room again."""
        self._pump()

    def upstream_lost(self, link: Upstream) -> None:
        """Everything without an answer goes to the next connection."""
        if link is self._peer:
            _log.info("Lost the UNS's port of notifiers; {count} sets waiting", count=self.waiting_count)
            self._peer_is_gone()

    def _peer_is_gone(self) -> None:
        self._peer = self._window = None
        self.held = ""
        self._said = 0
        self._begin_again()

    def _message(self, link: Upstream, message: Flat) -> None:
        if isinstance(message, Accepted):
            self._accepted(message.upto)
        elif isinstance(message, Rejected):
            if self._oldest != message.number:
                raise StreamError("unknown-message", f"an answer to set {message.number}, which is not the oldest")
            self._answered(message.number, message.code, message.text)
        elif isinstance(message, Fault):
            told = self._told.get(message.number)
            if told is None:
                raise StreamError("unknown-message", f"a fault of set {message.number}, which has its answer")
            if 1 <= message.index <= told.count:
                fault = RefusedElement(message.index, message.code, message.text, message.url)
                told.refused[message.index] = fault
        elif isinstance(message, Watched):
            self._found(message.id, message.pid, message.code, message.text)
        elif isinstance(message, Drawn):
            self._found(message.id, message.order, message.code, message.text)
        elif isinstance(message, Window):
            self._window = message
        elif isinstance(message, Hold):
            was, self.held = self.held, (message.text or "it takes no sets") if message.hold else ""
            if was and not message.hold:
                link.say(Again())
                self._begin_again()

    @property
    def _oldest(self) -> int:
        """The first set without an answer that the UNS has heard of; 0: none."""
        oldest = next(iter(self._told), 0)
        return oldest if oldest <= self._said else 0

    def _accepted(self, upto: int) -> None:
        if not 0 < self._oldest <= upto <= self._said:
            raise StreamError("unknown-message", f"sets up to {upto} are accepted, and none of them was outstanding")
        while 0 < self._oldest <= upto:
            self._answered(self._oldest, 0, "")

    def _answered(self, number: int, fault: int, text: str) -> None:
        told = self._told[number]
        # After <again/> it may not have been sent once more.
        if self._unsent and self._unsent[0] is told:
            self._unsent.popleft()
        else:
            self._sent_bytes -= len(told.text)
        self._forget(told, NoticeOutcome(number, fault, text, tuple(told.refused.values())))

    def _forget(self, told: _Told, outcome: NoticeOutcome) -> None:
        self._bytes -= len(told.text)
        del self._told[told.number]
        told.outcome.callback(outcome)

    def _begin_again(self) -> None:
        self._unsent = deque(self._told.values())
        self._sent_bytes = 0

    def _tell_room(self) -> None:
        while self._room and self.has_room:
            self._room.pop(0).callback(None)

    # Questions.

    def _ask(self, make: Callable[[int], Watch | Draw]) -> Deferred[int]:
        later = ERRORS[code("try-later")]
        if self._closed or len(self._questions) >= _ASKED_MAX:
            return fail(NotifierRefused(later.code, "too many questions to the UNS wait for an answer"))
        self._last_question += 1
        number = self._last_question
        timer = self._clock.callLater(
            self._ask_seconds, self._found, number, 0, later.code, "no answer from the UNS's port of notifiers"
        )
        question = self._questions[number] = _Question(make(number), Deferred(), timer)
        if self._peer is not None:
            self._peer.say(question.message)
        return question.answer

    def _found(self, number: int, value: int, fault: int, text: str) -> None:
        question = self._questions.pop(number, None)
        if question is None:
            return  # it came too late
        if question.timer.active():
            question.timer.cancel()
        if fault:
            question.answer.errback(NotifierRefused(fault, text))
        else:
            question.answer.callback(value)

    # Sending.

    def _pump_soon(self) -> None:
        if self._turn is None and not self._closed:
            self._turn = self._clock.callLater(0, self._next_turn)

    def _cancel_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.cancel()

    def _next_turn(self) -> None:
        self._turn = None
        self._pump()

    def _pump(self) -> None:
        window: Any = self._window
        unflushed = 0
        while self._unsent and self._peer is not None and window is not None and not self.held:
            told = self._unsent[0]
            size = len(told.text)
            if told.count > window.set_urls or size > window.set_bytes:
                self._unsent.popleft()
                large = ERRORS[code("set-too-large")]
                self._forget(told, NoticeOutcome(told.number, large.code, large.text))
                continue
            sent = len(self._told) - len(self._unsent)
            full = sent >= window.sets or self._sent_bytes + size > window.bytes
            if (sent and full) or not self._peer.stream.writable:
                return
            self._unsent.popleft()
            self._said = max(self._said, told.number)
            self._sent_bytes += size
            self._peer.stream.send(told.text)
            unflushed += size
            if unflushed >= _PIECE_BYTES:
                unflushed = 0
                self._peer.stream.flush()
