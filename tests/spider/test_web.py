"""The HTTP interface of crawls, over real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, LoopingCall

from lcc.config import SpiderConfig
from lcc.errors import ConfigError
from lcc.model.spider.crawls import Verdict
from lcc.roles.spider.sites import Sites
from lcc.roles.spider.web import build_site
from lcc.storage.database.migrations import SPIDER
from tests.support.browser import Browser, Reply
from tests.support.databases import DirectDatabase
from tests.support.frontier import NOW, Spider, carry_out_all
from tests.support.roles.spider import Lcc

TOKEN = "0123456789abcdef"
SITE = "http://www.example.org/"
SCOPE = r"http://www\.example\.org/"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Browser, Spider]]:
    """A client with the token, and a spider that carries orders out."""
    spider = Spider(DirectDatabase(f"sqlite:///{tmp_path}/spider.sqlite", tmp_path, SPIDER))
    lcc: Any = Lcc({}, Clock())
    lcc.robots_of[SITE] = "User-agent: *\nDisallow: /secret"
    factory = build_site(spider.database, SpiderConfig(), TOKEN, Sites(lcc, Clock()), reactor, lambda: NOW)
    port: Any = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
    working = LoopingCall(carry_out_all, spider)
    working.start(0.05)
    yield Browser(port.getHost().port, {"Authorization": f"Bearer {TOKEN}"}), spider
    working.stop()
    pytest_twisted.blockon(port.stopListening())
    spider.database.blocking.close()


def ask(client: Browser, path: str, body: Any = None) -> Deferred[Reply]:
    """GET, or POST of a JSON object."""
    if body is None:
        return client.get(path)
    return client.raw("POST", path, json.dumps(body).encode(), **{"content-type": "application/json"})


@pytest_twisted.ensureDeferred
async def test_a_crawl_is_added_watched_and_changed(served: tuple[Browser, Spider]) -> None:
    client, spider = served
    body = {"name": "docs", "starts": [SITE], "restrict_to": SCOPE, "depth_max": 3, "order": "opic"}
    added = await ask(client, "/crawls", body)
    assert (added.status, added.json()) == (201, {"name": "docs", "done": True})
    spider.read(SITE, SITE + "a")
    shown = (await ask(client, "/crawls/docs")).json()
    assert (shown["state"], shown["counts"]["known"], shown["counts"]["cached"]) == ("active", 2, 1)
    assert shown["settings"] == {"restrict_to": SCOPE, "depth_max": 3, "order": "opic"}
    assert (await ask(client, "/crawls/docs/start", {"starts": [SITE + "b"]})).status == 200
    assert (await ask(client, "/crawls/docs/exclude", {"hosts": ["Bad.example.org"]})).status == 200
    assert (await ask(client, "/crawls/docs/pause", {})).status == 200
    [crawl] = (await ask(client, "/crawls")).json()["crawls"]
    assert (crawl["state"], crawl["excluded"], crawl["counts"]["known"]) == ("paused", ["bad.example.org"], 3)
    again = await ask(client, "/crawls", body)
    assert (again.status, again.json()["error"]) == (409, "there is a crawl 'docs' already")
    assert (await ask(client, "/crawls/docs/remove", {})).status == 200


@pytest_twisted.ensureDeferred
async def test_a_crawl_is_given_other_limits(served: tuple[Browser, Spider]) -> None:
    client, _ = served
    await ask(client, "/crawls", {"name": "docs", "starts": [SITE], "restrict_to": SCOPE, "depth_max": 3})
    assert (await ask(client, "/crawls/docs/set", {"depth_max": 5, "urls_max": 70})).status == 200
    shown = (await ask(client, "/crawls/docs")).json()
    assert shown["settings"] == {"restrict_to": SCOPE, "depth_max": 5, "urls_max": 70}
    assert (await ask(client, "/crawls/docs/set", {"depth_max": None, "urls_max": None})).status == 200
    assert (await ask(client, "/crawls/docs")).json()["settings"] == {"restrict_to": SCOPE}
    for body, words in (
        ({"names": "larm"}, "unknown field"),
        ({"restrict_to": "("}, "not valid"),
        ({"restrict_to": None}, "needs an expression"),
        ({"hosts_max": "x"}, "hosts_max"),
    ):
        refused = await ask(client, "/crawls/docs/set", body)
        assert refused.status == 400 and words in refused.json()["error"]


@pytest_twisted.ensureDeferred
async def test_the_status_of_all(served: tuple[Browser, Spider]) -> None:
    client, spider = served
    await ask(client, "/crawls", {"name": "docs", "starts": [SITE], "restrict_to": SCOPE})
    spider.read(SITE, SITE + "a")
    shown = (await ask(client, "/status")).json()
    assert [each["name"] for each in shown["spiders"]] == ["one"] and shown["stores"] == []
    [crawl] = shown["crawls"]
    assert (crawl["name"], crawl["hosts"][0]["host"], crawl["parked"]) == ("docs", "www.example.org", [])
    assert (await ask(client, "/status", {})).status == 405


@pytest_twisted.ensureDeferred
async def test_why(served: tuple[Browser, Spider]) -> None:
    client, spider = served
    await ask(client, "/crawls", {"name": "docs", "starts": [SITE], "restrict_to": SCOPE})
    spider.read(SITE, SITE + "a")

    async def why(url: str) -> Any:
        return (await ask(client, f"/crawls/docs/why?url={quote(url, safe='')}")).json()

    known = await why(SITE + "a?")
    assert not known["known"]
    known = await why(SITE + "a")
    assert (known["state"], known["way"], known["words"][0]) == (
        "waiting",
        [SITE],
        "state waiting: not told to the LCC yet",
    )
    spider.told(SITE)
    spider.answer(Verdict.REFUSED, SITE + "a", code=1407)
    assert any("the target of the redirect" in words for words in (await why(SITE + "a"))["words"])
    assert (await why(SITE + "secret"))["words"] == ["dropped robots: disallowed by robots.txt"]
    assert (await why("http://elsewhere.example/"))["words"] == ["dropped scope: the expression does not match"]
    assert (await why("example.org"))["error"].startswith("'example.org' does not begin with http://")
    assert (await ask(client, "/crawls/docs/why")).status == 400
    assert (await ask(client, "/crawls/none/why?url=http://h/")).status == 404


@pytest_twisted.ensureDeferred
async def test_nothing_without_the_token(served: tuple[Browser, Spider]) -> None:
    client, _ = served
    for headers in ({"authorization": "Bearer 0123456789abcdeF"}, {"authorization": "Basic eDp5"}):
        assert (await client.raw("GET", "/crawls", b"", **headers)).status == 401


@pytest_twisted.ensureDeferred
async def test_what_makes_no_sense_is_refused(served: tuple[Browser, Spider]) -> None:
    client, _ = served
    good = {"name": "docs", "starts": [SITE], "restrict_to": SCOPE}
    for changed, words in (
        ({"name": "a b"}, "cannot be the name of a crawl"),
        ({"starts": "x"}, "starts must be a list of strings"),
        ({"starts": ["example.org"]}, "does not begin with http://"),
        ({"starts": ["http://b/"]}, "start http://b/: scope"),
        ({"restrict_to": "("}, "not valid"),
        ({"depth_max": True}, "depth_max must be a whole number"),
        ({"depth_max": -1}, "depth_max must be a whole number"),
        ({"order": "random"}, "order"),
        ({"allow_private": True}, "unknown field 'allow_private'"),
        ({"pid": 1}, "unknown field 'pid'"),
    ):
        reply = await ask(client, "/crawls", {**good, **changed})
        assert reply.status == 400 and words in reply.json()["error"], changed
    assert (await ask(client, "/crawls/none")).status == 404
    assert (await ask(client, "/elsewhere")).status == 404
    assert (await client.raw("POST", "/crawls", b"{", **{"content-type": "application/json"})).status == 400
    assert (await client.raw("POST", "/crawls", b"{}", **{"content-type": "text/plain"})).status == 415
    assert (await client.raw("DELETE", "/crawls", b"")).status == 405
    assert (await ask(client, "/crawls")).json() == {"crawls": []}


def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="listen_token_file"):
        build_site(None, SpiderConfig(), "short", Sites(None, Clock()), reactor, lambda: NOW)  # type: ignore[arg-type]
