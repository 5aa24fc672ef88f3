"""The same questions to one LCC and to a front end over three: equal answers, over HTTP, for every resource; and over
the XML interface."""

from __future__ import annotations

import csv
import http.client
import io
import json
import re
import socket
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from lcc.client.content import ContentClient
from lcc.config import CuConfig
from lcc.domain.keys import url_key
from lcc.model import Provider
from lcc.model.feeds import PageText
from lcc.model.items import text_object
from lcc.roles.cu.packages.production import Where, Workshop, content_ports, package_threads
from lcc.roles.cu.web.site import build_site
from lcc.roles.cu.xml.session import XmlUsers
from lcc.storage.providers.providers import add_provider
from tests.support.browser import Reply
from tests.support.roles.front_worlds import PIDS, Worlds
from tests.support.roles.xml_users import Told, documents, query, understand
from tests.support.servers.content_host import ContentHost

PAGES = 40
UNKNOWN = "ab" * 20


class Asked:
    """The HTTP interfaces of an LCC and of a front end over three with the same pages."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.worlds = Worlds(home, lambda name: f"sqlite:{home}/{name}.db")
        self.host = ContentHost(home)
        self.keys: list[str] = []
        self._closing: list[Callable[[], Any]] = []
        self.xml_ports: list[int] = []
        self.ports = [self._serve(cache) for cache in (self.worlds.one, self.worlds.several)]

    def _serve(self, cache: Any) -> int:
        address = f"unix:{self.home}/content.sock"
        client = ContentClient(reactor, address, 20)
        where = Where(self.home / "content", 0, address, self.home, None)
        clock: Any = reactor
        workshop = Workshop(clock, where, 4, lambda: 1_780_000_000.0, 4, package_threads, content_ports)
        workshop.start()
        settings = CuConfig(url="http://cache.example/")
        site = build_site(cache, client, workshop, settings, "content", clock, None)
        self.resources = {name.decode() for name in site.wrappedFactory.resource.children}  # type: ignore[attr-defined]
        port = reactor.listenTCP(0, site, interface="127.0.0.1")  # type: ignore[attr-defined]
        users = XmlUsers(cache, client, settings, "content", clock, None)
        xml = reactor.listenTCP(0, users, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.xml_ports.append(xml.getHost().port)
        self._closing += [port.stopListening, xml.stopListening, workshop.stop, client.close]
        return port.getHost().port  # type: ignore[no-any-return]

    def fill(self) -> None:
        worlds = self.worlds
        for pid in PIDS:
            for cache in (worlds.alone, worlds.cache_of(pid)):
                cache.database.now(lambda txn, pid=pid: _register(txn, pid))
        for number in range(PAGES):
            pid = PIDS[number % len(PIDS)]
            data = f"<p>page {number}".encode()
            file_id = self.host.add(data)
            curl = f"http://p{pid}.example/{number}"
            more = {"len": len(data), "md5": md5(data).hexdigest(), "fetched_fileid": file_id}
            worlds.put(pid, str(number), **more, change_time=1_700_000_000 + number)
            self.keys.append(url_key(pid, curl, "text/html").hex())
        worlds.delete(PIDS[0], "gone", change_time=1_700_000_500)
        for number in range(3):
            worlds.put_items(number + 1, {"id": "1", "title": f"t{number}", "text": "T"})
        page = self.keys[2]  # of provider 105, in the second
        stored = worlds.alone.database.query("SELECT md5 FROM lccurl WHERE urlkey = ?", [bytes.fromhex(page)])[0][0]
        worlds.put_items(2, text_object(page, str(stored), PageText("T", "text of a page")), page=page)

    async def stop(self) -> None:
        for close in self._closing:
            await close()
        await self.host.stop()
        self.worlds.subs.stop()
        self.worlds.close()

    async def both(self, path: str, body: bytes | None = None, method: str = "", **headers: str) -> list[Reply]:
        """What the two answer."""
        return [await deferToThread(_ask, port, path, body, method, headers) for port in self.ports]

    async def both_in_xml(self, question: bytes) -> list[Told]:
        """What the two answer over the XML interface."""
        return [await deferToThread(_ask_in_xml, port, question) for port in self.xml_ports]


def _ask_in_xml(port: int, question: bytes) -> Told:
    heard = b""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as connection:
        connection.sendall(question)
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(65536):
            heard += data
    (document,) = documents(heard)
    return understand(document)


def _register(txn: Any, pid: int) -> None:
    add_provider(txn, Provider(pid, (f"http://p{pid}.example/",), f"h{pid}"))


def _ask(port: int, path: str, body: bytes | None, method: str, headers: dict[str, str]) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
        response = connection.getresponse()
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


@pytest_twisted.async_yield_fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    asked = Asked(tmp_path)
    try:
        asked.fill()
        yield asked
    finally:
        await asked.stop()


def lines(reply: Reply) -> list[Any]:
    """The lines, but for what is each LCC's own: numbers of changes, tokens, the name of a sub-LCC."""
    found = [json.loads(line) for line in reply.body.splitlines()]
    own = ("change", "next", "lcc")
    return sorted([json.dumps({k: v for k, v in row.items() if k not in own}, sort_keys=True) for row in found])


