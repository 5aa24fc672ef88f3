"""The stream over real TLS: it ends in order, and at once."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import pytest_twisted
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from OpenSSL import SSL
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator
from twisted.internet.protocol import Factory
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import StreamError
from lcc.interfaces import IConversation
from lcc.protocols.xmlfeed import Event, XmlFeed
from lcc.transport.stream import XmlStream

reactor: Any = global_reactor


@implementer(IOpenSSLServerConnectionCreator, IOpenSSLClientConnectionCreator)
class Tls:
    """Either side; nothing is verified."""

    def __init__(self, *, server: bool) -> None:
        self.context = SSL.Context(SSL.TLS_SERVER_METHOD if server else SSL.TLS_CLIENT_METHOD)
        if server:
            key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
            now = datetime.datetime.now(datetime.UTC)
            builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now)
            self.context.use_privatekey(key)
            certificate = builder.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
            self.context.use_certificate(certificate)

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        return SSL.Connection(self.context, None)

    clientConnectionForTLS = serverConnectionForTLS


@implementer(IConversation)
class Talker:
    """Says something when it is connected; hears one document and does what it is told to do then."""

    def __init__(self, first: str, heard: Any) -> None:
        self.first = first
        self.heard = heard
        self.names: list[str] = []
        self.stream: Any = None
        self.closed: Deferred[None] = Deferred()

    def stream_opened(self, stream: Any) -> None:
        self.stream = stream
        stream.send(self.first)

    def events_received(self, events: list[Event]) -> None:
        self.names += [event.name for event in events]
        self.heard(self.stream)

    def stream_failed(self, error: StreamError) -> None:
        raise AssertionError(error)

    def stream_resumed(self) -> None:
        pass

    def peer_finished(self) -> None:
        self.stream.finish()

    def stream_closed(self, reason: Failure) -> None:
        self.closed.errback(reason)


class Ends:
    """A server that can be talked to."""

    def __init__(self) -> None:
        self.server = Talker("", XmlStream.finish)
        self.port = reactor.listenTCP(0, self._factory(self.server, server=True), interface="127.0.0.1")

    def _factory(self, talker: Talker, *, server: bool) -> Factory:
        plain = Factory.forProtocol(lambda: XmlStream(talker, reactor, XmlFeed()))
        factory: Factory = TLSMemoryBIOFactory(Tls(server=server), not server, plain)
        return factory

    async def connect(self, talker: Talker) -> None:
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", self.port.getHost().port)
        await endpoint.connect(self._factory(talker, server=False))


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    pytest_twisted.blockon(ends.port.stopListening())


async def closed_cleanly(talker: Talker) -> None:
    """The connection ends with a goodbye, much sooner than anybody gives up."""
    with pytest.raises(ConnectionDone):
        await talker.closed.addTimeout(30, reactor)


@pytest_twisted.ensureDeferred
async def test_a_last_answer_arrives_and_then_the_goodbye(ends: Ends) -> None:
    """Neither end is cut off (the fixture for logged errors would tell of a server that stumbles, too)."""

    def reject(stream: XmlStream) -> None:
        stream.send("<no/>")
        stream.finish()

    ends.server.heard = reject
    client = Talker("<set>" + "<url/>" * 20_000, XmlStream.close)
    await ends.connect(client)
    await closed_cleanly(client)
    assert client.names == ["no", "no"]
    await closed_cleanly(ends.server)


@pytest_twisted.ensureDeferred
async def test_closing_between_two_documents_does_not_wait(ends: Ends) -> None:
    """The peer's goodbye is read although no document is expected."""

    def welcome(stream: XmlStream) -> None:
        stream.send("<welcome/>")
        reactor.callLater(0, stream.next_document)

    ends.server.heard = welcome
    client = Talker("<init/>", XmlStream.close)
    await ends.connect(client)
    await closed_cleanly(client)
    await closed_cleanly(ends.server)
