"""Content over HTTP, read through a real content port."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.domain.keys import url_key
from lcc.storage.database.tables.rows import POLLED, WITHDRAWN
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost

A = "http://a.example.org/page.html"
TEXT = b"All about content.\n" * 20_000


def put(
    cache: Cache, host: ContentHost, curl: str = A, data: bytes = TEXT, mimetype: str = "text/html", **more: Any
) -> str:
    """Cache this; its path."""
    cache.put(1, curl, mimetype, len=len(data), fetched_fileid=host.add(data), **more)
    return f"/content/{url_key(1, curl, mimetype).hex()}"


@pytest_twisted.ensureDeferred
async def test_the_content(api: Api, cache: Cache, host: ContentHost) -> None:
    path = put(cache, host, charset="utf-8")
    reply = await api.get(path)
    assert (reply.status, reply.body) == (200, TEXT)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["content-length"] == str(len(TEXT))
    assert reply.headers["etag"] == f'"{1:032x}"'
    assert reply.headers["last-modified"] == "Tue, 14 Nov 2023 22:13:20 GMT"
    assert reply.headers["content-security-policy"] == "sandbox"
    (row, _) = (await api.get("/urls")).lines()
    assert path == f"/content/{row['key']}"
    reply = await api.get(path, "HEAD")
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", str(len(TEXT)))


@pytest_twisted.ensureDeferred
async def test_empty_content(api: Api, cache: Cache, host: ContentHost) -> None:
    reply = await api.get(put(cache, host, data=b""))
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("bytes=0-9", 0, 10), ("bytes=5-", 5, None), ("bytes=-7", -7, None), ("bytes=100-100", 100, 101)],
)
@pytest_twisted.ensureDeferred
async def test_parts(api: Api, cache: Cache, host: ContentHost, asked: str, start: int, end: int | None) -> None:
    path = put(cache, host)
    reply = await api.get(path, Range=asked)
    assert (reply.status, reply.body) == (206, TEXT[start:end])
    first = start % len(TEXT)
    assert reply.headers["content-range"] == f"bytes {first}-{first + len(reply.body) - 1}/{len(TEXT)}"
    assert (await api.get(path, Range=asked, If_Range='"other"')).body == TEXT
    assert (await api.get(path, Range=asked, If_Range=f'"{1:032x}"')).status == 206


@pytest_twisted.ensureDeferred
async def test_what_is_known_is_not_sent_again(api: Api, cache: Cache, host: ContentHost) -> None:
    path = put(cache, host)
    reply = await api.get(path, If_None_Match=f'"{1:032x}"')
    assert (reply.status, reply.body) == (304, b"")
    assert (await api.get(path, If_None_Match='"other"')).status == 200
    for tags in (f'"other", W/"{1:032x}"', f'"other","{1:032x}"', "*"):
        reply = await api.get(path, If_None_Match=tags)
        assert (reply.status, reply.headers["etag"]) == (304, f'"{1:032x}"')
    # The entity tag alone counts, where there is one.
    reply = await api.get(path, If_None_Match='"other"', If_Modified_Since="Tue, 14 Nov 2023 22:13:20 GMT")
    assert (reply.status, reply.body) == (200, TEXT)
    assert (await api.get(path, If_Modified_Since=";")).status == 200
    for wanted, status in ((f'"{1:032x}"', 200), ("*", 200), ('"other"', 412), (f'W/"{1:032x}"', 412)):
        assert (await api.get(path, If_Match=wanted)).status == status
    assert (await api.get(path, If_Modified_Since="Tue, 14 Nov 2023 22:13:20 GMT")).status == 304
    # Fetched again with the same content: another file, the same entity tag.
    cache.put(1, A, len=len(TEXT), md5=f"{1:032x}", fetched_fileid=host.add(TEXT))
    assert (await api.get(path, If_None_Match=f'"{1:032x}"')).status == 304


@pytest_twisted.ensureDeferred
async def test_by_name(api: Api, cache: Cache, host: ContentHost) -> None:
    put(cache, host)
    put(cache, host, "http://a.example.org/page.html?x=1&y=2", b"query")
    reply = await api.get(f"/content?provider=1&curl={A}")
    assert (reply.status, reply.body) == (200, TEXT)
    reply = await api.get("/content?provider=1&curl=HTTP://a.example.org:80/page.html%3Fx=1%26y=2")
    assert reply.body == b"query"
    put(cache, host, A, b"{}", "application/json")
    reply = await api.get(f"/content?provider=1&curl={A}")
    assert reply.status == 400 and "one of" in reply.json()["faults"][0]
    assert (await api.get(f"/content?provider=1&curl={A}&mimetype=application/json")).body == b"{}"
    assert (await api.get(f"/content?provider=2&curl={A}")).status == 404
    assert (await api.get(f"/content?curl={A}")).status == 400
    assert (await api.get("/content?provider=1&curl=nonsense")).status == 400


@pytest_twisted.ensureDeferred
async def test_what_is_only_polled_is_found_if_it_is_asked_for(api: Api, cache: Cache, host: ContentHost) -> None:
    put(cache, host)
    cache.put(1, A, "text/xml", source=POLLED, fetched_fileid=host.add(b"<rss/>"), len=6)
    cache.put(1, f"{A}f", "text/xml", source=POLLED | WITHDRAWN, fetched_fileid=host.add(b"<f/>"), len=4)
    assert (await api.get(f"/content?provider=1&curl={A}")).body == TEXT
    assert (await api.get(f"/content?provider=1&curl={A}&source=polled")).body == b"<rss/>"
    assert (await api.get(f"/content?provider=1&curl={A}f")).status == 404
    assert (await api.get(f"/content?provider=1&curl={A}f&source=polled")).body == b"<f/>"


@pytest_twisted.ensureDeferred
async def test_what_is_not_there(api: Api, cache: Cache, host: ContentHost) -> None:
    path = put(cache, host)
    for wrong in ("/content/abc", f"{path}/x", f"{path[:-1]}X", "/content/"):
        assert (await api.get(wrong)).status in (400, 404), wrong
    assert (await api.get(f"/content/{'0' * 40}")).status == 404
    cache.delete(1, A)
    assert (await api.get(path)).status == 410
    put(cache, host)
    host.folder.remove(2)
    reply = await api.get(path)
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    cache.put(1, A, len=7, fetched_fileid=host.add(b"longer than that"))
    assert (await api.get(path)).status == 503


@pytest_twisted.ensureDeferred
async def test_no_content_port(backend: Backend, cache: Cache) -> None:
    api = Api(backend)
    try:
        cache.put(1, A)
        reply = await api.get(f"/content/{url_key(1, A, 'text/html').hex()}")
        assert reply.status == 503 and "cannot be read now" in reply.json()["error"]
        package = await api.get("/package?kind=tar")
        for body in (reply.body, package.body):
            assert b"content.sock" not in body and str(backend.home).encode() not in body, (
                "no address of the LCC's own"
            )
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_scope(backend: Backend, cache: Cache, host: ContentHost) -> None:
    path = put(cache, host)
    api = Api(backend, "")
    try:
        assert (await api.get(path)).status == 401
        for providers, content, status in ((None, True, 200), ({1}, True, 200), ({2}, True, 404), (None, False, 403)):
            _, token = add_user(cache, providers, content)
            assert (await api.get(path, Authorization=f"Bearer {token}")).status == status
            named = await api.get(f"/content?provider=1&curl={A}", Authorization=f"Bearer {token}")
            assert named.status == status
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_a_scope_learns_nothing_of_others(backend: Backend, cache: Cache, host: ContentHost) -> None:
    """What others have, in whatever state, gets the same answer as what nobody has."""
    views = [put(cache, host, mimetype="text/html"), put(cache, host, A, b"{}", "application/json")]
    gone = "http://a.example.org/gone.html"
    deleted = put(cache, host, gone)
    cache.delete(1, gone)
    lost = put(cache, host, "http://a.example.org/lost.html", fetched_machineid=77)
    api = Api(backend, "")
    try:
        _, token = add_user(cache, {2}, True)
        bearer = {"Authorization": f"Bearer {token}"}
        unknown = await api.get(f"/content/{'0' * 40}", **bearer)
        named = [f"/content?provider=1&curl={each}" for each in (A, f"{A}x", gone)]
        more = [f"{named[0]}&mimetype=text/html", f"{named[0]}&mimetype=a/b"]
        for path in (*views, deleted, lost, *named, *more):
            for headers in ({}, {"Range": "bytes=900000-"}, {"If_None_Match": "*"}):
                reply = await api.get(path, **bearer, **headers)
                assert (reply.status, reply.body) == (404, unknown.body), path
                assert set(reply.headers) == set(unknown.headers), path
    finally:
        await api.stop()


def break_off(api: Api, path: str) -> None:
    with closing(api.connection()) as connection:
        connection.request("GET", path)
        with connection.getresponse() as response:
            response.read(10)


@pytest_twisted.ensureDeferred
async def test_readers_that_go_away(api: Api, cache: Cache, host: ContentHost) -> None:
    path = put(cache, host, data=b"x" * 5_000_000)
    for _ in range(30):
        await deferToThread(break_off, api, path)
    assert (await api.get(path, Range="bytes=0-0")).body == b"x", "no connection to the content port is left over"
