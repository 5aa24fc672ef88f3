"""TLS contexts of both ends: who is trusted, for what.

A wire between roles is TLS 1.3, and both ends show a certificate: of an authority in ``[tls] ca``, valid now, for a
role that belongs at that end (:mod:`lcc.transport.tls.certificates`), and the listening end's for the host name or
address that was asked for.  Nothing is resumed there: each connection is verified anew, so that an expired, replaced
or no longer trusted certificate ends with the connection that it was shown for.  Such connections live long; what a
handshake costs is in doc/performance.md.

A public port is TLS 1.2 or newer, shows a certificate and asks for none; sessions are resumed (tickets).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from cryptography import x509
from OpenSSL import SSL
from OpenSSL.crypto import X509
from service_identity import CertificateError, VerificationError
from service_identity.cryptography import verify_certificate_hostname, verify_certificate_ip_address
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator
from zope.interface import implementer

from lcc.transport.tls.certificates import Credentials, Loaded, describe, roles_of

CONTENT_ROLES = frozenset(["botm"])
"""Who listens at a content port."""
CIPHERS_TLS12 = b"ECDHE+AESGCM:ECDHE+CHACHA20"

_FAULTS = {
    2: "is of an authority that is not trusted",
    9: "is not valid yet",
    10: "has expired",
    18: "is signed by itself, not by an authority",
    19: "is of an authority that is not trusted",
    20: "is of an authority that is not trusted",
    21: "is of an authority that is not trusted",
    23: "was revoked",
    26: "is not made for this end of a connection",
}
"""Errors of OpenSSL's verification (X509_V_ERR_*)."""


class Refused(SSL.Error):
    """This end refuses the other end's certificate; says why."""

    def __init__(self, text: str) -> None:
        super().__init__([("lcc", "", text)])  # as OpenSSL's queue of errors, which Twisted looks into
        self.text = text

    def __str__(self) -> str:
        return self.text


class _Verifier:
    """The verification callback.

    :param roles: one of these must be in the certificate; None: any certificate will do.
    :param revoked: see :class:`Loaded`.
    :param hosts: the host that a connection's certificate must be for; None: that is not looked at.
    """

    def __init__(
        self,
        roles: frozenset[str] | None,
        revoked: frozenset[tuple[x509.Name, int]],
        hosts: Mapping[SSL.Connection, str] | None,
    ) -> None:
        self._roles = roles
        self._revoked = revoked
        self._hosts = hosts

    def __call__(self, connection: SSL.Connection, wrapped: Any, error: int, depth: int, good: int) -> bool:
        """:raises Refused: (pyOpenSSL passes it on to whoever does the handshake)"""
        certificate = wrapped.to_cryptography()
        if not good:
            fault = _FAULTS.get(error, f"cannot be verified (OpenSSL's error {error})")
            raise Refused(f"its certificate ({describe(certificate)}) {fault}")
        if (certificate.issuer, certificate.serial_number) in self._revoked:
            raise Refused(f"its certificate ({describe(certificate)}) was revoked")
        if depth == 0:
            self._check_role(certificate)
            if self._hosts is not None:
                _check_host(certificate, self._hosts.get(connection, ""))  # no certificate is for ""
        return True

    def _check_role(self, certificate: x509.Certificate) -> None:
        if self._roles is not None and not self._roles & roles_of(certificate):
            wanted = " or ".join(sorted(self._roles))
            raise Refused(f"its certificate ({describe(certificate)}) is not for the role {wanted}")


def _check_host(certificate: x509.Certificate, host: str) -> None:
    try:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            verify_certificate_hostname(certificate, host.rstrip("."))
        else:
            verify_certificate_ip_address(certificate, host)
    except (VerificationError, CertificateError, ValueError):
        raise Refused(f"its certificate ({describe(certificate)}) is not for {host}") from None