def words(reply: Reply) -> list[str]:
    """The same of a document: its elements in any order."""
    own = rb' (change|next|since|from)="[^"]*"|since=[^&"<]*|<updated>[^<]*</updated>|at="[^"]*"'
    text = re.sub(own, b"", reply.body)
    return sorted(re.split(r"(?=<)|\r?\n", re.sub(r"(?m)^#end,.*", "#end", text.decode())))


def table(reply: Reply) -> list[Any]:
    """The same of CSV."""
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    return sorted(
        sorted((name, row[name]) for name in row if name != "change") for row in rows if "#end" not in row["pid"]
    )


def members(reply: Reply) -> list[Any]:
    """Pages of a package; how many rows a part of its manifest has is each one's own affair."""
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        found = [(each.name, each.size, tar.extractfile(each)) for each in tar if each.isfile()]
        return sorted((name, data.read() if data else b"") for name, _, data in found if "manifest/" not in name)


@pytest_twisted.ensureDeferred
async def test_the_same_questions_to_one_lcc_and_to_a_front_end_over_three(asked: Asked) -> None:
    keys = asked.keys
    name = quote("http://p105.example/2")
    states = b"".join(json.dumps({"key": key}).encode() + b"\n" for key in (*keys, UNKNOWN))
    names = (*(f"p{pid}.example" for pid in PIDS), "nobody.example")
    sites = b"".join(json.dumps({"origin": f"http://{name}/"}).encode() + b"\n" for name in names)
    # Of each resource: path, body, what of the answers is compared.
    questions: dict[str, list[tuple[str, bytes | None, Callable[[Reply], Any]]]] = {
        "urls": [
            (f"/urls{query}", None, lines) for query in ("", "?limit=7", "?provider=105", "?prefix=http://p205.")
        ]
        + [(f"/urls?format={form}", None, words) for form in ("xml",)]
        + [("/urls?format=csv", None, table)],
        "changes": [(f"/changes?since=0{query}", None, lines) for query in ("", "&provider=201", "&mimetype=text/*")],
        "content": [
            *((f"/content/{key}", None, lambda reply: reply.body) for key in (*keys, UNKNOWN, "x")),
            (f"/content?provider=105&curl={name}", None, lambda reply: reply.body),
            *((f"/content/{key}?as=text", None, lambda reply: reply.body) for key in keys[:4]),
            (f"/content/{keys[0]}?as=pdf", None, lambda reply: reply.body),
        ],
        "items": [("/items", None, lines), ("/items?feed=2", None, lines), ("/items?other=1", None, lines)],
        "states": [("/states", states, lines), ("/states", b"x", lines)],
        "robots": [("/robots", sites, lines), ("/robots", b"x", lines)],
        "atom": [("/atom", None, words), ("/atom?provider=1", None, words)],
        "package": [("/package?kind=tar", None, members), ("/package?kind=zip", None, lines)],
        ".well-known": [("/.well-known/resourcesync", None, words)],
        "resourcesync": [
            (f"/resourcesync/{pid}/{document}.xml", None, words)
            for pid in (1, 105, 106, 999)
            for document in ("capabilitylist", "resourcelist", "changelist")
        ],
        "openapi.json": [("/openapi.json", None, lambda reply: set(json.loads(reply.body)["paths"]))],
    }
    assert questions.keys() == asked.resources, "whoever adds a resource asks it here"
    told = 0
    for asking in questions.values():
        for path, body, compared in asking:
            one, several = await asked.both(path, body)
            assert one.status == several.status, (path, one.body, several.body)
            assert one.headers.get("content-type") == several.headers.get("content-type"), path
            assert compared(one) == compared(several), path
            told += one.status == 200
    assert told > len(keys) + 20
    # Parts, conditions, and other methods.
    path = f"/content/{keys[3]}"
    etag = (await asked.both(path))[0].headers["etag"]
    for headers, status in (
        ({"range": "bytes=2-4"}, 206),
        ({"if-none-match": etag}, 304),
        ({"if-match": '"x"'}, 412),
    ):
        one, several = await asked.both(path, **headers)
        assert (one.status, one.body) == (several.status, several.body) and one.status == status
    for path in ("/urls", "/changes", "/items", "/package?kind=tar", f"/content/{keys[0]}"):
        one, several = await asked.both(path, method="HEAD")
        assert (one.status, one.body) == (several.status, several.body) == (200, b"")
        one, several = await asked.both(path, method="DELETE")
        assert one.status == several.status == 405
    # Tokens go on where they were.
    for path in ("/changes", "/items", "/package?kind=tar"):
        mark = "&" if "?" in path else "?"
        for reply, port in zip(
            await asked.both("/items" if path == "/items" else "/changes"), asked.ports, strict=True
        ):
            token = json.loads(reply.body.splitlines()[-1])["next"]
            rest = await deferToThread(_ask, port, f"{path}{mark}since={token}", None, "", {})
            assert rest.status == 200 and ("tar" in path or len(lines(rest)) == 1)


