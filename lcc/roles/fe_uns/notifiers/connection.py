"""One connection of a notifier to the front end.

*Owns* its sets that have no answer, in memory, and a link to each sub-LCC that it has told something.

*Strategy.*  A set is read whole and told to the sub-LCC that its provider is in, in the order of the sets; those of
many providers are looked up together.  Answers go out in the same order, once a turn.  Order numbers and watched
providers are asked for where the provider is.

*Moves.*  A set that a sub-LCC rejects because it has no such provider (any more) is looked up again, and goes to
where the provider is by then.  Numbers ascend on a link, so the link to there is made anew, and what has no answer of
it told again.  Each sub-LCC hears that there are sets in between, which may come to it yet.  A site that has left the
sub-LCC which is asked to watch it is looked up again, too.

*Failures.*  Sets wait here, and the notifier is not read from, while the front end's database is away, while the next
provider is moving, and while as much as the window allows waits for a sub-LCC.  When this connection is lost, so are
the links: the notifier sends again what has no answer, each set goes the same way, and is applied once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Mapping
from operator import attrgetter
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import ERRORS, StreamError, code
from lcc.model.frontend.places import SubLcc
from lcc.model.notifiers import NoticeOutcome, SourcedSet
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
    Rejected,
    SetBegin,
    SetEnd,
    Watch,
    Watched,
    check_notifier_hello,
)
from lcc.protocols.xmlfeed import Start
from lcc.roles.fe_uns.engine import HOLD_STEP_SECONDS
from lcc.roles.fe_uns.notifiers.relay import Home, NotifierRelay, NotNow, Refused, SubLink
from lcc.roles.notifier import NotifierRefused
from lcc.roles.peer import Peer
from lcc.transport.ports.connection_limits import Place

_log = Logger()

_TOGETHER_MAX = 500
"""Sets whose providers are looked up together."""
_QUESTIONS_MAX = 500
_LOOKS_MAX = 3
"""So often a sub-LCC is looked for that has a site: it may leave the one that was found."""
_GONE, _MOVED = code("provider-gone"), code("site-moved")


@attrs.define(eq=False)
class _Arriving:
    """The set that is arriving."""

    begin: SetBegin
    urls: list[Mapping[str, str]] = attrs.field(factory=list)
    count: int = 0
    bytes: int = 0


@attrs.define(eq=False)
class _Waiting:
    """A set without an answer.

    :ivar told: None: there is an outcome.
    :ivar subid: the sub-LCC that it was told to; 0: none yet.
    :ivar outcome: None: there is none yet.
    """

    number: int
    told: SourcedSet | None
    bytes: int
    subid: int = 0
    outcome: NoticeOutcome | None = None


class RelayedNotifier(Peer):
    """See :mod:`lcc.roles.fe_uns.notifiers.connection`.

    :param roles: that may be at the other end.
    :param place: of this connection, among those that there may be.
    """

    def __init__(self, relay: NotifierRelay, roles: frozenset[str], place: Place) -> None:
        super().__init__(relay.uns.clock, Hello(role="uns", name="front-end"), roles, FROM_NOTIFIER)
        self._relay = relay
        self._place = place
        self._links: dict[int, SubLink] = {}
        self._newest: dict[int, int] = {}
        """Number of the newest set that was told on the link to a sub-LCC."""
        self._arriving: _Arriving | None = None
        self._last_number = 0
        self._unanswered: deque[_Waiting] = deque()
        self._unrouted: deque[_Waiting] = deque()
        self._bytes = 0
        self._questions = 0
        self._why = ""
        self._routing: Deferred[None] | None = None
        self._flush_call: IDelayedCall | None = None
        self._room: Deferred[None] | None = None
        self._stopping = self._gone = False
        place.take()

    @property
    def name(self) -> str:
        """Role and name, as ``spider/main``; empty: it has not said so."""
        return "" if self.peer_hello is None else f"{self.peer_hello.role}/{self.peer_hello.name}"

    # The connection.

    def peer_ready(self, hello: Hello) -> None:
        check_notifier_hello(hello)
        self._relay.opened(self)
        self.say(self._relay.window)

    def peer_lost(self, reason: Failure) -> None:
        if self._gone:
            return
        self._gone = True
        if self._flush_call is not None:
            self._flush_call.cancel()
            self._flush_call = None
        for link in self._links.values():
            link.close()
        self._links.clear()
        if self._routing is not None:
            self._routing.cancel()
        self._place.leave()
        self._relay.closed(self)
        self._room_made()

    def stream_resumed(self) -> None:
        self._room_made()

    def describe(self) -> str:
        """Who it is and what it does, for a person."""
        if self.peer_hello is None:
            return "a notifier without a hello"
        held = [f"sub-LCC {link.sub.name} holds: {link.held}" for link in self._links.values() if link.held]
        waiting = f"{len(self._unanswered):,} sets without an answer, {len(self._unrouted):,} of them not passed on"
        return "; ".join([f"{self.name}: {waiting}", *held, *filter(None, [self._why])])

    def drop(self) -> None:
        """Cut the connection; what has no answer is told again on the next one."""
        self.stream.abort()
        self.peer_lost(Failure(ConnectionAborted()))

    def stop(self) -> None:
        """The front end stops: answer what is under way, and end."""
        self._stopping = True
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._stopping and not self._unanswered and not self._gone:
            self.stream.finish()

    # Reading.

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        for name, attributes, _depth in elements:
            if name == URL_TAG:
                self._element(attributes)
                continue
            message = FROM_NOTIFIER.read(name, attributes)
            if isinstance(message, SetBegin):
                self._begin(message)
            elif isinstance(message, SetEnd):
                self._end(message)
            else:
                self._other(message)
        if self._may_go_on():
            return None
        if self._room is None or self._room.called:
            self._room = Deferred()
        return self._room

    def _may_go_on(self) -> bool:
        window = self._relay.window
        return self._gone or (
            self.stream.writable
            and not self._stopping
            and self._questions < _QUESTIONS_MAX
            and len(self._unanswered) <= window.sets
            and self._bytes <= window.bytes
        )

    def _room_made(self) -> None:
        if self._room is not None and not self._room.called and self._may_go_on():
            self._room.callback(None)

    def _begin(self, message: SetBegin) -> None:
        if self._arriving is not None:
            raise StreamError("unknown-message", "<set> inside of a set")
        if message.number <= self._last_number:
            raise StreamError("unknown-message", f"set {message.number} after set {self._last_number}")
        self._last_number = message.number
        self._arriving = _Arriving(message)

    def _element(self, attributes: Mapping[str, str]) -> None:
        arriving, window = self._arriving, self._relay.window
        if arriving is None:
            raise StreamError("unknown-message", "<url> outside a set")
        arriving.count += 1
        arriving.bytes += sum(map(len, attributes.values()))
        if arriving.count > window.set_urls or arriving.bytes > window.set_bytes:
            arriving.urls.clear()
        else:
            arriving.urls.append(attributes)

    def _end(self, message: SetEnd) -> None:
        arriving, self._arriving = self._arriving, None
        if arriving is None:
            raise StreamError("unknown-message", "<end> outside a set")
        if message.count != arriving.count:
            raise StreamError("unknown-message", f"{arriving.count} elements where <end> says {message.count}")
        begin = arriving.begin
        waiting = _Waiting(begin.number, None, arriving.bytes)
        self._unanswered.append(waiting)
        window = self._relay.window
        if arriving.count > window.set_urls or arriving.bytes > window.set_bytes:
            waiting.bytes = 0
            self._reject(waiting, "set-too-large")
        elif begin.full:
            self._reject(waiting, "bad-set", "only a provider tells full sets")
        else:
            try:
                source = parse_source(begin.source)
            except ValueError as error:
                self._reject(waiting, "bad-set", str(error))
            else:
                self._keep(waiting, source, arriving)
        self._bytes += waiting.bytes
        if waiting.outcome is not None:
            self._answers_are_due()

    def _keep(self, waiting: _Waiting, source: Source, arriving: _Arriving) -> None:
        begin = arriving.begin
        waiting.told = SourcedSet(begin.number, begin.pid, source, tuple(arriving.urls), begin.order)
        self._unrouted.append(waiting)
        self._route_soon()

    def _route_soon(self) -> None:
        if self._routing is None or self._routing.called:
            self._routing = Deferred.fromCoroutine(self._route())
            self._routing.addErrback(self._broken)

    def _broken(self, failure: Failure) -> None:
        if not self._gone:
            _log.failure("Cannot pass on the sets of {name}; dropping it", failure=failure, name=self.name)
            self.drop()

    # Passing on.

    async def _route(self) -> None:
        """Tell each set to the sub-LCC that its provider is in, one after the other."""
        while self._unrouted and not self._gone:
            some = [self._unrouted.popleft() for _ in range(min(len(self._unrouted), _TOGETHER_MAX))]
            homes = await self._relay.homes({each.told.pid for each in some if each.told is not None})
            again: dict[int, SubLcc] = {}
            while some and not self._gone:
                told = some[0].told
                assert told is not None
                self._why = self._pass_on(some[0], told, homes[told.pid], again)
                if self._why:
                    break
                some.pop(0)
            for sub in again.values():
                self._tell_again(sub)
            if some and not self._gone:  # what follows waits, too
                self._put_back(some)
                await deferLater(self.clock, HOLD_STEP_SECONDS)

    def _put_back(self, some: list[_Waiting]) -> None:
        self._unrouted = deque(sorted([*some, *self._unrouted], key=attrgetter("number")))

    def _pass_on(self, waiting: _Waiting, told: SourcedSet, home: Home, again: dict[int, SubLcc]) -> str:
        """Tell a set, or reject it; gives why that cannot be done for now, else nothing.

        :param again: sub-LCCs that all is to be told again.
        """
        if isinstance(home, NotNow):
            return home.why
        former = waiting.subid
        if home is None or home.subid == former:
            self._reject(waiting, "provider-gone")
            self._answers_are_due()
            return ""
        try:
            link = self._link(home)
        except Refused as error:
            return error.text
        waiting.subid = home.subid
        if home.subid in again or waiting.number <= self._newest.get(home.subid, 0):
            again[home.subid] = home
        else:
            self._tell(link, waiting, told)
        return ""

    def _tell(self, link: SubLink, waiting: _Waiting, told: SourcedSet) -> None:
        self._newest[link.sub.subid] = waiting.number
        link.tell(told, gaps=True).addCallback(self._told, waiting)

    def _tell_again(self, sub: SubLcc) -> None:
        """What a sub-LCC has not answered, with what comes late, on a new link."""
        self._links.pop(sub.subid).close()
        link = self._link(sub)
        for waiting in self._unanswered:
            if waiting.subid == sub.subid and waiting.told is not None:
                self._tell(link, waiting, waiting.told)

    def _told(self, outcome: NoticeOutcome, waiting: _Waiting) -> None:
        if outcome.code == _GONE:
            self._put_back([waiting])
            self._route_soon()
            return
        waiting.told = None
        waiting.outcome = outcome
        self._answers_are_due()

    def _link(self, sub: SubLcc) -> SubLink:
        """
        :raises Refused: its endpoint cannot be used.
        """
        link = self._links.get(sub.subid)
        if link is not None and link.sub.notifiers != sub.notifiers:
            # The notifier sends again what the old link has not answered.
            self.clock.callLater(0, self.drop)
        if link is None:
            assert self.peer_hello is not None
            link = self._links[sub.subid] = self._relay.connect(sub, self.peer_hello)
        return link

    # Answers.

    def _reject(self, waiting: _Waiting, fault: str, text: str = "") -> None:
        entry = ERRORS[code(fault)]
        waiting.told = None
        waiting.outcome = NoticeOutcome(waiting.number, entry.code, f"{entry.text}: {text}" if text else entry.text)

    def _answers_are_due(self) -> None:
        if self._flush_call is None and not self._gone:
            self._flush_call = self.clock.callLater(0, self._flush)

    def _flush(self) -> None:
        """Give all answers that are due, in the order of the sets."""
        self._flush_call = None
        counters, upto = self._relay.uns.counters, 0
        while self._unanswered and self._unanswered[0].outcome is not None:
            waiting = self._unanswered.popleft()
            self._bytes -= waiting.bytes
            outcome = waiting.outcome
            assert outcome is not None
            for fault in outcome.refused:
                self.say(Fault(waiting.number, fault.index, fault.code, fault.text, fault.url))
            if not outcome.code:
                counters.notifier_sets_accepted += 1
                upto = waiting.number
                continue
            if upto:
                self.say(Accepted(upto))
                upto = 0
            counters.notifier_sets_rejected += 1
            self.say(Rejected(waiting.number, outcome.code, outcome.text))
        if upto:
            self.say(Accepted(upto))
        self._room_made()
        self._end_if_done()

    # Questions.

    def _other(self, message: Flat) -> None:
        if isinstance(message, Again):
            raise StreamError("unknown-message", "<again> where nothing was held")
        if isinstance(message, Watch):
            self._answer(message, self._watch(message))
        elif isinstance(message, Draw):
            self._answer(message, self._draw(message))

    async def _watch(self, message: Watch) -> int:
        for _ in range(_LOOKS_MAX):
            link = self._link(await self._relay.site(message.root))
            try:
                pid: int = await link.watch(message.root, message.crawl_delay_ms, message.hours, message.private)
            except NotifierRefused as refused:
                if refused.code != _MOVED:
                    raise
            else:
                return pid
        raise Refused(code("try-later"), f"{message.root[:200]} moves to another sub-LCC")

    async def _draw(self, message: Draw) -> int:
        home = (await self._relay.homes({message.pid}))[message.pid]
        if home is None:
            raise Refused(code("provider-gone"), ERRORS[code("provider-gone")].text)
        if isinstance(home, NotNow):
            raise Refused(code("try-later"), home.why)
        order: int = await self._link(home).draw(message.pid, message.held)
        return order

    def _answer(self, question: Watch | Draw, finding: Coroutine[Deferred[Any], Any, int]) -> None:
        self._questions += 1

        def answered(result: int | Failure) -> None:
            self._questions -= 1
            if self._gone:
                return
            fault, text, value = 0, "", 0
            if isinstance(result, int):
                value = result
            elif isinstance(result.value, Refused | NotifierRefused):
                fault, text = result.value.code, result.value.text
            else:
                _log.failure("Cannot answer a notifier", failure=result)
                fault, text = code("internal"), ERRORS[code("internal")].text
            kind = Watched if isinstance(question, Watch) else Drawn
            self.say(kind(question.id, value, fault, text))
            self._room_made()

        Deferred.fromCoroutine(finding).addBoth(answered)
