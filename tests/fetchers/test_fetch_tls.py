"""HTTPS, with certificate authorities made for the test."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import pytest_twisted
from cryptography import x509
from OpenSSL import SSL
from twisted.internet import reactor as global_reactor
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.fetchers.http import HttpFetcher
from lcc.fetchers.tls import TlsClient
from lcc.model import FetchOrder, FetchStep
from tests.hostile.answers import CLOSE, CUT, HANG, reply
from tests.support import certificates
from tests.support.roles.fetchers import SMALL, Outcome, ScriptedServer, Sink, collect, stay

reactor: Any = global_reactor
REAL = attrs.evolve(SMALL, connect_timeout=30.0, deadline=60.0, idle_timeout=20.0, keepalive=20.0)


class Authority(certificates.Authority):
    """Makes whole TLS servers."""

    def server(self, *names: str, expired: bool = False) -> ServerTls:
        """A certificate for these names and addresses, with its key."""
        return ServerTls(*self.issue(*names, expired=expired))


@implementer(IOpenSSLServerConnectionCreator)
class ServerTls:
    """The server's side; Twisted's own options warn about the newest pyOpenSSL."""

    def __init__(self, key: Any, certificate: x509.Certificate) -> None:
        self.context = SSL.Context(SSL.TLS_SERVER_METHOD)
        self.context.use_privatekey(key)
        self.context.use_certificate(certificate)
        self.context.set_session_id(b"test")
        self.context.set_tlsext_servername_callback(self._named)
        self.names: list[bytes | None] = []
        self.connections: list[SSL.Connection] = []

    def _named(self, connection: SSL.Connection) -> None:
        self.names.append(connection.get_servername())

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        connection = SSL.Connection(self.context, None)
        self.connections.append(connection)
        return connection

    def resumed(self) -> list[bool]:
        """Of each connection: did it resume a session?  (pyOpenSSL does not offer this openly.)"""
        library: Any = SSL._lib
        return [bool(library.SSL_session_reused(connection._ssl)) for connection in self.connections]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def trusting(authority: Authority, tmp_path: Path) -> BotConfig:
    """Settings that trust the test's authority."""
    path = tmp_path / "roots.pem"
    path.write_bytes(authority.pem())
    return attrs.evolve(REAL, extra_roots=str(path))


class SecureWeb:
    """A scripted HTTPS server on loopback with a fetcher."""

    def __init__(self, tls: ServerTls, settings: BotConfig, *scripts: Any) -> None:
        self.server = ScriptedServer(*(scripts or ([reply()],)))
        self.port = reactor.listenSSL(0, self.server, tls, interface="127.0.0.1")
        self.fetcher = HttpFetcher(reactor, settings)

    async def fetch(self, host: str = "localhost", insecure: bool = False, pid: int = 1) -> Outcome:
        sink = Sink()
        url = f"https://{host}:{self.port.getHost().port}/page"
        order = FetchOrder(pid, url, private=True, insecure=insecure)
        return await collect(self.fetcher.fetch(order, sink, stay), sink)

    async def close(self) -> None:
        await self.fetcher.close()
        await self.port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_certificate_of_a_trusted_authority(authority: Authority, trusting: BotConfig) -> None:
    web = SecureWeb(authority.server("localhost", "127.0.0.1"), trusting)
    for host in ("localhost", "127.0.0.1", "localhost"):
        outcome = await web.fetch(host)
        assert (outcome.error, outcome.content) == ("", b"hello")
    assert web.server.connections == 2
    await web.close()


@pytest_twisted.ensureDeferred
async def test_an_unknown_authority_is_refused(authority: Authority) -> None:
    web = SecureWeb(authority.server("localhost"), REAL)
    outcome = await web.fetch()
    assert outcome.error == "tls-failed"
    assert outcome.failure is not None
    assert "certificate verify failed" in outcome.failure.text
    assert web.server.requests == []
    await web.close()


@pytest_twisted.ensureDeferred
async def test_insecure_accepts_any_certificate_and_names_the_host(authority: Authority) -> None:
    tls = authority.server("other.example", expired=True)
    web = SecureWeb(tls, REAL)
    assert (await web.fetch(insecure=True)).content == b"hello"
    assert (await web.fetch("127.0.0.1", insecure=True)).content == b"hello"
    assert [name for name in tls.names if name] == [b"localhost"]
    # The connections that were not verified serve nobody who wants verified ones.
    assert (await web.fetch()).error == "tls-failed"
    await web.close()


@pytest_twisted.ensureDeferred
async def test_a_certificate_for_another_host_is_refused(authority: Authority, trusting: BotConfig) -> None:
    web = SecureWeb(authority.server("other.example"), trusting)
    for host in ("localhost", "127.0.0.1"):
        outcome = await web.fetch(host)
        assert outcome.error == "tls-failed"
        assert outcome.failure is not None
        assert f"not for {host}" in outcome.failure.text
    assert web.server.requests == []
    await web.close()


@pytest_twisted.ensureDeferred
async def test_an_expired_certificate_is_refused(authority: Authority, trusting: BotConfig) -> None:
    web = SecureWeb(authority.server("localhost", expired=True), trusting)
    outcome = await web.fetch()
    assert outcome.error == "tls-failed"
    assert web.server.requests == []
    await web.close()


