"""An FTP server that says what it is told to."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor as global_reactor
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure

reactor: Any = global_reactor

GREETING = "220 ready"
ANSWERS = {
    "USER": "331 password?",
    "PASS": "230 welcome",
    "TYPE": "200 binary",
    "MDTM": "213 20240102030405",
    "SIZE": "213 5",
    "RETR": "150 here it comes / DATA hello / 226 done",
    "QUIT": "221 bye",
}
"""What a good server answers.  Parts between slashes are sent one after the other; ``DATA text`` goes over the data
connection and ``END`` closes it (both wait for it), ``RESET`` resets it, ``FLOOD`` sends for ever, ``CUT`` ends the
control connection; ``SILENT`` sends nothing."""


class _Data(Protocol):
    """The server's end of a data connection."""

    def connectionMade(self) -> None:
        self.factory.arrived(self)  # type: ignore[union-attr]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.factory.data_gone()  # type: ignore[union-attr]


class _Control(LineReceiver):
    def connectionMade(self) -> None:
        server = self.factory
        server.open += 1
        server.controls += 1
        self.data: _Data | None = None
        self.waiting: list[str] = []
        self.port: Any = None
        self.play(server.greeting)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.factory.open -= 1
        if self.data is not None:
            self.data.transport.abortConnection()
        if self.port is not None:
            self.port.stopListening()

    def lineReceived(self, line: bytes) -> None:
        text = line.decode("latin-1")
        server = self.factory
        server.heard.append(text)
        verb = text.partition(" ")[0]
        answer = server.answers.get(verb)
        if answer is not None:
            self.play(answer.replace("PORT", str(self.listen())) if "PORT" in answer else answer)
        elif verb == "EPSV":
            self.play(f"229 extended (|||{self.listen()}|)")
        elif verb == "PASV":
            # Somewhere else, on purpose: who follows it ends at a wrong host.
            port = self.listen()
            self.play(f"227 passive (198,51,100,7,{port >> 8},{port & 255})")
        else:
            self.play("502 what?")

    def listen(self) -> int:
        data = Factory.forProtocol(_Data)
        data.noisy = False
        data.arrived = self.arrived
        data.data_gone = self.data_gone
        self.factory.open += 1
        self.port = reactor.listenTCP(0, data, interface="127.0.0.1")
        self.factory.open -= 1
        return int(self.port.getHost().port)

    def arrived(self, data: _Data) -> None:
        self.data = data
        self.factory.open += 1
        self.port.stopListening()
        self.port = None
        self.go_on()

    def data_gone(self) -> None:
        self.data = None
        self.factory.open -= 1

    def play(self, script: str) -> None:
        self.waiting += script.split(" / ")
        self.go_on()

    def go_on(self) -> None:
        while self.waiting:
            part = self.waiting[0]
            word = part.partition(" ")[0]
            if word in ("DATA", "END", "RESET", "FLOOD") and self.data is None:
                if self.port is None:
                    self.waiting.pop(0)
                    continue
                return
            self.waiting.pop(0)
            transport: Any = self.transport
            if word == "DATA":
                assert self.data is not None
                self.data.transport.write(part[5:].encode())  # type: ignore[union-attr]
                if self.waiting and self.waiting[0].startswith("2"):
                    self.data.transport.loseConnection()  # type: ignore[union-attr]
            elif word in ("END", "RESET"):
                assert self.data is not None
                data: Any = self.data.transport
                data.loseConnection() if word == "END" else data.abortConnection()
            elif word == "FLOOD":
                self.flood(self.data)
            elif word == "BABBLE":
                self.babble()
            elif word == "CUT":
                transport.abortConnection()
            elif word != "SILENT":
                transport.write(part.encode("latin-1") + b"\r\n")

    def flood(self, data: Any) -> None:
        if self.data is data and data is not None:
            data.transport.write(b"x" * 65536)
            reactor.callLater(0, self.flood, data)

    def babble(self) -> None:
        transport: Any = self.transport
        if transport.connected:
            transport.write(b"220-and another thing\r\n" * 1000)
            reactor.callLater(0, self.babble)


class ScriptedFtp(Factory):
    """The server.

    :param answers: in place of those in ANSWERS.
    :ivar heard: the commands that came.
    :ivar open: connections that are open.
    """

    noisy = False

    def __init__(self, greeting: str = GREETING, **answers: str) -> None:
        self.greeting = greeting
        self.answers = {**ANSWERS, **answers}
        self.heard: list[str] = []
        self.open = 0
        self.controls = 0

    def buildProtocol(self, address: Any) -> _Control:
        control = _Control()
        control.factory = self
        return control
