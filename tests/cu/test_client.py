"""The Deferred-based face, against the real interface."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred

from lcc.client import cache as client
from lcc.client.blocking import CacheError, CutOff, Gone, Refused, StartAgain
from lcc.client.cache import CacheClient
from lcc.storage.views import selected
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost
from tests.support.waiting import until

A = "http://a.example.org/"


@pytest_twisted.async_yield_fixture
async def users(api: Api) -> AsyncIterator[CacheClient]:
    users = CacheClient(reactor, f"http://127.0.0.1:{api.port}", connections_max=2, timeout_seconds=30)
    yield users
    await users.close()


async def all_of(rows: client.RowStream) -> list[dict[str, Any]]:
    return [row async for row in rows]


@pytest_twisted.ensureDeferred
async def test_rows_and_changes(users: CacheClient, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LINES_AHEAD", 10)
    cache.fill(2500)
    rows = await all_of(await users.urls())
    assert len(rows) == 2500 and len({row["key"] for row in rows}) == 2500
    changes = await users.changes(provider=[1, 2])
    assert [row["change"] for row in await all_of(changes)] == [n for n in range(1, 2501) if n % 3 < 2]
    cache.put(1, A)
    again = await users.changes(changes.token or "", provider=[1, 2], wait=30)
    assert [row["curl"] for row in await all_of(again)] == [A]


@pytest_twisted.ensureDeferred
async def test_answers_that_are_not_read_to_their_end_hold_no_connection(users: CacheClient, cache: Cache) -> None:
    cache.fill(5000)
    for _ in range(5):
        async for _row in await users.urls():
            break
        (await users.urls()).close()
    assert len(await all_of(await users.urls(limit=7))) == 7


@pytest_twisted.ensureDeferred
async def test_content(users: CacheClient, cache: Cache, host: ContentHost) -> None:
    cache.put(1, A, len=9, fetched_fileid=host.add(b"something"), charset="utf-8")
    (row,) = await all_of(await users.urls())
    content = await users.content(row)
    assert (content.size_bytes, content.mimetype, content.md5) == (9, "text/html; charset=utf-8", row["md5"])
    assert await content.read(9) == b"something"
    with pytest.raises(CutOff):
        await (await users.content(row["key"])).read(8)
    (await users.content(row)).close()
    cache.delete(1, A)
    with pytest.raises(Gone):
        await users.content(row)


@pytest_twisted.ensureDeferred
async def test_what_goes_wrong(users: CacheClient, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="'colour' is not known"):
        await users.urls(colour="red")
    with pytest.raises(StartAgain):
        await users.changes("0000000000000000.1.0.0")
    nobody = CacheClient(reactor, "unix:/nonexistent/socket")
    with pytest.raises(CacheError, match="is unreachable"):
        await nobody.urls()
    await nobody.close()
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 20)
    cache.fill(20_000)
    with pytest.raises(CutOff):
        async for row in await users.changes():
            if row["change"] == 1:
                cache.database.now(lambda txn: txn.execute("UPDATE meta SET value = 'x' WHERE name = 'epoch'"))


@pytest_twisted.ensureDeferred
async def test_following(users: CacheClient, cache: Cache) -> None:
    """Whoever applies each row and keeps each token has the cache, also when it is killed and goes on."""
    copy: dict[str, str] = {}
    tokens = ["0"]

    async def apply(row: dict[str, Any]) -> None:
        if row["state"] == "cached":
            copy[row["curl"]] = row["md5"]
        else:
            copy.pop(row["curl"], None)

    async def commit(token: str) -> None:
        tokens.append(token)

    cache.put(1, A)
    for round_ in range(3):
        following = Deferred.fromCoroutine(users.follow(apply, commit, tokens[-1], wait=30))
        cache.put(1, f"{A}{round_}")
        cache.delete(1, A)
        cache.put(1, f"{A}x", md5=f"{round_:032x}")
        known = len(tokens)

        def has_all(latest: str = f"{round_:032x}", known: int = known) -> bool:
            return copy.get(f"{A}x") == latest and A not in copy and len(tokens) > known

        await until(has_all)
        following.cancel()
        with pytest.raises(CancelledError):
            await following
    assert set(copy) == {f"{A}0", f"{A}1", f"{A}2", f"{A}x"} and len(tokens) > 3


@pytest_twisted.ensureDeferred
async def test_tokens(backend: Backend, cache: Cache) -> None:
    cache.put(1, A)
    _, token = add_user(cache)
    api = Api(backend, "")
    users = CacheClient(reactor, f"http://127.0.0.1:{api.port}/", token)
    nobody = CacheClient(reactor, f"http://127.0.0.1:{api.port}")
    try:
        assert len(await all_of(await users.urls())) == 1
        with pytest.raises(Refused, match="a token is needed"):
            await nobody.urls()
    finally:
        await users.close()
        await nobody.close()
        await api.stop()
