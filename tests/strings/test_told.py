"""What providers tell, through every role into both databases, and out again to everybody who reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle
from random import Random
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lxml import etree
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from lcc.client.cache import CacheClient
from lcc.errors import CODES, FetchError
from lcc.protocols.xmlfeed import NAMESPACE
from lcc.protocols.xmltext import escape
from tests.support.admin import Lcc
from tests.support.databases import Backend
from tests.support.roles.chain import ROOT, World
from tests.support.switches import LONG

from .hostile import TEXTS, texts


class _Pages(dict[str, bytes]):
    """There is a page at every URL."""

    def get(self, url: str, _: Any = None) -> bytes:
        return url.encode()


@pytest.fixture
def world(backend: Backend) -> Iterator[World]:
    world = World(backend.home, None, users=True, url=backend.url)
    world.origin.pages = _Pages()
    yield world
    world.stop()


def element(text: str) -> dict[str, str]:
    """An element with this text wherever there can be any."""
    return {
        "c": f"{ROOT}page/{text}",
        "m": "text/html",
        "b": f"{ROOT}look?{text}",
        "s": f"type:{text}",
        "note": text,
    }


class _Ask(Protocol):
    """Asks over XML, once."""

    def __init__(self, question: str) -> None:
        self._question = question
        self._heard = b""
        self.answer: Deferred[bytes] = Deferred()

    def connectionMade(self) -> None:
        self.transport.write(self._question.encode())  # type: ignore[union-attr]
        self.transport.loseWriteConnection()  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        self._heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.answer.callback(self._heard)


class Readers:
    """Everybody who reads the cache."""

    def __init__(self, world: World, backend: Backend) -> None:
        self.world = world
        self.client = CacheClient(world.net, f"unix:{world.address('cu')}")
        self.lcc = Lcc(backend.home, backend.url)
        self.lcc.config_path.write_text(f'home = "."\n[database]\nurl = "{backend.url}"\n')

    def http(self, **fields: Any) -> dict[str, dict[str, Any]]:
        async def read() -> list[dict[str, Any]]:
            return [row async for row in await self.client.urls(**fields)]

        return {row["curl"]: row for row in self.world.result_of(Deferred.fromCoroutine(read()))}

    def xml(self, **fields: str) -> dict[str, dict[str, str]]:
        attributes = "".join(f' {name}="{escape(text)}"' for name, text in fields.items())
        question = f'<q:query xmlns:q="{NAMESPACE}"{attributes}/>'
        factory = Factory.forProtocol(lambda: _Ask(question))
        asker = self.world.result_of(
            UNIXClientEndpoint(self.world.net, self.world.address("cu-xml")).connect(factory)
        )
        root = etree.fromstring(self.world.result_of(asker.answer))
        assert root.find("end") is not None
        return {row.get("curl"): dict(row.attrib) for row in root.iterfind("url")}

    def close(self) -> None:
        self.client.close()


@pytest.fixture
def readers(world: World, backend: Backend) -> Iterator[Readers]:
    readers = Readers(world, backend)
    yield readers
    readers.close()


def is_bent(text: str) -> bool:
    """In a path it leads elsewhere."""
    return any(segment in (".", "..") for segment in text.split("/"))


def subtype_of(text: str) -> str:
    """What is kept of ``type:text``: it must be of that form, in one line."""
    return f"type:{text}" if text.strip() and "\n" not in text else ""


def publish(world: World, told: list[str]) -> list[str]:
    """Tell these; gives those that were not refused."""
    heard = world.submit([element(text) for text in told])
    assert heard.answer is not None
    assert heard.answer.accepted, heard.answer
    refused = {fault.attributes["note"]: fault for fault in heard.answer.faults}
    for text, fault in refused.items():
        assert fault.attributes == element(text), "what is refused comes back as it was sent"
        assert fault.code in (CODES["bad-url"], CODES["outside-roots"]), fault
        assert fault.text
    world.drain()
    taken = [text for text in told if text not in refused]
    assert len(refused) + len(set(taken)) == len(set(told))
    return taken


def check(world: World, readers: Readers, told: list[str]) -> None:
    """Tell these, and read them everywhere."""
    taken = publish(world, told)
    rows = world.cached()
    by_name = {unquote(curl): row for curl, row in rows.items()}
    # Two spellings of one URL are one: the last one told counts.
    last = {unquote(f"{ROOT}page/{text}"): text for text in taken}
    for name, text in last.items():
        row = by_name[name]
        assert row.subtype == subtype_of(text), text
        assert unquote(row.burl) == unquote(f"{ROOT}look?{text}"), text
        assert row.curl.isascii()
    ours = {curl: row.subtype for curl, row in rows.items()}
    assert {curl: row["subtype"] for curl, row in readers.http().items()} == ours
    assert {curl: row["subtype"] for curl, row in readers.xml().items()} == ours
    assert {row["curl"]: row["subtype"] for row in readers.lcc.rows("urls")} == ours


def test_fixed(world: World, readers: Readers) -> None:
    check(world, readers, [text for text in TEXTS if not is_bent(text)])
    names = {unquote(curl) for curl in world.cached()}
    told = {unquote(f"{ROOT}page/{text}") for text in TEXTS if not is_bent(text)}
    assert len(told - names) == len([text for text in told - names if not text.isprintable()]), told - names


def test_any(world: World, readers: Readers) -> None:
    # What fails shows what it was: to look for less in a world that has grown meanwhile helps nobody.
    @settings(max_examples=5, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(st.lists(texts, min_size=10, max_size=60, unique=True))
    def any_texts(told: list[str]) -> None:
        check(world, readers, [text for text in told if not is_bent(text)])

    any_texts()


def test_they_are_found_by_what_they_are(world: World, readers: Readers) -> None:
    publish(world, list(TEXTS))
    rows = list(world.cached().values())
    for row in rows if LONG else Random().sample(rows, 15):
        if row.subtype:
            wanted = {one.curl for one in rows if one.subtype == row.subtype}
            assert readers.http(subtype=row.subtype).keys() == wanted, row
            assert readers.xml(subtype=row.subtype).keys() == wanted, row
        wanted = {one.curl for one in rows if one.curl.startswith(row.curl)}
        assert readers.http(prefix=row.curl).keys() == wanted, row


def test_errors_come_back_with_what_was_told(backend: Backend) -> None:
    more = {"uns": "errors_shown = 1000", "qm": "errors_kept = 1000"}
    world = World(backend.home, None, url=backend.url, more=more)
    details = cycle(TEXTS)
    said: dict[str, set[str]] = defaultdict(set)

    def says(url: str) -> FetchError:
        error = FetchError("mimetype-mismatch", next(details))
        said[url].add(error.text.strip())  # around the text of a container white space means nothing
        return error

    world.origin.says = says
    publish(world, list(TEXTS))
    world.submit(None)
    (*_, welcome) = world.welcomes
    assert welcome.error_count == world.origin.fetches.total() > len(TEXTS) - 20
    for fault in welcome.errors:
        assert fault.attributes == element(fault.attributes["note"])
        assert fault.text in said[fault.url.partition("#")[0]]
    world.stop()
