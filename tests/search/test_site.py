"""``GET /search`` as JSON: who may ask, what is answered, what is refused."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import attrs
import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.testing import StringTransport

from lcc.roles.access import Access, AccessDenied
from lcc.roles.search.pages.results import HITS_MAX
from lcc.roles.search.pages.site import build_site
from lcc.roles.search.readers import Readers
from lcc.search.json_answer import FIELDS, HIT_FIELDS
from tests.search.kit import SearchWorld, indexed


class Users:
    """In place of the database of content users."""

    def select(self, _function: Any, token: str, _without: str) -> Deferred[Access]:
        if token == "rows":
            return succeed(Access("x", content=False))
        if not token.isdigit():
            return fail(AccessDenied("this token is not known"))
        return succeed(Access("x", frozenset({int(token)})))


def defer_nothing(*_: Any) -> Deferred[Any]:
    raise AssertionError("nobody logs in")


def ask(world: SearchWorld, path: str, is_open: bool = True, method: str = "GET", **headers: str) -> tuple[int, Any]:
    users: Any = None if is_open else Users()
    readers = Readers(attrs.evolve(world.settings, open=is_open), users, defer_nothing, lambda: "0" * 16, world.clock)
    client: Any = None
    factory = build_site(world.engine, readers, client, lambda: "0" * 16, False, world.in_thread, world.clock)
    protocol: Any = factory.buildProtocol(IPv4Address("TCP", "192.0.2.1", 1))
    transport = StringTransport(peerAddress=IPv4Address("TCP", "192.0.2.1", 1))
    transport.abortConnection = transport.loseConnection  # type: ignore[method-assign]
    protocol.makeConnection(transport)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    protocol.dataReceived(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
    world.clock.pump([0] * 5)
    head, _, body = transport.value().partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body) if body.startswith(b"{") else body


def search(world: SearchWorld, query: str, is_open: bool = True, token: str = "", **fields: str) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return ask(world, f"/search?{urlencode({'q': query, 'format': 'json', **fields})}", is_open, **headers)


@pytest.fixture(autouse=True)
def pages(world: SearchWorld) -> None:
    world.advance()
    pages = [indexed(1, "words of one", "One"), indexed(2, "words of two", "Two", provider=2)]
    world.engine.index.apply(pages, "t.1", complete=True)


def test_what_is_answered(world: SearchWorld) -> None:
    status, found = search(world, "words", order="date", limit="1")
    assert status == 200 and found.keys() == FIELDS.keys()
    (hit,) = found["hits"]
    assert hit.keys() == HIT_FIELDS.keys()
    assert (hit["url"], hit["title"], hit["marks"]) == ("http://www.example.org/2", "Two", [[0, 5]])
    assert (found["total"], found["complete"], found["sites"]) == (2, True, [{"name": "www.example.org", "count": 2}])
    status, more = search(world, "words", order="date", limit="1", after=found["next"])
    assert [each["title"] for each in more["hits"]] == ["One"] and more["next"] is None
    assert search(world, "wrods")[1]["suggestion"] == "words"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"q": ""}, {"error": "there is no word in the query", "at": None}),
        ({"q": "a site:"}, {"error": "site: has nothing behind it", "at": 2}),
        ({"q": "a", "order": "x"}, {"error": "order: 'x' is not rank or date", "at": None}),
        ({"q": "a", "limit": str(HITS_MAX + 1)}, {"error": "limit: '101' is not a number from 1 to 100", "at": None}),
        ({"q": "a", "limit": "0"}, {"error": "limit: '0' is not a number from 1 to 100", "at": None}),
        ({"q": "a", "after": "x"}, {"error": "after: 'x' is not what a search gave as next"}),
        ({"q": "a", "format": "x"}, {"error": "format: 'x' is not html, json, atom"}),
        ({"q": ["a", "b"]}, {"error": "a field comes twice"}),
    ],
)
def test_what_is_refused(world: SearchWorld, fields: dict[str, Any], said: dict[str, Any]) -> None:
    assert ask(world, f"/search?{urlencode({'format': 'json', **fields}, doseq=True)}") == (400, said)


def test_hostile_queries(world: SearchWorld) -> None:
    for query in (
        '"unbalanced words',
        "*",
        "words OR *:* AND text:[* TO *]",
        "\x00",
        "\udcff words",
        "%s" % ("(" * 900),
    ):
        assert ask(world, f"/search?{urlencode({'q': query}, errors='replace')}")[0] in (200, 400)
    assert ask(world, "/search?q=%ff%fe%00words")[0] == 400
    assert ask(world, f"/search?q={'x' * 14_000}")[0] == 400
    assert ask(world, f"/search?q={'x' * 100_000}")[0] == 431
    assert ask(world, "/search", method="POST")[0] == 405
    assert ask(world, "/search/x")[0] == ask(world, "/x")[0] == 404


def test_tokens(world: SearchWorld) -> None:
    assert search(world, "words", is_open=False)[0] == 401
    assert search(world, "words", is_open=False, token="wrong")[0] == 401
    assert search(world, "words", is_open=False, token="rows")[0] == 403
    assert ask(world, "/search?q=words&format=json", is_open=False, Authorization="Basic x")[0] == 401
    for token, url in (("1", "http://www.example.org/1"), ("2", "http://www.example.org/2")):
        status, found = search(world, "words", is_open=False, token=token)
        assert (status, found["total"], [hit["url"] for hit in found["hits"]]) == (200, 1, [url])
