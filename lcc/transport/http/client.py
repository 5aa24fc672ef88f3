"""Asking other processes of the LCC over HTTP: connections that are kept, bodies that are never held whole.

An address is ``http://host:port``, ``https://host:port`` (verified; between roles both ends are, see
:class:`lcc.transport.tls.contexts.ClientTls`) or ``unix:/path`` (a UNIX socket).  The body of an answer is taken by
exactly one of :meth:`Answer.pipe_to`, :meth:`Answer.read` and :meth:`Answer.drop`; until then nothing of it is read,
and its place among the connections is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore, succeed
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint, wrapClientTLS
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IConsumer, IDelayedCall, IPushProducer, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import optionsForClientTLS
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IBodyProducer
from zope.interface import implementer

from lcc.transport.tls.contexts import ClientTls
from lcc.transport.tls.endpoints import TlsClientEndpoint

UNIX = "unix:"
_UNIX_HOST = b".unix.invalid"


class HttpFailed(Exception):
    """The server is unreachable, silent, or disconnected in the middle of a reply."""


class TooLong(HttpFailed):
    """A body is longer than allowed."""


def is_address(text: str) -> bool:
    """Whether this client could ask there."""
    if text.startswith(UNIX):
        return len(text) > len(UNIX)
    scheme, separator, rest = text.partition("://")
    if scheme not in ("http", "https") or not separator or "/" in rest:
        return False
    try:
        return bool(URI.fromBytes(text.encode("ascii")).host)
    except ValueError:
        return False


@implementer(IStreamClientEndpoint)
class _Quiet:
    """An endpoint that does not log each connection."""

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        protocolFactory.noisy = False
        result: Deferred[Any] = self._endpoint.connect(protocolFactory)
        return result


@implementer(IAgentEndpointFactory)
class _Endpoints:
    def __init__(self, reactor: Any, timeout_seconds: float, trust_root: Any, tls: ClientTls | None) -> None:
        self._reactor = reactor
        self._timeout = timeout_seconds
        self._trust_root = trust_root
        self._tls = tls

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        return _Quiet(self._endpoint(uri))

    def _endpoint(self, uri: URI) -> IStreamClientEndpoint:
        if uri.host.endswith(_UNIX_HOST):
            path = bytes.fromhex(uri.host[: -len(_UNIX_HOST)].decode("ascii")).decode()
            return UNIXClientEndpoint(self._reactor, path, self._timeout)
        host = uri.host.decode("ascii")
        endpoint = HostnameEndpoint(self._reactor, host, uri.port, self._timeout)
        if uri.scheme != b"https":
            return endpoint
        if self._tls is not None:
            return TlsClientEndpoint(self._reactor, endpoint, self._tls.towards(host), self._timeout)
        secured: IStreamClientEndpoint = wrapClientTLS(optionsForClientTLS(host, self._trust_root), endpoint)
        return secured


def _base(address: str) -> bytes:
    """The address as a URL; a socket's path as a host name that no other address has."""
    if address.startswith(UNIX):
        return b"http://" + address[len(UNIX) :].encode().hex().encode() + _UNIX_HOST
    return address.encode("ascii")


@implementer(IBodyProducer)
class _Whole:
    """A body that is sent at once."""

    def __init__(self, body: bytes) -> None:
        self.length = len(body)
        self._body = body

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None:
        pass

    def resumeProducing(self) -> None:
        pass

    def stopProducing(self) -> None:
        pass


