"""One connection of a notifier.

*Owns* the set that is arriving, and the order in which answers are due.

*Strategy.*  Sets are checked and spooled as they come; answers go out once a turn, all accepted sets in one message.
Reading pauses while too much is under way, questions wait for the database, or the notifier does not read.

*Failures.*  What breaks the protocol ends the connection.  A set that may not be is rejected.  What passes is held:
from then on sets are thrown away, until the notifier begins again with all that have no answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.notices.elements import ElementChecker, ElementError
from lcc.errors import ERRORS, LccError, SetError, StoreUnavailable, StreamError, code
from lcc.model.notifiers import MAY_SAY, MAY_WATCH_PRIVATE, UNORDERED
from lcc.model.sources import Source, parse_source
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import (
    FROM_NOTIFIER,
    URL_TAG,
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
    check_notifier_hello,
)
from lcc.protocols.uns_qm import write_notice
from lcc.protocols.xmlfeed import Start
from lcc.roles.notifier_port import NotifierPort
from lcc.roles.peer import Peer
from lcc.roles.uns.delivery import Verdict, disk_fault
from lcc.roles.uns.notifiers.hub import FAILED_SECONDS, Notifiers, Refused
from lcc.roles.uns.notifiers.known import KnownNotifier
from lcc.storage.disk.spool import SetWriter, SpoolFull
from lcc.transport.ports.connection_limits import ConnectionLimits, Place

_log = Logger()

_CHECK_SECONDS = 2.0
_QUESTIONS_MAX = 500
_DRAWN_MAX = 10_000
_TEXT_CHARS = 1000
_URL_CHARS = 4096
_UNORDERED = int(UNORDERED)


@attrs.define(eq=False)
class _Arriving:
    """The set that is arriving.

    :ivar checker: None: it is rejected.
    :ivar writer: None: nothing of it is to be kept.
    :ivar repeated: it is under way, or was answered: only what is wrong with it is told again.
    :ivar rejected: why; None: it is not.
    """

    number: int
    checker: ElementChecker | None = None
    writer: SetWriter | None = None
    repeated: bool = False
    rejected: Verdict | None = None
    count: int = 0
    bytes: int = 0


class NotifierConnection(Peer):
    """See :mod:`lcc.roles.uns.notifiers.connection`.

    :param roles: that may be at the other end.
    :param place: of this connection, among those that there may be.
    """

    def __init__(self, hub: Notifiers, roles: frozenset[str], place: Place) -> None:
        super().__init__(hub.uns.clock, Hello(role="uns", name=hub.uns.spool.name), roles, FROM_NOTIFIER)
        self._hub = hub
        self._place = place
        self._notifier: KnownNotifier | None = None
        self._sources = 0
        """Mask of what it may say.  A plain number: operations of :class:`Source` take ten times as long."""
        self._arriving: _Arriving | None = None
        self._pending: deque[int] = deque()
        self._last_number = 0
        self._holding = self._told_go = False
        self._held_until = 0.0
        self._why = ""
        self._check_call: IDelayedCall | None = None
        self._flush_call: IDelayedCall | None = None
        self._questions = 0
        self._drawn: dict[int, int] = {}
        """By provider, the last number that was drawn on this connection."""
        self._room: Deferred[None] | None = None
        self._stopping = self._gone = False
        place.take()

    # The connection.

    def peer_ready(self, hello: Hello) -> None:
        check_notifier_hello(hello)
        name = f"{hello.role}/{hello.name}"
        for other in self._hub.known.connections_of(name):
            _log.warn("{name} has connected again: the earlier connection is dropped", name=name)
            other.drop()
        self._notifier = self._hub.known.get(name, hello.epoch)
        self._notifier.connection = self
        self._sources = int(MAY_SAY[hello.role])
        self._hub.opened(self)
        self.say(self._hub.window)
        self.check()

    def peer_lost(self, reason: Failure) -> None:
        if self._gone:
            return
        self._gone = True
        self._give_up()
        for call in (self._check_call, self._flush_call):
            if call is not None:
                call.cancel()
        self._check_call = self._flush_call = None
        self._place.leave()
        notifier = self._notifier
        if notifier is not None and notifier.connection is self:
            notifier.connection = None
        self._hub.closed(self)
        self.room_made()

    def stream_resumed(self) -> None:
        self.room_made()

    def describe(self) -> str:
        """Who it is and what it does, for a person."""
        if self._notifier is None:
            return "a notifier without a hello"
        stands = f"{len(self._pending):,} sets under way"
        if self._arriving is not None:
            stands += f", one arriving ({self._arriving.count:,} elements so far)"
        if self._holding:
            stands = f"held: {self._why}"
        return f"{self._notifier.name}: {stands}"

    @property
    def is_held(self) -> bool:
        """It is told to hold its sets."""
        return self._holding

    def drop(self) -> None:
        """Cut the connection; what was not answered is told again on the next one."""
        self.stream.abort()
        self.peer_lost(Failure(ConnectionAbortedError()))

    def stop(self) -> None:
        """This UNS stops: answer what is under way, and end."""
        self._stopping = True
        self.check()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._stopping and not self._pending and not self._gone:
            self.stream.finish()

    # Reading.

    def elements_received(self, elements: list[Any]) -> Deferred[None] | None:
        return self._take(elements)

    def _take(self, elements: Sequence[Start], *, loaded: bool = False) -> Deferred[None] | None:
        """Work these off.

        :param loaded: all that the database says of them is known.
        :returns: fires when the notifier is to be read from again; None: now.
        """
        for index, (name, attributes, _depth) in enumerate(elements):
            if name == URL_TAG:
                self._element(attributes)
                continue
            message = FROM_NOTIFIER.read(name, attributes)
            if type(message) is SetBegin:
                if not (loaded or self._holding) and self._hub.checkers.lacks(message.pid, message.order):
                    return Deferred.fromCoroutine(self._load_and_take(elements[index:]))
                self._begin(message)
            elif type(message) is SetEnd:
                self._end(message)
            else:
                self._other(message)
        return self._pause()

    async def _load_and_take(self, elements: Sequence[Start]) -> None:
        begins = [FROM_NOTIFIER.read(name, attributes) for name, attributes, _ in elements if name == SetBegin.TAG]
        try:
            await self._hub.checkers.load([(each.pid, each.order) for each in begins if isinstance(each, SetBegin)])
        except StoreUnavailable:  # which the store has logged
            self.hold("the database does not answer", FAILED_SECONDS)
        if self._gone:
            return
        rest = self._take(elements, loaded=True)
        if rest is not None:
            await rest

    def _pause(self) -> Deferred[None] | None:
        if self._may_go_on():
            return None
        if self._room is None or self._room.called:
            self._room = Deferred()
        return self._room

    def _may_go_on(self) -> bool:
        return self._gone or (
            self.stream.writable
            and self._questions < _QUESTIONS_MAX
            and len(self._pending) <= self._hub.window.sets
            and self._hub.has_room
        )

    def room_made(self) -> None:
        """Less is under way."""
        if self._room is not None and not self._room.called and self._may_go_on():
            self._room.callback(None)

    # Sets.

    def _begin(self, message: SetBegin) -> None:
        if self._arriving is not None:
            raise StreamError("unknown-message", "<set> inside of a set")
        number = message.number
        if number <= self._last_number:
            raise StreamError("unknown-message", f"set {number} after set {self._last_number}")
        notifier = self._notifier
        assert notifier is not None
        arriving = self._arriving = _Arriving(number)
        if self._holding:
            return
        after = self._last_number if self._last_number and not message.gaps else number - 1
        if not self._last_number:
            notifier.begin_again(number)
        self._last_number = number
        try:
            source = self._source_of(message)
            arriving.checker = self._hub.checkers.checker(message.pid, source)
            if number in notifier.outcomes:
                arriving.repeated = True
                return
            arriving.writer = self._hub.uns.spool.begin(
                pid=message.pid,
                connseq=message.order,
                full=False,
                errors_upto=0,
                source=source,
                said=notifier.id_of(number, after),
            )
        except SetError as error:
            arriving.rejected = Verdict(error.code, error.text)
        except (SpoolFull, OSError) as error:
            self._failed(error)

    def _source_of(self, message: SetBegin) -> Source:
        if message.full:
            raise SetError("bad-set", "only a provider tells full sets: take away what is not named with op=retract")
        try:
            source = parse_source(message.source)
        except ValueError as error:
            raise SetError("bad-set", str(error)) from None
        assert self.peer_hello is not None
        bit = int(source)
        if not bit & self._sources:
            raise SetError("bad-set", f"the role {self.peer_hello.role} may not say {message.source}")
        if bit & _UNORDERED:
            if message.order:
                raise SetError("bad-order", f"{message.source} has no order number")
        elif message.order <= 0:
            raise SetError("bad-order", f"{message.source} needs an order number")
        elif not self._hub.checkers.is_drawn(message.pid, message.order):
            raise SetError("bad-order", f"{message.order} is higher than the last one of provider {message.pid}")
        return source

    def _element(self, attributes: dict[str, str]) -> None:
        arriving = self._arriving
        if arriving is None:
            raise StreamError("unknown-message", "<url> outside a set")
        arriving.count += 1
        checker = arriving.checker
        if checker is None or arriving.rejected is not None:
            return
        window = self._hub.window
        arriving.bytes += sum(map(len, attributes.values()))
        if arriving.count > window.set_urls or arriving.bytes > window.set_bytes:
            self._give_up_writer(arriving)
            arriving.rejected = Verdict(code("set-too-large"), ERRORS[code("set-too-large")].text)
            return
        try:
            notice = checker.check(attributes)
        except ElementError as error:
            self._hub.uns.counters.notifier_urls_refused += 1
            text, url = error.text[:_TEXT_CHARS], error.url[:_URL_CHARS]
            self.say(Fault(arriving.number, arriving.count, error.code, text, url))
            return
        if notice is None or arriving.writer is None:
            return
        try:
            arriving.writer.add(write_notice(notice))
        except SetError as error:
            self._give_up_writer(arriving)
            arriving.rejected = Verdict(error.code, error.text)
        except (SpoolFull, OSError) as error:
            self._failed(error)

    def _end(self, message: SetEnd) -> None:
        arriving, self._arriving = self._arriving, None
        if arriving is None:
            raise StreamError("unknown-message", "<end> outside a set")
        if message.count != arriving.count:
            self._give_up_writer(arriving)
            raise StreamError("unknown-message", f"{arriving.count} elements where <end> says {message.count}")
        if self._holding:
            return
        notifier, hub, number = self._notifier, self._hub, arriving.number
        assert notifier is not None
        if number not in notifier.outcomes:
            writer = arriving.writer
            if arriving.repeated:
                self.hold("a set came again while it failed")
                return
            if arriving.rejected is not None:
                hub.note_answered(notifier, number, arriving.rejected)
            elif writer is None or not writer.count:
                self._give_up_writer(arriving)
                hub.note_answered(notifier, number)
            else:
                try:
                    entry = writer.complete(hub.uns.now())
                except (SetError, SpoolFull, OSError) as error:
                    writer.abandon()
                    self._failed(error)
                    return
                hub.uns.counters.notifier_urls_received += entry.count
                self._pending.append(number)
                hub.deliver(notifier, number, entry)
                return
        self._pending.append(number)
        self.settled()

    def _failed(self, error: Exception) -> None:
        """The set that is arriving cannot be taken, for a reason that may pass."""
        why = "the spool is full"
        if isinstance(error, OSError):
            self._hub.uns.disk_failed(error)
            why = ERRORS[code(disk_fault(error))].text
        elif isinstance(error, LccError):
            why = error.text
        self.hold(why, FAILED_SECONDS)

    def _give_up(self) -> None:
        if self._arriving is not None:
            self._give_up_writer(self._arriving)
            self._arriving = None

    def _give_up_writer(self, arriving: _Arriving) -> None:
        writer, arriving.writer = arriving.writer, None
        if writer is not None:
            writer.abandon()

    # Answers.

    def settled(self) -> None:
        """A set has its answer."""
        if self._flush_call is None and not self._gone:
            self._flush_call = self.clock.callLater(0, self._flush)

    def _flush(self) -> None:
        """Give all answers that are due, in the order of the sets."""
        self._flush_call = None
        notifier, pending = self._notifier, self._pending
        assert notifier is not None
        counters, outcomes = self._hub.uns.counters, notifier.outcomes
        upto = 0
        while pending:
            verdict = outcomes.get(pending[0])
            if verdict is None:
                break
            number = pending.popleft()
            if verdict.code == 0:
                counters.notifier_sets_accepted += 1
                upto = number
                continue
            if upto:
                self.say(Accepted(upto))
                upto = 0
            counters.notifier_sets_rejected += 1
            _log.info(
                "Rejected set {number} of {name}: {code} {text}",
                number=number,
                name=notifier.name,
                code=verdict.code,
                text=verdict.text,
            )
            self.say(Rejected(number, verdict.code, verdict.text[:_TEXT_CHARS]))
        if upto:
            self.say(Accepted(upto))
        self.room_made()
        self._end_if_done()

    # Holding.

    def hold(self, why: str, seconds: float = 0) -> None:
        """Take no sets for this long, at least: what comes is thrown away until the notifier begins again."""
        if self._gone:
            return
        self._why = why
        self._held_until = max(self._held_until, self.clock.seconds() + seconds)
        if self._arriving is not None:
            self._give_up_writer(self._arriving)
        if not self._holding or self._told_go:
            self._holding, self._told_go = True, False
            self.say(Hold(True, why[:_TEXT_CHARS]))
        self._check_later()

    def check(self) -> None:
        """See whether sets can be taken."""
        why = self._hub.trouble()
        if why:
            if not self._holding or self._told_go:
                self.hold(why)
            self._why = why
        elif self._holding and not self._told_go and self.clock.seconds() >= self._held_until:
            self._told_go = True
            self.say(Hold(False))
        self._check_later()

    def _check_later(self) -> None:
        if self._check_call is None and not self._gone:
            self._check_call = self.clock.callLater(_CHECK_SECONDS, self._check_again)

    def _check_again(self) -> None:
        self._check_call = None
        self.check()

    def _begin_again(self) -> None:
        """The notifier sends all sets without an answer, from the oldest on."""
        if not self._told_go or self._arriving is not None:
            raise StreamError("unknown-message", "<again> where nothing was held")
        self._holding = self._told_go = False
        self._last_number = 0
        self._pending.clear()
        self.check()

    # Questions.

    def _other(self, message: Flat) -> None:
        if isinstance(message, Again):
            self._begin_again()
        elif isinstance(message, Watch):
            assert self._notifier is not None
            if message.private and self._notifier.role not in MAY_WATCH_PRIVATE:
                raise StreamError("unknown-message", f"a private site is watched by a {self._notifier.role}")
            asked = message.crawl_delay_ms, message.private, message.hours
            self._answer(message, self._hub.watch(message.root, *asked))
        elif isinstance(message, Draw):
            self._answer(message, self._draw(message))

    async def _draw(self, message: Draw) -> int:
        pid, drawn = message.pid, self._drawn
        # What was told on another connection may be on its way through another UNS: with the same number, it would
        # count as newer than what is told here.
        held = message.held if message.held == drawn.get(pid) else 0
        order = await self._hub.draw(pid, held)
        if len(drawn) >= _DRAWN_MAX and pid not in drawn:
            del drawn[next(iter(drawn))]
        drawn[pid] = order
        return order

    def _answer(self, question: Watch | Draw, finding: Coroutine[Deferred[Any], Any, int]) -> None:
        self._questions += 1

        def answered(result: int | Failure) -> None:
            self._questions -= 1
            fault, text, value = 0, "", 0
            if isinstance(result, int):
                value = result
            elif isinstance(result.value, Refused):
                fault, text = result.value.code, result.value.text[:_TEXT_CHARS]
            else:
                _log.failure("Cannot answer a notifier", failure=result)
                fault, text = code("internal"), ERRORS[code("internal")].text
            kind = Watched if isinstance(question, Watch) else Drawn
            self.say(kind(question.id, value, fault, text))
            self.room_made()

        Deferred.fromCoroutine(finding).addBoth(answered)


def notifier_port(hub: Notifiers, roles: frozenset[str], limits: ConnectionLimits) -> NotifierPort:
    """A port of the UNS for notifiers of these roles.

    :param limits: of connections, which all its ports share.
    """

    def build(expected: frozenset[str], place: Place) -> Protocol:
        return NotifierConnection(hub, expected, place).build_stream()

    def count_refused() -> None:
        hub.uns.counters.notifier_connections_refused += 1

    return NotifierPort(build, roles, limits, count_refused)
