"""HTTPS between roles for code that may block: Python's own HTTP client with a role's certificates."""

from __future__ import annotations

import http.client
import ssl

from cryptography import x509

from lcc.errors import ConfigError
from lcc.transport.tls.certificates import load, roles_of
from lcc.transport.tls.files import CertificateFiles


class RoleConnection(http.client.HTTPSConnection):
    """An HTTPS connection to a role.  The files are read for each, so that renewed ones are used.

    :param netloc: ``host:port``; the certificate must be for that host.
    :param roles: the other end's certificate is for one of these.
    :raises OSError: the files cannot be used.
    """

    def __init__(self, netloc: str, files: CertificateFiles, roles: frozenset[str], timeout: float) -> None:
        try:
            self._revoked = load(files).revoked  # it tells best what is wrong with them
        except ConfigError as error:
            raise OSError(str(error)) from None
        super().__init__(netloc, timeout=timeout, context=_context(files))
        self._roles = roles

    def connect(self) -> None:
        """
        :raises OSError: there is no connection, or its certificate is not good.
        """
        super().connect()
        assert isinstance(self.sock, ssl.SSLSocket)
        certificate = x509.load_der_x509_certificate(self.sock.getpeercert(binary_form=True) or b"")
        fault = ""
        if not roles_of(certificate) & self._roles:
            fault = f"is not for the role {' or '.join(sorted(self._roles))}"
        elif (certificate.issuer, certificate.serial_number) in self._revoked:
            fault = "was revoked"
        if fault:
            self.close()
            raise ssl.SSLCertVerificationError(f"the certificate of {self.host} {fault}")


def _context(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(str(files.ca))
    context.load_cert_chain(str(files.certificate), str(files.key))
    return context