class HttpClient:
    """A small client: bounded, cancellable, one reply at a time; over TLS and UNIX sockets of our own roles.

    :param connections_max: at once, to all addresses together; who asks beyond that waits.
    :param timeout_seconds: to connect, and for each silence of the other end.
    :param trust_root: for https: who is trusted (``ssl.trustRootFromCertificates`` of Twisted); None: the system's.
    :param tls: for https, instead: between roles.
    """

    def __init__(
        self,
        reactor: Any,
        connections_max: int,
        timeout_seconds: float,
        trust_root: Any = None,
        tls: ClientTls | None = None,
    ) -> None:
        self._clock: IReactorTime = reactor
        self._timeout = timeout_seconds
        self._pool = HTTPConnectionPool(reactor)
        self._pool.maxPersistentPerHost = connections_max
        self._pool.cachedConnectionTimeout = int(timeout_seconds)
        endpoints = _Endpoints(reactor, timeout_seconds, trust_root, tls)
        self._agent = Agent.usingEndpointFactory(reactor, endpoints, pool=self._pool)
        self._slots = DeferredSemaphore(connections_max)

    def get(self, address: str, path: str, headers: Mapping[str, str] | None = None) -> Deferred[Answer]:
        """Ask for something; the Deferred fires when the head of the answer is there.

        :raises HttpFailed: (as the Deferred's failure) there is no answer.
        """
        return Deferred.fromCoroutine(self._ask(b"GET", address, path, headers or {}, None))

    def post(self, address: str, path: str, body: bytes, headers: Mapping[str, str]) -> Deferred[Answer]:
        """The same with a body.

        :raises HttpFailed: (as the Deferred's failure) there is no answer; whether it was asked is not known.
        """
        return Deferred.fromCoroutine(self._ask(b"POST", address, path, headers, _Whole(body)))

    async def _ask(
        self, method: bytes, address: str, path: str, headers: Mapping[str, str], body: _Whole | None
    ) -> Answer:
        await self._slots.acquire()
        watch = Watch(self._clock, self._timeout)
        try:
            sent = Headers({name: [value] for name, value in {"Host": "localhost", **headers}.items()})
            asked = self._agent.request(method, _base(address) + path.encode("ascii"), sent, body)
            watch.start(asked.cancel)
            response = await asked
        except BaseException as error:
            self._slots.release()
            if watch.over:
                raise HttpFailed(f"{address} did not answer within {self._timeout:g} seconds") from None
            if _is_cancelled(error):
                raise CancelledError from None
            if isinstance(error, Exception):
                raise HttpFailed(f"{address}: {_reason(error)}") from error
            raise
        finally:
            watch.stop()
        return Answer(response, Watch(self._clock, self._timeout), self._slots.release, address)

    def close(self) -> Deferred[None]:
        """Close the connections that are kept."""
        closed: Deferred[None] = self._pool.closeCachedConnections()
        return closed


_CANCELLED = (CancelledError, ConnectingCancelledError)


def _is_cancelled(error: BaseException) -> bool:
    """It was cancelled, at whatever stage of the request."""
    reasons = getattr(error, "reasons", ())
    return isinstance(error, _CANCELLED) or any(reason.check(*_CANCELLED) for reason in reasons)


def _reason(error: BaseException | None) -> str:
    reasons = getattr(error, "reasons", None)  # what twisted.web wraps
    return "; ".join(reason.getErrorMessage() for reason in reasons) if reasons else str(error)


