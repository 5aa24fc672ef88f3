"""One web server with all that is hostile in it.

Run as a program: ``python -m tests.hostile.server FOLDER``.  The last segment of a path names the case.
It prints one line of JSON: what it offers -> the port on loopback; :data:`TLS_FAULTS` have a port each, ``closed`` is
one that nobody listens on, ``full`` one where nobody accepts.  ``FOLDER/authority.pem`` is written: what a robot has
to trust for the certificates that are good.  ``FOLDER/requests.log`` gets a line of JSON when a request comes and
when its connection is gone or the next one comes: ``case``, ``event`` ("begin", "end"), ``number`` of the request.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from OpenSSL import SSL
from twisted.internet import reactor as global_reactor
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator, IPullProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from tests.support.certificates import Authority
from tests.support.ports import free_port

from .answers import BAD, CLOSE, CUT, GOOD, HANG, OK, RESET, Case, reply
from .endless import BOMBS, ENDLESS

reactor: Any = global_reactor

CASES = {
    case.slug: case
    for case in (
        *GOOD,
        *BAD,
        *ENDLESS,
        *BOMBS,
        Case("another type", reply(b"hello", "200 OK", "Content-Type: application/pdf"), HANG, "mimetype-mismatch"),
        Case("cut short", OK + b"\r\nhello", CUT, "early-eof"),
    )
}
WAIT_SECONDS = 0.05
"""Before a connection is reset or cut, so that what was written goes out."""


@implementer(IPullProducer)
class Hostile(Protocol):
    """One connection to a robot."""

    def __init__(self, log: Any, numbers: Iterator[int]) -> None:
        self._log = log
        self._numbers = numbers
        self._received = b""
        self._number = 0
        self._case: Case | None = None
        self._call: Any = None

    def dataReceived(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            request, _, self._received = self._received.partition(b"\r\n\r\n")
            path = request.split(b" ")[1].decode().partition("?")[0]
            self._end()
            self._begin(CASES[path.rpartition("/")[2]])

    def _begin(self, case: Case) -> None:
        transport: Any = self.transport
        self._case = case
        self._number = next(self._numbers)
        self._tell("begin")
        transport.write(case.sent)
        if case.forever and case.pace_seconds:
            self._drip()
        elif case.forever:
            transport.registerProducer(self, False)
        elif case.then == CLOSE:
            transport.loseConnection()
        elif case.then == RESET:
            self._call = reactor.callLater(WAIT_SECONDS, transport.abortConnection)
        elif case.then == CUT:
            self._call = reactor.callLater(WAIT_SECONDS, transport.transport.loseConnection)

    def _drip(self) -> None:
        assert self._case is not None
        self.transport.write(self._case.forever)  # type: ignore[union-attr]
        self._call = reactor.callLater(self._case.pace_seconds, self._drip)

    def resumeProducing(self) -> None:
        """As fast as the robot takes it."""
        assert self._case is not None
        self.transport.write(self._case.forever)  # type: ignore[union-attr]

    def stopProducing(self) -> None:
        """The connection is gone."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end()

    def _end(self) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()
        if self._case is not None:
            self._tell("end")
            self._case = None

    def _tell(self, event: str) -> None:
        assert self._case is not None
        self._log.write(json.dumps({"case": self._case.slug, "event": event, "number": self._number}) + "\n")


class HostileFactory(Factory):
    """Makes them."""

    noisy = False

    def __init__(self, log: Any) -> None:
        self._log = log
        self._numbers = count()

    def buildProtocol(self, addr: Any) -> Protocol:
        return Hostile(self._log, self._numbers)


class Handshake(Protocol):
    """Does something else than TLS.

    :param sent: at once.
    :param forever: byte after byte.
    """

    def __init__(self, sent: bytes, then: str, forever: bytes) -> None:
        self._sent, self._then, self._forever = sent, then, forever
        self._call: Any = None

    def dataReceived(self, data: bytes) -> None:
        transport: Any = self.transport
        if self._call is not None:
            return
        transport.write(self._sent)
        if self._then == CLOSE:
            transport.loseConnection()
        elif self._then == RESET:
            transport.abortConnection()
        elif self._forever:
            self._drip()

    def _drip(self) -> None:
        self.transport.write(self._forever)  # type: ignore[union-attr]
        self._call = reactor.callLater(0.1, self._drip)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()


