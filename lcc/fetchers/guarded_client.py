"""Asking other people's servers over HTTP outside the queue: hubs, and callbacks of their subscribers.

By treq, over an agent with the guards of the robot: addresses are judged when a name is resolved and again when a
connection stands, certificates are verified, no redirect is followed, nothing is kept from one request to the next,
and neither an answer's length nor its time is the server's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from hyperlink import EncodedURL
from treq.client import HTTPClient
from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.interfaces import IHandshakeListener, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, ResponseDone
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.addresses import literal_address
from lcc.fetchers.dial import Dialer
from lcc.fetchers.tls import TlsClient

ANSWER_BYTES_MAX = 16_384
"""Of an answer, its header included."""


class _AsItIs(EncodedURL):
    """A URL that is normal: hyperlink would take the address of an IPv6 literal for a name."""

    def to_uri(self) -> EncodedURL:
        return self


def one_line(text: str, chars_max: int) -> str:
    """What a stranger has written, fit for a log: in one line, without control characters."""
    line = " ".join(text.split())[:chars_max]
    return "".join([char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line])


class NoAnswer(Exception):
    """There was no answer."""


class Reply(NamedTuple):
    """An answer.

    :ivar body: its beginning, at most :data:`ANSWER_BYTES_MAX` bytes.
    :ivar location: where it redirects to; empty: nowhere.
    """

    status: int
    body: bytes
    location: str = ""

    @property
    def is_success(self) -> bool:
        """Whether it is 2xx."""
        return 200 <= self.status < 300

    def said(self) -> str:
        """The answer in a line, for people."""
        text = one_line(self.body.decode("utf-8", "replace"), 200)
        where = " (redirects are not followed)" if 300 <= self.status < 400 else ""
        return f"HTTP status {self.status}{where}{': ' if text else ''}{text}"


@implementer(IHandshakeListener)
class _Checked(Protocol):
    """Between a connection and the client of HTTP: gives way only to whom the certificate is right for, and cuts an
    answer that is too long.

    :param verify: checks the certificate after the handshake; None: there is no TLS.
    :ivar ready: fires with the client once it is connected.
    """

    def __init__(self, inner: Any, verify: Callable[[Any], None] | None) -> None:
        self.ready: Deferred[Any] = Deferred()
        self._inner = inner
        self._verify = verify
        self._begun = False
        self._left = ANSWER_BYTES_MAX

    def connectionMade(self) -> None:
        if self._verify is None:
            self._begin()

    def handshakeCompleted(self) -> None:
        """The chain of the certificate is good."""
        transport: Any = self.transport
        try:
            if self._verify is not None:
                self._verify(transport)
        except FetchError as error:
            transport.abortConnection()
            self._fail(error)
        else:
            self._begin()

    def dataReceived(self, data: bytes) -> None:
        if self._left > 0:
            self._inner.dataReceived(data[: self._left])
        self._left -= len(data)
        if self._left < 0:
            transport: Any = self.transport
            transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._begun:
            self._inner.connectionLost(reason)
        else:
            self._fail(FetchError("tls-failed", reason.getErrorMessage()[:200]))

    def _begin(self) -> None:
        self._begun = True
        self._inner.makeConnection(self.transport)
        self.ready.callback(self._inner)

    def _fail(self, error: FetchError) -> None:
        if not self.ready.called:
            self.ready.errback(error)


class _Guarded:
    """An endpoint of a URL that connects only where the guards let it.

    :param private: private addresses, too.
    """

    def __init__(self, reactor: Any, dialer: Dialer, tls: TlsClient, uri: URI, private: bool) -> None:
        self._reactor = reactor
        self._dialer = dialer
        self._tls = tls
        self._uri = uri
        self._private = private

    def connect(self, factory: Any) -> Deferred[Any]:
        """As IStreamClientEndpoint says."""
        uri = self._uri
        host = uri.host.decode("ascii")
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        literal = literal_address(host)
        name, numeric = literal or host, literal is not None

        async def attempt(endpoint: IStreamClientEndpoint, address: str) -> Any:
            verify = None
            if uri.scheme == b"https":
                endpoint = wrapClientTLS(self._tls.creator(None, name, numeric, False), endpoint, self._reactor)
                verify = partial(self._tls.verify, host=name, numeric=numeric, insecure=False)
            protocol = _Checked(factory.buildProtocol(None), verify)
            await self._dialer.connect(endpoint, protocol, address, uri.port)
            try:
                self._dialer.check_peer(protocol, self._private)
            except FetchError:
                protocol.ready.addErrback(lambda _: None)
                raise
            return await protocol.ready

        return Deferred.fromCoroutine(self._dialer.try_each(host, uri.port, self._private, attempt))


@implementer(IAgentEndpointFactory)
class _Endpoints:
    def __init__(self, reactor: Any, dialer: Dialer, tls: TlsClient, private: bool) -> None:
        self._of = (reactor, dialer, tls)
        self._private = private

    def endpointForURI(self, uri: URI) -> _Guarded:
        """As IAgentEndpointFactory says."""
        return _Guarded(*self._of, uri, self._private)


class _Body(Protocol):
    """Keeps the beginning of a body."""

    def __init__(self) -> None:
        self.data = b""
        self.done: Deferred[bytes] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.data = (self.data + data)[:ANSWER_BYTES_MAX]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.done.called:
            if reason.check(ResponseDone) or self.data:
                self.done.callback(self.data)
            else:
                self.done.errback(reason)


class GuardedClient:
    """Asks with POST and GET.

    :param reactor: connects, resolves, and is the clock.
    :param bot: how the robot connects: its name, its authorities, its time to connect.
    :param at_once: requests at most; others wait.
    :param deadline_seconds: for connecting, asking and the whole answer.
    :param allow_private: private and loopback addresses may be asked, too.
    """

    def __init__(
        self, reactor: Any, bot: BotConfig, *, at_once: int, deadline_seconds: float, allow_private: bool
    ) -> None:
        self._reactor = reactor
        self._dialer = Dialer(reactor, bot)
        self._deadline = deadline_seconds
        self._slots = DeferredSemaphore(at_once)
        endpoints = _Endpoints(reactor, self._dialer, TlsClient(bot.extra_roots), allow_private)
        self._agent = Agent.usingEndpointFactory(reactor, endpoints)
        self._name = f"{bot.user_agent} (+{bot.contact})" if bot.contact else bot.user_agent

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Deferred[Reply]:
        """Send something.

        :param url: normal.
        :raises NoAnswer: (as the Deferred's failure) there is no answer.
        """
        return self._slots.run(self._timed, "POST", url, body, headers)

    def get(self, url: str) -> Deferred[Reply]:
        """Ask for something.

        :param url: normal.
        :raises NoAnswer: (as the Deferred's failure) there is no answer.
        """
        return self._slots.run(self._timed, "GET", url, None, {})

    def close(self) -> None:
        """End all lookups."""
        self._dialer.close()

    def _timed(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Deferred[Reply]:
        def too_long(_result: Any, seconds: float) -> Any:
            raise NoAnswer(f"no answer within {seconds:g} seconds")

        asked = Deferred.fromCoroutine(self._ask(method, url, body, headers))
        return asked.addTimeout(self._deadline, self._reactor, too_long)

    async def _ask(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        # A new client each time: it would keep cookies, and treq's own answers hold the whole body.
        client = HTTPClient(self._agent)
        try:
            response = await client.request(
                method,
                _AsItIs.from_text(url),
                headers=Headers({name: [value] for name, value in {"User-Agent": self._name, **headers}.items()}),
                data=body,
                allow_redirects=False,
                unbuffered=True,
                reactor=self._reactor,
            )
            kept = _Body()
            response.deliverBody(kept)
            named = response.headers.getRawHeaders("location") or [""]
            return Reply(response.code, await kept.done, named[0] if 300 <= response.code < 400 else "")
        except (CancelledError, NoAnswer):
            raise
        except FetchError as error:
            raise NoAnswer(f"{error.code} {error.text or error.entry.text}") from error
        except Exception as error:
            raise NoAnswer(_reason(error)) from error


def _reason(error: Exception) -> str:
    reasons = getattr(error, "reasons", None)  # what twisted.web wraps
    text = "; ".join(reason.getErrorMessage() for reason in reasons) if reasons else str(error)
    return (text or type(error).__name__)[:200]