class Watch:
    """Calls back when nothing has moved for a while."""

    def __init__(self, clock: IReactorTime, timeout_seconds: float) -> None:
        self.over = False
        self._clock = clock
        self._timeout = timeout_seconds
        self._call: IDelayedCall | None = None
        self._bark: Callable[[], object] = lambda: None

    def start(self, bark: Callable[[], object]) -> None:
        """From now on."""
        self.stop()
        self._bark = bark
        self._call = self._clock.callLater(self._timeout, self._ring)

    def moved(self) -> None:
        """Something has moved."""
        if self._call is not None:
            self._call.reset(self._timeout)

    def stop(self) -> None:
        """No longer."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _ring(self) -> None:
        self._call = None
        self.over = True
        self._bark()


class Answer:
    """The head of a reply, whose body can then be read.

    :ivar status: of HTTP.
    """

    def __init__(self, response: Any, watch: Watch, release: Callable[[], None], address: str) -> None:
        self.status = int(response.code)
        self._response = response
        self._watch = watch
        self._release = release
        self._address = address

    def header(self, name: str) -> str | None:
        """The first value of this header field; None: there is none."""
        if name.lower() == "content-length":
            # twisted.web keeps this one apart from the others.
            length = self._response.length
            return str(length) if isinstance(length, int) else None
        values = self._response.headers.getRawHeaders(name)
        return values[0] if values else None

    def pipe_to(self, consumer: IConsumer) -> Deferred[int]:
        """Give the body to a consumer as fast as it takes it; fires with the number of bytes.

        The consumer's ``unregisterProducer`` is called at the end, however it ends.  Cancelling drops the connection.

        :raises HttpFailed: it has broken off.
        """
        return self._take(_Pipe(consumer, self._watch))

    def read(self, bytes_max: int) -> Deferred[bytes]:
        """The whole body.

        :raises TooLong: it has more than ``bytes_max``.
        :raises HttpFailed: it has broken off.
        """
        keep = _Keep(bytes_max, self._watch)
        return self._take(keep).addCallback(lambda _: b"".join(keep.pieces))

    def drop(self) -> None:
        """Not interested in the body: the connection is closed."""
        self._take(_Keep(-1, self._watch)).addErrback(lambda failure: failure.trap(HttpFailed) and None)

    def _take(self, body: _Body) -> Deferred[int]:
        body.address = self._address
        self._response.deliverBody(body)
        body.began()

        def over(result: Any) -> Any:
            self._release()
            return result

        return body.done.addBoth(over)


class _Body(Protocol):
    """Receives a body; ``done`` fires with its length."""

    address = ""

    def __init__(self, watch: Watch) -> None:
        self.size_bytes = 0
        self.over = False
        self.watch = watch
        self.done: Deferred[int] = Deferred(lambda _: self.give_up(None))

    def began(self) -> None:
        if not self.over:
            self.watch.start(lambda: self.give_up(HttpFailed(f"{self.address} timed out")))

    def give_up(self, error: Exception | None) -> None:
        """End it here; None: it was cancelled."""
        self._end(None if error is None else Failure(error))
        if self.transport is not None:
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if reason.check(ResponseDone):
            self._end(self.size_bytes)
        else:
            self._end(Failure(HttpFailed(f"{self.address} disconnected: {_reason(reason.value)}")))

    def _end(self, result: Failure | int | None) -> None:
        if self.over:
            return
        self.over = True
        self.watch.stop()
        self.ended()
        if result is not None:
            self.done.callback(result)  # a failure calls its errbacks

    def ended(self) -> None:
        """Nothing more comes."""


class _Keep(_Body):
    def __init__(self, bytes_max: int, watch: Watch) -> None:
        super().__init__(watch)
        self._bytes_max = bytes_max
        self.pieces: list[bytes] = []

    def began(self) -> None:
        super().began()
        if self._bytes_max < 0 and not self.over:
            self.give_up(TooLong("dropped"))

    def dataReceived(self, data: bytes) -> None:
        if self.over:
            return
        self.size_bytes += len(data)
        if self.size_bytes > self._bytes_max:
            self.pieces.clear()
            self.give_up(TooLong(f"{self.address} gives more than {self._bytes_max} bytes"))
            return
        self.watch.moved()
        self.pieces.append(data)


@implementer(IPushProducer)
class _Pipe(_Body):
    def __init__(self, consumer: IConsumer, watch: Watch) -> None:
        super().__init__(watch)
        self._consumer = consumer

    def connectionMade(self) -> None:
        self._consumer.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        if not self.over:
            self.size_bytes += len(data)
            self.watch.moved()
            self._consumer.write(data)

    def ended(self) -> None:
        self._consumer.unregisterProducer()

    def pauseProducing(self) -> None:
        if not self.over and self.transport is not None:
            self.watch.stop()  # it is this end that waits
            IPushProducer(self.transport).pauseProducing()

    def resumeProducing(self) -> None:
        if not self.over and self.transport is not None:
            self.began()
            IPushProducer(self.transport).resumeProducing()

    def stopProducing(self) -> None:
        if not self.over:
            self.give_up(HttpFailed("the consumer has disconnected"))
