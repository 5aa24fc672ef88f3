"""Every role against every port and link: who may meet whom, with what certificate; over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import pytest_twisted
from OpenSSL.crypto import X509

from lcc.config import TlsConfig
from lcc.transport.tls.certificates import ROLES, load
from lcc.transport.tls.contexts import Refused, _Verifier
from lcc.transport.wires import CENTRAL, WIRES, Wire, endpoint
from tests.support.tls import EARLY, EXPIRED, HOST, KINDS, NONE, REVOKED, RIGHT, WRONG_CA, Pki, meet, string

PORTS = [
    *(wire for wire in WIRES.values() if wire.listens and wire.peers is not None and wire.role != "metrics"),
    *(CENTRAL, WIRES["metrics.listen"]),  # those of metrics are all alike
]
LINKS = [wire for wire in WIRES.values() if not wire.listens]
ANY = "+".join(ROLES)
LINKS_ONLY = ("cu", "admin", "manager", "push", "spider")
"""They listen to no other role: their certificates are not made for that either."""
OTHER_END = "is not made for this end of a connection"

SERVER_SAYS = {
    NONE: "it shows no certificate",
    WRONG_CA: "is of an authority that is not trusted",
    EXPIRED: "has expired",
    EARLY: "is not valid yet",
    REVOKED: "was revoked",
    RIGHT: "is not for the role",
}
CLIENT_HEARS = {
    NONE: "it demands a certificate",
    WRONG_CA: "it does not trust the authority of this end's certificate",
    EXPIRED: "this end's certificate has expired",
    EARLY: "this end's certificate, which may not be valid yet",
    REVOKED: "it has no use for this end's certificate: for another role or host, or revoked",
    RIGHT: "it has no use for this end's certificate: for another role or host, or revoked",
}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pki]:
    yield Pki(tmp_path_factory.mktemp("pki"))


def configured(pki: Pki, wire: Wire, text: str, kind: str = RIGHT, role: str = "") -> str:
    """The endpoint string of a wire as lcc.toml makes it, with certificates of this kind."""
    files = pki.files(role or wire.role, kind)
    tls = TlsConfig(str(files.ca), str(files.certificate), str(files.key))
    section, _, key = wire.setting.partition(".")
    settings = attrs.evolve(getattr(pki.config, section), **{key: text})
    if section == "botm":
        settings = attrs.evolve(settings, serves="botms" if wire is CENTRAL else "bots")
    return endpoint(attrs.evolve(pki.config, tls=tls, **{section: settings}), wire.setting)


@pytest.mark.parametrize("wire", PORTS, ids=lambda wire: f"{wire.setting}-{'-'.join(sorted(wire.peers))}")
@pytest_twisted.ensureDeferred
async def test_a_port_takes_its_roles_and_nobody_else(pki: Pki, wire: Wire) -> None:
    assert wire.peers is not None
    server = configured(pki, wire, f"tls:0:interface={HOST}")
    for role in ROLES:
        for kind in KINDS:
            # Only the port is on trial: this end would talk to any role.
            met = await meet(
                server,
                lambda port: string(f"{HOST}:{port}", pki.files(role, kind), kind=kind, roles=ANY),  # noqa: B023
            )
            welcome = kind == RIGHT and (role in wire.peers or role == wire.relay)
            assert met.talked == welcome, (role, kind, met)
            if welcome:
                assert not met.log
            else:
                assert not met.server_heard, "nothing of what it says reaches the role"
                (line,) = met.log
                assert f"tls:0:interface={HOST}: no connection with {HOST}:" in line
                assert kind == NONE or f"({role} at {HOST}, by CN=" in line
                # A QM connects to nobody: its certificate is not made for that either.
                assert SERVER_SAYS[kind] in line or (role == "qm" and OTHER_END in line), line
                assert CLIENT_HEARS[kind] in met.client or (role == "qm" and OTHER_END in met.client), met.client


@pytest.mark.parametrize("wire", LINKS, ids=lambda wire: wire.setting)
@pytest_twisted.ensureDeferred
async def test_a_link_meets_its_role_and_nobody_else(pki: Pki, wire: Wire) -> None:
    assert wire.peers is not None
    for role in ROLES:
        for kind in KINDS:
            if kind == NONE:
                continue  # who listens always shows one
            # Only the link is on trial: the port would take any role.
            met = await meet(
                string(f"0:interface={HOST}", pki.files(role, kind), roles=ANY),
                lambda port: configured(pki, wire, f"tls:{HOST}:{port}"),
            )
            welcome = kind == RIGHT and (role in wire.peers or role == wire.relay)
            assert met.talked == welcome, (role, kind, met)
            if not welcome:
                assert not met.server_heard, "nothing was said to it"
                assert SERVER_SAYS[kind] in met.client or (role in LINKS_ONLY and OTHER_END in met.client), met
                assert f"({role} at {HOST}, by CN=" in met.client
                (line,) = met.log
                assert "the other end refuses this one" in line


@pytest.mark.parametrize("wire", LINKS, ids=lambda wire: wire.setting)
@pytest_twisted.ensureDeferred
async def test_a_link_wants_the_host_that_it_asked_for(pki: Pki, wire: Wire) -> None:
    assert wire.peers is not None
    (role,) = wire.peers
    server = string(f"0:interface={HOST}", pki.files(role, RIGHT), roles=ANY)
    met = await meet(server, lambda port: configured(pki, wire, f"tls:localhost:{port}"))
    assert not met.talked
    assert "is not for localhost" in met.client
    # The same, where the name in the certificate is said to be another one than that which is connected to.
    met = await meet(server, lambda port: configured(pki, wire, f"tls:localhost:{port}:name={HOST}"))
    assert met.talked


def test_without_a_host_that_was_asked_for_nobody_is_met(pki: Pki) -> None:
    (certificate,) = load(pki.files("qm", RIGHT)).chain
    verified = (X509.from_cryptography(certificate), 0, 0, 1)
    connection: Any = object()
    assert _Verifier(None, frozenset(), None)(connection, *verified), "the listening end"
    assert _Verifier(None, frozenset(), {connection: HOST})(connection, *verified)
    with pytest.raises(Refused, match="is not for"):
        _Verifier(None, frozenset(), {})(connection, *verified)
