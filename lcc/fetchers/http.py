"""The fetcher for http and https.

Owns: the idle connections to web servers, each kept for the provider it was made for.
Strategy: a fetch is a small state machine of callbacks, not a coroutine, because on a kept connection it has only
two steps (send, end) and happens ten thousand times a second.  Redirects stay inside one fetch and its one deadline.
Failures: everything that a server can do ends as a FetchError; a request that dies on a kept connection before any
byte of the answer is sent once more on a new one, because servers close idle connections when they like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IHostnameResolver
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.errors import FetchError, LccError, Remedy
from lcc.fetchers.codings import CODINGS, DecodingSink, coding_of
from lcc.fetchers.connector import ConnectionKey, Connector, Site
from lcc.fetchers.dial import Dialer
from lcc.fetchers.http_head import (
    ResponseHead,
    check_type,
    content_type,
    entity_tag,
    http_time,
    kept_headers,
    may_revalidate,
    retry_after,
)
from lcc.fetchers.http_protocol import HttpConnection
from lcc.fetchers.http_request import accept_lines, condition_lines, sender_lines
from lcc.fetchers.steps import Steps
from lcc.interfaces import IContentSink, IFetcher, IWatchedFetcher
from lcc.model import Fetched, FetchOrder, FetchStep
from lcc.numbers import parse_number

_log = Logger()

SITES_MAX = 4096
"""Sites whose parsed URL and request are remembered."""
_URL = re.compile(
    r"(https?)://(\[[0-9a-fA-F:.]+\]|[^/?#\[\]@:\\\s\x00-\x20\x7f-\U0010ffff]+)(?::([0-9]{1,5}))?"
    r"((?:[/?][!-\"$-~]*)?)(?:#.*)?",
    re.DOTALL,
)
_TARGET = re.compile(r"(/[!-\"$-~]*)(?:#.*)?", re.DOTALL)
"""Where one begins in a URL of a site that is known."""
_CONTENT = frozenset([200, 203])
_REDIRECTS = frozenset([301, 302, 303, 307, 308])
_PERMANENT = frozenset([301, 308])
_NOT_MODIFIED = 304
_RETRY_LATER = frozenset([429, 503])
_NOT_ASKED_FOR = frozenset([206, _NOT_MODIFIED])


class FetchCancelled(CancelledError):
    """A fetch was cancelled.

    :ivar wire_bytes: what had travelled until then.
    """

    def __init__(self, wire_bytes: int) -> None:
        super().__init__()
        self.wire_bytes = wire_bytes


@implementer(IFetcher, IWatchedFetcher)
class HttpFetcher:
    """Fetches http and https URLs.

    :param reactor: connects, resolves, and is the clock.
    :param resolver: None: the machine's.
    """

    schemes = ("http", "https")

    def __init__(self, reactor: Any, settings: BotConfig, resolver: IHostnameResolver | None = None) -> None:
        self._reactor = reactor
        self._settings = settings
        self._steps = Steps(reactor)
        self._dialer = Dialer(reactor, settings, resolver, self._steps)
        self._connector = Connector(reactor, settings, self._dialer, self._steps)
        self._sites: dict[str, Site] = {}
        self._idle: dict[ConnectionKey, HttpConnection] = {}
        self._idle_max = 4 * settings.concurrency
        self._connections: set[HttpConnection] = set()
        self._fetches: set[_Fetch] = set()
        self._closing: Deferred[None] | None = None

    def fetch(self, order: FetchOrder, sink: IContentSink, follow: Callable[[str, str], str]) -> Deferred[Fetched]:
        """As :meth:`lcc.interfaces.IFetcher.fetch`."""
        fetch = _Fetch(self, order, sink, follow)
        self._fetches.add(fetch)
        result = fetch.result
        fetch.go(order.url)
        assert result is not None
        return result

    def close(self) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFetcher.close`; fetches that still run end as cancelled."""
        if self._closing is None:
            self._closing = Deferred()
            for fetch in list(self._fetches):
                if fetch.result is not None:
                    fetch.result.cancel()
            self._dialer.close()
            for connection in list(self._connections):
                connection.close()
            self._check_closed()
        done: Deferred[None] = Deferred()
        self._closing.addCallback(lambda _: done.callback(None))
        return done

    def watch(self, watcher: Callable[[FetchStep], None]) -> None:
        """As :meth:`lcc.interfaces.IWatchedFetcher.watch`."""
        self._steps.watch = watcher

    # For the fetches.

    def locate(self, url: str) -> tuple[Site, str]:
        """Where to ask, and for what target.

        :raises FetchError: "scheme-unsupported": no URL that this fetcher can fetch.
        """
        at = url.find("/", len("https://"))
        site = self._sites.get(url[:at])
        if site is not None and (known := _TARGET.fullmatch(url, at)) is not None:
            return site, known[1]
        match = _URL.fullmatch(url)
        if match is None:
            raise FetchError("scheme-unsupported", f"{url[:200]!a} is no http or https URL")
        origin = url[: match.start(4)]
        site = self._sites.get(origin)
        if site is None:
            site = self._make_site(match)
            while len(self._sites) >= SITES_MAX:
                del self._sites[next(iter(self._sites))]
            self._sites[origin] = site
        target = match[4]
        return site, target if target.startswith("/") else f"/{target}"

    def _make_site(self, match: re.Match[str]) -> Site:
        secure = match[1] == "https"
        host = match[2].lower()
        usual = 443 if secure else 80
        port = parse_number(match[3], 99_999) if match[3] else usual
        if not 0 < port < 65536:
            raise FetchError("scheme-unsupported", f"port {port}")
        lines = (
            " HTTP/1.1",
            f"Host: {host}" if port == usual else f"Host: {host}:{port}",
            *sender_lines(self._settings.user_agent, self._settings.contact),
            f"Accept-Encoding: {', '.join(CODINGS) if self._settings.compression else 'identity'}",
            "Connection: keep-alive",
            "",
        )
        return Site(secure, host, port, "\r\n".join(lines).encode("latin-1", "replace"))

    def connect(self, key: ConnectionKey) -> Deferred[HttpConnection]:
        """A new connection."""
        return self._connector.connect(key, self)

    def take(self, key: ConnectionKey) -> HttpConnection | None:
        """An idle connection, if there is one."""
        connection = self._idle.pop(key, None)
        # One that has begun to close is still here until the reactor says that it is gone.
        return connection if connection is not None and not connection.closing else None

    def keep(self, connection: HttpConnection) -> None:
        """This connection could serve again."""
        key: Any = connection.key
        if self._closing is not None or self._settings.keepalive <= 0 or key in self._idle:
            connection.close()
            return
        if len(self._idle) >= self._idle_max:
            self._idle.pop(next(iter(self._idle))).close()
        self._idle[key] = connection
        connection.rest()

    def remember_session(self, connection: HttpConnection) -> None:
        """TLS: what the next connection to this site can resume."""
        self._connector.tls.remember(connection.key, connection.transport)

    def ended(self, fetch: _Fetch) -> None:
        """A fetch is over."""
        self._fetches.discard(fetch)

    @property
    def stopped(self) -> bool:
        """``close`` was called."""
        return self._closing is not None

    # For the connections.

    def connection_made(self, connection: HttpConnection) -> None:
        """As :class:`lcc.fetchers.http_protocol.Owner`."""
        self._connections.add(connection)

    def connection_lost(self, connection: HttpConnection) -> None:
        """As :class:`lcc.fetchers.http_protocol.Owner`."""
        self._connections.discard(connection)
        key: Any = connection.key
        if self._idle.get(key) is connection:
            del self._idle[key]
        self._check_closed()

    def _check_closed(self) -> None:
        if self._closing is not None and not self._connections and not self._closing.called:
            self._closing.callback(None)