@pytest_twisted.ensureDeferred
async def test_a_server_that_speaks_no_tls(trusting: BotConfig) -> None:
    server = ScriptedServer([reply()])
    port = reactor.listenTCP(0, server, interface="127.0.0.1")
    web = HttpFetcher(reactor, attrs.evolve(trusting, connect_timeout=0.3))
    url = f"https://127.0.0.1:{port.getHost().port}/"  # looking up a name would be in the same time
    sink = Sink()
    outcome = await collect(web.fetch(FetchOrder(1, url, private=True), sink, stay), sink)
    # It waits for a line that never ends: so do we, but not for long.
    assert outcome.error == "connect-timeout"
    await web.close()
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_plain_http_in_answer_to_tls(trusting: BotConfig) -> None:
    class Blunt(ScriptedServer):
        def buildProtocol(self, addr: Any) -> Any:
            protocol = super().buildProtocol(addr)
            made = protocol.connectionMade

            def connection_made() -> None:
                made()
                protocol.transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")  # type: ignore[union-attr]

            protocol.connectionMade = connection_made  # type: ignore[method-assign]
            return protocol

    port = reactor.listenTCP(0, Blunt([HANG]), interface="127.0.0.1")
    web = HttpFetcher(reactor, trusting)
    url = f"https://localhost:{port.getHost().port}/"
    sink = Sink()
    outcome = await collect(web.fetch(FetchOrder(1, url, private=True), sink, stay), sink)
    assert outcome.error == "tls-failed"
    await web.close()
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_body_that_ends_with_the_connection_needs_a_proper_end(
    authority: Authority, trusting: BotConfig
) -> None:
    unframed = b"HTTP/1.1 200 OK\r\n\r\nhello"
    web = SecureWeb(authority.server("localhost"), trusting, [unframed, CLOSE], [unframed, CUT])
    assert (await web.fetch()).content == b"hello"
    assert (await web.fetch()).error == "early-eof"
    await web.close()


@pytest_twisted.ensureDeferred
async def test_sessions_are_resumed(authority: Authority, trusting: BotConfig) -> None:
    tls = authority.server("localhost")
    web = SecureWeb(tls, attrs.evolve(trusting, keepalive=0.0))
    for _ in range(3):
        assert (await web.fetch()).content == b"hello"
    # Another provider does not get this one's session.
    assert (await web.fetch(pid=2)).content == b"hello"
    assert web.server.connections == 4
    assert tls.resumed() == [False, True, True, False]
    await web.close()


@pytest_twisted.ensureDeferred
async def test_authorities_that_cannot_be_read(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    for name in ("missing.pem", "bad.pem"):
        web = SecureWeb(authority.server("localhost"), attrs.evolve(REAL, extra_roots=str(tmp_path / name)))
        outcome = await web.fetch()
        assert outcome.error == "tls-failed"
        assert outcome.failure is not None
        assert "extra_roots" in outcome.failure.text
        await web.close()


@pytest_twisted.ensureDeferred
async def test_who_looks_on_sees_name_connection_and_certificate(authority: Authority, trusting: BotConfig) -> None:
    web = SecureWeb(authority.server("localhost"), trusting)
    steps: list[FetchStep] = []
    web.fetcher.watch(steps.append)
    for _ in range(2):
        assert (await web.fetch()).content == b"hello"
    names = [step.name for step in steps]
    assert names[:6] == ["resolved", "connected", "secured", "request", "first-byte", "response"]
    assert names[6:] == ["reused", "request", "first-byte", "response"]
    assert steps[0].detail.startswith("localhost: ") and "127.0.0.1" in steps[0].detail
    tls = r"TLSv1\.[23], \S+, certificate of '[^']*' by '[^']+', until [0-9]{4}-[0-9]{2}-[0-9]{2}"
    assert re.fullmatch(tls, steps[2].detail)
    assert [step.seconds for step in steps] == sorted(step.seconds for step in steps)
    await web.close()


def test_a_server_cannot_have_the_handshake_repeated(authority: Authority) -> None:
    tls = authority.server("localhost")
    tls.context.set_options(SSL.OP_NO_TLSv1_3)
    server = SSL.Connection(tls.context, None)
    server.set_accept_state()
    client = SSL.Connection(TlsClient("")._options_for(True).getContext(), None)
    client.set_connect_state()
    said: list[int] = []

    def step(side: SSL.Connection, other: SSL.Connection) -> None:
        for act in (side.do_handshake, lambda: side.recv(100)):
            with suppress(SSL.WantReadError):
                act()
        with suppress(SSL.WantReadError):
            data = side.bio_read(100_000)
            said.append(len(data))
            other.bio_write(data)

    for _ in range(5):
        step(client, server)
        step(server, client)
    assert client.get_protocol_version_name() == "TLSv1.2" and client.get_peer_finished()
    said.clear()
    assert server.renegotiate()
    step(server, client)
    step(client, server)
    asked, answered = said
    # An alert, "no renegotiation"; the beginning of a handshake is some hundred bytes long.
    assert asked and answered < 60
