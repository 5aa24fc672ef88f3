"""Packages over HTTP: tar and tar.gz, with content of this machine and of others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import pytest_twisted

from lcc.roles.cu.packages import bodies
from lcc.storage.disk.content_paths import content_path
from lcc.storage.views import selected
from tests.support.cache import NOW, Cache, add_user
from tests.support.databases import Backend
from tests.support.packages import A, Unpacked, put
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost

LARGE = bytes(range(256)) * 20_000
"""Larger than what is held in memory."""


def fill(cache: Cache, host: ContentHost) -> dict[str, bytes]:
    contents = {
        A: b"<p>the root",
        f"{A}docs": b"a page that is not a folder",
        f"{A}docs/index.html": b"",
        f"{A}docs/large.bin": LARGE,
        f"{A}%2E%2E/%2e%2e//etc/passwd": b"harmless",
        f"{A}{'deep/' * 60}{'long' * 60}.html?{'q' * 300}": b"long",
        "http://b.example.org:8080/page.php?id=3&x=~/../": b"query",
    }
    for curl, data in contents.items():
        put(cache, host, curl, data, "application/octet-stream" if curl.endswith(".bin") else "text/html")
    return contents


@pytest.mark.parametrize("kind", ["tar", "tar.gz"])
@pytest_twisted.ensureDeferred
async def test_everything_is_in_it(
    api: Api, cache: Cache, host: ContentHost, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 3)
    contents = fill(cache, host)
    reply = await api.get(f"/package?kind={kind}")
    assert reply.status == 200
    assert reply.headers["content-disposition"] == f'attachment; filename="lcc.{kind}"'
    found = Unpacked(reply.body)
    assert found.contents() == contents
    assert found.end == {"next": None, "files": len(contents), "deleted": 0, "missing": 0}
    assert found.manifests[0] == "manifest/000001.jsonl" and len(found.manifests) > 2
    assert set(found.times.values()) == {NOW}
    (row,) = [row for row in found.rows if row["curl"] == f"{A}docs/index.html"]
    assert row["file"] == f"1/a.example.org/docs/index~{row['key'][8:]}.html"
    # The system's tar takes it, and everything stays below the folder.
    (tmp_path / "package").write_bytes(reply.body)
    (tmp_path / "out" / "in").mkdir(parents=True)
    done = subprocess.run(["tar", "-xf", tmp_path / "package", "-C", tmp_path / "out/in"], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["in"]
    for name, data in found.files.items():
        assert (tmp_path / "out/in" / name).read_bytes() == data


@pytest_twisted.ensureDeferred
async def test_changes_with_deletions(api: Api, cache: Cache, host: ContentHost) -> None:
    put(cache, host, f"{A}1", b"one")
    put(cache, host, f"{A}2", b"two")
    first = Unpacked((await api.get("/package?kind=tar&since=0")).body)
    assert first.contents() == {f"{A}1": b"one", f"{A}2": b"two"}
    cache.delete(1, f"{A}1")
    put(cache, host, f"{A}3", b"three", "text/plain")
    second = Unpacked((await api.get(f"/package?kind=tar.gz&since={first.end['next']}")).body)
    assert [(row["curl"], row["state"]) for row in second.rows] == [(f"{A}1", "deleted"), (f"{A}3", "cached")]
    assert second.contents() == {f"{A}3": b"three"}
    assert {**second.end, "next": ""} == {"next": "", "files": 1, "deleted": 1, "missing": 0}
    third = Unpacked((await api.get(f"/package?kind=tar&since={second.end['next']}")).body)
    assert third.rows == [] and third.end["next"] == second.end["next"]


@pytest_twisted.ensureDeferred
async def test_a_selection(api: Api, cache: Cache, host: ContentHost) -> None:
    put(cache, host, f"{A}1", b"one")
    put(cache, host, f"{A}2", b"two", "image/png")
    put(cache, host, f"{A}3", b"three", pid=2)
    for asked, names in (("mimetype=image/*", "2"), ("provider=2", "3"), (f"prefix={A}&limit=1", None)):
        found = Unpacked((await api.get(f"/package?kind=tar&{asked}")).body)
        assert len(found.files) == 1 and names in (None, *(row["curl"][-1] for row in found.rows))


@pytest_twisted.ensureDeferred
async def test_content_of_other_machines(api: Api, cache: Cache, host: ContentHost, backend: Backend) -> None:
    """What is not in this machine's folder is read through the content port, large and small."""
    contents = fill(cache, host)
    cache.database.now(lambda txn: txn.execute("UPDATE lccurl SET fetched_machineid = 2"))
    host.as_machine(2)
    found = Unpacked((await api.get("/package?kind=tar.gz")).body)
    assert found.contents() == contents
    assert not [path for path in backend.home.iterdir() if path.name.startswith("tmp")]


