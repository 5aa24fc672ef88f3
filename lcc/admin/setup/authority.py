"""A small private certificate authority: a folder with its key, and one for each host with the files for its roles.

::

    certificates/ca.key  ca.pem                    the authority; its key belongs on no host of the LCC
    certificates/10.0.0.2/ca.pem                   goes to 10.0.0.2, as HOME/tls
    certificates/10.0.0.2/botm.key  botm.pem  …

``ca.pem`` holds the authority's certificate and, once something was revoked, the list of that.  Folders are for their
owner alone, and so is every file; no file is ever written through a link or over another one, but replaced.
"""

from __future__ import annotations

import ipaddress
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lcc.errors import ConfigError
from lcc.transport.tls.certificates import (
    ROLE_URI,
    ROLES,
    describe,
    hosts_of,
    read_certificates,
    read_revocations,
    roles_of,
    utc,
)

PUBLIC = "public"
"""In place of a role: a certificate for the ports of providers and content users."""
CLOCK_SKEW = timedelta(hours=1)
"""Certificates are valid from so long ago on, for hosts whose clocks are behind."""
_LISTENS = frozenset({"qm", "uns", "botm", "bot", "scheduler", "fe_uns", "metrics", PUBLIC})
_CONNECTS = frozenset(ROLES) - {"qm"}
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")


class AuthorityError(Exception):
    """What was asked for cannot be done; says why."""


def host_name(text: str) -> str:
    """A host name or address in its normal form.

    :raises AuthorityError: it is neither.
    """
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        pass
    try:
        name = text.rstrip(".").lower().encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    if not _HOST.fullmatch(name):
        raise AuthorityError(f"{text!r} is neither a host name nor an address")
    return name


