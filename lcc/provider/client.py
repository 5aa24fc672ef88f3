"""Submitting a set of URLs to a UNS: what ``lcccp`` is made of, and what other programs publish with.

::

    endpoint = uns_endpoint(reactor, "localhost:9000")
    submission = await submit(reactor, endpoint, 7, password, [{"c": "a.html", "m": "text/html"}],
                              urlprefix="http://site/")

*Owns* one connection.

*Strategy.*  The elements are drawn from their iterable as fast as the connection takes them, a bounded number each
reactor turn, and the answers are read all the while; the connection is closed when the answer is complete.

*Failures.*  :class:`Unreachable` when there is no answer: no connection, a lost one, silence for longer than the
timeout, a peer that speaks something else.  It says whether the set may have been accepted all the same.  There are
no retries here.  A rejection is an answer, not a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred, TimeoutError, fail
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
    clientFromString,
)
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import StreamError
from lcc.interfaces import IConversation
from lcc.numbers import parse_number
from lcc.protocols.cp_uns import InitAccepted, InitRejected, SetAccepted, SetRejected, UnsMessage, UrlFault
from lcc.protocols.cp_uns_client import ClientReader, init, reply_feed, set_begin, set_end, url_element
from lcc.protocols.xmlfeed import Event
from lcc.transport.stream import StreamLimits, XmlStream
from lcc.transport.tls.certificates import Credentials
from lcc.transport.tls.contexts import ClientTls
from lcc.transport.tls.endpoints import TlsClientEndpoint
from lcc.transport.tls.files import CertificateFiles

DEFAULT_PORT = 9000
_BATCH = 500
_CLOSING_SECONDS = 5.0
_HOST_PORT = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^:\[\]/=]+))(?::(?P<port>[0-9]{1,5}))?")
_TLS_HOST_PORT = re.compile(r"tls:([^=]*:[0-9]{1,5})")


class Unreachable(Exception):
    """The UNS gave no answer.

    :ivar uncertain: the whole set was sent before; it may have been accepted.
    :ivar silent: there was a connection, and nothing that could be understood came over it.
    :ivar connected: there was a connection.
    """

    def __init__(self, text: str, uncertain: bool = False, silent: bool = False, *, connected: bool = False) -> None:
        self.uncertain = uncertain
        self.silent = silent
        self.connected = connected
        super().__init__(text)


@attrs.frozen
class Submission:
    """The UNS's answer.

    :ivar accepted: the set is in safe hands; True also where only the connection was tried.
    :ivar welcome: what the UNS told at the beginning; None: it rejected us there.
    :ivar code, text: of a rejection; 0 and '' otherwise.
    :ivar received: elements that the UNS counts as valid.
    :ivar sent: elements that were sent.
    :ivar finished: a whole set was sent (False: rejected before, or only the connection was tried).
    :ivar faults: URLs of this set that were refused, the first of them.
    :ivar fault_count: all of them.
    :ivar blanked_subtypes: elements that were taken without their subtype.
    """

    accepted: bool
    welcome: InitAccepted | None
    code: int = 0
    text: str = ""
    received: int = 0
    sent: int = 0
    finished: bool = False
    faults: tuple[UrlFault, ...] = ()
    fault_count: int = 0
    blanked_subtypes: int = 0


def _address_endpoint(reactor: Any, host: str, port: int) -> IStreamClientEndpoint | None:
    """The endpoint of an IP address: no name has to be looked up, in a thread.  None: it is none."""
    if isIPAddress(host):
        return TCP4ClientEndpoint(reactor, host, port)
    return TCP6ClientEndpoint(reactor, host, port) if isIPv6Address(host) else None


def uns_endpoint(reactor: Any, text: str, tls: bool = False, ca_file: Path | None = None) -> IStreamClientEndpoint:
    """The endpoint that a user means: ``HOST:PORT``, ``HOST``, ``[IPv6]:PORT``, or a Twisted endpoint string
    (``unix:/path``); ``tls:HOST:PORT`` is ``HOST:PORT`` over TLS.

    :param tls: over TLS; the UNS's certificate must be for the host.
    :param ca_file: a PEM file with the authorities that are trusted; None: those of the system.
    :raises ValueError: it cannot be understood.
    :raises ConfigError: the authorities cannot be read.
    """
    over_tls = _TLS_HOST_PORT.fullmatch(text)
    match = _HOST_PORT.fullmatch(text if over_tls is None else over_tls[1])
    if match is None:
        if tls:
            raise ValueError(f"{text!r}: must be HOST:PORT with --tls")
        try:
            endpoint: IStreamClientEndpoint = clientFromString(reactor, text)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise ValueError(f"{text!r} is neither HOST:PORT nor an endpoint: {error}") from None
        return endpoint
    port = parse_number(match["port"] or str(DEFAULT_PORT), 99_999)
    if not 0 < port < 65536:
        raise ValueError(f"{text!r}: there is no port {port}")
    host = match["six"] or match["host"]
    endpoint = _address_endpoint(reactor, host, port) or HostnameEndpoint(reactor, host, port)
    if not tls and over_tls is None:
        return endpoint
    trusted = Credentials(CertificateFiles(ca_file))
    secured = TlsClientEndpoint(reactor, endpoint, ClientTls(trusted, None).towards(host))
    secured.load()
    return secured


@attrs.frozen
class Request:
    """What is to be said.

    :ivar urls: the elements' attributes; None: only try the connection.
    :ivar on_progress: called with the number of elements sent, several times.
    :ivar on_welcome: called with what the UNS tells; False: send nothing, close.
    :ivar on_fault: called with each URL of the set that was refused.
    :ivar faults_kept: refused URLs beyond this many are not in the answer, but counted.
    :ivar deletions: all that the set deletes is meant, however much that is; with a partial one, what the UNS told
        at the beginning that the LCC holds (nobody has been told of what is held since).
    """

    pid: int
    password: str = attrs.field(repr=False)
    urls: Iterable[dict[str, str]] | None
    full: bool = False
    urlprefix: str = ""
    on_progress: Callable[[int], None] | None = None
    on_welcome: Callable[[InitAccepted], bool] | None = None
    timeout_seconds: float = 300.0
    faults_kept: int = 1000
    deletions: bool = False
    on_fault: Callable[[UrlFault], None] | None = None


@implementer(IConversation)
class ProviderConversation:
    """The provider's end of one connection.

    :ivar done: fires with the :class:`Submission` once the connection is closed, or fails.
    """

    def __init__(self, clock: Any, request: Request) -> None:
        self._clock = clock
        self._request = request
        self._reader = ClientReader()
        self._urls: Iterator[dict[str, str]] = iter(request.urls or ())
        self._welcome: InitAccepted | None = None
        self._faults: list[UrlFault] = []
        self._fault_count = 0
        self._sent = 0
        self._end_sent = False
        self._outcome: Submission | Exception | None = None
        self._pump_call: IDelayedCall | None = None
        self._silence_call: IDelayedCall | None = None
        self._last_sign = 0.0
        self._limit_seconds = request.timeout_seconds
        self._stream: XmlStream
        self.done: Deferred[Submission] = Deferred(lambda _: self._interrupted())

    # IConversation.

    def stream_opened(self, stream: XmlStream) -> None:
        self._stream = stream
        self._last_sign = self._clock.seconds()
        self._silence_call = self._clock.callLater(self._limit_seconds, self._check_silence)
        stream.send(init(self._request.pid, self._request.password))

    def events_received(self, events: list[Event]) -> None:
        self._sign_of_life()
        ended = False
        for message in self._reader.events(events):
            if self._outcome is None:
                self._message(message)
                ended = ended or isinstance(message, InitAccepted)
        if ended and self._outcome is None:
            # At once, even if nothing is expected yet: only a stream that is read notices that its peer is gone.
            self._stream.next_document()

    def stream_failed(self, error: StreamError) -> None:
        self._fail(f"cannot parse the response: {error}", silent=self._welcome is None)

    def stream_resumed(self) -> None:
        self._sign_of_life()
        self._pump()

    def peer_finished(self) -> None:
        self._fail("the UNS closed the connection before its response was complete", silent=self._welcome is None)

    def stream_closed(self, reason: Failure) -> None:
        for call in (self._silence_call, self._pump_call):
            if call is not None and call.active():
                call.cancel()
        if self._outcome is None:
            how = "was closed" if reason.check(ConnectionDone) else f"was lost ({reason.getErrorMessage()})"
            self._outcome = Unreachable(
                f"the connection {how} before the response", self._end_sent, self._welcome is None, connected=True
            )
        self._tell()

    # Inside.

    def _tell(self) -> None:
        if self.done.called:
            return
        if isinstance(self._outcome, Exception):
            self.done.errback(self._outcome)
        else:
            assert self._outcome is not None
            self.done.callback(self._outcome)

    def _interrupted(self) -> None:
        self._fail("interrupted")
        self._tell()

    def _message(self, message: UnsMessage) -> None:
        match message:
            case InitAccepted():
                self._welcomed(message)
            case InitRejected(code=code, text=text) | SetRejected(code=code, text=text):
                self._finish(False, code, text)
            case UrlFault():
                self._fault_count += 1
                if self._request.on_fault is not None:
                    self._request.on_fault(message)
                if len(self._faults) < self._request.faults_kept:
                    self._faults.append(message)
            case SetAccepted():
                if self._end_sent:
                    self._finish(True, accepted_set=message)
                else:
                    self._fail("the UNS accepted the set before it was complete")

    def _welcomed(self, welcome: InitAccepted) -> None:
        self._welcome = welcome
        request = self._request
        go_on = request.urls is not None
        if request.on_welcome is not None:
            try:
                go_on = request.on_welcome(welcome) and go_on
            except Exception as error:
                self._end_with(error)
                self._stream.abort()
                return
        if not go_on:
            self._finish(True)
            return
        deletions = request.deletions and (request.full or welcome.deletions_held > 0)
        self._stream.send(set_begin(request.full, request.urlprefix, deletions=deletions))
        self._pump()

    def _pump(self) -> None:
        """Send the next elements, unless the connection is full: stream_resumed comes back then."""
        if self._pump_call is not None and self._pump_call.active():
            self._pump_call.cancel()
        self._pump_call = None
        if self._welcome is None or self._end_sent or self._outcome is not None or not self._stream.writable:
            return
        self._sign_of_life()
        try:
            batch = list(islice(self._urls, _BATCH))
            elements = "".join(map(url_element, batch))
        except Exception as error:
            # Nothing was accepted: the set was cut off.
            self._end_with(error)
            self._stream.abort()
            return
        self._stream.send(elements)
        self._sent += len(batch)
        if self._request.on_progress is not None:
            self._request.on_progress(self._sent)
        if len(batch) < _BATCH:
            self._stream.send(set_end())
            self._end_sent = True
        else:
            self._pump_call = self._clock.callLater(0, self._pump)

    def _finish(self, accepted: bool, code: int = 0, text: str = "", accepted_set: SetAccepted | None = None) -> None:
        told = accepted_set or SetAccepted(0)
        counts = (told.received, self._sent, self._end_sent)
        faults = (tuple(self._faults), self._fault_count)
        self._end_with(Submission(accepted, self._welcome, code, text, *counts, *faults, told.blanked_subtypes))
        if self._end_sent or accepted:
            self._stream.close()
        else:
            self._stream.abort()  # what we have not sent yet, nobody wants

    def _fail(self, text: str, silent: bool = False) -> None:
        if self._outcome is None:
            self._end_with(Unreachable(text, self._end_sent, silent, connected=True))
            self._stream.abort()

    def _end_with(self, outcome: Submission | Exception) -> None:
        self._outcome = outcome
        self._sign_of_life()
        self._limit_seconds = _CLOSING_SECONDS
        if self._silence_call is not None and self._silence_call.active():
            self._silence_call.reset(_CLOSING_SECONDS)

    def _sign_of_life(self) -> None:
        self._last_sign = self._clock.seconds()

    def _check_silence(self) -> None:
        quiet = self._clock.seconds() - self._last_sign
        if quiet < self._limit_seconds:
            self._silence_call = self._clock.callLater(self._limit_seconds - quiet, self._check_silence)
        elif self._outcome is None:
            self._fail(f"no response for {self._limit_seconds:g} seconds")
        else:
            self._stream.abort()


def provider_stream(clock: Any, conversation: ProviderConversation, timeout_seconds: float) -> XmlStream:
    """The protocol that carries a conversation."""
    limits = StreamLimits(idle_timeout_seconds=0, stall_timeout_seconds=timeout_seconds)
    return XmlStream(conversation, clock, reply_feed(), limits)


def submit(
    reactor: Any,
    endpoint: IStreamClientEndpoint,
    pid: int,
    password: str,
    urls: Iterable[dict[str, str]] | None,
    *,
    full: bool = False,
    urlprefix: str = "",
    on_progress: Callable[[int], None] | None = None,
    on_welcome: Callable[[InitAccepted], bool] | None = None,
    timeout_seconds: float = 300.0,
    connect_timeout_seconds: float = 30.0,
    faults_kept: int = 1000,
    deletions: bool = False,
    on_fault: Callable[[UrlFault], None] | None = None,
) -> Deferred[Submission]:
    """Submit a set of URLs.  Never holds it in memory.

    :param endpoint: of the UNS, see :func:`uns_endpoint`.
    :param urls: the attributes of each element; drawn from while sending.  None: only connect and hear.
    :param full: these are all URLs that the provider has; the LCC deletes the others.
    :param urlprefix: put before every URL that names no scheme, by the UNS.
    :param on_progress, on_welcome, on_fault, faults_kept, deletions: see :class:`Request`.
    :param timeout_seconds: the longest time in which nothing comes and nothing can be sent.
    :returns: a Deferred of the answer.  Fails with :class:`Unreachable`, with what ``urls`` raised, or, for a text
        that XML cannot carry (a control character, for example), with ValueError: nothing is accepted then.
    """
    try:
        init(pid, password)
        set_begin(full, urlprefix)
    except ValueError as error:
        return fail(error)
    request = Request(
        pid,
        password,
        urls,
        full,
        urlprefix,
        on_progress,
        on_welcome,
        timeout_seconds,
        faults_kept,
        deletions,
        on_fault,
    )
    conversation = ProviderConversation(reactor, request)
    factory = Factory.forProtocol(lambda: provider_stream(reactor, conversation, timeout_seconds))
    connecting: Deferred[Any] = endpoint.connect(factory)
    connecting.addTimeout(min(connect_timeout_seconds, timeout_seconds), reactor)

    def not_connected(failure: Failure) -> Failure:
        conversation.done.addErrback(lambda _: None)  # it may have begun, and been refused; nobody waits for it
        if failure.check(TimeoutError):
            return Failure(Unreachable("connection timed out"))
        return Failure(Unreachable(f"cannot connect: {failure.getErrorMessage().rstrip('.')}"))

    def connected(_protocol: Any) -> Deferred[Submission]:
        return conversation.done

    # Not addCallback and then addErrback: what the conversation fails with is passed on as it is.
    result: Deferred[Submission] = connecting.addCallbacks(connected, not_connected)
    return result