def _trust(context: SSL.Context, loaded: Loaded) -> None:
    if not loaded.authorities:
        context.set_default_verify_paths()
        return
    store = context.get_cert_store()
    assert store is not None
    for authority in loaded.authorities:
        store.add_cert(X509.from_cryptography(authority))


def _new_context(method: int, *, between_roles: bool) -> SSL.Context:
    context = SSL.Context(method)
    context.set_min_proto_version(SSL.TLS1_3_VERSION if between_roles else SSL.TLS1_2_VERSION)
    context.set_cipher_list(CIPHERS_TLS12)
    # A peer could have a handshake repeated as often as it likes.
    context.set_options(SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION)
    return context


class _Side:
    """Makes connections from a context that is made anew when the files have changed."""

    def __init__(self, credentials: Credentials, build: Callable[[Loaded], SSL.Context]) -> None:
        self._credentials = credentials
        self._build = build
        self._loaded: Loaded | None = None
        self._context: SSL.Context

    def context(self) -> SSL.Context:
        """:raises ConfigError: the files cannot be used, and never could."""
        loaded = self._credentials.current()
        if loaded is not self._loaded:
            self._context = self._build(loaded)
            self._loaded = loaded
        return self._context


@implementer(IOpenSSLServerConnectionCreator)
class ServerTls:
    """The listening end.

    :param roles: who connects shows a certificate for one of these; None: who connects shows none (a public port).
    """

    def __init__(self, credentials: Credentials, roles: frozenset[str] | None) -> None:
        self._roles = roles
        self._side = _Side(credentials, self._build)

    @property
    def is_public(self) -> bool:
        """Who connects shows no certificate."""
        return self._roles is None

    def load(self) -> None:
        """:raises ConfigError: the files cannot be used."""
        self._side.context()

    def _build(self, loaded: Loaded) -> SSL.Context:
        context = _new_context(SSL.TLS_SERVER_METHOD, between_roles=not self.is_public)
        loaded.present_in(context)
        if not self.is_public:
            _trust(context, loaded)
            context.set_verify(
                SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _Verifier(self._roles, loaded.revoked, None)
            )
            context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
            context.set_options(SSL.OP_NO_TICKET)
        return context

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """As the interface says."""
        return SSL.Connection(self._side.context(), None)


class ClientTls:
    """The connecting end, towards any number of hosts.

    :param roles: who listens shows a certificate for one of these; None: the host's name is enough (a public port).
    """

    def __init__(self, credentials: Credentials, roles: frozenset[str] | None) -> None:
        self._roles = roles
        self._side = _Side(credentials, self._build)
        self._hosts: WeakKeyDictionary[SSL.Connection, str] = WeakKeyDictionary()

    def load(self) -> None:
        """:raises ConfigError: the files cannot be used."""
        self._side.context()

    def _build(self, loaded: Loaded) -> SSL.Context:
        context = _new_context(SSL.TLS_CLIENT_METHOD, between_roles=self._roles is not None)
        loaded.present_in(context)
        _trust(context, loaded)
        context.set_verify(SSL.VERIFY_PEER, _Verifier(self._roles, loaded.revoked, self._hosts))
        return context

    def towards(self, host: str) -> HostTls:
        """For connections to this host; its certificate must be for this name or address."""
        return HostTls(self, host)

    def connection(self, host: str) -> SSL.Connection:
        """The TLS state of one connection to this host."""
        connection = SSL.Connection(self._side.context(), None)
        self._hosts[connection] = host
        try:
            ipaddress.ip_address(host)
        except ValueError:
            connection.set_tlsext_host_name(host.rstrip(".").encode("idna"))
        return connection


@implementer(IOpenSSLClientConnectionCreator)
class HostTls:
    """The connecting end, towards one host."""

    def __init__(self, client: ClientTls, host: str) -> None:
        self._client = client
        self._host = host

    def load(self) -> None:
        """:raises ConfigError: the files cannot be used."""
        self._client.load()

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """As the interface says."""
        return self._client.connection(self._host)