@pytest_twisted.ensureDeferred
async def test_content_behind_another_content_port(backend: Backend, cache: Cache, host: ContentHost) -> None:
    other = ContentHost(backend.home / "other", machine=2, endpoint="tcp:0:interface=127.0.0.1")
    host.knows[2] = f"http://127.0.0.1:{other.port}"
    api = Api(backend)
    try:
        for number in range(20):
            put(cache, host, f"{A}here/{number}", b"here%d" % number)
            put(cache, other, f"{A}there/{number}", b"there%d" % number, fetched_machineid=2)
        found = Unpacked((await api.get("/package?kind=tar")).body)
        assert found.contents() == {
            f"{A}{at}/{n}": f"{at}{n}".encode() for at in ("here", "there") for n in range(20)
        }
        assert other.connections == 1 and host.asked <= 2
    finally:
        await api.stop()
        await other.stop()


@pytest_twisted.ensureDeferred
async def test_what_cannot_be_had_is_said(api: Api, cache: Cache, host: ContentHost, backend: Backend) -> None:
    put(cache, host, f"{A}good", b"good")
    put(cache, host, f"{A}damaged", b"as it was fetched")
    path = backend.home / "content" / content_path(2)
    path.write_bytes(b"as it was damaged"[:17])
    put(cache, host, f"{A}lost", b"lost", fetched_fileid=None)
    put(cache, host, f"{A}away", b"away", fetched_machineid=9)
    put(cache, host, f"{A}shorter", b"shorter", len=8)
    found = Unpacked((await api.get("/package?kind=tar")).body)
    assert found.contents() == {f"{A}good": b"good"} and found.end["missing"] == 4
    reasons = {row["curl"].rpartition("/")[2]: row.get("missing", "") for row in found.rows}
    assert reasons["good"] == "" and "md5" in reasons["damaged"] and "refetched" in reasons["lost"]
    assert "this is machine 1, not 9" in reasons["away"] and "7 bytes instead of 8" in reasons["shorter"]


@pytest_twisted.ensureDeferred
async def test_what_changes_meanwhile_is_taken_as_it_is_now(
    api: Api, cache: Cache, host: ContentHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("replaced", "deleted", "left", "gone"):
        put(cache, host, A + name, b"old " + name.encode(), subtype="a: b")
    opened = bodies.Bodies.open
    done = False

    def change_first(self: bodies.Bodies, row: object) -> bodies.Body:
        nonlocal done
        if not done:
            done = True
            put(cache, host, f"{A}replaced", b"new replaced", subtype="a: b")
            cache.delete(1, f"{A}deleted")
            put(cache, host, f"{A}left", b"new left", subtype="c: d")
            for file_id in range(1, 5):
                host.folder.remove(file_id)
        return opened(self, row)  # type: ignore[arg-type]

    monkeypatch.setattr(bodies.Bodies, "open", change_first)
    found = Unpacked((await api.get("/package?kind=tar&since=0&subtype=a:%20b")).body)
    assert found.contents() == {f"{A}replaced": b"new replaced"}
    states = {
        row["curl"].removeprefix(A): (row["state"], row["file"] is None, "missing" in row) for row in found.rows
    }
    assert states == {
        "replaced": ("cached", False, False),
        "deleted": ("deleted", True, False),
        "left": ("deleted", True, False),
        "gone": ("cached", True, True),
    }
    # They come again with the next token, as they are.
    assert found.end["deleted"] == 2 and found.end["missing"] == 1
    done = False
    monkeypatch.undo()
    again = Unpacked((await api.get(f"/package?kind=tar&since={found.end['next']}&subtype=a:%20b")).body)
    assert {row["curl"].removeprefix(A) for row in again.rows} == {"replaced", "deleted", "left"}


@pytest_twisted.ensureDeferred
async def test_a_token_for_some_providers_gets_packages_of_those(
    backend: Backend, cache: Cache, host: ContentHost
) -> None:
    put(cache, host, f"{A}1", b"one", pid=1)
    put(cache, host, f"{A}2", b"two", pid=2)
    _, token = add_user(cache, {2})
    api = Api(backend, "")
    try:
        for asked in ("", "&since=0", "&provider=1&provider=2"):
            reply = await api.get(f"/package?kind=tar{asked}", Authorization=f"Bearer {token}")
            assert Unpacked(reply.body).contents() == {f"{A}2": b"two"}, asked
        reply = await api.get("/package?kind=tar&provider=1", Authorization=f"Bearer {token}")
        assert Unpacked(reply.body).contents() == {}
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_refusals(backend: Backend, cache: Cache) -> None:
    _, token = add_user(cache, content=False)
    api = Api(backend, "packages_max = 1")
    try:
        assert (await api.get("/package?kind=tar")).status == 401
        assert (await api.get("/package?kind=tar", Authorization=f"Bearer {token}")).status == 403
        _, token = add_user(cache)
        bearer = {"Authorization": f"Bearer {token}"}
        for wrong in ("", "?kind=zip", "?kind=tar&kind=tar", "?kind=tar&colour=red", "?kind=tar&since=x"):
            reply = await api.get(f"/package{wrong}", **bearer)
            assert reply.status == 400 and reply.json()["faults"], wrong
        assert (await api.get("/package?kind=tar&since=0000000000000000.1.0.0", **bearer)).status == 410
        reply = await api.get("/package?kind=tar.gz", "HEAD", **bearer)
        assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"", "application/gzip")
    finally:
        await api.stop()
