"""What web servers say, through the robot and every role into both databases, and out again."""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any

from twisted.internet.defer import Deferred

from lcc.client.cache import CacheClient
from lcc.errors import FetchError
from lcc.model import Fetched
from tests.support.databases import Backend
from tests.support.roles.chain import ROOT, World

from .hostile import TEXTS, UNSPEAKABLE

NAMES = [f"{number:03}" for number in range(len(TEXTS) + len(UNSPEAKABLE))]
SAID = dict(zip((f"{ROOT}{name}" for name in NAMES), TEXTS + UNSPEAKABLE, strict=True))


def carried(text: str) -> str:
    """As it comes over a wire: XML has no place for some characters, and says so in their place."""
    return "".join(
        "\ufffd" if any(char in bad for bad in "\x00\x01\x0b\x1b\x1f\ufffe\uffff\ud800\udfff\udcc3\udca4") else char
        for char in text
    )


def test_a_page_that_was_fetched(backend: Backend) -> None:
    world = World(backend.home, None, users=True, url=backend.url)

    def says(url: str) -> Fetched:
        text = SAID[url]
        headers = json.dumps([["X-Said", text], [text, "x"]])
        return Fetched(200, url, "text/html", charset=text, etag=f'"{text}"', headers=headers, revalidate=True)

    world.origin.says = says
    world.publish([{"c": name, "m": "text/html"} for name in NAMES], full=True)
    world.drain()
    rows = world.cached()
    assert rows.keys() == SAID.keys()
    for url, text in SAID.items():
        row = rows[url]
        whole = carried(text)
        assert row.charset == whole[:255], ascii(text)
        assert row.etag == f'"{whole}"', ascii(text)
        assert json.loads(row.headers) == [["X-Said", text], [text, "x"]], ascii(text)
    client = CacheClient(world.net, f"unix:{world.address('cu')}")

    async def read() -> list[dict[str, Any]]:
        read = [row async for row in await client.urls()]
        for row in read:
            # A charset stands in the content's type: a header field, which most texts would break.
            assert await (await client.content(row)).read(100) == b""
        return read

    told = world.result_of(Deferred.fromCoroutine(read()))
    assert {row["curl"]: row["charset"] for row in told} == {url: row.charset or None for url, row in rows.items()}
    client.close()
    world.stop()


def test_a_fetch_that_failed(backend: Backend) -> None:
    more = {"uns": "errors_shown = 1000", "qm": "errors_kept = 1000\nattempts_max = 2"}
    world = World(backend.home, None, url=backend.url, more=more)
    kinds = cycle(["mimetype-mismatch", "early-eof"])
    errors = {url: FetchError(next(kinds), text) for url, text in SAID.items()}
    world.origin.says = errors.__getitem__
    world.publish([{"c": name, "m": "text/html"} for name in NAMES], full=True)
    world.drain(100_000)
    world.submit(None)
    shown = {fault.url: fault.text for fault in world.welcomes[-1].errors}
    assert shown == {url: carried(error.text).strip() for url, error in errors.items()}
    world.stop()
