"""The XML interface over a transport in memory, under a clock that the test moves; and what its answers must be."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import attrs
from lxml import etree
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from lcc.client.content import ContentGone, ContentUnavailable
from lcc.config import CuConfig
from lcc.protocols.xmlfeed import NAMESPACE
from lcc.roles.cu.cache import OneLcc
from lcc.roles.cu.readership import Readership
from lcc.roles.cu.watcher import ChangeWatcher
from lcc.roles.cu.xml.session import XmlUsers
from lcc.storage.views.readers import note_readings
from lcc.testing.inline_database import InlineDatabase
from tests.support.cache import NOW, Cache
from tests.support.contents import Contents
from tests.support.databases import DirectDatabase

DOC = Path(__file__).parents[3] / "doc"
SCHEMA = etree.RelaxNG(etree.parse(str(DOC / "cu.rng")))
_DOCUMENT = re.compile(rb"<((?:\w+:)?(?:answer|rejected)) xmlns.*?</\1>\n", re.DOTALL)


@attrs.frozen
class Told:
    """An answer as a content user understands it.

    :ivar root: ``answer`` or ``rejected``.
    :ivar rows: attributes; with ``content`` where it came whole, ``missing`` where it did not.
    :ivar end: attributes of ``<end>``; None: there is none.
    :ivar reason: why there is no answer, or not all of it.
    :ivar faults: what was wrong, by field.
    """

    root: str
    rows: list[dict[str, Any]]
    end: dict[str, str] | None
    reason: str
    faults: list[tuple[str, str]]


def documents(data: bytes) -> list[bytes]:
    """The answers, one by one; there must be nothing else."""
    found = [match.group() for match in _DOCUMENT.finditer(data)]
    assert b"".join(found) == data
    return found


def understand(document: bytes) -> Told:
    """What an answer says.  It must be what the schema says, and lengths must be right."""
    root = etree.fromstring(document, etree.XMLParser(huge_tree=True))
    SCHEMA.assertValid(root)
    rows, end, reason, faults = [], None, root.get("reason", ""), []
    for element in root:
        name = etree.QName(element).localname
        if name == "url":
            rows.append(_row(element))
        elif name == "end":
            end = dict(element.attrib)
        elif name == "failed":
            reason = element.get("reason")
        else:
            faults.append((element.get("field", ""), element.text))
    return Told(etree.QName(root).localname, rows, end, reason, faults)


def _row(element: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict(element.attrib)
    for content in element:
        if "missing" in content.attrib:
            row.pop("content", None)
            row["missing"] = content.get("missing")
        else:
            row["content"] = base64.b64decode(content.text or "")
            row["length"] = int(content.get("length"))
    if "content" in row:
        assert len(row["content"]) == row.pop("length") == int(row["len"])
    return row


def query(ns: str = "lococa", /, **fields: Any) -> bytes:
    """A question, with its declaration; it must be what the schema says."""
    attributes = "".join(f' {name}="{value}"' for name, value in fields.items())
    root, xmlns = (f"{ns}:query", f"xmlns:{ns}") if ns else ("query", "xmlns")
    text = f'<{root} {xmlns}="{NAMESPACE}"{attributes}/>\n'
    SCHEMA.assertValid(etree.fromstring(text))
    return text.encode()


class _Part:
    """In place of :class:`lcc.client.content.Content`."""

    def __init__(self, data: bytes, whole: int) -> None:
        self.size_bytes, self.whole_bytes = len(data), whole
        self._data = data

    def read(self, bytes_max: int) -> Deferred[bytes]:
        assert len(self._data) <= bytes_max
        return succeed(self._data)

    def drop(self) -> None:
        self._data = b""


class Folders(Contents):
    """Real content files, without a content port in between.

    :ivar opened: what was read: machine, file, first byte.
    :ivar away: machines whose content cannot be read.
    """

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.opened: list[tuple[int, int, int]] = []
        self.away: set[int] = set()

    def open(self, machine: int, file: int, first: int = 0, length: int | None = None) -> Deferred[Any]:
        self.opened.append((machine, file, first))
        if machine in self.away:
            return fail(ContentUnavailable("it is away"))
        try:
            reader = self.folder.read(file)
        except FileNotFoundError:
            return fail(ContentGone("status 410"))
        try:
            wanted = reader.size_bytes - first if length is None else length
            return succeed(_Part(reader.read(first, wanted), reader.size_bytes))
        finally:
            reader.close()


class Wire(StringTransport):
    """A transport that holds what the user has not read.

    :ivar room: bytes that it holds before it asks to pause; None: the user reads everything at once.
    :ivar heard: what the user has read.
    """

    def __init__(self, room: int | None = None) -> None:
        super().__init__()
        self.room = room
        self.heard = b""
        self.finished = self.gone = False
        self._full = False
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.room is None:
            self._hear()
        elif not self._full and len(self.value()) > self.room:
            self._full = True
            self.producer.pauseProducing()

    def read(self) -> None:
        """The user reads all that there is."""
        self._hear()
        if self._full:
            self._full = False
            self.producer.resumeProducing()

    def _hear(self) -> None:
        self.heard += self.value()
        self.clear()

    def loseWriteConnection(self) -> None:
        self.finished = True

    def loseConnection(self) -> None:
        self._end()

    def abortConnection(self) -> None:
        self._end()

    def _end(self) -> None:
        if not self.gone:
            self.gone = True
            self.protocol.connectionLost(Failure(ConnectionDone()))


class World:
    """The XML interface with its database and content; whoever reaches it may see everything."""

    def __init__(self, home: Path, without_token: str = "content", **settings: Any) -> None:
        self.cache = Cache(DirectDatabase("sqlite:lcc.db", home))
        self.database = InlineDatabase(home, Random(1))
        self.clock = Clock()
        self.folders = Folders(home)
        self.settings = CuConfig(**settings)
        self.watcher = ChangeWatcher(self.database, self.clock)
        cache = OneLcc(self.database, self.watcher)
        self.readership = Readership(
            lambda readings: succeed(self.cache.database.now(note_readings, readings)), self.clock, lambda: NOW
        )
        self.users = XmlUsers(cache, self.folders, self.settings, without_token, self.clock, self.readership)

    def put(self, curl: str, data: bytes, **more: Any) -> int:
        """Cache this; the id of its file."""
        file = self.folders.add(data)
        self.cache.put(1, curl, len=len(data), fetched_fileid=file, **more)
        return file

    def connect(self, room: int | None = None, host: str = "") -> Wire:
        wire = Wire(room)
        wire.protocol = self.users.buildProtocol(IPv4Address("TCP", host, 1) if host else None)
        wire.protocol.makeConnection(wire)
        return wire

    def say(self, wire: Wire, pieces: Iterable[bytes]) -> None:
        """The user sends this, as fast as it is read."""
        for piece in pieces:
            for _ in range(1000):
                if wire.producerState == "producing" or wire.gone:
                    break
                self.clock.advance(0)
            if not wire.gone:
                wire.protocol.dataReceived(piece)
        self.settle(wire)

    def settle(self, wire: Wire) -> None:
        """Until there is nothing more to do."""
        for _ in range(20):
            self.clock.advance(0)

    def ask(self, *pieces: bytes, host: str = "") -> list[Told]:
        """A whole conversation."""
        wire = self.connect(host=host)
        self.say(wire, pieces)
        return [understand(each) for each in documents(wire.heard)]

    def close(self) -> None:
        self.database.close()
        self.cache.database.blocking.close()
