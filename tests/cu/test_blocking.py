"""The blocking face, against the real interface."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.ssl import Certificate, trustRootFromCertificates
from twisted.internet.threads import deferToThread

from lcc.client import blocking
from lcc.client.addresses import AddressError
from lcc.client.blocking import CacheError, CutOff, Gone, Refused, StartAgain
from lcc.client.cache import CacheClient
from lcc.storage.views import selected
from tests.support.cache import Cache, add_user
from tests.support.certificates import Authority
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost

A = "http://a.example.org/"


@pytest.fixture
def api(api: Api, cache: Cache, host: ContentHost) -> Api:
    """There are two pages."""
    for file_id, data in (1, b"one" * 100_000), (2, b""):
        assert host.add(data) == file_id
        cache.put(1, f"{A}{file_id}", len=len(data), fetched_fileid=file_id, charset="utf-8")
    return api


async def use(api: Api, do: Callable[[blocking.Cache], Any], token: str | None = None) -> Any:
    """Do something with the blocking face in another thread."""

    def with_cache() -> Any:
        with blocking.Cache(f"http://127.0.0.1:{api.port}", token, timeout_seconds=30) as cache:
            return do(cache)

    return await deferToThread(with_cache)


@pytest_twisted.ensureDeferred
async def test_rows_changes_and_content(api: Api, cache: Cache) -> None:
    def read(cache_: blocking.Cache) -> None:
        assert {row["curl"] for row in cache_.urls(mimetype=["text/*", "image/*"], provider=1)} == {f"{A}1", f"{A}2"}
        assert list(cache_.urls(provider=2)) == []
        changes = cache_.changes()
        rows = list(changes)
        assert [row["change"] for row in rows] == [1, 2] and changes.token
        content = cache_.content(rows[0])
        assert (content.size_bytes, content.mimetype, content.md5) == (
            300_000,
            "text/html; charset=utf-8",
            rows[0]["md5"],
        )
        assert content.read() == b"one" * 100_000
        assert cache_.content(rows[1]["key"]).read() == b""
        again = cache_.changes(changes.token)
        assert list(again) == [] and again.token == changes.token

    await use(api, read)


@pytest_twisted.ensureDeferred
async def test_one_connection_is_used_again_and_again(api: Api) -> None:
    def read(cache: blocking.Cache) -> None:
        (first, *_) = [*cache.urls()]
        connection = cache._idle
        assert connection is not None
        for _ in range(3):
            assert cache.content(first).read() is not None
            assert list(cache.urls(limit=1))
        assert cache._idle is connection
        # A second call while the first one is being read.
        rows = iter(cache.urls())
        row = next(rows)
        assert cache.content(row).read() is not None
        assert len(list(rows)) == 1

    await use(api, read)


@pytest_twisted.ensureDeferred
async def test_what_goes_wrong(api: Api, cache: Cache) -> None:
    def read(cache: blocking.Cache) -> None:
        for fields, text in (({"colour": "red"}, "'colour' is not known"), ({"limit": "x", "prefix": "y"}, "prefix")):
            with pytest.raises(Refused, match=text) as caught:
                cache.urls(**fields)
            assert caught.value.status == 400
        with pytest.raises(StartAgain):
            cache.changes("0000000000000000.1.0.0")
        with pytest.raises(Gone):
            cache.content("0" * 40)

    await use(api, read)
    with pytest.raises(CacheError, match="is unreachable"):
        await deferToThread(blocking.Cache("unix:/nonexistent/socket").urls)


@pytest_twisted.ensureDeferred
async def test_tokens(backend: Backend, cache: Cache) -> None:
    cache.put(1, A)
    _, token = add_user(cache)
    api = Api(backend, "")
    try:
        assert len(await use(api, lambda cache: list(cache.urls()), token)) == 1
        with pytest.raises(Refused, match="a token is needed"):
            await use(api, lambda cache: cache.urls())
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_an_answer_that_is_cut_off(api: Api, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 20)
    cache.fill(20_000)

    def read(cache_: blocking.Cache) -> None:
        rows = iter(cache_.changes())
        next(rows)
        cache.database.now(lambda txn: txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'"))
        with pytest.raises(CutOff):
            list(rows)

    await use(api, read)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_over_tls(backend: Backend, cache: Cache) -> None:
    cache.put(1, A)
    key, certificate, authority = Authority().write(backend.home, "localhost")
    endpoint = f"tls:0:interface=127.0.0.1:key={key}:certificate={certificate}"
    api = Api(backend, 'without_token = "rows"', endpoint)
    address = f"https://localhost:{api.port}"

    def read(context: ssl.SSLContext | None) -> int:
        with blocking.Cache(address, timeout_seconds=30, context=context) as cache:
            return len(list(cache.urls()))

    trust_root = trustRootFromCertificates([Certificate.loadPEM(authority.read_bytes())])
    users = CacheClient(reactor, address, trust_root=trust_root)
    strangers = CacheClient(reactor, address)
    try:
        assert await deferToThread(read, ssl.create_default_context(cafile=str(authority))) == 1
        with pytest.raises(CacheError, match="CERTIFICATE_VERIFY_FAILED"):
            await deferToThread(read, None)
        assert len([row async for row in await users.urls()]) == 1
        with pytest.raises(CacheError, match="is unreachable"):
            await strangers.urls()
    finally:
        await users.close()
        await strangers.close()
        await api.stop()


@pytest.mark.parametrize("text", ["", "unix:", "ftp://h", "http://", "http://h/x", "http://u@h", "http://[", "h:80"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(AddressError):
        blocking.Cache(text)


@pytest.mark.parametrize("token", ["", "a b", "1-0\n", "1-0\r\nX: y", "caf\xe9", "\u65e5"])
def test_what_can_be_no_token(token: str) -> None:
    with pytest.raises(AddressError, match="token"):
        blocking.Cache("http://127.0.0.1:1", token)
    with pytest.raises(AddressError, match="token"):
        CacheClient(reactor, "http://127.0.0.1:1", token)


class _NoLcc(BaseHTTPRequestHandler):
    """A web server that answers everything with a page."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b"<p>Welcome!</p>\n" if "prefix" in self.path else b"[1]\n"
        self.send_response(200)
        for name, value in (("Content-Type", "text/html"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest_twisted.ensureDeferred
async def test_somebody_else_answers() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _NoLcc) as server:
        running = deferToThread(server.serve_forever)
        address = f"http://127.0.0.1:{server.server_port}"

        def ask() -> None:
            with blocking.Cache(address) as cache:
                for fields in ({}, {"prefix": A}):
                    with pytest.raises(CacheError, match="not the content user API"):
                        list(cache.urls(**fields))
                with pytest.raises(CacheError, match="not the content user API"):
                    cache.content("0" * 40)

        await deferToThread(ask)
        client = CacheClient(reactor, address)
        try:
            with pytest.raises(CacheError, match="not the content user API"):
                _ = [row async for row in await client.urls()]
            with pytest.raises(CacheError, match="not the content user API"):
                await client.content("0" * 40)
        finally:
            await client.close()
            await deferToThread(server.shutdown)
            await running