class _Fetch:
    """One fetch, redirects included."""

    __slots__ = (
        "_again",
        "_clock",
        "_conditional",
        "_connection",
        "_deadline",
        "_decoding",
        "_fetcher",
        "_first_key",
        "_follow",
        "_head",
        "_key",
        "_location",
        "_moved",
        "_order",
        "_outcome",
        "_pending",
        "_redirects",
        "_request",
        "_settings",
        "_sink",
        "_timer",
        "_trusted",
        "_url",
        "_wire_bytes",
        "result",
    )

    def __init__(
        self, fetcher: HttpFetcher, order: FetchOrder, sink: IContentSink, follow: Callable[[str, str], str]
    ) -> None:
        # None once it has fired.
        self.result: Deferred[Fetched] | None = Deferred(self._cancelled)
        self._fetcher = fetcher
        self._order = order
        self._sink = sink
        self._follow = follow
        self._clock = fetcher._reactor
        self._settings = fetcher._settings
        self._deadline: float = self._clock.seconds() + self._settings.deadline
        self._redirects = 0
        self._first_key: ConnectionKey
        self._trusted = True
        """What its provider is registered with (private addresses, no verified certificates) holds where this leads:
        redirects of what is polled may lead anywhere, and once they have left its site, nothing brings that back."""
        self._moved = ""
        self._wire_bytes = 0
        self._connection: HttpConnection | None = None
        self._pending: Deferred[HttpConnection] | None = None
        self._timer: Any = None
        self._location: str | None = None
        self._outcome: FetchError | None = None
        self._decoding: DecodingSink | None = None

    def go(self, url: str) -> None:
        """Fetch this URL: the order's, or where a redirect led."""
        fetcher, order = self._fetcher, self._order
        try:
            if fetcher.stopped:
                raise FetchError("robot-error", "the robot is stopping")
            site, target = fetcher.locate(url)
        except FetchError as error:
            self._fail(error)
            return
        self._url = url
        self._again = False
        # What is stored came from the order's URL, not from where that one leads.
        self._conditional = order.conditional and not self._redirects
        conditions = condition_lines(order.etag, order.modified) if self._conditional else b""
        request = (target.encode("ascii"), site.request_lines, conditions, accept_lines(order.mimetype))
        self._request = b"GET %b%b%b%b\r\n" % request
        if order.polled and self._redirects:
            self._trusted = self._trusted and _is_same_site(self._first_key, site)
        private, insecure = order.private and self._trusted, order.insecure and self._trusted
        self._key = ConnectionKey(order.pid, site.secure, site.host, site.port, private, insecure)
        if not self._redirects:
            self._first_key = self._key
        connection = fetcher.take(self._key)
        if connection is not None:
            fetcher._steps.tell("reused")
            self._send(connection)
        else:
            self._connect()

    def _connect(self) -> None:
        left = max(0.0, self._deadline - self._clock.seconds())
        self._timer = self._clock.callLater(left, self._connected_late)
        self._pending = self._fetcher.connect(self._key)
        self._pending.addCallbacks(self._connected, self._not_connected)

    def _connected(self, connection: HttpConnection) -> None:
        self._pending = None
        self._timer.cancel()
        self._send(connection)

    def _not_connected(self, reason: Failure) -> None:
        self._pending = None
        if self._timer.active():
            self._timer.cancel()
        if self.result is None:
            return
        if reason.check(CancelledError, ConnectingCancelledError):
            self._fail(FetchError("deadline", "while connecting"))
        elif isinstance(reason.value, FetchError):
            self._fail(self._judged(reason.value))
        else:
            _log.failure("Cannot connect", failure=reason)
            self._fail(FetchError("robot-error", type(reason.value).__name__))

    def _judged(self, error: FetchError) -> FetchError:
        """Behind a redirect to another site than the order's, a dead site is the trouble of that one URL: it must not
        hold back all others of the provider."""
        if error.entry.remedy is not Remedy.HOLD_PROVIDER or self._key == self._first_key:
            return error
        return FetchError("redirect-unreachable", f"{self._url[:300]}: {error.text}")

    def _connected_late(self) -> None:
        if self._pending is not None:
            self._pending.cancel()

    def _send(self, connection: HttpConnection) -> None:
        self._connection = connection
        steps = self._fetcher._steps
        if steps.watch is not None:
            steps.tell("request", self._url, self._request.decode("latin-1").split("\r\n")[:-2])
        connection.send(self._request, self, self._deadline)

    def _cancelled(self, result: Deferred[Fetched]) -> None:
        self._fetcher.ended(self)
        self.result = None
        pending, self._pending = self._pending, None
        connection, self._connection = self._connection, None
        if connection is not None:
            self._wire_bytes += connection.wire_bytes
            connection.abort()
        if pending is not None:
            self._timer.cancel()
            pending.cancel()
        result.errback(FetchCancelled(self._wire_bytes))

    # What the connection tells.

    def head_received(self, head: ResponseHead) -> IContentSink | None:
        """As :class:`lcc.fetchers.http_protocol.Exchange`."""
        self._head = head
        status, fields = head.status, head.fields
        steps = self._fetcher._steps
        if steps.watch is not None:
            lines = [f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in head.raw]
            steps.tell("response", str(status), lines)
        if status in _CONTENT:
            if self._order.accepts:
                check_type(fields.get(b"content-type", b""), self._order.accepts)
            return self._sink if b"content-encoding" not in fields else self._decoded(head)
        if status == _NOT_MODIFIED and self._conditional:
            return None
        if status in _NOT_ASKED_FOR:
            raise FetchError("bad-response", f"unsolicited status {status}")
        location = fields.get(b"location")
        if status in _REDIRECTS and location is not None:
            self._location = location.strip().decode("latin-1")
        else:
            asks = status in _RETRY_LATER and self._key == self._first_key
            self._outcome = FetchError.from_status(status, retry_seconds=retry_after(fields) if asks else 0)
        if self._connection is None or not self._connection.drop_body(head):
            raise FetchError("bad-response", "its body is not wanted")
        return None

    def _decoded(self, head: ResponseHead) -> IContentSink:
        mimetype, _ = content_type(head.fields.get(b"content-type", b""))
        coding = coding_of([value for name, value in head.raw if name.lower() == b"content-encoding"], mimetype)
        if not coding:
            return self._sink
        settings = self._settings
        self._decoding = DecodingSink(self._sink, coding, settings.body_bytes_max, settings.decoded_ratio_max)
        return self._decoding

    def exchange_ended(self, connection: HttpConnection, error: FetchError | None, untouched: bool) -> None:
        """As :class:`lcc.fetchers.http_protocol.Exchange`."""
        self._connection = None
        self._wire_bytes += connection.wire_bytes
        if connection.secure and connection.wire_bytes:
            self._fetcher.remember_session(connection)
        if connection.reusable:
            self._fetcher.keep(connection)
        if untouched and not self._again:
            self._again = True
            self._connect()
        elif self._location is not None:
            self._redirect(self._location)
        elif self._outcome is not None:
            self._fail(self._outcome)
        elif error is not None:
            self._fail(error)
        else:
            self._succeed()

    def _redirect(self, location: str) -> None:
        self._location = None
        moved = self._head.status in _PERMANENT and self._moved == (self._url if self._redirects else "")
        self._redirects += 1
        try:
            if self._redirects > self._settings.redirects_max:
                raise FetchError("redirect-loop", f"more than {self._settings.redirects_max}")
            if self._clock.seconds() >= self._deadline:
                raise FetchError("deadline")
            url = self._follow(self._url, location)
        except FetchError as error:
            self._fail(error)
        except LccError as error:
            self._fail(FetchError("redirect-outside", error.text[:200]))
        except Exception:
            _log.failure("Cannot judge a redirect")
            self._fail(FetchError("robot-error", "cannot judge the redirect"))
        else:
            if moved:
                self._moved = url
            self._fetcher._steps.tell("redirect", url)
            self.go(url)

    def _succeed(self) -> None:
        if self._decoding is not None:
            try:
                self._decoding.finish()
            except FetchError as error:
                self._fail(error)
                return
        if self._head.status == _NOT_MODIFIED:
            headers = kept_headers(self._head, self._settings.headers_kept_bytes) if self._order.renew else ""
            self._give(
                Fetched(_NOT_MODIFIED, self._url, headers=headers, wire_bytes=self._wire_bytes, unchanged=True)
            )
            return
        fields = self._head.fields
        mimetype, charset = content_type(fields.get(b"content-type", b""))
        told, tag = fields.get(b"last-modified"), fields.get(b"etag")
        modified = None if told is None else http_time(told)
        etag = "" if tag is None else entity_tag(tag)
        fetched = Fetched(
            self._head.status,
            self._url,
            mimetype,
            charset,
            modified,
            etag,
            kept_headers(self._head, self._settings.headers_kept_bytes),
            self._wire_bytes,
            not self._redirects and may_revalidate(fields, etag, modified),
            moved=self._moved,
        )
        self._give(fetched)

    def _give(self, fetched: Fetched) -> None:
        self._fetcher.ended(self)
        result, self.result = self.result, None
        assert result is not None
        result.callback(fetched)

    def _fail(self, error: FetchError) -> None:
        self._fetcher.ended(self)
        error.wire_bytes = self._wire_bytes
        result, self.result = self.result, None
        assert result is not None
        result.errback(error)


def _is_same_site(first: ConnectionKey, site: Site) -> bool:
    """Whether a redirect stays on a site: the same port of its host, or https in place of http.  Another port may be
    anything, such as a database that only this network reaches."""
    ports = (first.port, site.port)
    return site.host == first.host and (ports[0] == ports[1] or (ports == (80, 443) and site.secure))
