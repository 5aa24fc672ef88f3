"""``/items`` and ``/content/KEY?as=text``, over HTTP and by the Python clients."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from lcc.client import blocking
from lcc.client.blocking import Gone, Refused, StartAgain
from lcc.client.cache import CacheClient
from lcc.domain.keys import url_key
from lcc.domain.tasks.items import ItemRules
from lcc.model.feeds import PageText
from lcc.model.items import as_json, text_object
from lcc.storage.tasks.feeds.items import ItemStore
from tests.support.browser import Reply
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend, DirectDatabase
from tests.support.roles.content_users import Api
from tests.support.tasks import NOW, sqlite_tasks, task_database

PAGE = "http://a.example.org/1"


class Stored:
    """Items of tasks 1 and 2; those of providers 1 and 2."""

    def __init__(self, database: DirectDatabase) -> None:
        self.database = database
        database.now(lambda txn: txn.execute("DELETE FROM feeditems"))

    def put(self, task: int, *objects: Any, now: int = NOW, page: str = "") -> None:
        self.database.now(ItemStore(ItemRules()).store, task, 1, page, [as_json(each) for each in objects], now)


@pytest.fixture
def stored(backend: Backend) -> Any:
    database = sqlite_tasks(backend.home) if backend.kind == "sqlite" else task_database(backend)
    yield Stored(database)
    database.blocking.close()


def items(reply: Reply) -> tuple[list[dict[str, Any]], str]:
    assert reply.status == 200, reply.body
    *rows, end = [json.loads(line) for line in reply.body.splitlines()]
    return rows, end["next"]


@pytest_twisted.ensureDeferred
async def test_items_since_a_token(api: Api, stored: Stored) -> None:
    rows, token = items(await api.get("/items"))
    assert rows == []
    stored.put(1, {"id": "1", "title": "a", "text": "A"}, {"id": "2", "title": "b"})
    rows, second = items(await api.get(f"/items?since={token}"))
    assert [(row["feed"], row["title"]) for row in rows] == [(1, "a"), (1, "b")]
    assert rows[0]["text"] == "A" and rows[0]["found_time"] == NOW and len(rows[0]["item"]) == 32
    assert items(await api.get(f"/items?since={second}")) == ([], second)
    stored.put(1, {"id": "1", "title": "changed"}, now=NOW + 5)
    rows, _ = items(await api.get(f"/items?since={second}"))
    assert [(row["title"], row["changed_time"], row["found_time"]) for row in rows] == [("changed", NOW + 5, NOW)]
    rows, _ = items(await api.get("/items?since=0"))
    assert [row["title"] for row in rows] == ["b", "changed"]


@pytest_twisted.ensureDeferred
async def test_items_of_some_feeds_and_limits(api: Api, stored: Stored) -> None:
    stored.put(1, *({"id": str(n), "title": "x" * 2000} for n in range(1200)))
    stored.put(2, {"id": "1", "title": "b"})
    rows, _ = items(await api.get("/items"))
    assert len(rows) == 1201 and [row["change"] for row in rows] == sorted(row["change"] for row in rows)
    rows, _ = items(await api.get("/items?feed=2"))
    assert [row["title"] for row in rows] == ["b"]
    rows, token = items(await api.get("/items?limit=700&feed=1"))
    assert len(rows) == 700
    rows, _ = items(await api.get(f"/items?since={token}&feed=1"))
    assert len(rows) == 500
    # The token of another question.
    reply = await api.get(f"/items?since={token}")
    assert reply.status == 400 and "another selection" in reply.body.decode()


@pytest_twisted.ensureDeferred
async def test_questions_that_cannot_be_answered(api: Api, stored: Stored) -> None:
    for path, words in (
        ("/items?since=x", "no token of an LCC"),
        ("/items?feed=0", "feed or limit"),
        ("/items?limit=x", "feed or limit"),
        ("/items?limit=1&limit=2", "limit: given twice"),
    ):
        reply = await api.get(path)
        assert reply.status == 400 and words in reply.body.decode(), path
    reply = await api.get("/items?other=1")
    assert reply.status == 400 and "there is no such parameter" in reply.body.decode()
    _, token = items(await api.get("/items"))
    epoch, _, rest = token.partition(".")
    assert (await api.get(f"/items?since=other.{rest}")).status == 410
    assert (await api.get(f"/items?since={epoch}.999.0.{token.rpartition('.')[2]}")).status == 410
    assert (await api.get("/items", "HEAD")).body == b""


@pytest_twisted.ensureDeferred
async def test_scopes_of_users_are_respected(backend: Backend, cache: Cache, stored: Stored) -> None:
    first, second = (url_key(pid, PAGE, "").hex() for pid in (1, 2))
    stored.put(1, {"id": "1", "title": "a", "text": "A", "content": {"value": "A"}}, page=first)
    stored.put(2, {"id": "1", "title": "b", "text": "B"}, page=second)
    stored.put(3, {"id": "1", "title": "of no page"})
    api = Api(backend, 'without_token = "nothing"')
    try:
        assert (await api.get("/items")).status == 401
        whole = add_user(cache)[1]
        some = add_user(cache, {2})[1]
        rows_only = add_user(cache, {1}, False)[1]
        found, _ = items(await api.get("/items", authorization=f"Bearer {whole}"))
        assert [row["title"] for row in found] == ["a", "b", "of no page"]
        found, _ = items(await api.get("/items", authorization=f"Bearer {some}"))
        assert [row["title"] for row in found] == ["b"]
        found, _ = items(await api.get("/items?feed=1", authorization=f"Bearer {some}"))
        assert found == []
        found, _ = items(await api.get("/items", authorization=f"Bearer {rows_only}"))
        assert [(row["title"], "text" in row, "content" in row) for row in found] == [("a", False, False)]
        # The feed of the first moves to the site of the second: what it had there stays the first one's.
        stored.put(1, {"id": "1", "title": "a"}, {"id": "2", "title": "moved"}, page=second)
        found, _ = items(await api.get("/items", authorization=f"Bearer {some}"))
        assert sorted(row["title"] for row in found) == ["a", "b", "moved"]
        stored.put(1, {"id": "3", "title": "before"}, page=first)
        found, _ = items(await api.get("/items", authorization=f"Bearer {rows_only}"))
        assert [row["title"] for row in found] == ["before"]
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_the_text_of_a_page(api: Api, cache: Cache, stored: Stored) -> None:
    cache.put(1, PAGE)
    key = url_key(1, PAGE, "text/html").hex()
    assert (await api.get(f"/content/{key}?as=text")).status == 404
    stored.put(1, text_object(key, f"{1:032x}", PageText("T", "Größe\nzwei", "de", "lxml")), page=key)
    reply = await api.get(f"/content/{key}?as=text")
    assert (reply.status, reply.body.decode()) == (200, "Größe\nzwei")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.headers["content-security-policy"] == "sandbox"
    again = await api.get(f"/content/{key}?as=text", If_None_Match=reply.headers["etag"])
    assert again.status == 304
    assert (await api.get(f"/content/{key}?as=text", "HEAD")).headers["content-length"] == "12"
    by_name = await api.get(f"/content?provider=1&curl={PAGE}&as=text")
    assert by_name.body == reply.body
    assert (await api.get(f"/content/{key}?as=pdf")).status == 400
    # Of former content.
    cache.put(1, PAGE)
    assert (await api.get(f"/content/{key}?as=text")).status == 404


@pytest_twisted.ensureDeferred
async def test_the_clients(api: Api, cache: Cache, stored: Stored) -> None:
    cache.put(1, PAGE)
    key = url_key(1, PAGE, "text/html").hex()
    stored.put(1, {"id": "1", "title": "a"}, text_object(key, f"{1:032x}", PageText("T", "text")), page=key)
    address = f"http://127.0.0.1:{api.port}"
    client = CacheClient(reactor, address)
    found = await client.items()
    assert [row["title"] async for row in found] == ["a"]
    assert [row async for row in await client.items(found.token or "")] == []
    assert await client.text(key) == "text"
    await client.close()

    def in_thread() -> None:
        with blocking.Cache(address) as plain:
            rows = plain.items(feed=[1, 2])
            assert [row["title"] for row in rows] == ["a"]
            assert list(plain.items(rows.token or "", feed=[1, 2])) == []
            assert plain.text({"key": key}) == "text"
            with pytest.raises(Gone):
                plain.text("ab" * 20)
            with pytest.raises(StartAgain):
                list(plain.items(f"other.{(rows.token or '').partition('.')[2]}", feed=[1, 2]))
            with pytest.raises(Refused):
                list(plain.items("x"))

    await deferToThread(in_thread)
