"""Certificates: which roles one is for, and the files that a role or a port presents and trusts.

The roles stand in the certificate as URIs among its names: ``lcc:role/qm``.  The host's names and addresses stand
beside them, as in any other certificate.  One without such a URI is for no role: it serves the public ports.

The files are read again when they have changed, at the next connection, so that a renewed certificate needs no
restart.  Files that changed into something that cannot be used are told once; what was read before stays in use.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL
from twisted.logger import Logger

from lcc.errors import ConfigError
from lcc.model.notifiers import NOTIFIERS
from lcc.transport.tls.files import CertificateFiles

_log = Logger()

ROLES = ("qm", "uns", "botm", "bot", "cu", *NOTIFIERS, "manager", "fe_uns", "admin", "metrics")
"""Roles that a certificate can be for; ``admin``: ``lcc-admin``; ``metrics``: metrics ports, and who reads them."""
ROLE_URI = "lcc:role/"
EXPIRY_WARNING_SECONDS = 14 * 86400
WARNING_INTERVAL_SECONDS = 86400
_NAME_CHARS = 200
_LISTS = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


def roles_of(certificate: x509.Certificate) -> frozenset[str]:
    """The roles that this certificate is for; none: it is for no role."""
    uris = _alternative_names(certificate, x509.UniformResourceIdentifier)
    return frozenset(uri.removeprefix(ROLE_URI) for uri in uris if uri.startswith(ROLE_URI))


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """The host names and addresses that this certificate is for."""
    addresses = _alternative_names(certificate, x509.IPAddress)
    return [*_alternative_names(certificate, x509.DNSName), *map(str, addresses)]


def _alternative_names(certificate: x509.Certificate, kind: Any) -> list[Any]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return list(names.get_values_for_type(kind))
    except (x509.ExtensionNotFound, ValueError):  # ValueError: a peer's certificate may be anything
        return []


def describe(certificate: x509.Certificate) -> str:
    """A certificate in a line; safe for a log, also if it is a stranger's."""
    hosts, roles = ", ".join(hosts_of(certificate)), ", ".join(sorted(roles_of(certificate)))
    try:
        issuer = certificate.issuer.rfc4514_string()
    except ValueError:
        issuer = "an unreadable name"
    what = f"{roles or 'no role'} at {hosts or 'no host'}"
    return f"{_harmless(what)}, by {_harmless(issuer)}"


def _harmless(text: str) -> str:
    return text[:_NAME_CHARS].encode("unicode_escape").decode("ascii")


@attrs.frozen
class Loaded:
    """What the files held when they were read.

    :ivar revoked: issuer and serial number of certificates that are no longer good.
    :ivar chain: the own certificate first; empty: there is none.
    """

    authorities: tuple[x509.Certificate, ...]
    revoked: frozenset[tuple[x509.Name, int]]
    chain: tuple[x509.Certificate, ...]
    key: Any = attrs.field(repr=False, default=None)

    def present_in(self, context: SSL.Context) -> None:
        """Make a context present the certificate."""
        if self.chain:
            context.use_certificate(self.chain[0])
            for certificate in self.chain[1:]:
                context.add_extra_chain_cert(certificate)
            context.use_privatekey(self.key)


class Credentials:
    """The certificates of one end, as they are in their files now.

    :param wall_clock: seconds since 1970.
    """

    def __init__(self, files: CertificateFiles, wall_clock: Callable[[], float] = time.time) -> None:
        self._files = files
        self._wall_clock = wall_clock
        self._loaded: Loaded | None = None
        self._stamps: list[Any] = []
        self._warned_time: float | None = None

    def current(self) -> Loaded:
        """What is in the files now; the same object as long as they do not change.

        :raises ConfigError: they cannot be used, and never could.
        """
        stamps = [_stamp(path) for path in (self._files.ca, self._files.certificate, self._files.key)]
        if self._loaded is None or stamps != self._stamps:
            try:
                loaded = load(self._files)
            except ConfigError as error:
                if self._loaded is None:
                    raise
                if stamps != self._stamps:
                    _log.error(
                        "Cannot use the changed certificates: {error}; keeping the earlier ones", error=str(error)
                    )
            else:
                if self._loaded is not None:
                    _log.info("Reloaded certificates: {file}", file=str(self._files.certificate))
                self._loaded, self._warned_time = loaded, None
            self._stamps = stamps
        self._warn(self._loaded)
        return self._loaded

    def _warn(self, loaded: Loaded) -> None:
        now = self._wall_clock()
        if not loaded.chain or (self._warned_time is not None and now < self._warned_time + WARNING_INTERVAL_SECONDS):
            return
        self._warned_time = now
        left = loaded.chain[0].not_valid_after_utc.timestamp() - now
        if left < EXPIRY_WARNING_SECONDS:
            _log.warn(
                "Certificate {file} {expires} {time}: renew it",
                file=str(self._files.certificate),
                expires="expires at" if left > 0 else "has expired at",
                time=utc(loaded.chain[0].not_valid_after_utc),
            )


def utc(time: datetime) -> str:
    """A time for a person."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _stamp(path: Path | None) -> tuple[int, ...] | None:
    """Changes when the file does."""
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)


def load(files: CertificateFiles) -> Loaded:
    """Read the files.

    :raises ConfigError: one is missing or makes no sense, or key and certificate do not belong together.
    """
    authorities = () if files.ca is None else read_certificates(files.ca)
    revoked = frozenset() if files.ca is None else read_revocations(files.ca)
    if files.certificate is None or files.key is None:
        return Loaded(authorities, revoked, ())
    chain = read_certificates(files.certificate)
    try:
        key: Any = load_pem_private_key(_read(files.key), None)
    except TypeError:
        raise ConfigError([f"{files.key}: the key is encrypted; use one without a password"]) from None
    except ValueError:
        raise ConfigError([f"{files.key} holds no private key"]) from None
    if key.public_key() != chain[0].public_key():
        raise ConfigError([f"{files.key} is not the key of {files.certificate}"])
    return Loaded(authorities, revoked, chain, key)


def read_revocations(path: Path) -> frozenset[tuple[x509.Name, int]]:
    """The certificates, by issuer and serial number, that the lists in a PEM file declare invalid.

    Only what authorities in the same file have signed counts.

    :raises ConfigError: the file cannot be used.
    """
    data = _read(path)
    authorities = read_certificates(path)
    revoked: set[tuple[x509.Name, int]] = set()
    for text in _LISTS.findall(data):
        try:
            found = x509.load_pem_x509_crl(text)
            signed = any(found.is_signature_valid(authority.public_key()) for authority in authorities)  # type: ignore[arg-type]  # authorities have keys that sign
        except (ValueError, TypeError):
            signed = False
        if not signed:
            raise ConfigError([f"{path}: a list of revoked certificates is of no authority in it"])
        revoked |= {(found.issuer, entry.serial_number) for entry in found}
    return frozenset(revoked)


def read_certificates(path: Path) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM file, at least one.

    :raises ConfigError: there is none.
    """
    try:
        return tuple(x509.load_pem_x509_certificates(_read(path)))
    except ValueError:
        raise ConfigError([f"{path} holds no certificate"]) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}"]) from None
