"""The port of the XML interface: connections of content users, questions, and an answer to each.

The feed stops at the end of each question, so that the peer is paused while it is answered, and again when its answer
has left.  One answer is made at a time; what it costs is a page of rows, and a piece of content.
"""

from __future__ import annotations

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.client.content import ContentOpener
from lcc.config import CuConfig
from lcc.errors import StoreUnavailable, StreamError
from lcc.interfaces import IConversation
from lcc.protocols import cu as wire
from lcc.protocols.xmlfeed import Event, XmlFeed
from lcc.roles.access import AccessDenied
from lcc.roles.authenticator import Authenticator, Throttled
from lcc.roles.cu.answers import Answer
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.query import Query, QueryError
from lcc.roles.cu.readership import Readership
from lcc.roles.cu.tokens import StartAgain, TokenError
from lcc.roles.cu.waiting import answer_when_changed
from lcc.roles.cu.xml.asked import named_faults, read_question
from lcc.roles.cu.xml.contents import ContentWriter
from lcc.roles.cu.xml.forms import Frame, Rows
from lcc.roles.cu.xml.writer import XmlWriter
from lcc.transport.ports.connection_limits import party_of
from lcc.transport.stream import StreamLimits, XmlStream

_log = Logger()

LINGER_SECONDS = 30


@attrs.frozen
class _Begun:
    """An answer whose first piece is there."""

    query: Query
    content: bool
    answer: Answer


@implementer(IConversation)
class Session:
    """The conversation with one content user.

    :param party: who it is, as far as its address tells; empty: it does not.
    """

    def __init__(self, users: XmlUsers, party: str) -> None:
        self._users = users
        self._party = party
        self._feed = XmlFeed(wire.QUERY_LIMITS)
        self._reader = wire.QuestionReader(self._feed)
        self._stream: XmlStream = None  # type: ignore[assignment]  # set in stream_opened, before anything else runs
        self._writer: XmlWriter = None  # type: ignore[assignment]  # set there as well
        self._work: Deferred[None] | None = None
        self._closed = False

    def build_stream(self) -> XmlStream:
        """The Twisted protocol for this session."""
        idle = self._users.settings.idle_timeout
        limits = StreamLimits(
            idle_timeout_seconds=idle, stall_timeout_seconds=idle, linger_seconds=min(idle, LINGER_SECONDS)
        )
        return XmlStream(self, self._users.clock, self._feed, limits)

    def drop(self) -> None:
        """Cut the connection."""
        self._stream.abort()

    # IConversation.

    def stream_opened(self, stream: XmlStream) -> None:
        self._stream = stream
        self._writer = XmlWriter(stream)
        self._users.sessions.add(self)

    def events_received(self, events: list[Event]) -> None:
        question = self._reader.events(events)
        if question is not None:
            self._work = Deferred.fromCoroutine(self._answer(question))
            self._work.addErrback(self._broken)

    def stream_failed(self, error: StreamError) -> None:
        if error.entry.name != "timeout" or self._feed.unfinished:
            self._reject(wire.answer_prefix(self._feed), error.entry.name, [("", error.text)])
        self._stream.finish()

    def stream_resumed(self) -> None:
        self._writer.resumed()

    def peer_finished(self) -> None:
        if self._work is not None:
            return  # its answer is still wanted; _read_on comes back to this
        if self._feed.unfinished:
            self._reject(wire.answer_prefix(self._feed), "syntax", [("", "the question is cut off")])
        self._stream.finish()

    def stream_closed(self, reason: Failure) -> None:
        self._closed = True
        self._users.sessions.discard(self)
        if self._work is not None:
            self._work.cancel()

    # Answering.

    async def _answer(self, question: wire.Question) -> None:
        prefix = question.prefix
        try:
            begun = await self._begin(question)
        except Exception as error:
            self._reject(prefix, *_explain(error))
        else:
            try:
                await (self._send_contents(prefix, begun) if begun.content else self._send_rows(begun))
            except (StartAgain, StoreUnavailable) as error:
                reason, faults = _explain(error)
                self._writer.write(wire.answer_failed(prefix, reason, faults[0][1]))
        await self._writer.room()
        # In a turn of its own: a peer can send hundreds of questions in one piece.
        self._users.clock.callLater(0, self._read_on)

    async def _begin(self, question: wire.Question) -> _Begun:
        users = self._users
        access = await users.authenticator.admit(question.attributes.get("token"), self._party)
        asked = read_question(question)
        if asked.content and not access.content:
            raise AccessDenied("this token is for rows only")
        query = asked.query.within(access.providers)
        if users.readership is not None and query.since is not None:
            users.readership.has(access, query.since)
        form = Frame(question.prefix) if asked.content else Rows(question.prefix)
        wait = min(asked.wait_seconds, users.settings.wait_max)
        answer = await answer_when_changed(users.cache, users.clock, query, form, wait)
        return _Begun(query, asked.content, answer)

    async def _send_rows(self, begun: _Begun) -> None:
        while not begun.answer.ended:
            await self._writer.room()
            self._writer.write((await begun.answer.next_piece()).data.decode())

    async def _send_contents(self, prefix: str, begun: _Begun) -> None:
        users = self._users
        writer = ContentWriter(users.cache, users.content, self._writer, begun.query)
        self._writer.write(wire.answer_open(prefix))
        while not begun.answer.ended:
            piece = await begun.answer.next_piece()
            for row in piece.urls:
                await self._writer.room()
                await writer.write(row)
            self._writer.write(piece.data.decode())

    def _reject(self, prefix: str, reason: str, faults: list[tuple[str, str]]) -> None:
        self._writer.write(wire.rejected(prefix, reason, faults))

    def _read_on(self) -> None:
        self._work = None
        if self._closed:
            return
        self._stream.next_document()
        if self._stream.peer_finished and self._work is None and not self._closed:
            self.peer_finished()

    def _broken(self, failure: Failure) -> None:
        if not (self._closed and failure.check(CancelledError)):
            _log.failure("Session of a content user failed; dropping the connection", failure=failure)
            self._stream.abort()


