"""HTTPS: certificates verified against the machine's authorities and the operator's own.

One OpenSSL context for all verified connections and one for all unverified ones: making one reads the machine's
authorities (6 ms), and sessions can be resumed only within a context.  A session is resumed only towards the same
site of the same provider.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from OpenSSL import SSL
from service_identity import VerificationError
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import CertificateOptions, platformTrust
from zope.interface import implementer

from lcc.errors import FetchError

SESSIONS_MAX = 1024
"""TLS sessions remembered."""


class TlsClient:
    """Makes the TLS side of connections.

    :param extra_roots: a PEM file with further authorities; empty: none.
    """

    def __init__(self, extra_roots: str) -> None:
        self._extra_roots = extra_roots
        self._options: dict[bool, CertificateOptions] = {}
        self._sessions: dict[object, Any] = {}

    def creator(self, key: object, host: str, numeric: bool, insecure: bool) -> _Creator:
        """What ``wrapClientTLS`` needs for a connection to this host.

        :param key: the site and provider that sessions are kept for.
        :raises FetchError: "tls-failed": the operator's authorities cannot be read.
        """
        return _Creator(self._options_for(insecure), "" if numeric else host, self._sessions.get(key))

    def verify(self, transport: Any, host: str, numeric: bool, insecure: bool) -> None:
        """After the handshake (which has checked the chain): is the certificate this host's?

        :raises FetchError: "tls-failed".
        """
        if insecure:
            return
        try:
            if numeric:
                verify_ip_address(transport.getHandle(), host)
            else:
                verify_hostname(transport.getHandle(), host.rstrip("."))
        except (VerificationError, ValueError, SSL.Error) as error:
            raise FetchError("tls-failed", f"the certificate is not for {host}") from error

    def remember(self, key: object, transport: Any) -> None:
        """Keep the session of a connection, for the next one to the same site."""
        handle = transport.getHandle()
        session = handle.get_session() if isinstance(handle, SSL.Connection) else None
        if session is not None:
            self._sessions.pop(key, None)
            while len(self._sessions) >= SESSIONS_MAX:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[key] = session

    def forget(self, key: object) -> None:
        """A connection failed: do not try its session again."""
        self._sessions.pop(key, None)

    def _options_for(self, insecure: bool) -> CertificateOptions:
        options = self._options.get(insecure)
        if options is None:
            if insecure:
                options = CertificateOptions(verify=False, enableSessions=True, enableSessionTickets=True)
            else:
                options = CertificateOptions(
                    trustRoot=platformTrust(), enableSessions=True, enableSessionTickets=True
                )
                if self._extra_roots:
                    try:
                        Path(self._extra_roots).read_bytes()
                        options.getContext().load_verify_locations(self._extra_roots)
                    except (OSError, SSL.Error) as error:
                        raise FetchError("tls-failed", f"cannot read extra_roots: {error}"[:200]) from None
            # A server could have a handshake repeated as often as it likes, and each takes longer here than a page.
            options.getContext().set_options(SSL.OP_NO_RENEGOTIATION)
            self._options[insecure] = options
        return options


@implementer(IOpenSSLClientConnectionCreator)
class _Creator:
    """Makes one connection's TLS state."""

    def __init__(self, options: CertificateOptions, server_name: str, session: Any) -> None:
        self._options = options
        self._server_name = server_name
        self._session = session

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """As the interface says."""
        connection = self._options.clientConnectionForTLS(tlsProtocol)
        if self._server_name:
            connection.set_tlsext_host_name(self._server_name.rstrip(".").encode("ascii"))
        if self._session is not None:
            connection.set_session(self._session)
        return connection


def describe_tls(transport: Any) -> str:
    """Protocol, cipher and the server's certificate of a connection, for a person."""
    handle = transport.getHandle()
    texts = [handle.get_protocol_version_name(), handle.get_cipher_name() or "no cipher"]
    wrapped = handle.get_peer_certificate()
    if wrapped is not None:
        certificate = wrapped.to_cryptography()
        names = [name.rfc4514_string() for name in (certificate.subject, certificate.issuer)]
        texts.append(f"certificate of {names[0]!a} by {names[1]!a}, until {certificate.not_valid_after_utc:%Y-%m-%d}")
    return ", ".join(texts)
