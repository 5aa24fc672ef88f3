"""``lcc-export tar``, ``tar.gz`` and ``warc``; the WARC is replayed by pywb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.protocols import cdxj
from lcc.roles.cu.packages.packing import Packing
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend
from tests.support.logs import LoggedErrors
from tests.support.packages import A, Unpacked, put
from tests.support.ports import free_port, listens
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost
from tests.support.waiting import wait_for

from .kit import export

HEADERS = json.dumps(["Content-Type", "text/html; charset=utf-8", "Content-Encoding", "gzip", "X-Seen", "yes"])
LARGE = bytes(range(256)) * 20_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where packages are written."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("kind", ["tar", "tar.gz"])
@pytest_twisted.ensureDeferred
async def test_tar(api: Api, cache: Cache, host: ContentHost, kind: str, folder: Path) -> None:
    put(cache, host, f"{A}1", b"one")
    put(cache, host, f"{A}2", LARGE, "image/png")
    output = folder / f"package.{kind}"
    done = await export(api, kind, "-o", output)
    assert done.stdout == b"2 contents, 0 deleted\n" and done.stderr == b""
    assert Unpacked(output.read_bytes()).contents() == {f"{A}1": b"one", f"{A}2": LARGE}
    assert list(folder.iterdir()) == [output] and output.stat().st_mode & 0o400
    types = ("--mimetype", "text/*", "--mimetype", "a/b")
    done = await export(api, kind, "-o", output, "--since", "0", *types, "--json")
    said = json.loads(done.stdout)
    assert Unpacked(output.read_bytes()).end == said and said["files"] == 1
    cache.delete(1, f"{A}1")
    done = await export(api, kind, "-o", "-", "--since", said["next"], *types)
    assert [row["state"] for row in Unpacked(done.stdout).rows] == ["deleted"]
    assert done.stderr.startswith(b"0 contents, 1 deleted\nnext: ")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_what_goes_wrong(api: Api, cache: Cache, host: ContentHost, backend: Backend, folder: Path) -> None:
    put(cache, host, f"{A}1", b"one")
    put(cache, host, f"{A}2", b"two", fetched_machineid=9)
    output = folder / "x.tar"
    done = await export(api, "tar", "-o", output, code=5)
    assert b"1 contents are missing" in done.stderr and len(Unpacked(output.read_bytes()).files) == 1
    kept = output.read_bytes()
    await export(api, "tar", "-o", output, "--since", "0000000000000000.1.0.0", code=3)
    await export(api, "tar", "-o", output, "--since", "nonsense", code=2)
    done = await export(api, "tar", "-o", output, code=1, LCC_TOKEN="1-0\nX: y")
    assert done.stderr.startswith(b"Error: LCC_TOKEN: invalid token")
    os.mkfifo(folder / "fifo")
    done = await export(api, "tar", "-o", folder / "fifo", code=1)
    assert b"not a regular file" in done.stderr and (folder / "fifo").is_fifo()
    (folder / "fifo").unlink()
    await export(api, "tar", "-o", output, "--prefix", "nonsense", code=2)
    await export(api, "tar", "-o", folder / "none" / "x.tar", code=1)
    await export(api, "--token-file", folder / "none", "tar", "-o", output, code=1)
    await export(api, "tar", "-o", output, code=2, LCC_TOKEN="1-0123")
    await export(api, "--from", "nonsense", "tar", "-o", output, code=2)
    await export(api, "--from", f"unix:{folder}/none", "tar", "-o", output, code=4)
    assert output.read_bytes() == kept and list(folder.iterdir()) == [output]
    (folder / "token").write_text(add_user(cache)[1] + "\n")
    await export(api, "--token-file", folder / "token", "tar", "-o", output, code=5)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("kind", ["tar", "tar.gz", "warc"])
@pytest_twisted.ensureDeferred
async def test_a_package_that_is_cut_off_leaves_no_file(
    api: Api,
    cache: Cache,
    host: ContentHost,
    kind: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged_errors: LoggedErrors,
) -> None:
    put(cache, host, f"{A}1", LARGE)

    def break_off(*_: object) -> Iterator[bytes]:
        raise OSError("the disk reported a fault")
        yield b""

    monkeypatch.setattr(Packing, "end", break_off)
    done = await export(api, kind, "-o", folder / "x", code=4)
    assert b"cut off" in done.stderr and list(folder.iterdir()) == []
    assert len(logged_errors.flush("the disk reported a fault")) == 1


@contextmanager
def replay(folder: Path) -> Iterator[str]:
    """pywb over the WARC and its index in this folder; gives the collection's address."""
    port = free_port()
    (folder / "config.yaml").write_text(
        f"collections:\n  lcc:\n    index_paths: {folder}/x.cdxj\n    archive_paths: {folder}/\n"
    )
    program = Path(sys.prefix) / "replay" / "bin" / "wayback"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-b", "127.0.0.1", "-p", str(port), "-d", folder], stdout=log, stderr=log, cwd=folder
        )
    try:
        wait_for("pywb listens", lambda: process.poll() is not None or listens(port))
        assert process.poll() is None, (folder / "log").read_text()
        yield f"http://127.0.0.1:{port}/lcc"
    finally:
        process.terminate()
        process.wait(30)


