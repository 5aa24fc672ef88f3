"""``lcc-export wacz``: py-wacz validates it, and ReplayWeb.page shows it in a real browser."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread
from warcio.archiveiterator import ArchiveIterator

from lcc.export import wacz
from lcc.protocols import cdxj
from tests.support.cache import Cache
from tests.support.chromium import Chromium
from tests.support.packages import A, put
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost
from tests.support.servers.nginx import Nginx

from .kit import export

PAGE = "<html><head><title>Birds &amp; bees</title></head><body><h1>They fly</h1><img src='/i.png'></body></html>"
IMAGE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da63fcff1f0002eb01f5"
    "4c5b2dd50000000049454e44ae426082"
)
REPLAY = Path(sys.prefix) / "replaywebpage" / "package"


def fill(cache: Cache, host: ContentHost) -> None:
    put(cache, host, A, PAGE.encode(), charset="utf-8")
    put(cache, host, f"{A}same", PAGE.encode(), charset="utf-8")
    put(cache, host, f"{A}%C3%A9t%C3%A9", "<title>Été</title>".encode("latin-1"), charset="iso-8859-1")
    put(cache, host, f"{A}i.png", IMAGE, "image/png")
    put(cache, host, f"{A}large.bin", bytes(range(256)) * 20_000, "application/octet-stream")
    put(cache, host, "ftp://f.example.org/file.txt", b"by FTP", "text/plain", status=0)
    cache.delete(1, f"{A}deleted")


def validate(path: Path) -> None:
    """By its authors' own program."""
    program = Path(sys.prefix) / "wacz" / "bin" / "wacz"
    done = subprocess.run([program, "validate", "-f", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Validation succeeded" in done.stdout, done.stdout + done.stderr


def index_of(package: zipfile.ZipFile) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Keys and fields of the index, found through its list of blocks."""
    data = package.read("indexes/index.cdx.gz")
    first, *blocks = package.read("indexes/index.idx").splitlines()
    assert json.loads(first.removeprefix(b"!meta 0 "))["format"] == "cdxj-gzip-1.0"
    for block in blocks:
        surt, date, fields = block.split(b" ", 2)
        where = json.loads(fields)
        packed = data[where["offset"] : where["offset"] + where["length"]]
        assert where["digest"] == f"sha256:{hashlib.sha256(packed).hexdigest()}"
        lines = gzip.decompress(packed).splitlines()
        assert lines[0].startswith(b"%s %s " % (surt, date))
        for line in lines:
            name, _, fields = line.split(b" ", 2)
            yield name, json.loads(fields)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_it_is_valid_and_leads_to_each_content(
    api: Api, cache: Cache, host: ContentHost, tmp_path: Path
) -> None:
    fill(cache, host)
    output = tmp_path / "out" / "x.wacz"
    output.parent.mkdir()
    done = await export(api, "wacz", "-o", output, "--since", "0", "--title", "All of it", "--json")
    assert json.loads(done.stdout)["files"] == 6 and list(output.parent.iterdir()) == [output]
    await deferToThread(validate, output)
    with zipfile.ZipFile(output) as package:
        assert package.testzip() is None
        about = json.loads(package.read("datapackage.json"))
        assert about["title"] == "All of it" and about["profile"] == "data-package"
        digest = json.loads(package.read("datapackage-digest.json"))["hash"]
        assert digest == f"sha256:{hashlib.sha256(package.read('datapackage.json')).hexdigest()}"
        assert {each["path"] for each in about["resources"]} == {
            *("archive/data.warc.gz", "indexes/index.cdx.gz", "indexes/index.idx", "pages/pages.jsonl")
        }
        stored = {info.filename for info in package.infolist() if info.compress_type == zipfile.ZIP_STORED}
        assert stored == {"archive/data.warc.gz", "indexes/index.cdx.gz"}
        header, *pages = map(json.loads, package.read("pages/pages.jsonl").splitlines())
        assert header["format"] == "json-pages-1.0"
        assert {page["url"]: page.get("title") for page in pages} == {
            A: "Birds & bees",
            f"{A}same": None,  # the WARC has its content under the first name
            f"{A}%C3%A9t%C3%A9": "Été",
        }
        assert len({page["id"] for page in pages}) == 3
        warc = package.read("archive/data.warc.gz")
        found = list(index_of(package))
        assert [name for name, _ in found] == sorted(name for name, _ in found) and len(found) == 6
        for _, fields in found:
            assert fields["filename"] == "data.warc.gz"
            member = warc[int(fields["offset"]) : int(fields["offset"]) + int(fields["length"])]
            (record,) = ArchiveIterator(BytesIO(member))
            assert record.rec_headers.get_header("WARC-Target-URI") == fields["url"]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_to_standard_output_and_of_changes(api: Api, cache: Cache, host: ContentHost, tmp_path: Path) -> None:
    put(cache, host, f"{A}old", b"old")
    done = await export(api, "wacz", "-o", "-", "--since", "0", "--json")
    assert zipfile.ZipFile(BytesIO(done.stdout)).testzip() is None
    token = json.loads(done.stderr)["next"]
    put(cache, host, f"{A}new", b"<title>new</title>")
    done = await export(api, "wacz", "-o", "-", "--since", token)
    path = tmp_path / "changes.wacz"
    path.write_bytes(done.stdout)
    await deferToThread(validate, path)
    with zipfile.ZipFile(path) as package:
        assert [fields["url"] for _, fields in index_of(package)] == [f"{A}new"]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_an_empty_cache(api: Api, tmp_path: Path) -> None:
    await export(api, "wacz", "-o", tmp_path / "x.wacz")
    await deferToThread(validate, tmp_path / "x.wacz")


def test_many_blocks_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted in runs, listed by blocks."""
    monkeypatch.setattr(cdxj, "RUN_LINES", 30)
    monkeypatch.setattr(wacz, "BLOCK_LINES", 7)
    lines = [b'com,example)/%03d 20260101000000 {"url": "u"}\n' % (number * 7 % 100) for number in range(100)]
    with cdxj.in_order(lines, tmp_path) as ordered, (tmp_path / "idx").open("w+b") as blocks:
        index = wacz._Member(BytesIO())
        wacz._write_blocks(ordered, index, blocks)
        blocks.seek(0)
        heads = [line.split()[0] for line in blocks]
    assert heads == [b"com,example)/%03d" % number for number in range(0, 100, 7)]


# What the browser shows is in shadow trees, and in a frame.
DEEP = """
(() => {
  const found = [];
  const walk = (root) => {
    for (const each of root.querySelectorAll("*")) {
      if (each.shadowRoot) walk(each.shadowRoot);
      if (each.tagName === "IFRAME" && each.contentDocument) walk(each.contentDocument);
      if (each.matches(%s)) found.push(%s);
    }
  };
  walk(document);
  return found;
})()
"""


def deep(selector: str, what: str) -> str:
    """An expression: what all elements say that match, however deep they are."""
    return DEEP % (json.dumps(selector), what)


def beyond_4_gib(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same archive, written as if it were that long: its directory has the extra fields of ZIP64."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    with zipfile.ZipFile(path) as package, package.open("archive/data.warc.gz") as warc:
        pieces = iter(lambda: warc.read(1000), b"")
        with (path.parent / "long.wacz").open("wb") as output:
            wacz.write_wacz(pieces, output, path.parent, "long", datetime.now(UTC))
    return path.parent / "long.wacz"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_a_long_one(
    api: Api, cache: Cache, host: ContentHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cache, host)
    await export(api, "wacz", "-o", tmp_path / "x.wacz")
    long = beyond_4_gib(tmp_path / "x.wacz", monkeypatch)
    with zipfile.ZipFile(long) as package, zipfile.ZipFile(tmp_path / "x.wacz") as short:
        assert package.testzip() is None
        assert package.getinfo("archive/data.warc.gz").extra[:2] == b"\x01\x00", "ZIP64"
        assert package.read("indexes/index.cdx.gz") == short.read("indexes/index.cdx.gz")
    await deferToThread(validate, long)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_replay_web_page_shows_it(
    api: Api, cache: Cache, host: ContentHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert REPLAY.is_dir(), "make test-long installs ReplayWeb.page"
    fill(cache, host)
    site = tmp_path / "site"
    site.mkdir()
    for name in ("index.html", "ui.js", "sw.js"):
        shutil.copy(REPLAY / name, site)
    await export(api, "wacz", "-o", site / "x.wacz")
    beyond_4_gib(site / "x.wacz", monkeypatch)

    def look() -> None:
        nginx = Nginx(site, tmp_path / "nginx", more="types { text/javascript js; text/html html; }")
        (tmp_path / "browser").mkdir()
        browser = Chromium(tmp_path / "browser")
        try:
            for name in ("x", "long"):
                look_at(browser, f"http://127.0.0.1:{nginx.port}", name)
        finally:
            browser.stop()
            nginx.stop()

    await deferToThread(look)


def look_at(browser: Chromium, server: str, name: str) -> None:
    """The list of pages; a page, its image, and one whose content is stored under another name."""
    where = f"{server}/?source={server}/{name}.wacz"
    browser.go("about:blank")
    browser.go(f"{where}#view=pages")
    browser.until(f"{deep('a', 'each.textContent')}.some((text) => text.includes('Birds & bees'))")
    for page in (A, f"{A}same"):
        browser.go("about:blank")
        browser.go(f"{where}#view=pages&url={page}")
        browser.until(f"{deep('h1', 'each.textContent')}.includes('They fly')")
        browser.until(f"{deep('img', 'each.naturalWidth')}.includes(1)")
