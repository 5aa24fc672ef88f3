"""What became of URLs, asked over HTTP: scopes, limits, and the Twisted client."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from lcc.client.blocking import CacheError, Refused
from lcc.client.cache import CacheClient
from lcc.model.states import AnsweredUrl, AskedUrl
from lcc.roles.cu.web import line_questions
from tests.support.cache import NOW, Cache, add_user
from tests.support.databases import Backend
from tests.support.openapi import check_lines
from tests.support.roles.content_users import Api

A = "http://a.example.org/"


async def post(api: Api, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    def ask() -> tuple[int, bytes]:
        connection: http.client.HTTPConnection = api.connection()
        try:
            connection.request("POST", path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    status, reply = await deferToThread(ask)
    check_lines(path, status, reply)
    return status, reply


def lines(*questions: Any) -> bytes:
    return b"".join(json.dumps(question).encode() + b"\n" for question in questions)


async def states(api: Api, *questions: Any, path: str = "/states", **headers: str) -> list[dict[str, Any]]:
    status, reply = await post(api, path, lines(*questions), **headers)
    assert status == 200, reply
    *rows, end = map(json.loads, reply.splitlines())
    assert end == {"next": None}
    return rows


@pytest_twisted.ensureDeferred
async def test_a_line_for_each(api: Api, cache: Cache) -> None:
    cache.put(1, A)
    key = cache.database.query("SELECT urlkey FROM lccurl")[0][0].hex()
    by_name, by_key, other, *bad = await states(
        api,
        {"provider": 1, "curl": "HTTP://A.example.org"},
        {"key": key},
        {"provider": 2, "curl": A, "set": 3},
        {"provider": 1, "curl": "no URL"},
        {"provider": 1, "curl": A + "x" * 5000},
    )
    shown = {"key": key, "state": "cached", "mimetype": "text/html", "md5": f"{1:032x}", "change": 1}
    shown |= {"fetched_time": NOW, "confirmed_time": NOW, "error": None}
    assert by_name == {"provider": 1, "curl": "HTTP://A.example.org", **shown}
    assert by_key == {"provider": 1, "curl": None, **shown}
    assert (other["state"], other["key"]) == ("arriving", None)
    assert [(row["state"], row["error"]["code"] // 100) for row in bad] == [("unknown", 12)] * 2
    assert await states(api) == []


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_who_sees_what(backend: Backend, cache: Cache) -> None:
    """States are rows: a token for rows is enough, and one for some providers sees those."""
    cache.put(1, A)
    cache.put(2, A)
    _, token = add_user(cache, {2}, content=False)
    api = Api(backend, "")
    try:
        questions = [{"provider": pid, "curl": A} for pid in (1, 2)]
        rows = await states(api, *questions, authorization=f"Bearer {token}")
        assert [row["state"] for row in rows] == ["unknown", "cached"]
        assert (await post(api, "/states", lines(*questions)))[0] == 401
        assert (await api.get("/states")).status == 405
    finally:
        await api.stop()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("/states", b"[1]\n", "line 1 is no JSON object"),
        ("/states", b"{}\n\n{\n", "line 2 is no JSON object"),
        ("/states", b"[" * 100_000, "line 1 is no JSON object"),
        ("/states", lines({"provider": 1}), "line 1: curl is no text"),
        ("/states", lines({"provider": True, "curl": A}), "line 1: provider is no id"),
        ("/states", lines({"provider": 1, "curl": A, "key": "0" * 40}), "line 1: there are provider and curl"),
        ("/states", lines({"key": "0" * 39}), "line 1: key is not 40"),
        ("/states", lines({"key": "0" * 40, "set": -1}), "line 1: set is no number"),
        ("/states?notifier=spider/a", lines({"key": "0" * 40}), "both or none"),
        ("/states?notifier=cu/a&epoch=e", lines({"key": "0" * 40}), "no role and name"),
        ("/states?colour=red", b"", "both or none"),
        ("/states", lines(*[{"key": "0" * 40}] * 10_001), "more than 10000 lines"),
        ("/robots", lines({"origin": "x"}), "line 1: "),
        ("/robots", lines({"origin": A + "x" * 5000}), "line 1: "),
        ("/robots", lines({"origin": A, "x": 1}), "line 1: "),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_makes_no_sense(api: Api, path: str, body: bytes, fault: str) -> None:
    status, reply = await post(api, path, body)
    assert status == 400 and fault in json.loads(reply)["faults"][0]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_bodies_are_bounded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long ones only where questions are asked, and of all together only so much."""
    assert (await post(api, "/urls", bytes(2000)))[0] == 413
    assert (await post(api, "/states", bytes(line_questions.LINES_BYTES_MAX + 1)))[0] == 413
    monkeypatch.setattr(line_questions, "BODIES_BYTES_MAX", 100_000)
    question = lines({"key": "0" * 40})
    assert (await post(api, "/states", question * 5000))[0] == 503
    for _ in range(10):
        assert (await post(api, "/states", question * 1000))[0] == 200


@pytest_twisted.ensureDeferred
async def test_the_client(api: Api, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(1, A)
    users = CacheClient(reactor, f"http://127.0.0.1:{api.port}")
    try:
        asked = [AskedUrl(1, f"{A}{number}", number) for number in range(1200)]
        (known,) = await users.states([AskedUrl(1, A)])
        assert known[:3] == (1, A, "cached") and known.md5 == f"{1:032x}" and known.fetched_time == NOW
        found = await users.states(asked, "spider/main", "e1")
        assert found == [AnsweredUrl(1, f"{A}{n}", "arriving" if n else "unknown") for n in range(1200)]
        assert await users.states([]) == []
        with pytest.raises(Refused, match="no role and name"):
            await users.states(asked, "x", "y")
    finally:
        await users.close()
    nobody = CacheClient(reactor, "unix:/nonexistent/socket")
    with pytest.raises(CacheError, match="is unreachable"):
        await nobody.states(asked)
    await nobody.close()