def fetch(address: str) -> tuple[bytes, dict[str, str]]:
    with urllib.request.urlopen(address, timeout=60) as reply:
        return reply.read(), {name.lower(): value for name, value in reply.headers.items()}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_warc_is_replayed(api: Api, cache: Cache, host: ContentHost, folder: Path) -> None:
    page = b"<html><body><a href='/other?b=2&a=1'>other</a></body></html>"
    put(cache, host, A, page, headers=HEADERS)
    put(cache, host, f"{A}same?b=2&a=1", page, headers=HEADERS)
    put(cache, host, f"{A}large.png", LARGE, "image/png", headers="")
    put(cache, host, "ftp://f.example.org/file.txt", b"by FTP", "text/plain", status=0)
    put(cache, host, f"{A}CASE", b"upper", "text/plain", fetched_time=1_000_000_000)
    put(cache, host, f"{A}case", b"lower", "text/plain", fetched_time=1_250_000_000)
    cache.delete(1, f"{A}deleted")
    await export(api, "warc", "-o", folder / "x.warc.gz", "--since", "0")
    assert sorted(path.name for path in folder.iterdir()) == ["x.cdxj", "x.warc.gz"]
    lines = (folder / "x.cdxj").read_bytes().splitlines()
    assert lines == sorted(lines) and len(lines) == 6
    entries = [json.loads(line.split(b" ", 2)[2]) for line in lines]
    assert [line.split()[0].decode() for line in lines] == [
        *(
            "org,example,a)/",
            *["org,example,a)/case"] * 2,
            "org,example,a)/large.png",
            "org,example,a)/same?a=1&b=2",
            "org,example,f)/file.txt",
        )
    ]
    assert [entry["mime"] for entry in entries] == [
        *("text/html", "text/plain", "text/plain", "image/png", "warc/revisit", "text/plain")
    ]
    assert entries[0]["digest"] == entries[4]["digest"]
    # The index leads to the records.
    data = (folder / "x.warc.gz").read_bytes()
    for entry in entries:
        assert data[int(entry["offset"]) :].startswith(b"\x1f\x8b")

    def read_all() -> None:
        with replay(folder) as collection:
            body, headers = fetch(f"{collection}/20231114221320id_/{A}")
            assert body == page and headers["x-seen"] == "yes"
            assert fetch(f"{collection}/20231114221320id_/{A}same?b=2&a=1")[0] == page
            body, headers = fetch(f"{collection}/20231114221320id_/{A}large.png")
            assert body == LARGE and headers["content-type"] == "image/png"
            # As a browser sees it: links lead into the archive.
            assert f"{collection}/".encode() in fetch(f"{collection}/20231114221320mp_/{A}same?b=2&a=1")[0]
            assert fetch(f"{collection}/20231114221320id_/ftp://f.example.org/file.txt")[0] == b"by FTP"
            # The guide says so: case makes no difference, the nearest time is shown.
            for time, name, shown in (
                ("2001", "CASE", b"upper"),
                ("2009", "CASE", b"lower"),
                ("2009", "case", b"lower"),
            ):
                assert fetch(f"{collection}/{time}0909014640id_/{A}{name}")[0] == shown

    await deferToThread(read_all)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_an_index_is_sorted_in_bounded_memory(
    api: Api, cache: Cache, host: ContentHost, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        put(cache, host, f"{A}{number * 7 % 25}", b"%d" % number)
    await export(api, "warc", "-o", folder / "x.warc.gz")
    expected = (folder / "x.cdxj").read_bytes()
    assert len(expected.splitlines()) == 25
    monkeypatch.setattr(cdxj, "RUN_LINES", 4)
    with (folder / "x.warc.gz").open("rb") as warc, (folder / "again").open("wb") as index:
        assert cdxj.write_index(warc, "x.warc.gz", index, folder) == 25
    assert (folder / "again").read_bytes() == expected