XML_QUESTIONS: list[dict[str, str]] = [
    {},
    {"limit": "7"},
    {"provider": "105 201"},
    {"provider": "999"},
    {"prefix": "http://p205.example/"},
    {"mimetype": "image/*"},
    {"content": "yes"},
    {"since": "0"},
    {"since": "0", "provider": "105", "content": "yes"},
    {"since": "0", "mimetype": "text/*"},
    {"since": "x"},
]


@pytest_twisted.ensureDeferred
async def test_the_same_questions_over_the_xml_interface(asked: Asked) -> None:
    rows = 0
    for fields in XML_QUESTIONS:
        one, several = await asked.both_in_xml(query(**fields))
        assert (one.root, one.reason, one.faults) == (several.root, several.reason, several.faults), fields
        assert (one.end is None) == (several.end is None), fields
        assert _without_changes(one) == _without_changes(several), fields
        rows += len(one.rows)
        if "since" in fields and one.end is not None:
            # Tokens go on where they were.
            for told, port in zip((one, several), asked.xml_ports, strict=True):
                assert told.end is not None
                again = query(**{**fields, "since": told.end["next"]})
                rest = await deferToThread(_ask_in_xml, port, again)
                assert rest.end is not None and not rest.rows
    assert rows > 3 * PAGES
    one, several = await asked.both_in_xml(query().replace(b"/>", b' limit="x"/>'))
    assert one == several and one.faults


def _without_changes(told: Told) -> list[dict[str, Any]]:
    found = [{name: value for name, value in row.items() if name != "change"} for row in told.rows]
    return sorted(found, key=lambda row: row["key"])


@pytest_twisted.ensureDeferred
async def test_with_a_sub_lcc_away_changes_go_on_and_a_listing_has_no_end(asked: Asked) -> None:
    asked.worlds.database(2).away = True
    _, several = await asked.both("/changes?since=0")
    *rows, end = [json.loads(line) for line in several.body.splitlines()]
    assert end["missing"] == ["b"] and {row["pid"] for row in rows} == {1, 2, 106, 201, 203, 205}
    for path in ("/urls", "/changes?since=now"):
        _, several = await asked.both(path)
        assert several.status == 503 and b'"next"' not in several.body
