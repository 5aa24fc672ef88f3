"""A crowd of hostile peers, as a process of its own: thousands of sockets that mean no good.

It reads what it is to do, as JSON, in one line from standard input: ``ports`` (name -> port, whether it speaks TLS,
and what an honest peer says first), ``sockets``, ``addresses`` (of its own, on loopback), ``authority`` (a PEM file).
Each second it prints how it fares, as JSON; it ends when standard input is closed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import attrs
from twisted.internet import reactor as global_reactor
from twisted.internet import stdio
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.internet.task import LoopingCall
from twisted.logger import globalLogBeginner
from twisted.python.failure import Failure

reactor: Any = global_reactor

KINDS = ("silent", "slow", "garbage", "token", "half-open", "deaf", "entities", "stray-tls", "come-and-go")
_CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(range(200))
_ENTITIES = b'<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]><a>&c;</a>'
_CONNECTS_A_SECOND = 400
"""At which the crowd gathers."""
_AGAIN_SECONDS = 20.0
"""About so long after it was thrown out somebody comes again."""


@attrs.frozen
class Port:
    """Where to go.

    :ivar opening: what an honest peer says first.
    """

    name: str
    number: int
    tls: bool
    opening: bytes


class Hostile(Protocol):
    """One connection of one of them."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._loop: LoopingCall | None = None

    def connectionMade(self) -> None:
        member, transport = self._member, self.transport
        assert transport is not None
        self._member.crowd.connected[member.port.name] += 1
        opening = member.port.opening
        match member.kind:
            case "slow":
                self._repeat(1.0, self._byte)
            case "garbage":
                transport.write(member.random.randbytes(3000))
            case "token":
                transport.write(opening + b'<a b="')
                self._repeat(0.5, lambda: transport.write(b"x" * 100))
            case "half-open":
                transport.write(opening[: len(opening) // 2])
                getattr(transport, "loseWriteConnection", lambda: None)()
            case "deaf":
                transport.pauseProducing()  # type: ignore[attr-defined]  # it is a connection
                transport.write(opening * 30)
            case "entities":
                transport.write(_ENTITIES)
            case "stray-tls":
                transport.write(_CLIENT_HELLO)
            case "come-and-go":
                transport.write(opening)
                transport.abortConnection()  # type: ignore[attr-defined]  # it is a connection

    def dataReceived(self, data: bytes) -> None:
        self._member.crowd.heard_bytes += len(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._loop is not None:
            self._loop.stop()
        self._member.crowd.connected[self._member.port.name] -= 1
        self._member.thrown_out()

    def _repeat(self, seconds: float, what: Any) -> None:
        self._loop = LoopingCall(what)
        self._loop.start(seconds)

    def _byte(self) -> None:
        assert self.transport is not None
        place = self._member.said % len(self._member.port.opening)
        self.transport.write(self._member.port.opening[place : place + 1])
        self._member.said += 1


class Member:
    """One of the crowd."""

    def __init__(self, crowd: Crowd, kind: str, port: Port, address: str, random: Random) -> None:
        self.crowd = crowd
        self.kind = kind
        self.port = port
        self.random = random
        self.said = 0
        self._address = address

    def come(self) -> None:
        """Connect."""
        endpoint: IStreamClientEndpoint = TCP4ClientEndpoint(
            reactor, "127.0.0.1", self.port.number, 30, bindAddress=(self._address, 0)
        )
        if self.port.tls and self.kind not in ("garbage", "stray-tls", "silent", "come-and-go"):
            endpoint = wrapClientTLS(self.crowd.trust, endpoint)
        factory = Factory.forProtocol(lambda: Hostile(self))
        factory.noisy = False
        self.crowd.attempts += 1
        came: Deferred[Any] = endpoint.connect(factory)
        came.addErrback(lambda _: self.thrown_out())

    def thrown_out(self) -> None:
        """It is out; it will be back."""
        if self.crowd.going:
            reactor.callLater(_AGAIN_SECONDS * (0.5 + self.random.random()), self.come)


class Crowd:
    """All of them."""

    def __init__(self, told: dict[str, Any]) -> None:
        random = Random(7)
        ports = [
            Port(name, port["number"], port["tls"], port["opening"].encode()) for name, port in told["ports"].items()
        ]
        self.trust: Any = optionsForClientTLS("localhost", Certificate.loadPEM(Path(told["authority"]).read_bytes()))
        self.going = True
        self.attempts = 0
        self.heard_bytes = 0
        self.connected = {port.name: 0 for port in ports}
        addresses = told["addresses"]
        self._members = []
        for number in range(told["sockets"]):
            port, rest = ports[number % len(ports)], number // len(ports)
            kind, address = KINDS[rest % len(KINDS)], addresses[rest // len(KINDS) % len(addresses)]
            self._members.append(Member(self, kind, port, address, random))

    def gather(self) -> None:
        """Everybody comes, within a while."""
        for number, member in enumerate(self._members):
            reactor.callLater(number / _CONNECTS_A_SECOND, member.come)

    def tell(self) -> None:
        """How it fares."""
        state = {"connected": self.connected, "attempts": self.attempts, "heard_bytes": self.heard_bytes}
        print(json.dumps(state), flush=True)


class _Orders(Protocol):
    """Standard input."""

    def __init__(self) -> None:
        self._told = b""
        self._crowd: Crowd | None = None

    def dataReceived(self, data: bytes) -> None:
        self._told += data
        if self._crowd is None and b"\n" in self._told:
            self._crowd = Crowd(json.loads(self._told))
            self._crowd.gather()
            LoopingCall(self._crowd.tell).start(1.0)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._crowd is not None:
            self._crowd.going = False
        if reactor.running:
            reactor.stop()


def main() -> None:
    """The process."""
    globalLogBeginner.beginLoggingTo([lambda event: None], redirectStandardIO=False, discardBuffer=True)
    stdio.StandardIO(_Orders(), 0, sys.stderr.fileno())
    reactor.run()


if __name__ == "__main__":
    main()
