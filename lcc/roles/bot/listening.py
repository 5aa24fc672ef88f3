"""The listening robot: it connects to nobody, and fetches what a person types (seed 002, section 8).

What it owns
    Nothing of an LCC.  A file that the person names is written into a folder of its own.

What it does
    Over ``telnet`` or ``nc`` a person types ``<fetch url="…"/>`` and reads how it ended.  The fetchers, their guards
    and their limits are those of any robot; no queue, no cache and no BOT-M is touched.

Failures
    *What is typed cannot be understood*: an error in words; where it is not even XML, the connection is closed.
    *The person disconnects*: the fetch that is going on ends by itself, at its deadline at the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.domain.mimetypes import is_expected
from lcc.domain.times import parse_time
from lcc.domain.urls import normalise, normalise_root, scheme_of, site_of
from lcc.errors import CODES, FetchError, LccError, StreamError, UrlError
from lcc.interfaces import IAttemptFile, IConversation, IFetcher
from lcc.model import Fetched, FetchOrder
from lcc.protocols.typed import TYPED, TYPED_LIMITS, Quit, TypedDone, TypedFetch, answer, moment
from lcc.protocols.xmlfeed import End, Event, Start, XmlFeed
from lcc.protocols.xmltext import escape
from lcc.roles.bot.closing import close_all
from lcc.roles.bot.redirects import Redirects
from lcc.transport.stream import StreamLimits, XmlStream

_log = Logger()

PERSONS_MAX = 8
"""Connections at once."""
IDLE_SECONDS = 3600.0
TEXT_CHARS = 500
GREETING = '<!-- LCC robot: type <fetch url="http://www.example.org/"/>, with file="NAME" to keep it; <quit/> -->\n'


class ListeningRobot:
    """The engine of a robot that takes orders from a terminal.

    :param fetchers: by URL scheme.
    :param sinks: makes the sink for a file's name; empty: for none.  Raises OSError.
    """

    def __init__(
        self,
        clock: IReactorTime,
        fetchers: Mapping[str, IFetcher],
        sinks: Callable[[str], IAttemptFile],
    ) -> None:
        self.clock = clock
        self._fetchers = fetchers
        self._sinks = sinks
        self._redirects = Redirects()
        self.persons: set[Typist] = set()

    async def fetch(self, typed: TypedFetch) -> str:
        """Carry out what was typed; the answer as it is written."""
        begun = self.clock.seconds()
        sink: IAttemptFile | None = None
        try:
            order, roots = _order(typed)
            fetcher = self._fetchers.get(scheme_of(order.url))
            if fetcher is None:
                raise FetchError("scheme-unsupported", f"there are {', '.join(self._fetchers)}")
            sink = self._sinks(typed.file)
            fetched = await fetcher.fetch(order, sink, self._redirects.rule(roots))
            done = self._finished(typed, fetched, sink)
        except CancelledError:
            return answer(self._failed(FetchError("robot-error", "the robot is stopping"), sink, begun))
        except (LccError, OSError) as error:
            return answer(self._failed(error, sink, begun))
        except Exception as error:
            _log.failure("Unexpected error while fetching {url}", url=typed.url)
            return answer(self._failed(error, sink, begun))
        return answer(attrs.evolve(done, elapsed_ms=self._since(begun)), fetched.headers)

    def close(self) -> Deferred[None]:
        """End everything."""
        for person in list(self.persons):
            person.stream.abort()
        return close_all(self._fetchers, self.clock)

    def _finished(self, typed: TypedFetch, fetched: Fetched, sink: IAttemptFile) -> TypedDone:
        if fetched.status and not fetched.unchanged and not 200 <= fetched.status < 300:
            raise FetchError.from_status(fetched.status)
        if not is_expected(typed.mimetype, fetched.mimetype):
            raise FetchError("mimetype-mismatch", f"expected {typed.mimetype}, got {fetched.mimetype}")
        done = TypedDone(
            code=0,
            status=fetched.status,
            url=fetched.url,
            mimetype=fetched.mimetype,
            charset=fetched.charset,
            modified=moment(fetched.modified),
            etag=fetched.etag,
            wire_bytes=fetched.wire_bytes,
            unchanged=fetched.unchanged,
        )
        if fetched.unchanged:
            sink.discard()
            return done
        sink.close()
        return attrs.evolve(done, size_bytes=sink.size_bytes, md5=sink.md5, file=typed.file)

    def _failed(self, error: Exception, sink: IAttemptFile | None, begun: float) -> TypedDone:
        if sink is not None:
            sink.discard()
        code, text = CODES["robot-error"], type(error).__name__
        if isinstance(error, LccError):
            code, text = error.code, error.text
        elif isinstance(error, OSError):
            code, text = CODES["store-failed"], str(error.strerror or error)
        return TypedDone(
            code=code,
            text=text[:TEXT_CHARS],
            status=code if code < 600 else 0,
            wire_bytes=getattr(error, "wire_bytes", 0),
            elapsed_ms=self._since(begun),
        )

    def _since(self, begun: float) -> int:
        return max(0, int((self.clock.seconds() - begun) * 1000))


def _order(typed: TypedFetch) -> tuple[FetchOrder, str]:
    """What was typed as an order, and the roots in which redirects may lead.

    :raises LccError: it makes no sense.
    """
    url = normalise(typed.url).partition("#")[0]
    roots = " ".join(map(normalise_root, typed.roots.split())) or site_of(url)
    try:
        modified = parse_time(typed.modified) if typed.modified else None
    except ValueError as error:
        raise UrlError("bad-mtime", str(error)) from None
    order = FetchOrder(
        pid=0,
        url=url,
        mimetype=typed.mimetype,
        private=typed.private,
        insecure=typed.insecure,
        conditional=bool(typed.etag) or modified is not None,
        etag=typed.etag,
        modified=modified,
        stored_bytes=typed.size_bytes,
    )
    return order, roots


@implementer(IConversation)
class Typist:
    """One person's connection: a document typed, a fetch, an answer, and the next one."""

    def __init__(self, robot: ListeningRobot) -> None:
        self._robot = robot
        self._root: Start | None = None
        self.stream: XmlStream = None  # type: ignore[assignment]  # set in stream_opened, before anything else runs

    def stream_opened(self, stream: XmlStream) -> None:
        self.stream = stream
        if len(self._robot.persons) >= PERSONS_MAX:
            stream.send(_error(StreamError("too-many-connections")))
            stream.finish()
            return
        self._robot.persons.add(self)
        stream.send(GREETING)

    def events_received(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Start) and event.depth == 1:
                self._root = event
            elif isinstance(event, End) and event.depth == 1:
                # The feed waits at a document's end, and so reads nothing more, until the answer is there.
                self._typed()

    def _typed(self) -> None:
        root, self._root = self._root, None
        assert root is not None
        try:
            message = TYPED.read(root.name, root.attributes)
        except StreamError as error:
            # Only a slip of the pen: the next document may be better.
            self._answer(_error(error))
            return
        if isinstance(message, Quit):
            self.stream.finish()
        elif isinstance(message, TypedFetch):
            Deferred.fromCoroutine(self._robot.fetch(message)).addCallback(self._answer)

    def _answer(self, text: str) -> None:
        if not self.stream.connected_stream:
            return
        self.stream.send(text)
        # In a turn of its own: what is held back may be answered at once, and so on.
        self._robot.clock.callLater(0, self.stream.next_document)

    def stream_failed(self, error: StreamError) -> None:
        self.stream.send(_error(error))
        self.stream.finish()

    def stream_resumed(self) -> None:
        """Nothing waits for that: there is one answer at a time."""

    def peer_finished(self) -> None:
        # As nothing is read during a fetch, all that was typed has been answered.
        self.stream.finish()

    def stream_closed(self, reason: Failure) -> None:
        self._robot.persons.discard(self)


def _error(error: StreamError) -> str:
    return f'<error code="{error.code}">{escape(error.text)}</error>\n'


class _TypedStream(XmlStream):
    """Answers at once where what is typed is no XML: the feed would wait for a ``>``."""

    def __init__(self, typist: Typist, clock: IReactorTime, feed: XmlFeed, limits: StreamLimits) -> None:
        super().__init__(typist, clock, feed, limits)
        self._typed = feed

    def dataReceived(self, data: bytes) -> None:
        begins = not (self._typed.unfinished or self._typed.waiting)
        super().dataReceived(data)
        if begins and self._typed.unfinished and data.lstrip()[:1] not in (b"", b"<"):
            self.conversation.stream_failed(StreamError("syntax", "type a fetch element, as in the greeting above"))


class TypistFactory(Factory):
    """Makes a stream for each person."""

    noisy = False

    def __init__(self, robot: ListeningRobot) -> None:
        self._robot = robot

    def buildProtocol(self, address: Any) -> XmlStream:
        limits = StreamLimits(idle_timeout_seconds=IDLE_SECONDS)
        return _TypedStream(Typist(self._robot), self._robot.clock, XmlFeed(TYPED_LIMITS), limits)
