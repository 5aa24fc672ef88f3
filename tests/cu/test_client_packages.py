"""Pages of a package as a Twisted program reads them: in bounded memory, and complete or cut off."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_twisted
from twisted.internet import reactor

from lcc.client import packages
from lcc.client.blocking import CacheError, CutOff, Refused, StartAgain, TokenRefused
from lcc.client.cache import CacheClient
from lcc.client.packages import PageStream, TarPages, cached_url
from lcc.insight.records import user_record
from lcc.model.headers import header_pairs, stored_headers
from lcc.model.spider.links import Page
from lcc.roles.cu.packages import tarball
from lcc.roles.cu.packages.tarball import tar_header
from tests.support.cache import Cache
from tests.support.packages import A, Unpacked, put
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost

HEADER = stored_headers([("Server", "x"), ("LINK", "<b>; rel=next"), ("X-Robots-Tag", "nofollow"), ("Link", "<c>")])


@pytest_twisted.async_yield_fixture
async def users(api: Api) -> AsyncIterator[CacheClient]:
    users = CacheClient(reactor, f"http://127.0.0.1:{api.port}", connections_max=2, timeout_seconds=30)
    yield users
    await users.close()


async def all_of(pages: PageStream) -> list[Page]:
    return [page async for page in pages]


def fill(cache: Cache, host: ContentHost) -> None:
    put(cache, host, f"{A}1", b"one", headers=HEADER, fetched_url=f"{A}one", charset="utf-8", source=17)
    put(cache, host, f"{A}2", b"x" * 2000, furl=f"{A}two", burl="-", pid=2)
    cache.delete(1, f"{A}gone")
    put(cache, host, f"{A}empty", b"")
    put(cache, None, f"{A}lost", b"lost", fetched_machineid=None, fetched_fileid=None)


@pytest_twisted.ensureDeferred
async def test_pages_have_all_that_users_see(users: CacheClient, cache: Cache, host: ContentHost, api: Api) -> None:
    fill(cache, host)
    stream = await users.packages(content_bytes_max=1000)
    one, two, gone, empty, lost = pages = await all_of(stream)
    rows = Unpacked((await api.get("/package?kind=tar&since=0")).body).rows
    assert [user_record(page.row) for page in pages] == [
        {name: value for name, value in row.items() if name not in ("file", "missing")} for row in rows
    ]
    assert (one.content, one.whole, one.url) == (b"one", True, f"{A}one")
    assert header_pairs(one.row.headers) == [("LINK", "<b>; rel=next"), ("X-Robots-Tag", "nofollow"), ("Link", "<c>")]
    assert (two.content, two.whole, two.url, two.row.headers) == (b"x" * 1000, False, f"{A}two", "")
    assert (gone.row.state, gone.content, gone.missing) == ("deleted", b"", "")
    assert (empty.content, empty.whole) == (b"", True)
    assert (lost.content, lost.missing) == (b"", "it was lost and is being refetched")
    assert stream.token is not None
    again = await users.packages(stream.token)
    assert (await all_of(again), again.token) == ([], stream.token)
    with pytest.raises(StartAgain):
        await users.packages("0000000000000000.1.0.0")
    for other in ("no token", f"{stream.token.rpartition('.')[0]}.1234"):
        with pytest.raises(TokenRefused):
            await users.packages(other)
    with pytest.raises(Refused) as refused:
        await users.packages(stream.token, nonsense=1)
    assert not isinstance(refused.value, TokenRefused)


@pytest_twisted.ensureDeferred
async def test_a_token_after_some_pages_and_waiting(users: CacheClient, cache: Cache, host: ContentHost) -> None:
    fill(cache, host)
    token, curls = "0", []
    while True:
        stream = await users.packages(token, limit=2, provider=1)
        found = await all_of(stream)
        assert stream.token is not None
        token = stream.token
        if not found:
            break
        curls += [page.row.curl for page in found]
    assert curls == [f"{A}1", f"{A}gone", f"{A}empty", f"{A}lost"]
    coming = users.packages(token, wait=30, provider=1)
    put(cache, host, f"{A}other", b"", pid=2)
    put(cache, host, f"{A}new", b"new")
    assert [page.content for page in await all_of(await coming)] == [b"new"]


@pytest_twisted.ensureDeferred
async def test_a_slow_reader_holds_little(
    users: CacheClient, cache: Cache, host: ContentHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest comes every few contents, and what comes is taken only as it is read."""
    monkeypatch.setattr(tarball, "CONTENT_BYTES_MAX", 100_000)
    monkeypatch.setattr(packages, "AHEAD_BYTES", 100_000)
    for number in range(100):
        put(cache, host, f"{A}{number}", bytes([number]) * 30_000)
    stream = await users.packages()
    most = count = 0
    async for page in stream:
        assert page.content == bytes([count]) * 30_000
        held = stream._tar._contents.values()
        most = max(most, stream._pages._weight + sum(len(content) for content, _ in held))
        count += 1
    assert count == 100 and most < 1_000_000


def a_tar() -> tuple[bytes, dict[str, object]]:
    row = {
        name: None if name in ("fetched_url", "md5", "mtime", "charset", "source", "headers") else "http://a.example/"
        for name in ("curl", "furl", "fetched_url", "burl", "mimetype", "subtype", "md5", "mtime", "charset", "state")
    } | {"key": "00" * 20, "pid": 1, "change": 1, "source": "link", "len": 3, "headers": None}
    row |= dict.fromkeys(("fetched_time", "confirmed_time", "fetched_machineid", "fetched_fileid"))
    lines = json.dumps(row | {"file": "1/x~0.html"}).encode() + b"\n"
    end = b'{"next": "token", "files": 1}\n'
    members = (("1", "x~0.html", b"abc"), ("manifest", "000001.jsonl", lines), ("manifest", "end.json", end))
    parts = [
        tar_header(folder, name, len(data), 0) + data + bytes(-len(data) % 512) for folder, name, data in members
    ]
    return b"".join(parts) + bytes(1024), row


@pytest.mark.parametrize("step", [1, 7, 511, 512, 513, 100_000])
def test_however_it_is_cut_into_pieces(step: int) -> None:
    data, row = a_tar()
    tar = TarPages(2)
    pages = [page for at in range(0, len(data), step) for page in tar.split(data[at : at + step])]
    assert pages == [Page(cached_url(row), b"ab", False)]
    assert tar.end == {"next": "token", "files": 1}


def test_what_is_no_package_of_an_lcc() -> None:
    data, _ = a_tar()
    wrong = (
        b"<html>" * 100,
        data.replace(b"ustar", b"vstar"),
        data.replace(b'"key"', b'"yek"'),
        data.replace(b'"file"', b'"elif"'),
        data.replace(b"1/x~0", b"2/x~0"),
        data.replace(b'"curl"', b'"lruc"'),
        tar_header("manifest", "000001.jsonl", packages.MANIFEST_BYTES_MAX + 1, 0),
        data[:124] + b"x" * 11 + data[135:],
    )
    for each in wrong:
        with pytest.raises(CacheError):
            TarPages(100).split(each)


@pytest_twisted.ensureDeferred
async def test_a_package_that_is_cut_off(users: CacheClient, cache: Cache, host: ContentHost) -> None:
    for number in range(100):
        put(cache, host, f"{A}{number}", b"x" * 100_000)
    stream = await users.packages()
    with pytest.raises(CutOff):
        async for page in stream:
            if page.row.change == 1:
                stream._pages._producer.transport.loseConnection()
    assert stream.token is None