class HandshakeFactory(Factory):
    """Makes them."""

    noisy = False

    def __init__(self, sent: bytes = b"", then: str = HANG, forever: bytes = b"") -> None:
        self._arguments = sent, then, forever

    def buildProtocol(self, addr: Any) -> Protocol:
        return Handshake(*self._arguments)


@implementer(IOpenSSLServerConnectionCreator)
class Tls:
    """A server with this certificate."""

    def __init__(self, key: Any, certificate: Any) -> None:
        self.context = SSL.Context(SSL.TLS_SERVER_METHOD)
        self.context.use_privatekey(key)
        self.context.use_certificate(certificate)

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        return SSL.Connection(self.context, None)


HELLO = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"
"""The beginning of a server's part of the handshake, 16 KiB long."""
HANDSHAKES = {
    "tls, silent": (HandshakeFactory(), "connect-timeout"),
    "tls, slow": (HandshakeFactory(HELLO, HANG, b"\0"), "connect-timeout"),
    "tls, closed": (HandshakeFactory(b"", CLOSE), "tls-failed"),
    "tls, reset": (HandshakeFactory(b"", RESET), "tls-failed"),
    "tls, reset in it": (HandshakeFactory(HELLO, RESET), "tls-failed"),
    "tls, plain": (HandshakeFactory(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "tls-failed"),
    "tls, garbage": (HandshakeFactory(b"\x16\x03\x03\x00\x08" + b"\xff" * 8), "tls-failed"),
    "tls, refused": (HandshakeFactory(b"\x15\x03\x03\x00\x02\x02\x28"), "tls-failed"),
    "tls, another record": (HandshakeFactory(b"\x17\x03\x03\x00\x02\xff\xff"), "tls-failed"),
    "tls, a huge record": (HandshakeFactory(b"\x16\x03\x03\xff\xff" + b"\0" * 65535), "tls-failed"),
}
CERTIFICATES = {
    "certificate of nobody known": "tls-failed",
    "certificate out of date": "tls-failed",
    "certificate of another": "tls-failed",
    "certificate of thousands": "tls-failed",
    "certificate, of old": "tls-failed",
    "certificate": "",
}
TLS_FAULTS = {**{name: error for name, (_, error) in HANDSHAKES.items()}, **CERTIFICATES}
"""What is wrong with TLS there -> the name of the error; nothing is wrong with ``certificate``."""


def certificates(authority: Authority) -> dict[str, Tls]:
    """A server for each of :data:`CERTIFICATES`."""
    address = "127.0.0.1"
    network = int(ipaddress.IPv4Address("10.0.0.0"))
    thousands = [str(ipaddress.IPv4Address(network + number)) for number in range(20_000)]
    servers = {
        "certificate of nobody known": Tls(*Authority().issue(address)),
        "certificate out of date": Tls(*authority.issue(address, expired=True)),
        "certificate of another": Tls(*authority.issue("other.example")),
        "certificate of thousands": Tls(*authority.issue(address, *thousands)),
        "certificate, of old": Tls(*authority.issue(address)),
        "certificate": Tls(*authority.issue(address)),
    }
    old = servers["certificate, of old"].context
    old.set_options(SSL.OP_NO_TLSv1_3 | SSL.OP_NO_TLSv1_2)
    old.set_cipher_list(b"DEFAULT:@SECLEVEL=0")
    assert servers.keys() == CERTIFICATES.keys()
    return servers


def full_port() -> tuple[int, list[socket.socket]]:
    """A port where nobody accepts, and what keeps it so."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    held = [listening]
    for _ in range(4):
        waiting = socket.socket()
        waiting.setblocking(False)
        waiting.connect_ex(listening.getsockname())
        held.append(waiting)
    return listening.getsockname()[1], held


def main() -> None:
    """Serve until killed."""
    folder = Path(sys.argv[1])
    authority = Authority()
    (folder / "authority.pem").write_bytes(authority.pem())
    factory = HostileFactory((folder / "requests.log").open("a", buffering=1))
    ports = {"http": reactor.listenTCP(0, factory, interface="127.0.0.1")}
    for name, (handshake, _) in HANDSHAKES.items():
        ports[name] = reactor.listenTCP(0, handshake, interface="127.0.0.1")
    for name, tls in certificates(authority).items():
        ports[name] = reactor.listenSSL(0, factory, tls, interface="127.0.0.1")
    numbers = {name: port.getHost().port for name, port in ports.items()}
    numbers["closed"] = free_port()
    numbers["full"], _held = full_port()
    print(json.dumps(numbers), flush=True)
    reactor.run()


if __name__ == "__main__":
    main()