class Authority:
    """
    :ivar folder: where it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.certificate = read_certificates(folder / "ca.pem")[0]
            self._revoked = read_revocations(folder / "ca.pem")
        except ConfigError as error:
            raise AuthorityError(f"{error}; create an authority with lcc-admin certificates init") from None
        self._key: Any = None

    @classmethod
    def create(cls, folder: Path, name: str, days: int, now: datetime) -> Authority:
        """Make one.

        :param days: how long it is valid; what it issues is never valid for longer.
        :raises AuthorityError: there is one already.
        :raises OSError: files cannot be written.
        """
        if (folder / "ca.key").exists() or (folder / "ca.pem").exists():
            raise AuthorityError(f"{folder} already has an authority")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(subject, subject, key, now, now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_new(folder / "ca.key", _pem_of_key(key))
        write_new(folder / "ca.pem", certificate.public_bytes(Encoding.PEM))
        return cls(folder)

    def issue(self, hosts: list[str], role: str, validity: timedelta, now: datetime) -> tuple[bytes, bytes]:
        """A new key and a certificate for it, as PEM.

        :param hosts: names and addresses of the host.
        :param role: one of :data:`ROLES`, or :data:`PUBLIC`.
        :raises AuthorityError: the authority does not live as long, or its key cannot be used.
        """
        until = now + validity
        if until > self.certificate.not_valid_after_utc:
            raise AuthorityError(f"the authority expires earlier, at {utc(self.certificate.not_valid_after_utc)}")
        names: list[x509.GeneralName] = [_general_name(host) for host in hosts]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] if role in _LISTENS else []
        if role in _CONNECTS:
            usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        if role != PUBLIC:
            names.append(x509.UniformResourceIdentifier(ROLE_URI + role))
        key = ec.generate_private_key(ec.SECP256R1())
        own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{role} {hosts[0]}"[:64])])
        certificate = (
            _builder(subject, self.certificate.subject, key, now - CLOCK_SKEW, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own),
                critical=False,
            )
            .sign(self._signing_key(), hashes.SHA256())
        )
        return _pem_of_key(key), certificate.public_bytes(Encoding.PEM)

    def add(self, hosts: list[str], role: str, days: int, now: datetime) -> Path:
        """Make the files of a role for a host; the first of its names is that of its folder.

        :returns: the certificate's file.
        :raises AuthorityError: they are there already.
        :raises OSError: they cannot be written.
        """
        folder = self.folder / hosts[0]
        key_path, path = folder / f"{role}.key", folder / f"{role}.pem"
        if key_path.exists() or path.exists():
            raise AuthorityError(f"{path} exists; lcc-admin certificates renew replaces it")
        key, certificate = self.issue(hosts, role, timedelta(days=days), now)
        folder.mkdir(mode=0o700, exist_ok=True)
        write_new(key_path, key)
        write_new(path, certificate)
        replace(folder / "ca.pem", (self.folder / "ca.pem").read_bytes())
        return path

    def renew(self, path: Path, validity: timedelta | None, now: datetime) -> None:
        """Replace the certificate in this file, and its key.

        :param validity: None: for as long as the old one was made for.
        :raises AuthorityError: it is of another authority, was revoked, or is not named like its role.
        :raises OSError: files cannot be written.
        """
        old = self.own(path)
        if self.is_revoked(old):
            raise AuthorityError(f"{path} is revoked; remove it and its key, then add a new one")
        role = path.stem
        if roles_of(old) != (frozenset() if role == PUBLIC else {role}):
            raise AuthorityError(f"{path} does not match its name: {describe(old)}")
        if validity is None:
            validity = old.not_valid_after_utc - old.not_valid_before_utc - CLOCK_SKEW
        key, certificate = self.issue(hosts_of(old), role, validity, now)
        replace(path.with_suffix(".key"), key)
        replace(path, certificate)
        replace(path.parent / "ca.pem", (self.folder / "ca.pem").read_bytes())

    def revoke(self, paths: list[Path], now: datetime) -> None:
        """Note that these certificates are no longer good, in every ``ca.pem`` here.

        :raises AuthorityError: one is of another authority.
        :raises OSError: files cannot be written.
        """
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - CLOCK_SKEW)
            .next_update(self.certificate.not_valid_after_utc)
        )
        for serial in {self.own(path).serial_number for path in paths} | self._revoked_serials():
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            )
        listed = builder.sign(self._signing_key(), hashes.SHA256())
        text = self.certificate.public_bytes(Encoding.PEM) + listed.public_bytes(Encoding.PEM)
        for path in (self.folder / "ca.pem", *self.folder.glob("*/ca.pem")):
            replace(path, text)
        self._revoked = read_revocations(self.folder / "ca.pem")

    def is_revoked(self, certificate: x509.Certificate) -> bool:
        """Whether it was revoked."""
        return certificate.serial_number in self._revoked_serials()

    def issued(self, host: str = "*") -> list[Path]:
        """The files with certificates for this host, or for all."""
        return sorted(path for path in self.folder.glob(f"{host}/*.pem") if path.name != "ca.pem")

    def own(self, path: Path) -> x509.Certificate:
        """The certificate in this file.

        :raises AuthorityError: it is of another authority, or there is none.
        """
        try:
            certificate = read_certificates(path)[0]
            certificate.verify_directly_issued_by(self.certificate)
        except ConfigError as error:
            raise AuthorityError(str(error)) from None
        except Exception:  # InvalidSignature, ValueError, TypeError: whatever does not fit
            raise AuthorityError(f"{path} was not issued by this authority") from None
        return certificate

    def _revoked_serials(self) -> set[int]:
        return {serial for issuer, serial in self._revoked if issuer == self.certificate.subject}

    def _signing_key(self) -> Any:
        if self._key is None:
            path = self.folder / "ca.key"
            try:
                self._key = load_pem_private_key(path.read_bytes(), None)
            except OSError as error:
                raise AuthorityError(f"the authority's key {path}: {error.strerror}") from None
            except (ValueError, TypeError):
                raise AuthorityError(f"{path} does not contain an unencrypted private key") from None
            if self._key.public_key() != self.certificate.public_key():
                raise AuthorityError(f"{path} is not the key of {self.folder / 'ca.pem'}")
        return self._key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin.astimezone(UTC))
        .not_valid_after(end.astimezone(UTC))
    )


def _key_usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_new(path: Path, data: bytes) -> None:
    """Write a file that nobody else may read, and that does not exist yet.

    :raises FileExistsError: it does, also as a link that leads nowhere.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Write a file in place of another one: who reads it sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)  # of a run that was cut off
    write_new(temporary, data)
    temporary.replace(path)
