"""Endpoints over TLS that tell why a connection was refused, and by whom; and their endpoint strings.

::

    lcctls:9100:interface=10.0.0.1:certificate=qm.pem:key=qm.key:ca=ca.pem:roles=botm      listens for BOT-Ms
    lcctls:10.0.0.1:9100:certificate=botm.pem:key=botm.key:ca=ca.pem:roles=qm              connects to a QM
    lcctls:9443:certificate=public.pem:key=public.key                                      listens for anybody
    lcctls:cache.example.org:9443                                                          connects to a public port

In ``lcc.toml`` these are ``tls:`` and a port, and the rest comes from ``[tls]`` (:mod:`lcc.transport.wires`).

A listening end logs whom it refuses; a connecting end's connect fails, once it is certain.  With TLS 1.3 the
connecting end may hear only later that it was refused: :attr:`TlsClientEndpoint.refused` is told then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from OpenSSL import SSL
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ServerEndpoint
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IListeningPort,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import ConfigError
from lcc.transport.tls.certificates import ROLES, Credentials
from lcc.transport.tls.contexts import ClientTls, HostTls, Refused, ServerTls
from lcc.transport.tls.files import PREFIX, CertificateFiles

_log = Logger()

TIMEOUT_SECONDS = 30.0
LOG_LINES = 10
LOG_SECONDS = 60.0
"""A port logs at most so many refusals in this time; then how many more there were."""

ENDED_EARLY = "the connection ended within the TLS handshake"

_ALERTS = {
    "unknown ca": "it does not trust the authority of this end's certificate",
    "certificate required": "it demands a certificate, and this end has shown none",
    "certificate expired": "this end's certificate has expired",
    "certificate revoked": "this end's certificate was revoked",
    "bad certificate": "it does not take this end's certificate, which may not be valid yet",
    "certificate unknown": "it has no use for this end's certificate: for another role or host, or revoked",
    # What pyOpenSSL lets OpenSSL say when it is our callback that refuses.
    "internal error": "it has no use for this end's certificate: for another role or host, or revoked",
    "unsupported certificate": "this end's certificate is not made for this end of a connection",
    "protocol version": "it does not speak this version of TLS",
    "handshake failure": "it finds nothing that both ends can do",
}
_OWN = {
    "peer did not return a certificate": "it shows no certificate",
    "wrong version number": "it does not speak TLS",
    "http request": "it speaks HTTP without TLS",
    "packet length too long": "it does not speak TLS",
    "unsupported protocol": "it speaks only an older version of TLS",
    "no shared cipher": "there is no cipher that both ends have",
}


class TlsFailed(ConnectionLost):
    """A connection over TLS was refused, by this end or by the other one; says why.

    :ivar by_peer: the other end has refused this one.
    """

    def __init__(self, text: str, by_peer: bool) -> None:
        super().__init__(text)
        self.text = text
        self.by_peer = by_peer

    def __str__(self) -> str:
        return self.text


def explain(error: SSL.Error) -> TlsFailed:
    """An error of OpenSSL in words."""
    if isinstance(error, Refused):
        return TlsFailed(str(error), by_peer=False)
    reasons = [str(entry[-1]) for entry in error.args[0]] if error.args and isinstance(error.args[0], list) else []
    text = "; ".join(reasons) or "TLS has failed"
    if "alert" in text:
        words = next((words for part, words in _ALERTS.items() if part in text), text)
        return TlsFailed(f"the other end refuses this one: {words} (its log tells more)", by_peer=True)
    return TlsFailed(next((words for part, words in _OWN.items() if part in text), text), by_peer=False)


class _Transport(BufferingTLSTransport):
    """A connection that tells its factory when both ends are agreed, and in words why it ends otherwise."""

    # The parts of TLSMemoryBIOProtocol with a leading underscore are documented in its docstring.

    factory: _Factory

    def _checkHandshakeStatus(self) -> None:
        super()._checkHandshakeStatus()
        if self._handshakeDone:
            self.factory.agreed(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        given = self._reason
        if given is not None and given.check(SSL.Error):
            self._reason = Failure(explain(given.value))
        agreed = self._handshakeDone
        peer = self.transport.getPeer() if self.transport is not None else None
        reason = self._reason or reason
        super().connectionLost(reason)
        self.factory.ended(self, peer, reason, agreed)


class _ClientTransport(_Transport):
    """The protocol above hears of a connection once both ends are agreed, and of none that was lost before: a
    ``ClientService`` takes a connection that is lost while it still connects for impossible."""

    def __init__(self, factory: _Factory, wrapped: Any) -> None:
        super().__init__(factory, wrapped, _connectWrapped=False)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self._handshakeDone:
            self.wrappedProtocol = Protocol()
        super().connectionLost(reason)


class _Factory(TLSMemoryBIOFactory):
    """Adds TLS to the connections of a factory."""

    protocol: type[_Transport] = _Transport
    noisy = False

    def buildProtocol(self, addr: Any) -> Any:
        wrapped = self.wrappedFactory.buildProtocol(addr)
        # Twisted's own does not know of factories that refuse.
        return None if wrapped is None else self.protocol(self, wrapped)

    def agreed(self, transport: _Transport) -> None:
        """The handshake is complete at this end."""

    def ended(self, transport: _Transport, peer: Any, reason: Failure, agreed: bool) -> None:
        """The connection is lost.

        :param agreed: its handshake was complete at this end.
        """


class _ServerFactory(_Factory):
    def __init__(self, tls: ServerTls, factory: IProtocolFactory, clock: IReactorTime, shown: str) -> None:
        super().__init__(tls, False, factory, clock=clock)
        self._shown = shown
        self._seconds = clock.seconds
        self._since = 0.0
        self._count = 0

    def ended(self, transport: _Transport, peer: Any, reason: Failure, agreed: bool) -> None:
        failed = reason.check(TlsFailed)
        if not failed and (agreed or transport._aborted):
            return  # an ordinary end, or the role above has dropped it
        now = self._seconds()
        if now >= self._since + LOG_SECONDS:
            if self._count > LOG_LINES:
                _log.warn("{port}: refused {count} more connections", port=self._shown, count=self._count - LOG_LINES)
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= LOG_LINES:
            text = reason.getErrorMessage() if failed else ENDED_EARLY
            _log.warn(
                "{port}: no connection with {peer}: {reason}",
                port=self._shown,
                peer=f"{peer.host}:{peer.port}" if hasattr(peer, "port") else str(peer),
                reason=text,
            )


class _ClientFactory(_Factory):
    protocol = _ClientTransport

    def __init__(
        self, tls: HostTls, factory: IProtocolFactory, clock: IReactorTime, refused: Callable[[Failure], object]
    ) -> None:
        super().__init__(tls, True, factory, clock=clock)
        self._refused = refused
        self._agreed: set[_Transport] = set()
        self._failed: dict[_Transport, Failure] = {}
        self._waiting: dict[_Transport, Deferred[Any]] = {}

    def when_agreed(self, transport: _Transport) -> Deferred[Any]:
        """Fires with the protocol above the TLS, or fails."""
        waiting: Deferred[Any] = Deferred(lambda _: self._give_up(transport))
        if transport in self._agreed:
            waiting.callback(transport.wrappedProtocol)
        elif transport in self._failed:
            waiting.errback(self._failed[transport])
        else:
            self._waiting[transport] = waiting
        return waiting

    def _give_up(self, transport: _Transport) -> None:
        self._waiting.pop(transport, None)
        transport.abortConnection()

    def agreed(self, transport: _Transport) -> None:
        if transport not in self._agreed:
            self._agreed.add(transport)
            transport.wrappedProtocol.makeConnection(transport)
            waiting = self._waiting.pop(transport, None)
            if waiting is not None:
                waiting.callback(transport.wrappedProtocol)

    def ended(self, transport: _Transport, peer: Any, reason: Failure, agreed: bool) -> None:
        self._agreed.discard(transport)
        if not agreed and reason.check(ConnectionDone):
            reason = Failure(TlsFailed(ENDED_EARLY, by_peer=True))
        self._failed[transport] = reason
        waiting = self._waiting.pop(transport, None)
        if waiting is not None:
            waiting.errback(reason)
        elif agreed and reason.check(TlsFailed):
            self._refused(reason)


@implementer(IStreamServerEndpoint)
class TlsServerEndpoint:
    """Listens over TLS.

    :param shown: names the port in the log.
    :ivar endpoint: what is below the TLS.
    """

    def __init__(self, reactor: Any, endpoint: IStreamServerEndpoint, tls: ServerTls, shown: str) -> None:
        self._reactor = reactor
        self.endpoint = endpoint
        self._tls = tls
        self._shown = shown

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """As the interface says.

        :raises ConfigError: (at once) the certificates cannot be used.
        """
        self._tls.load()
        listening: Deferred[IListeningPort] = self.endpoint.listen(
            _ServerFactory(self._tls, protocolFactory, self._reactor, self._shown)
        )
        return listening


@implementer(IStreamClientEndpoint)
class TlsClientEndpoint:
    """Connects over TLS: there is a connection when the other end's certificate is good.

    :ivar endpoint: what is below the TLS.
    :ivar refused: called with a Failure when the other end refuses this one although there is a connection already.
    """

    def __init__(
        self, reactor: Any, endpoint: IStreamClientEndpoint, tls: HostTls, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._reactor = reactor
        self.endpoint = endpoint
        self._tls = tls
        self._timeout = timeout_seconds
        self.refused: Callable[[Failure], object] = lambda _: None

    def load(self) -> None:
        """:raises ConfigError: the certificates cannot be used."""
        self._tls.load()

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:
        """As the interface says; fails with :class:`TlsFailed` where TLS does."""
        try:
            self._tls.load()
        except ConfigError:
            failed: Deferred[Any] = Deferred()
            failed.errback(Failure())
            return failed
        factory = _ClientFactory(self._tls, protocolFactory, self._reactor, lambda failure: self.refused(failure))

        def shake(transport: _Transport) -> Deferred[Any]:
            return factory.when_agreed(transport).addTimeout(self._timeout, self._reactor, self._too_slow)

        connecting: Deferred[Any] = self.endpoint.connect(factory)
        return connecting.addCallback(shake)

    def _too_slow(self, result: Any, timeout_seconds: float) -> Any:
        if isinstance(result, Failure):
            raise TlsFailed(f"no TLS handshake within {timeout_seconds:g} seconds", by_peer=False) from None
        return result


def parse_server(
    reactor: Any,
    port: str,
    certificate: str,
    key: str,
    ca: str = "",
    roles: str = "",
    interface: str = "",
    backlog: str = "50",
) -> TlsServerEndpoint:
    """A server endpoint from the arguments of its string.

    :raises ValueError: they make no sense.
    """
    if bool(roles) != bool(ca):
        raise ValueError("ca= and roles= belong together")
    wanted = _roles(roles)
    credentials = Credentials(_files(ca, certificate, key))
    shown = f"tls:{port}" + (f":interface={interface}" if interface else "")
    tcp = TCP4ServerEndpoint(reactor, int(port), int(backlog), interface)
    return TlsServerEndpoint(reactor, tcp, ServerTls(credentials, wanted), shown)


def parse_client(
    reactor: Any,
    host: str,
    port: str,
    ca: str = "",
    certificate: str = "",
    key: str = "",
    roles: str = "",
    name: str = "",
    timeout: str = f"{TIMEOUT_SECONDS:g}",
) -> TlsClientEndpoint:
    """A client endpoint from the arguments of its string.

    :param name: the host that the certificate must be for, where it is not ``host``.
    :raises ValueError: they make no sense.
    """
    if roles and not ca:
        raise ValueError("roles= needs ca=")
    if bool(certificate) != bool(key):
        raise ValueError("certificate= and key= belong together")
    tls = ClientTls(Credentials(_files(ca, certificate, key)), _roles(roles))
    tcp = HostnameEndpoint(reactor, host, int(port), float(timeout))
    return TlsClientEndpoint(reactor, tcp, tls.towards(name or host), float(timeout))


def files_of(text: str) -> CertificateFiles | None:
    """The files that an endpoint string names; None: it is none of ours."""
    if not text.startswith(f"{PREFIX}:"):
        return None
    arguments = dict.fromkeys(("ca", "certificate", "key"), "")
    for part in re.split(r"(?<!\\):", text):
        name, _, value = part.partition("=")
        if name in arguments:
            arguments[name] = re.sub(r"\\(.)", r"\1", value)
    return _files(**arguments)


def _roles(text: str) -> frozenset[str] | None:
    roles = frozenset(text.split("+")) if text else None
    if roles is not None and not roles <= set(ROLES):
        raise ValueError(f"roles={text}: they are any of {', '.join(ROLES)}, with + between them")
    return roles


def _files(ca: str, certificate: str, key: str) -> CertificateFiles:
    return CertificateFiles(*(Path(text) if text else None for text in (ca, certificate, key)))
