"""What a process needs to know of TLS though none of its wires may be over TLS: without loading OpenSSL
(:mod:`lcc.services.lean`)."""

from __future__ import annotations

from pathlib import Path

import attrs

PREFIX = "lcctls"
"""Of the endpoint strings of :mod:`lcc.transport.tls.endpoints`."""


@attrs.frozen
class CertificateFiles:
    """Paths of the certificate files of one end.

    :ivar ca: the authorities that are trusted, and lists of what they have revoked; None: those of the system.
    :ivar certificate: what this end presents, with the certificates that lead to its authority; None: nothing.
    :ivar key: its key, not encrypted; None: there is no certificate.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
