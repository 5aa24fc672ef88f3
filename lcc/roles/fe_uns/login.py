"""A provider's connection until it is spliced with one to its sub-LCC: its ``<init>``, and what is said of it.

All that the provider sends is kept as it came (``<init>`` is short, and reading stops behind it), so that it can be
said again to the sub-LCC's UNS, byte for byte.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import LccError, SetError, StoreUnavailable, StreamError
from lcc.interfaces import IConversation, IFeed
from lcc.model.frontend.places import AtHome, SubLcc
from lcc.protocols.cp_uns import INIT_LIMITS, Init
from lcc.protocols.cp_uns_server import ServerReader, init_rejected
from lcc.protocols.xmlfeed import Event, XmlFeed
from lcc.roles.fe_uns.engine import HOLD_STEP_SECONDS, FeUns, Passing, Unreachable
from lcc.transport.constant_time import constant_time
from lcc.transport.ports.connection_limits import Place
from lcc.transport.ports.proxy_protocol import proxy_header
from lcc.transport.splice import Splice, SpliceEnd
from lcc.transport.stream import StreamLimits, XmlStream

_log = Logger()

REJECTED_SECONDS = 0.5
"""An unknown id is answered after this time, or a multiple of it, as a wrong login is by a UNS."""
_LINGER_SECONDS = 30


@implementer(IFeed)
class RecordingFeed:
    """A feed that keeps the bytes that it is given.

    :ivar heard: all of them.
    """

    def __init__(self, feed: XmlFeed) -> None:
        self._feed = feed
        self.heard = bytearray()

    @property
    def waiting(self) -> bool:
        """As the feed says."""
        return self._feed.waiting

    @property
    def salvaged(self) -> list[Event]:
        """As the feed says."""
        return self._feed.salvaged

    def receive(self, data: bytes) -> list[Event]:
        self.heard += data
        return self._feed.receive(data)

    def next_document(self) -> list[Event]:
        return self._feed.next_document()


@implementer(IConversation)
class Login:
    """
    :param refusal: name of the error that this connection is refused with once it has said who it is; empty: none.
    :ivar place: of this connection, among those that there may be.
    """

    def __init__(self, uns: FeUns, address: IAddress | None, refusal: str, place: Place) -> None:
        self.place = place
        self._uns = uns
        self._peer = address
        self._address: str = getattr(address, "host", "")
        self._refusal = refusal
        self._feed = XmlFeed(INIT_LIMITS)
        self._recording = RecordingFeed(self._feed)
        self._reader = ServerReader(self._feed)
        self._stream: XmlStream = None  # type: ignore[assignment]  # set in stream_opened, before anything else runs
        self._timer: IDelayedCall | None = None
        self._working: Deferred[None] | None = None
        self._guess: tuple[SubLcc, Deferred[SpliceEnd]] | None = None
        """The sub-LCC where the provider probably is, and the connection to it: made while PMDB is asked."""
        self._pid = 0
        self._held = False
        """It moves, or is just being made: it waits."""
        self._over = False
        """It has its answer, or the connection is gone or spliced."""

    def build_stream(self) -> XmlStream:
        """The Twisted protocol for this login."""
        limits = StreamLimits(
            idle_timeout_seconds=0, stall_timeout_seconds=_LINGER_SECONDS, linger_seconds=_LINGER_SECONDS
        )
        return XmlStream(self, self._uns.clock, self._recording, limits)

    def describe(self) -> str:
        """Who it is and what it does, for a person."""
        who = f"provider {self._pid}" if self._pid else "not logged in"
        stands = "its sub-LCC is looked for" if self._working is not None else "says nothing yet"
        return f"{who} from {self._address or 'a UNIX socket'}: {stands}"

    def drop(self) -> None:
        """Cut the connection."""
        self._stream.abort()

    def stop(self) -> None:
        """The proxy ends."""
        self._reject_as("try-later")

    # IConversation.

    def stream_opened(self, stream: XmlStream) -> None:
        self._stream = stream
        self._timer = self._uns.clock.callLater(self._uns.settings.login_timeout, self._reject_as, "timeout")
        self._uns.login_opened(self)

    def events_received(self, events: list[Event]) -> None:
        try:
            messages = self._reader.events(events)
        except SetError as error:  # only of a set, of which nothing is read here
            raise StreamError("unknown-message", error.text) from None
        for message in messages:
            if isinstance(message, Init) and not self._over:
                self._begin(message)

    def stream_failed(self, error: StreamError) -> None:
        self._reject(error)

    def stream_resumed(self) -> None:
        """Its answer has gone out."""

    def peer_finished(self) -> None:
        if self._working is not None:
            return  # that is passed on
        if self._feed.unfinished:
            self._reject_as("cut-off")
        else:
            self._end()
            self._stream.finish()

    def stream_closed(self, reason: Failure) -> None:
        self._end()
        if self._working is not None:
            self._working.cancel()
        self._uns.login_closed(self)

    # Inside.

    def _begin(self, init: Init) -> None:
        self._pid = init.pid
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        work = self._working = Deferred.fromCoroutine(self._route(init))

        def failed(failure: Failure) -> None:
            if not self._over:
                _log.failure("Login failed; dropping the connection", failure=failure)
                self._stream.abort()

        work.addErrback(failed)

    async def _route(self, init: Init) -> None:
        finding = Deferred.fromCoroutine(self._sub_of(init.pid))
        probably = None if finding.called or self._held else self._uns.guess(init.pid)
        if probably is not None:
            self._guess = probably, Deferred.fromCoroutine(self._uns.connect(probably))
        try:
            sub = await finding
            server = await self._connect(sub)
        except LccError as error:
            self._reject(error)
        except StoreUnavailable as error:
            self._reject_as("try-later", str(error))
        except Unreachable as error:
            self._uns.counters.sublccs_unreachable += 1
            self._reject_as("try-later", str(error))
        else:
            if self._over:
                server.abort()
            else:
                self._splice(server, sub)
        finally:
            self._drop_guess()

    async def _connect(self, sub: SubLcc) -> SpliceEnd:
        """A connection to one of the UNSes of the provider's sub-LCC.

        :raises Unreachable: there is none.
        """
        if self._guess is not None and self._guess[0] == sub:
            connecting, self._guess = self._guess[1], None
            server = await connecting
            if server.is_fresh:
                return server
            server.abort()  # it was closed meanwhile
        return await self._uns.connect(sub)

    def _drop_guess(self) -> None:
        """The connection that was made while PMDB was asked is of no use."""
        if self._guess is not None:
            connecting, self._guess = self._guess[1], None
            connecting.addCallbacks(lambda server: server.abort(), lambda _: None)
            connecting.cancel()

    async def _sub_of(self, pid: int) -> SubLcc:
        """The sub-LCC that a provider is in, once it is there.

        :raises LccError: there is none, or it is not there in time.
        :raises StoreUnavailable: the front end's database does not say.
        """
        uns = self._uns
        if self._refusal:
            raise LccError(self._refusal)
        begun = uns.clock.seconds()
        party = self.place.party
        if uns.throttle.is_throttled(pid, party, begun):
            raise LccError("throttled")
        while True:
            found = await uns.find(pid)
            if found is None:
                uns.throttle.failed(party, uns.clock.seconds())
                await constant_time(uns.clock, begun, REJECTED_SECONDS)
                raise LccError("access-denied")
            sub, placement = found
            if placement.state is AtHome.HERE:
                return sub
            if not self._held:
                self._held = True
                self._drop_guess()
                uns.counters.logins_held += 1
            if uns.clock.seconds() + HOLD_STEP_SECONDS > begun + uns.settings.hold:
                raise LccError("try-later")
            await deferLater(uns.clock, HOLD_STEP_SECONDS)

    def _splice(self, server: SpliceEnd, sub: SubLcc) -> None:
        stream, uns = self._stream, self._uns
        self._end()
        said_all = stream.peer_finished
        transport: Any = stream.transport
        header = proxy_header(self._peer, transport.getHost()) if sub.proxy_protocol else b""
        server.send(header + bytes(self._recording.heard))
        client = SpliceEnd()
        splice = Splice(client, server)
        uns.passes(self, Passing(splice, self._pid, sub, self._address, self.place, uns.clock.seconds()))
        stream.hand_over(client)
        splice.begin(said_all)

    def _end(self) -> None:
        self._over = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _reject_as(self, name: str, why: str = "") -> None:
        self._reject(LccError(name), why)

    def _reject(self, error: LccError, why: str = "") -> None:
        if self._over:
            return
        self._end()
        self._uns.counters.logins_rejected += 1
        _log.info(
            "Login from {address}{who} rejected: {code} {text}{why}",
            address=self._address,
            who=f" as provider {self._pid}" if self._working is not None else "",
            code=error.code,
            text=error.text,
            why=f" ({why})" if why else "",
        )
        self._stream.send(init_rejected(self._feed.root_prefix, error.code, error.text))
        self._stream.finish()
