"""A certificate authority for tests."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    """Issues certificates that verify once it is trusted."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(subject("Test CA"))
            .issuer_name(subject("Test CA"))
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 100 * DAY)
            .not_valid_after(NOW + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def pem(self) -> bytes:
        """Its own certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, *names: str, expired: bool = False) -> tuple[Any, x509.Certificate]:
        """A key, and a certificate of it for these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        found: list[x509.GeneralName] = []
        for name in names:
            try:
                found.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                found.append(x509.DNSName(name))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject(names[0]))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 50 * DAY)
            .not_valid_after(NOW - DAY if expired else NOW + DAY)
            .add_extension(x509.SubjectAlternativeName(found), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return key, certificate

    def write(self, folder: Path, *names: str) -> tuple[Path, Path, Path]:
        """Files with a key, a certificate for these names, and the authority's own."""
        key, certificate = self.issue(*names)
        paths = folder / "key.pem", folder / "certificate.pem", folder / "authority.pem"
        paths[0].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        paths[1].write_bytes(certificate.public_bytes(Encoding.PEM))
        paths[2].write_bytes(self.pem())
        return paths
