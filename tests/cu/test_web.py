"""The HTTP interface over real sockets, on each database."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPException
from io import StringIO
from xml.etree import ElementTree

import pytest
import pytest_twisted
from lxml import etree
from twisted.internet import reactor
from twisted.internet.defer import gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from lcc.storage.providers.content_users import remove_content_user
from lcc.storage.views import selected
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend, DirectDatabase
from tests.support.logs import LoggedErrors
from tests.support.roles.content_users import Api
from tests.support.roles.xml_users import SCHEMA

A = "http://a.example.org/"


def fill(cache: Cache, count: int) -> None:
    for number in range(count):
        cache.put(1 + number % 3, f"{A}{number}?a=1&b=<\"é'>", "text/html" if number % 2 else "image/png")


@pytest_twisted.ensureDeferred
async def test_every_format_says_the_same(api: Api, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 2)
    fill(cache, 7)
    cache.put(1, A, subtype='s: t,\t\n\r"', mtime=None, charset="utf-8", burl="-")
    reply = await api.get("/urls")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/x-ndjson")
    *rows, end = reply.lines()
    assert end == {"next": None} and len(rows) == 8
    assert {row["curl"] for row in rows if row["pid"] == 2} == {f"{A}{n}?a=1&b=<\"é'>" for n in (1, 4)}
    odd = next(row for row in rows if row["curl"] == A)
    assert (odd["burl"], odd["mtime"], odd["charset"], odd["state"]) == (None, None, "utf-8", "cached")

    reply = await api.get("/urls?format=xml")
    SCHEMA.assertValid(etree.fromstring(reply.body))
    root = ElementTree.fromstring(reply.body)
    assert root.tag == "{http://www.lococa.org/1.0}urls"
    assert [element.tag for element in root] == ["url"] * 8 + ["end"]
    assert [dict(element.attrib) for element in root][:-1] == [
        {name: str(value) for name, value in row.items() if value is not None} for row in rows
    ]
    reply = await api.get("/urls", Accept="text/csv")
    names, *lines, last = csv.reader(StringIO(reply.body.decode(), newline=""))
    assert last == ["#end", ""]
    assert [dict(zip(names, line, strict=True)) for line in lines] == [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in rows
    ]


@pytest_twisted.ensureDeferred
async def test_following(api: Api, cache: Cache) -> None:
    fill(cache, 3)
    *rows, end = (await api.get("/changes?mimetype=image/*")).lines()
    assert [row["change"] for row in rows] == [1, 3]
    cache.delete(1, rows[0]["curl"], "image/png")
    cache.put(1, A)
    *rows, later = (await api.get(f"/changes?mimetype=image/*&since={end['next']}")).lines()
    assert [(row["change"], row["state"], row["md5"]) for row in rows] == [(4, "deleted", None)]
    *rows, _ = (await api.get(f"/changes?mimetype=image/*&since={later['next']}")).lines()
    assert rows == []


@pytest_twisted.ensureDeferred
async def test_waiting_for_the_next_change(api: Api, cache: Cache) -> None:
    (end,) = (await api.get("/changes?wait=0")).lines()
    waiting = api.get(f"/changes?since={end['next']}&wait=60")
    other = api.get("/changes?provider=2&wait=60&format=xml")
    await deferLater(reactor, 0.3)  # type: ignore[arg-type]  # the reactor is a module
    cache.put(1, A)
    row, end = (await waiting).lines()
    assert row["curl"] == A
    await deferLater(reactor, 0.6)  # type: ignore[arg-type]
    assert not other.called, "it waits for provider 2"
    cache.put(2, A)
    root = ElementTree.fromstring((await other).body)
    assert [element.get("pid") for element in root] == ["2", None]


@pytest_twisted.ensureDeferred
async def test_nothing_comes_in_time(api: Api, cache: Cache) -> None:
    cache.put(1, A)
    _, end = (await api.get("/changes")).lines()
    (again,) = (await api.get(f"/changes?since={end['next']}&wait=1")).lines()
    assert again == end


@pytest_twisted.ensureDeferred
async def test_those_who_wait_are_let_go_at_the_end(backend: Backend, cache: Cache) -> None:
    api = Api(backend)
    waiting = [api.get("/changes?wait=100") for _ in range(3)]
    await deferLater(reactor, 0.3)  # type: ignore[arg-type]
    await api.stop()
    replies = await gatherResults([each.addErrback(lambda _: None) for each in waiting])
    assert len(replies) == 3


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/urls?colour=red&limit=x", 400, "limit: "),
        ("/urls?since=0", 400, "belongs to /changes"),
        ("/changes?since=nonsense", 400, "since: 'nonsense' is no token"),
        ("/changes?wait=soon", 400, "wait: "),
        ("/changes?since=0000000000000000.7.0.0", 410, "start again"),
        ("/urls?format=yaml", 400, "format: 'yaml' is none of jsonl, xml, csv"),
        ("/urls?format=xml&format=csv", 400, "format: given twice"),
        ("/urls?prefix=%ff", 400, "UTF-8"),
        ("/nowhere", 404, "openapi"),
        ("/", 404, "openapi"),
        ("/urls/further", 404, "nothing"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_cannot_be_answered(api: Api, path: str, status: int, text: str) -> None:
    reply = await api.get(path)
    assert reply.status == status
    body = reply.json()
    assert text in body["error"] + " ".join(body.get("faults", ()))


@pytest_twisted.ensureDeferred
async def test_only_get_and_head(api: Api, cache: Cache) -> None:
    fill(cache, 3)
    assert (await api.get("/urls", "POST")).status == 405
    assert (await api.get("/urls", "DELETE")).status == 405
    reply = await api.get("/urls", "HEAD")
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"", "application/x-ndjson")


@pytest_twisted.ensureDeferred
async def test_tokens_and_their_scope(backend: Backend, cache: Cache) -> None:
    fill(cache, 6)
    api = Api(backend, "")
    try:
        for headers in ({}, {"Authorization": "Bearer 1-" + "0" * 32}, {"Authorization": "Bearer nonsense"}):
            reply = await api.get("/urls", **headers)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer realm="LCC"')
        assert (await api.get("/urls", Authorization="Basic YTpi")).status == 401
        cuid, token = add_user(cache, {1, 2})
        bearer = f"Bearer {token}"
        *rows, _ = (await api.get("/urls", Authorization=bearer)).lines()
        assert {row["pid"] for row in rows} == {1, 2}
        *rows, _ = (await api.get("/changes?provider=2&provider=3", Authorization=bearer)).lines()
        assert {row["pid"] for row in rows} == {2}
        (end,) = (await api.get("/urls?provider=3", Authorization=bearer)).lines()
        assert end == {"next": None}
        assert cache.database.now(remove_content_user, cuid)
        assert (await api.get("/urls", Authorization=bearer)).status == 401
    finally:
        await api.stop()


def read_all(api: Api, path: str, midway: Callable[[], None] = lambda: None) -> bytes | Exception:
    """Read the start of a long answer, do something, read on; an answer that is cut off gives what it raises."""
    with closing(api.connection()) as connection:
        connection.request("GET", path)
        with connection.getresponse() as response:
            start = response.read(1000)
            midway()
            try:
                return start + response.read()
            except (OSError, HTTPException) as error:
                return error


@pytest_twisted.ensureDeferred
async def test_a_long_answer_to_a_slow_reader(api: Api, cache: Cache) -> None:
    cache.fill(2500)
    body = await deferToThread(read_all, api, "/urls", lambda: time.sleep(0.5))
    assert isinstance(body, bytes) and body.count(b"\n") == 2501 and body.endswith(b'{"next":null}\n')


def break_off(api: Api) -> None:
    with closing(api.connection()) as connection:
        connection.request("GET", "/urls")
        with connection.getresponse() as response:
            response.read(10)


@pytest_twisted.ensureDeferred
async def test_readers_that_go_away(api: Api, cache: Cache) -> None:
    cache.fill(2500)
    for _ in range(20):
        await deferToThread(break_off, api)
    assert (await api.get("/urls?limit=1")).status == 200


@pytest_twisted.ensureDeferred
async def test_an_answer_that_fails_midway_has_no_end_mark(
    api: Api, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 20)
    cache.fill(20_000)

    def another_epoch() -> None:
        database = DirectDatabase(api.config.database.url, api.config.home)
        database.now(lambda txn: txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'"))
        database.blocking.close()

    result = await deferToThread(read_all, api, "/changes", another_epoch)
    assert isinstance(result, Exception) or b'"next"' not in result


@pytest_twisted.ensureDeferred
async def test_headers_that_are_no_text(api: Api, cache: Cache) -> None:
    fill(cache, 3)
    assert (await api.get("/urls", Authorization=b"Bearer \xff")).status == 401  # type: ignore[arg-type]
    reply = await api.get("/urls", Accept=b"\xff", Range=b"\xff")  # type: ignore[arg-type]
    assert len(reply.lines()) == 4


@pytest_twisted.ensureDeferred
async def test_as_many_values_as_may_be(api: Api, cache: Cache) -> None:
    fill(cache, 3)
    for path in ("/urls", "/changes"):
        for values in ([f"mimetype=a/{number}" for number in range(999)], [f"provider={n}" for n in range(1, 1001)]):
            reply = await api.get(f"{path}?{'&'.join(values)}")
            assert reply.status == 200, reply.body
            assert len(reply.lines()) == (1 if "mimetype" in values[0] else 4)
    assert (await api.get("/urls?" + "&".join(f"mimetype=a/{number}" for number in range(1001)))).status == 400


@pytest_twisted.ensureDeferred
async def test_an_answer_that_fails_before_its_first_row(
    api: Api, cache: Cache, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    """It says so, and the connection goes on."""
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 1)  # so that it is still being read when the table goes
    cache.fill(20_000)

    def ask() -> list[int]:
        with closing(api.connection()) as connection:
            statuses = []
            for path in ("/urls?prefix=http://nowhere.example.org/", "/urls?limit=1"):
                connection.request("GET", path)
                with connection.getresponse() as response:
                    statuses.append(response.status)
                    response.read()
                if response.status == 500:
                    database = DirectDatabase(api.config.database.url, api.config.home)
                    database.now(lambda txn: txn.execute("ALTER TABLE hidden RENAME TO lccurl"))
                    database.blocking.close()
            return statuses

    asked = deferToThread(ask)
    await deferLater(reactor, 0.1)  # type: ignore[arg-type]
    cache.database.now(lambda txn: txn.execute("ALTER TABLE lccurl RENAME TO hidden"))
    assert await asked == [500, 200]
    assert logged_errors.flush("lccurl")
