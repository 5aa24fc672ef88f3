"""One provider's connection, from its ``<init>`` to its end.

*Owns* the set that is arriving (its file in the spool) and what the provider has not read yet.

*Strategy.*  The feed stops at the end of each document, so that the peer is paused while its login or its set is
being decided; elements are checked and spooled as they come, and error containers are sent at once.  What is not read
goes to a nameless file, so that a provider that sends its whole set before it reads gets its answer, too.

*Failures.*  Every rejection is written, then the sending half is closed and the rest is read and thrown away, within
bounds.  A set that is cut off or rejected leaves nothing.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.domain.notices.elements import ElementChecker, ElementError
from lcc.errors import ERRORS, LccError, SetError, StoreUnavailable, StreamError, code, entry_for
from lcc.interfaces import IConversation
from lcc.model import Provider, ProviderStatus, SetStart
from lcc.protocols import cp_uns_server as wire
from lcc.protocols.cp_uns import (
    INIT_LIMITS,
    SET_LIMITS,
    CpMessage,
    FastUrls,
    Init,
    SetBegin,
    SetEnd,
    UrlElement,
    write_fault,
)
from lcc.protocols.uns_qm import write_notice
from lcc.protocols.xmlfeed import Event, XmlFeed
from lcc.roles.uns.delivery import Verdict, disk_fault
from lcc.roles.uns.engine import Uns
from lcc.roles.uns.fast_set import FastSet
from lcc.roles.uns.login import LoggedIn, Login, LoginRefused
from lcc.storage.disk.error_file import ErrorFile, ErrorFileFull
from lcc.storage.disk.spool import SetWriter, SpoolFull
from lcc.transport.ports.connection_limits import Place, party_of_host
from lcc.transport.stream import StreamLimits, XmlStream

_log = Logger()

_LINGER_SECONDS = 30


@attrs.define
class _Arriving:
    """The set that is arriving, or whose answer is awaited.

    :ivar order: its order number.
    :ivar writer: None once the set is complete.
    :ivar received: valid elements.
    :ivar names_something: an element, refused or not, names a URL within the provider's roots.
    """

    prefix: str
    full: bool
    order: int
    checker: ElementChecker
    writer: SetWriter | None
    fast: FastSet
    elements: int = 0
    received: int = 0
    names_something: bool = False


@implementer(IConversation)
class Session:
    """The conversation with one provider.

    :param refusal: name of the error that this connection is refused with once it has said who it is; empty: none.
    :param gateway: at the other end is a gateway that speaks for a provider, and says more in its messages.
    :ivar place: of this connection, among those that there may be.
    :ivar number: of the provider's connections, as it was told; 0: it has not been let in.
    """

    def __init__(self, uns: Uns, address: str, refusal: str, place: Place, gateway: bool = False) -> None:
        self.place = place
        self.gateway = gateway
        self.number = 0
        self._uns = uns
        self._address = address
        self._refusal = refusal
        self._feed = XmlFeed(INIT_LIMITS)
        self._reader = wire.ServerReader(self._feed)
        self._stream: XmlStream = None  # type: ignore[assignment]  # set in stream_opened, before anything else runs
        self._decision = Login(uns, gateway)
        self._login_call: IDelayedCall | None = None
        self._drain_call: IDelayedCall | None = None
        self._deciding = False
        self._closed = False
        """Nothing more is to be said: the connection is gone, or the UNS has ended it."""
        self._beginning: SetBegin | None = None
        self._order = 0
        self._provider: Provider | None = None
        self._checker: ElementChecker | None = None
        self._status: ProviderStatus | None = None
        self._full_set_wanted = False
        self._set: _Arriving | None = None
        self._unread: ErrorFile | None = None

    def build_stream(self) -> XmlStream:
        """The Twisted protocol for this session."""
        # No stall timeout: a provider may send its whole set before it reads; see _watch_reading.
        limits = StreamLimits(
            idle_timeout_seconds=self._uns.settings.idle_timeout,
            stall_timeout_seconds=0,
            linger_seconds=_LINGER_SECONDS,
        )
        return XmlStream(self, self._uns.clock, self._feed, limits)

    @property
    def pid(self) -> int:
        """The provider, once it has been let in; else 0."""
        return 0 if self._provider is None else self._provider.pid

    def describe(self) -> str:
        """Who it is and what it does, for a person."""
        who = f"provider {self.pid}" if self.pid else "not logged in"
        return f"{who} from {self._address or 'a UNIX socket'}: {self._stands()}"

    def _stands(self) -> str:
        arriving = self._set
        if self._beginning is not None:
            return "its set waits for an order number"
        if arriving is None:
            return (
                "between sets" if self.pid else "its password is looked at" if self._deciding else "says nothing yet"
            )
        kind = "full set" if arriving.full else "set"
        if arriving.writer is None:
            return f"{kind} of {arriving.elements:,} elements, complete: it waits for the answer"
        return f"{kind} arriving, {arriving.elements:,} elements so far"

    def drop(self) -> None:
        """Cut the connection."""
        self._stream.abort()

    def stop(self) -> None:
        """The UNS ends.  A set that is complete gets its answer, and who has not read one yet can still read it; all
        else is rejected, "try again later"."""
        arriving = self._set
        if self._closed or (self._unread if arriving is None else arriving.writer is None):
            return  # the answer to a set is on its way; _read_on comes back to this
        error = ERRORS[code("try-later")]
        if self._provider is None:
            self._reject_init(error.code, error.text)
        elif arriving is not None or self._beginning is not None or self._feed.unfinished:
            self._reject_set(error.code, error.text, self._feed.root_prefix)
        else:
            self._stream.finish()
        self._closed = True

    # IConversation.

    def stream_opened(self, stream: XmlStream) -> None:
        self._stream = stream
        self._login_call = self._uns.clock.callLater(self._uns.settings.login_timeout, self._no_login)
        self._uns.session_opened(self)

    def events_received(self, events: list[Event]) -> Deferred[None] | None:
        try:
            messages = self._reader.events(events)
        except SetError as error:
            self._reject_set(error.code, error.text, self._feed.root_prefix)
            return None
        return self._take(messages)

    def stream_failed(self, error: StreamError) -> None:
        if self._provider is None:
            self._reject_init(error.code, error.text)
        elif self._set is not None or error.entry.name != "timeout":
            self._reject_set(error.code, error.text, self._feed.root_prefix)
        else:
            self._stream.finish()

    def stream_resumed(self) -> None:
        self._send_unread()
        self._watch_reading()

    def peer_finished(self) -> None:
        if self._deciding:
            return  # what it sent before still waits for its answer; _read_on comes back to this
        error = ERRORS[code("cut-off")]
        if self._provider is None and self._feed.unfinished:
            self._reject_init(error.code, error.text)
        elif self._provider is not None and (self._set is not None or self._feed.unfinished):
            if self._set is not None:
                self._uns.counters.sets_cut_off += 1
            self._reject_set(error.code, error.text, self._feed.root_prefix)
        else:
            self._stream.finish()

    def stream_closed(self, reason: Failure) -> None:
        self._closed = True
        self._give_up_set()
        self._cancel_calls()
        if self._unread is not None:
            self._unread.close()
        self._uns.session_closed(self)

    # Logging in.

    def _no_login(self) -> None:
        error = ERRORS[code("timeout")]
        self._reject_init(error.code, error.text)

    def _reject_init(self, number: int, text: str, pid: int | None = None) -> None:
        self._cancel_calls()
        self._uns.counters.logins_rejected += 1
        _log.info(
            "Login from {address}{who} rejected: {code} {text}",
            address=self._address,
            who="" if pid is None else f" as provider {pid}",
            code=number,
            text=text,
        )
        self._stream.send(wire.init_rejected(self._feed.root_prefix, number, text))
        self._stream.finish()

    def _start(self, work: Coroutine[Deferred[Any], Any, None]) -> None:
        """Let something be decided; the peer is paused, because its document has ended."""
        self._deciding = True

        def failed(failure: Failure) -> None:
            _log.failure("Session failed; dropping the connection", failure=failure)
            self._stream.abort()

        Deferred.fromCoroutine(work).addErrback(failed)

    async def _login(self, init: Init) -> None:
        party = self.place.party
        if self.gateway:
            self._address, party = init.address, party_of_host(init.address)
        try:
            if self._refusal:
                raise LoginRefused(self._refusal)
            logged_in = await self._decision.decide(init, self._address, party)
        except LoginRefused as refused:
            if not self._closed:
                self._reject_init(refused.entry.code, refused.entry.text, init.pid)
        except StoreUnavailable:  # which the store has logged
            if not self._closed:
                entry = ERRORS[code("try-later")]
                self._reject_init(entry.code, entry.text, init.pid)
        else:
            if not self._closed:
                self._let_in(init, logged_in)

    def _let_in(self, init: Init, logged_in: LoggedIn) -> None:
        uns = self._uns
        self._provider, self._status = provider, status = logged_in.provider, logged_in.status
        self.number, self._order = logged_in.counted.number, logged_in.counted.order
        self._full_set_wanted = bool(status.full_set_wanted)
        uns.counters.logins_accepted += 1
        uns.session_let_in(self)
        self._stream.send(
            wire.init_accepted(init.prefix, logged_in.counted, uns.mimetypes, provider, status, self.gateway)
        )
        self._feed.limits = attrs.evolve(SET_LIMITS, document_bytes=uns.settings.set_bytes_max)
        self._next_document()

    def _next_document(self) -> None:
        """Go on reading.  In a turn of its own: a peer can send thousands of empty documents in one piece."""
        self._deciding = False
        self._uns.clock.callLater(0, self._read_on)

    def _read_on(self) -> None:
        if self._closed:
            return
        self._stream.next_document()
        if self._closed or self._deciding:
            return
        if self._uns.stopping:
            self.stop()
        elif self._stream.peer_finished:
            self.peer_finished()

    # A set.

    def _take(self, messages: list[CpMessage]) -> Deferred[None] | None:
        """Work these off.

        :returns: fires when all of them are; the peer is paused until then.  None: they are.
        """
        for index, message in enumerate(messages):
            if type(message) is UrlElement:
                if self._set is None:
                    return None  # the set was rejected; what is left of this piece is of no interest
                self._element(self._set, message.attributes)
            elif type(message) is FastUrls:
                if self._set is None:
                    return None
                self._fast_urls(self._set, message)
            elif isinstance(message, SetBegin):
                return Deferred.fromCoroutine(self._begin(message, messages[index + 1 :]))
            elif isinstance(message, SetEnd):
                if self._set is not None:
                    self._start(self._end(self._set))
            elif isinstance(message, Init):
                self._cancel_calls()
                self._start(self._login(message))
        return None

    async def _begin(self, begin: SetBegin, rest: list[CpMessage]) -> None:
        """A set begins: it gets its order number, and then what has come of it so far is taken."""
        uns, status = self._uns, self._status
        assert self._provider is not None and status is not None
        pid = self._provider.pid
        self._beginning = begin
        wanted = begin.full and self._full_set_wanted
        counts = begin.full and not wanted and status.full_sets_left is not None
        try:
            if not uns.takes_sets:
                raise SetError("try-later")
            checker = self._checker
            if checker is None or checker.urlprefix != begin.urlprefix:
                checker = self._checker = uns.checker(self._provider, begin.urlprefix)
            if uns.is_full():
                raise SpoolFull
            order = await (self._order_again(begin) if self.gateway and begin.order else self._draw(counts))
        except (LccError, SpoolFull, StoreUnavailable) as error:
            self._beginning = None
            if not self._closed:
                self._reject_set(*self._reason(error), begin.prefix)
            return
        self._beginning = None
        # What a full set does not name may be deleted long after it came, where its deletions are held: what this
        # session tells next must be newer than it.
        self._order = 0 if begin.full or begin.order else order
        if self._closed:
            uns.sequencer.give_up(pid, order)
            return
        try:
            upto, wantid = begin.errors_upto if self.gateway else status.errors_upto, status.wantid if wanted else 0
            writer = uns.spool.begin(
                pid=pid, connseq=order, full=begin.full, errors_upto=upto, wantid=wantid, deletions=begin.deletions
            )
        except (SpoolFull, OSError) as error:
            uns.sequencer.give_up(pid, order)
            self._reject_set(*self._reason(error), begin.prefix)
            return
        checker.blanked_subtypes = 0
        self._set = _Arriving(begin.prefix, begin.full, order, checker, writer, FastSet(checker))
        opening = wire.set_result_open(begin.prefix, order if self.gateway else 0)
        # A gateway that has sent all of a set waits for the verdict: its answer leaves in one piece.
        whole = self.gateway and any(type(message) is SetEnd for message in rest)
        self._stream.send(opening, soon=not whole)
        self._take(rest)

    def _draw(self, counts: bool) -> Deferred[int]:
        uns, pid = self._uns, self.pid
        return uns.sequencer.begin(SetStart(pid, self._order, uns.forwarder.newest_order(pid), counts))

    async def _order_again(self, begin: SetBegin) -> int:
        """The number that a partial set had when it was told before."""
        drawn = await self._uns.ask(self._uns.sessions.last_drawn([self.pid]))
        if begin.full or begin.order > drawn.get(self.pid, 0):
            raise SetError("bad-order")
        return begin.order

    def _element(self, arriving: _Arriving, attributes: dict[str, str]) -> None:
        writer = arriving.writer
        assert writer is not None
        try:
            arriving.elements += 1
            if arriving.elements > self._uns.settings.set_urls_max:
                raise SetError("set-too-large", f"more than {self._uns.settings.set_urls_max} elements")
            try:
                notice = arriving.checker.check(attributes)
            except ElementError as error:
                self._uns.counters.urls_refused += 1
                self._tell(write_fault(error.code, error.url, attributes.items(), error.text))
                notice = error.named if arriving.full else None
            else:
                arriving.received += 1
                if arriving.fast.learn(attributes):
                    self._feed.spellings = arriving.fast.spellings
            if notice is not None:
                arriving.names_something = arriving.names_something or arriving.checker.roots.contains(notice.curl)
                writer.add(write_notice(notice))
        except (SetError, SpoolFull, ErrorFileFull, OSError) as error:
            self._reject_set(*self._reason(error), arriving.prefix)

    def _fast_urls(self, arriving: _Arriving, run: FastUrls) -> None:
        """As :meth:`_element` for each of them, but all at once where that does the same."""
        writer, count = arriving.writer, len(run.rows)
        assert writer is not None
        lines = arriving.fast.lines(run)
        if lines is None or arriving.elements + count > self._uns.settings.set_urls_max:
            for row in run.rows:
                if self._set is None:
                    return
                self._element(arriving, run.spelling.attributes(row))
            return
        arriving.elements += count
        arriving.received += count
        arriving.names_something = True
        try:
            writer.add_lines(lines, count)
        except (SetError, SpoolFull, OSError) as error:
            self._reject_set(*self._reason(error), arriving.prefix)

    async def _end(self, arriving: _Arriving) -> None:
        uns, writer = self._uns, arriving.writer
        assert writer is not None
        try:
            if arriving.full and arriving.elements and not arriving.names_something:
                raise SetError("names-nothing")  # all there is would be deleted; most likely its urlprefix is wrong
            entry = writer.complete(uns.now())
        except (SpoolFull, SetError, OSError) as error:
            self._reject_set(*self._reason(error), arriving.prefix)
            return
        arriving.writer = None
        uns.counters.urls_received += arriving.received
        uns.counters.set_bytes += entry.body_bytes
        verdict: Verdict | None = await uns.forwarder.deliver(entry)
        if self._closed:
            return
        if verdict is None:
            self._stream.abort()
        elif verdict.code:
            self._reject_set(verdict.code, verdict.text or entry_for(verdict.code).text, arriving.prefix)
        else:
            uns.counters.sets_accepted += 1
            if arriving.full:
                self._full_set_wanted = False  # it was that one, if one was wanted
            self._finish_set(arriving)

    def _finish_set(self, arriving: _Arriving) -> None:
        """The set is accepted: say so, behind all its errors."""
        try:
            blanked = arriving.checker.blanked_subtypes
            if blanked:
                _log.info(
                    "Blanked {count} subtypes of provider {pid}: not of the form type: value",
                    count=blanked,
                    pid=self.pid,
                )
            self._tell(wire.set_accepted(arriving.prefix, arriving.received, blanked), bounded=False)
        except OSError as error:
            self._uns.disk_failed(error)
            self._stream.abort()  # it is accepted, but that cannot be said; when it comes again nothing changes
            return
        self._set = None
        self._watch_reading()
        if not self._unread:
            self._next_document()

    def _reject_set(self, number: int, text: str, prefix: str) -> None:
        """Reject the set that arrives, or whatever came in its place, and close."""
        self._uns.counters.sets_rejected += 1
        _log.info("Rejected a set of provider {pid}: {code} {text}", pid=self.pid, code=number, text=text)
        opened = self._set is not None
        if self._set is not None:
            prefix = self._set.prefix
            self._give_up_set(counted=True)
        if self._unread is not None:
            self._unread.close()  # it does not read; the answer must not wait for that
        text = wire.set_rejected(prefix, number, text)
        self._stream.send(text if opened else wire.set_result_open(prefix) + text)
        self._stream.finish()

    def _give_up_set(self, counted: bool = False) -> None:
        arriving, self._set = self._set, None
        if arriving is not None and arriving.writer is not None:
            if not counted:
                self._uns.counters.sets_cut_off += 1
            arriving.writer.abandon()
            arriving.writer = None
            self._uns.sequencer.give_up(self.pid, arriving.order)

    def _reason(self, error: Exception) -> tuple[int, str]:
        """Code and text for a set that cannot be taken because of this."""
        if isinstance(error, LccError):
            return error.code, error.text
        if isinstance(error, SpoolFull | StoreUnavailable):
            entry = ERRORS[code("try-later")]
        elif isinstance(error, ErrorFileFull):
            entry = ERRORS[code("limit")]
            return entry.code, f"{entry.text}: too many error containers were sent and not read"
        else:
            assert isinstance(error, OSError)
            self._uns.disk_failed(error)
            entry = ERRORS[code(disk_fault(error))]
        return entry.code, entry.text

    # What the provider does not read yet.

    def _tell(self, text: str, bounded: bool = True) -> None:
        """Send, or keep in order what cannot be sent yet.

        :raises ErrorFileFull, OSError: it cannot be kept.
        """
        if self._stream.writable and not self._unread:
            self._stream.send(text)
            return
        if self._unread is None:
            self._unread = self._uns.spool.error_file(self._uns.settings.unsent_errors_max_bytes)
        self._unread.append(text, bounded=bounded)

    def _send_unread(self) -> None:
        unread = self._unread
        if not unread:
            return
        try:
            while self._stream.writable and unread:
                self._stream.send(unread.take().decode())
                self._stream.flush()
        except OSError as error:
            self._uns.disk_failed(error)
            self._stream.abort()
            return
        if not unread and self._set is None:
            self._next_document()  # it has read the whole answer to its set

    def _watch_reading(self) -> None:
        """Once its set has ended, a provider that does not read is dropped after the idle time."""
        call, self._drain_call = self._drain_call, None
        if call is not None and call.active():
            call.cancel()
        if self._unread and self._set is None:
            self._drain_call = self._uns.clock.callLater(self._uns.settings.idle_timeout, self._stream.abort)

    def _cancel_calls(self) -> None:
        self._decision.cancel()
        for name in ("_login_call", "_drain_call"):
            call: IDelayedCall | None = getattr(self, name)
            setattr(self, name, None)
            if call is not None and call.active():
                call.cancel()