def _explain(error: Exception) -> tuple[str, list[tuple[str, str]]]:
    """The reason that a question is not answered, or not to its end, and what is wrong."""
    if isinstance(error, CancelledError):
        raise error
    if isinstance(error, QueryError):
        return "question", named_faults(error)
    if isinstance(error, TokenError):
        return "question", [("since", str(error))]
    if isinstance(error, StartAgain):
        return "start-again", [("since", f'start again with since="0" and an empty copy: {error}')]
    if isinstance(error, Throttled):
        return "try-later", [("token", str(error))]
    if isinstance(error, AccessDenied):
        return "access-denied", [("token", str(error))]
    if isinstance(error, StoreUnavailable):
        return "try-later", [("", "the database cannot be reached, try again later")]
    _log.failure("Cannot answer a content user", failure=Failure(error))
    return "internal", [("", "an internal error")]


class XmlUsers(Factory):
    """Builds a session for each connection.

    :param content: reads content files.
    :param without_token: what those who have no token may see (:data:`lcc.roles.access.WITHOUT_TOKEN`).
    :param readership: notes who reads; None: nobody does.
    """

    noisy = False

    def __init__(
        self,
        cache: Cache,
        content: ContentOpener,
        settings: CuConfig,
        without_token: str,
        clock: IReactorTime,
        readership: Readership | None = None,
    ) -> None:
        self.cache = cache
        self.content = content
        self.settings = settings
        self.readership = readership
        noted = () if readership is None else (readership.asked,)
        self.authenticator = Authenticator(cache.users, without_token, settings, clock, *noted)
        self.clock = clock
        self.sessions: set[Session] = set()

    def buildProtocol(self, addr: IAddress | None) -> XmlStream:
        return Session(self, party_of(addr)).build_stream()

    def drop_all(self) -> None:
        """Cut all connections."""
        for session in list(self.sessions):
            session.drop()
