"""The cache as a source of ResourceSync: its documents; and PyPI's resync client, which ends with what is cached."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from random import Random
from time import sleep
from typing import Any, NamedTuple

import pytest
import pytest_twisted
from lxml import etree
from twisted.internet.threads import deferToThread

from lcc.domain.keys import url_key
from lcc.model import Provider
from lcc.roles.cu.resourcesync import CHANGES_EACH
from lcc.roles.cu.web.resourcesync import Lists
from lcc.storage.database.tables.status import database_epoch
from lcc.storage.providers.providers import add_provider
from tests.support.cache import NOW, Cache, add_user
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost
from tests.support.switches import LONG

SM, RS = "{http://www.sitemaps.org/schemas/sitemap/0.9}", "{http://www.openarchives.org/rs/terms/}"
ROOT = "http://a.example.org/"
WELL_KNOWN = "/.well-known/resourcesync"


class Entry(NamedTuple):
    loc: str
    lastmod: str
    said: dict[str, str]
    links: dict[str, dict[str, str]]


class Document:
    def __init__(self, data: bytes) -> None:
        root = etree.fromstring(data)
        self.kind = root.tag.removeprefix(SM)
        self.said = dict(root.find(f"{RS}md").attrib)
        self.links = {link.get("rel"): link.get("href") for link in root.findall(f"{RS}ln")}
        self.entries = list(self._entries(root))

    @staticmethod
    def _entries(root: Any) -> Iterator[Entry]:
        for entry in [*root.findall(f"{SM}url"), *root.findall(f"{SM}sitemap")]:
            said = entry.find(f"{RS}md")
            links = {link.get("rel"): dict(link.attrib) for link in entry.findall(f"{RS}ln")}
            lastmod = entry.findtext(f"{SM}lastmod") or ""
            yield Entry(entry.findtext(f"{SM}loc"), lastmod, {} if said is None else dict(said.attrib), links)


async def read(api: Api, url: str) -> Document:
    reply = await api.get(url.removeprefix(f"http://127.0.0.1:{api.port}"))
    assert reply.status == 200, (url, reply.body)
    assert reply.headers["content-type"] == "application/xml"
    return Document(reply.body)


def provide(cache: Cache, *roots: str) -> None:
    for number, root in enumerate(roots):
        cache.database.now(add_provider, Provider(0, (root,), str(number)))


def put(cache: Cache, host: ContentHost, name: str, data: bytes = b"content", **more: Any) -> str:
    """Cache a page of provider 1; the name of its file at a client."""
    cache.put(1, ROOT + name, len=len(data), fetched_fileid=host.add(data), **more)
    return url_key(1, ROOT + name, "text/html").hex()


@pytest_twisted.ensureDeferred
async def test_from_the_description_to_the_content(api: Api, cache: Cache, host: ContentHost) -> None:
    provide(cache, ROOT, "http://b.example.org/")
    here = f"http://127.0.0.1:{api.port}"
    odd = put(cache, host, 'x?a=1&b="<', furl="http://a.example.org/fetch?me&you")
    gone = put(cache, host, "gone")
    cache.put(1, f"{ROOT}lost", md5="", fetched_fileid=None, fetched_machineid=None)
    cache.put(2, "http://b.example.org/")
    cache.delete(1, f"{ROOT}gone")
    described = await read(api, WELL_KNOWN)
    lists = [entry.loc for entry in described.entries]
    assert lists == [f"{here}/resourcesync/{pid}/capabilitylist.xml" for pid in (1, 2)]
    assert described.said == {"capability": "description"}
    assert [entry.said for entry in described.entries] == [{"capability": "capabilitylist"}] * 2
    capabilities = await read(api, lists[0])
    assert (capabilities.said, capabilities.links) == ({"capability": "capabilitylist"}, {"up": here + WELL_KNOWN})
    found = {entry.said["capability"]: entry.loc for entry in capabilities.entries}
    assert set(found) == {"resourcelist", "changelist"}

    resources = await read(api, found["resourcelist"])
    assert resources.said == {"capability": "resourcelist", "at": "2023-11-14T22:13:25Z"}
    assert resources.links == {"up": lists[0]}
    (entry,) = resources.entries
    assert (entry.loc, entry.lastmod) == (f"{here}/content/{odd}", "2023-11-14T22:13:21Z")
    assert entry.said == {"hash": f"md5:{1:032x}", "length": "7", "type": "text/html"}
    original = {"rel": "via", "href": "http://a.example.org/fetch?me&you", "modified": "2023-11-14T22:13:20Z"}
    assert entry.links == {"via": original}
    assert (await api.get(entry.loc.removeprefix(here))).body == b"content"

    changes = await read(api, found["changelist"])
    assert changes.said == {"capability": "changelist", "from": "2023-11-14T22:13:21Z"}
    told = [(each.loc, each.said["change"], each.said["datetime"]) for each in changes.entries]
    assert told == [
        (f"{here}/content/{odd}", "updated", "2023-11-14T22:13:21Z"),
        (f"{here}/content/{gone}", "deleted", "2023-11-14T22:13:25Z"),
    ]
    assert changes.entries[1].lastmod == "2023-11-14T22:13:25Z" and "hash" not in changes.entries[1].said


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_long_lists_have_parts(
    api: Api, cache: Cache, host: ContentHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes while they are read is not newer than they are: who goes on from there misses nothing."""
    monkeypatch.setattr(Lists, "resources_each", 4)
    monkeypatch.setattr(Lists, "changes_each", 7)
    provide(cache, ROOT, "http://b.example.org/")
    keys = {put(cache, host, str(number)) for number in range(20)}
    cache.put(2, "http://b.example.org/")
    cache.database.query("INSERT INTO pstats (pid, files_used) VALUES (1, 20)")
    index = await read(api, "/resourcesync/1/resourcelist.xml")
    assert (index.kind, index.said["at"]) == ("sitemapindex", "2023-11-14T22:13:41Z")
    parts = [entry.loc for entry in index.entries]
    assert len(parts) == 5 and parts == sorted(parts), "as the client reads them"
    put(cache, host, "5", b"later")
    found = []
    for part in parts:
        document = await read(api, part)
        assert document.said == index.said
        assert document.links == {
            **index.links,
            "index": f"http://127.0.0.1:{api.port}/resourcesync/1/resourcelist.xml",
        }
        found += [entry.loc.rpartition("/")[2] for entry in document.entries]
        assert all(entry.lastmod <= index.said["at"] for entry in document.entries)
    assert sorted(found) == sorted(keys)

    index = await read(api, "/resourcesync/1/changelist.xml")
    parts = [entry.loc for entry in index.entries]
    assert (index.kind, len(parts), parts) == ("sitemapindex", 4, sorted(parts))
    said = [entry.said for entry in index.entries]
    assert [each["until"] for each in said[:-1]] == [each["from"] for each in said[1:]] and "until" not in said[-1]
    changes = [entry for part in parts for entry in (await read(api, part)).entries]
    assert [entry.said["datetime"] for entry in changes] == sorted(entry.said["datetime"] for entry in changes)
    assert {entry.loc.rpartition("/")[2] for entry in changes} == keys and len(changes) == 20
    cache.database.query("UPDATE counters SET value = 10 WHERE name = 'forgotten'")
    index = await read(api, "/resourcesync/1/changelist.xml")
    assert index.said["from"] == "2023-11-14T22:13:31Z", "deletions before that are not known"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_who_sees_what(backend: Backend, api: Api, cache: Cache, host: ContentHost) -> None:
    provide(cache, ROOT, "http://b.example.org/")
    put(cache, host, "x")
    _, token = add_user(cache, {2, 7})
    scoped = {"Authorization": f"Bearer {token}"}
    described = Document((await api.get(WELL_KNOWN, **scoped)).body)
    assert [entry.loc.split("/")[-2] for entry in described.entries] == ["2"]
    for name in ("capabilitylist.xml", "resourcelist.xml", "changelist.xml", "resourcelist/1-1-0.xml"):
        assert (await api.get(f"/resourcesync/1/{name}", **scoped)).status == 404
        assert (await api.get(f"/resourcesync/2/{name}", **scoped)).status == 200
        assert (await api.get(f"/resourcesync/9/{name}")).status == 404, "there is no such provider"
    _, rows = add_user(cache, content=False)
    assert (await api.get(WELL_KNOWN, Authorization=f"Bearer {rows}")).status == 403
    closed = Api(backend, 'without_token = "nothing"\nlisten_xml = ""', home="closed")
    try:
        assert (await closed.get(WELL_KNOWN)).status == 401
        assert (await closed.get("/resourcesync/1/resourcelist.xml")).status == 401
    finally:
        await closed.stop()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_what_there_is_not(backend: Backend, api: Api, cache: Cache) -> None:
    provide(cache, ROOT)
    epoch = cache.database.now(database_epoch)
    wide = f"changelist/{0:019}-{CHANGES_EACH + 1:019}-{epoch}.xml"
    far = f"resourcelist/{2**63}-1-0.xml"
    odd = (
        "",
        "x.xml",
        "resourcelist",
        "resourcelist/1-0-0.xml",
        "resourcelist/1-2-2.xml",
        "resourcelist/1-99999-5.xml",
    )
    for name in (
        *odd,
        wide,
        far,
        f"changelist/5-4-{epoch}.xml",
        f"changelist/{0:019}-{5:019}.xml",
        f"changelist/{0:019}-{5:019}-another.xml",
        "capabilitylist.xml/x",
        "resourcelist/1-1-0.xml/x",
        "%ff.xml",
    ):
        assert (await api.get(f"/resourcesync/1/{name}")).status == 404, name
    for pid in ("0", "x", "-1", f"{2**31}", "%ff"):
        assert (await api.get(f"/resourcesync/{pid}/capabilitylist.xml")).status == 404, pid
    assert (await api.get("/.well-known/other")).status == 404
    for host in ("a b", 'x"/>', "h" * 300, "", "h:port"):
        assert (await api.get(WELL_KNOWN, Host=host)).status == 400, host
    for host in ("Cache.example:8080", "[::1]:80"):
        reply = await api.get(WELL_KNOWN, Host=host)
        assert f"<loc>http://{host.lower()}/resourcesync/1/capabilitylist.xml" in reply.body.decode()
    assert (await api.get(WELL_KNOWN, "HEAD")).body == b""
    named = Api(backend, 'without_token = "content"\nurl = "https://cache.example"\nlisten_xml = ""', home="named")
    try:
        assert b"<loc>https://cache.example/resourcesync/1/" in (await named.get(WELL_KNOWN, Host="no no")).body
    finally:
        await named.stop()


