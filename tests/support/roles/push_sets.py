"""A push server and a UNS in memory, on one fake clock: providers submit sets over HTTP, the UNS is the real one, and
its queue manager is played."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import attrs
from jsonschema import Draft202012Validator
from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError

from lcc.config import PushConfig
from lcc.roles.proof_files import ProofFiles
from lcc.roles.push.engine import PushServer
from lcc.roles.push.gateway import Gateway
from lcc.roles.push.openapi import document as described
from lcc.roles.push.sets import SetIntake
from lcc.roles.push.sets_web import resources
from lcc.roles.push.web import build_site
from lcc.roles.uns.port import ProviderPort
from lcc.storage.push.requests import SetRequests
from lcc.storage.push.store import PushStore
from tests.support.databases import Backend, DirectDatabase
from tests.support.roles.push import NOW, Sites, push_database
from tests.support.roles.uns import PASSWORD, ROOT, TakenSet, absorbed
from tests.support.roles.uns import World as UnsWorld
from tests.support.transports import Line, Wire

PREFIX = f"urlprefix={ROOT}"


def basic(pid: int = 7, password: str = PASSWORD) -> str:
    """The header of a provider that logs in."""
    return "Authorization: Basic " + base64.b64encode(f"{pid}:{password}".encode()).decode()


def pages(*names: str, **more: str) -> bytes:
    """Elements as lines of JSON."""
    return b"".join(json.dumps({"c": name, "m": "text/html", **more}).encode() + b"\n" for name in names)


@attrs.define
class Answer:
    """An answer as far as it has come."""

    status: int
    headers: str
    body: bytes
    complete: bool

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def verdict(self) -> dict[str, Any]:
        return self.lines[-1]


def read(data: bytes) -> Answer | None:
    """The first answer, but for "100 Continue"; None: there is none yet."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    if head.startswith(b"HTTP/1.1 100"):
        return read(rest)
    status = int(head.split()[1])
    if b"Transfer-Encoding: chunked" not in head:
        return Answer(status, head.decode(), rest, True)
    body, complete = b"", False
    while rest:
        length, _, rest = rest.partition(b"\r\n")
        size = int(length, 16)
        body, rest = body + rest[:size], rest[size + 2 :]
        complete = size == 0
    return Answer(status, head.decode(), body, complete)


class SetWorld:
    """All of it; :meth:`restart` kills the push server.

    :ivar away: the UNS cannot be reached.
    """

    def __init__(self, folder: Path, backend: Backend, **settings: Any) -> None:
        self.uns = UnsWorld(folder / "spool")
        self.clock = self.uns.clock
        self.qm = self.uns.connect_qm()
        self.tables = push_database(backend)
        self.main = DirectDatabase(backend.url, backend.home)
        self.settings = PushConfig(listen="tcp:1", **settings)
        self.port = ProviderPort(self.uns.uns, gateway=True)
        self.away = False
        self.wires: list[Wire] = []
        self.lines: list[Line] = []
        self.restart()

    def restart(self) -> None:
        """As after a kill."""
        tables: Any = self.tables
        main: Any = self.main
        if self.wires:
            for wire in self.wires:
                wire.kill(wire.client)
            self.settle()
            self.server.stop()
            self.sets.stop()
        self.lines.clear()
        files = ProofFiles(Sites(), self.settings)  # type: ignore[arg-type]  # stands in
        store = PushStore(tables)
        self.server = PushServer(self.settings, store, main, files, self.clock, self.now, lambda: None)
        gateway = Gateway(self._connect, self.clock, self.settings.sets_at_once)
        self.sets = SetIntake(gateway, SetRequests(store), self.server.ask, self.clock, self.now, self.settings)
        self.server.sets = self.sets
        self.site = build_site(self.server, self.clock, resources(self.server, self.sets))
        self.sets.start()
        self.server.start()

    def now(self) -> float:
        return NOW + self.clock.seconds()

    def _connect(self, factory: Any) -> Deferred[Any]:
        if self.away:
            return fail(ConnectionRefusedError())
        server: Any = self.port.buildProtocol(UNIXAddress(None))
        self.wires.append(Wire(factory.buildProtocol(None), server))
        return succeed(None)

    def settle(self) -> None:
        """Everything happens that is due."""
        moved = True
        while moved:
            self.uns.pump()
            moved = sum(wire.settle() for wire in self.wires) > 0
            self.wires = [wire for wire in self.wires if not wire.closed]

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.clock.advance(0.5)
            self.settle()
            for line in self.lines:
                line.turn()

    def open(self, peer: str = "192.0.2.1", room: int | None = None) -> Line:
        """A connection of a client."""
        protocol: Any = self.site.buildProtocol(IPv4Address("TCP", peer, 1))
        self.lines.append(Line(protocol, self.settle, room=room, host=peer))
        return self.lines[-1]

    def post(self, body: bytes, query: str = PREFIX, *headers: str, peer: str = "192.0.2.1") -> Answer:
        """A whole short request over a connection of its own."""
        line = self.open(peer)
        line.say([head(query, *(headers or [basic()]), f"Content-Length: {len(body)}"), body])
        return self.answer(line)

    def answer(self, line: Line) -> Answer:
        """What has come."""
        found = read(line.heard)
        if found is None:
            self.pass_time(1)
            found = read(line.heard)
        assert found is not None, line.heard
        check(found)
        return found

    def silence_qm(self) -> None:
        """The queue manager gives no answers."""
        self.uns.lose_qm()
        self.qm = self.uns.connect_qm(lambda begin: None)

    def let_qm_answer(self) -> None:
        """It answers what it has, and all else."""
        self.qm.answers = absorbed
        for taken in self.qm.sets:
            self.qm.say(absorbed(taken.begin))
        self.settle()

    @property
    def taken(self) -> list[TakenSet]:
        """Whole sets that the queue manager has."""
        return [each for each in self.qm.sets if each.whole]

    @property
    def told(self) -> list[list[str]]:
        """Their pages."""
        return [[notice.curl.removeprefix(ROOT) for notice in each.notices] for each in self.taken]

    def close(self) -> None:
        self.sets.stop()
        self.server.stop()
        self.tables.blocking.close()
        self.main.blocking.close()
        self.uns.disk.close_all()


def _schema(*names: str) -> Draft202012Validator:
    document = described("1")
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return Draft202012Validator({"anyOf": refs, "components": document["components"]})


_LINES, _FAILURE = _schema("UrlError", "Verdict", "Status"), _schema("Failure")


def check(answer: Answer) -> None:
    """An answer is one that the OpenAPI document tells of."""
    if answer.status != 200:
        paths = described("1")["paths"]
        assert str(answer.status) in paths["/sets"]["post"]["responses"], answer
    if "openapi" in answer.body[:100].decode():
        return
    for line in answer.lines:
        (_LINES if answer.status == 200 else _FAILURE).validate(line)


def head(query: str, *headers: str, method: str = "POST", path: str = "/sets") -> bytes:
    """The head of a request."""
    lines = [f"{method} {path}?{query} HTTP/1.1", "Host: push", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk(data: bytes) -> bytes:
    """A chunk of a body of unknown length; an empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)
