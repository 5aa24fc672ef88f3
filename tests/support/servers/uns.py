"""A UNS that does what a test tells it, made from the UNS's own readers and writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
from twisted.internet.protocol import Factory, Protocol

from lcc.model import Provider, ProviderStatus, Session, StoredError
from lcc.protocols.cp_uns import Init, SetBegin, SetEnd, UrlElement, write_fault
from lcc.protocols.cp_uns_server import (
    ServerReader,
    init_accepted,
    init_rejected,
    set_accepted,
    set_rejected,
    set_result_open,
)
from lcc.protocols.xmlfeed import XmlFeed

PROVIDER = Provider(1, ("http://site/",), "")
STORED = StoredError(1, 404, "Not Found", "http://site/lost.html", '["c","lost.html"]', 0)


def welcome(
    *, wanted: str = "", errors: int = 0, files_free: int | None = None, space_free: int | None = None, held: int = 0
) -> str:
    """An ``<init_accepted>``."""
    provider = attrs.evolve(PROVIDER, files_max=files_free, space_max_bytes=space_free)
    status = ProviderStatus(0, 0, 3, wanted, errors, errors, (STORED,) if errors else (), 5)
    status = attrs.evolve(status, deletions_held=held, deletions_of=9 * held)
    return init_accepted("lococa", Session(12, "192.0.2.7"), ["text/*"], provider, status)


@attrs.define
class Script:
    """What the UNS does, and what it saw.

    :ivar stop: ``init`` rejects there, ``reject`` after some elements, ``lost-init``, ``lost-set`` and
        ``lost-answer`` drop the connection, ``silent`` says nothing; '' accepts.
    :ivar bad: URLs containing this are refused.
    :ivar stays: the connection stays open after a set, as a real UNS's does.
    """

    stop: str = ""
    bad: str = "bad"
    stays: bool = False
    wanted: str = ""
    errors: int = 0
    files_free: int | None = None
    space_free: int | None = None
    held: int = 0
    code: int = 1010
    port: int = 0
    inits: list[Init] = attrs.field(factory=list)
    sets: list[tuple[SetBegin, list[dict[str, str]]]] = attrs.field(factory=list)
    accepted: int = 0
    blanked: int = 0
    lost: int = 0

    def welcome(self) -> str:
        """What it says at the beginning."""
        quotas = {"files_free": self.files_free, "space_free": self.space_free}
        return welcome(wanted=self.wanted, errors=self.errors, held=self.held, **quotas)


class ScriptedUns(Protocol):
    """One connection."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._feed = XmlFeed()
        self._reader = ServerReader(self._feed)
        self._refused = 0
        self._deaf = False

    def dataReceived(self, data: bytes) -> None:
        if self._deaf:
            return
        events = self._feed.receive(data)
        while events:
            for message in self._reader.events(events):
                if not self._deaf:
                    self._message(message)
            events = self._feed.next_document()

    def _message(self, message: Any) -> None:
        script = self._script
        match message:
            case Init():
                script.inits.append(message)
                if script.stop == "silent":
                    self._deaf = True
                elif script.stop == "lost-init":
                    self._end(abort=True)
                elif script.stop == "init":
                    self._say(init_rejected("lococa", script.code, "go <away>"))
                    self._end()
                else:
                    self._say(script.welcome())
            case SetBegin():
                script.sets.append((message, []))
                self._say(set_result_open("lococa"))
            case UrlElement(attributes=attributes):
                self._element(attributes)
            case SetEnd():
                if script.stop == "lost-answer":
                    self._end(abort=True)
                    return
                script.accepted += 1
                self._say(set_accepted("lococa", len(script.sets[-1][1]) - self._refused, script.blanked))
                self._refused = 0
                if not script.stays:
                    self._end()

    def _element(self, attributes: dict[str, str]) -> None:
        script = self._script
        received = script.sets[-1][1]
        received.append(attributes)
        if script.stop == "reject" and len(received) > 2:
            self._say(set_rejected("lococa", 1102, "too large"))
            self._end()
        elif script.stop == "lost-set" and len(received) > 2:
            self._end(abort=True)
        elif script.bad in attributes.get("c", ""):
            self._refused += 1
            url = "http://site/" + attributes["c"]
            self._say(write_fault(1204, url, attributes.items(), "outside\x1b[31m roots"))

    def _say(self, text: str) -> None:
        self.transport.write(text.encode())

    def _end(self, abort: bool = False) -> None:
        self._deaf = True
        if abort:
            self.transport.abortConnection()
        else:
            self.transport.loseWriteConnection()

    def connectionLost(self, reason: Any = None) -> None:
        self._script.lost += 1


@contextmanager
def listening(reactor: Any, script: Script) -> Iterator[Script]:
    """A scripted UNS on loopback, on a port that the kernel chooses."""
    port = reactor.listenTCP(0, Factory.forProtocol(lambda: ScriptedUns(script)), interface="127.0.0.1")
    script.port = port.getHost().port
    try:
        yield script
    finally:
        port.stopListening()