# PyPI's client.


class Client:
    """``resync-sync`` with a folder of its own."""

    def __init__(self, api: Api, folder: Path) -> None:
        self._base = f"http://127.0.0.1:{api.port}"
        self._folder = folder
        (folder / "copy").mkdir()

    def begin(self, *options: str) -> subprocess.Popen[bytes]:
        program = Path(sys.prefix) / "resync" / "bin" / "resync-sync"
        assert program.exists(), "make venv installs it"
        lists = f"{self._base}/resourcesync/1"
        return subprocess.Popen(
            [
                *(str(program), *options, "--delete", "--tries", "1"),
                *("--sitemap", f"{lists}/resourcelist.xml"),
                # With --hash it fails in --incremental.
                *(
                    ["--changelist-uri", f"{lists}/changelist.xml"]
                    if "--incremental" in options
                    else ["--hash", "md5"]
                ),
                *(f"{self._base}/content", str(self._folder / "copy")),
            ],
            cwd=self._folder,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, *options: str) -> str:
        """Run it to its end; what it has said."""
        process = self.begin(*options)
        out, err = process.communicate(timeout=300)
        said = (out + err).decode()
        assert process.returncode == 0 and "FatalError" not in said, said
        return said

    def run_and_kill(self, seconds: float, *options: str) -> None:
        process = self.begin(*options)
        sleep(seconds)
        process.kill()
        process.communicate()

    def copy(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self._folder / "copy").iterdir()}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="resync 2.0.1 needs distutils")
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("seed", range(7, 12) if LONG else [7])
@pytest_twisted.ensureDeferred
async def test_the_resync_client(
    backend: Backend,
    api: Api,
    cache: Cache,
    host: ContentHost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """It ends with what is cached, also if it is killed again and again while that changes."""
    monkeypatch.setattr(Lists, "resources_each", 5)
    random = Random(seed)
    provide(cache, ROOT)
    cache.database.query("INSERT INTO pstats (pid, files_used) VALUES (1, 20)")
    wanted: dict[str, bytes] = {}
    latest = NOW

    def change() -> None:
        nonlocal latest
        latest += random.choice((0, 0, 1, 60))
        name = str(random.randrange(20))
        key = url_key(1, ROOT + name, "text/html").hex()
        if key in wanted and random.random() < 0.3:
            cache.delete(1, ROOT + name, change_time=latest)
            del wanted[key]
        else:
            data = random.randbytes(random.choice((0, 10, 50_000)))
            put(cache, host, name, data, md5=_md5(data), change_time=latest, mtime=random.choice((None, 5, NOW * 2)))
            wanted[key] = data

    client = Client(api, tmp_path)
    for _ in range(30):
        change()
    if LONG:
        for _ in range(6):
            await deferToThread(client.run_and_kill, random.uniform(0.2, 1.0), "--baseline")
            change()
    await deferToThread(client.run, "--baseline")
    assert client.copy() == wanted
    for turn in range(12 if LONG else 2):
        for _ in range(8):
            change()
        if turn % 2:
            await deferToThread(client.run_and_kill, random.uniform(0.2, 1.0), "--incremental")
            change()
        said = await deferToThread(client.run, "--incremental")
        assert client.copy() == wanted, said


def _md5(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()
