"""Packages as WARC, read by warcio's own checker."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from warcio.archiveiterator import ArchiveIterator

from lcc.protocols import warc
from tests.support.cache import Cache
from tests.support.packages import A, put
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost

LARGE = bytes(range(256)) * 20_000
HEADERS = json.dumps(
    [
        *("Date", "Tue, 14 Nov 2023 22:13:20 GMT", "Content-Type", "text/html; charset=utf-8", "X-Folded", "a\r\n b"),
        *("Content-Encoding", "gzip", "Transfer-Encoding", "chunked", "X-Latin", "caf\u00e9"),
    ]
)


class Record:
    """A record as warcio reads it, digests checked."""

    def __init__(self, record: Any) -> None:
        self.kind = record.rec_type
        self.headers = dict(record.rec_headers.headers)
        self.uri = self.headers.get("WARC-Target-URI")
        self.http = record.http_headers
        self.data = record.content_stream().read()
        assert record.rec_headers.protocol == "WARC/1.1"
        assert record.digest_checker.passed is not False, record.digest_checker.problems


def read(data: bytes) -> list[Record]:
    return [Record(record) for record in ArchiveIterator(io.BytesIO(data), check_digests=True)]


def check(data: bytes, path: Path) -> None:
    """``warcio check`` finds nothing."""
    path.write_bytes(data)
    program = Path(sys.executable).with_name("warcio")
    done = subprocess.run([program, "check", "-v", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "digest pass" in done.stdout and "failed" not in done.stdout, done.stdout


@pytest.mark.parametrize("kind", ["warc", "warc.gz"])
@pytest_twisted.ensureDeferred
async def test_what_is_in_it(api: Api, cache: Cache, host: ContentHost, kind: str, tmp_path: Path) -> None:
    put(cache, host, A, b"<p>page", headers=HEADERS, furl=f"{A}fetch?x=1", subtype="a: b")
    put(cache, host, f"{A}same", b"<p>page", headers=HEADERS)
    put(cache, host, f"{A}large", LARGE, "application/octet-stream", headers="")
    put(cache, host, f"{A}empty", b"", "text/plain", status=204)
    put(cache, host, "ftp://f.example.org/file", b"<p>page", "text/plain", status=0, charset="latin-1")
    put(cache, host, f"{A}lost", b"lost", fetched_machineid=9)
    reply = await api.get(f"/package?kind={kind}&since=0")
    assert reply.headers["content-type"] == {"warc": "application/warc", "warc.gz": "application/warc+gzip"}[kind]
    check(reply.body, tmp_path / f"package.{kind}")
    info, first, same, large, empty, ftp, lost, end = read(reply.body)
    assert info.kind == "warcinfo" and b"software: LCC/" in info.data
    assert (first.kind, first.uri, first.data) == ("response", A, b"<p>page")
    assert first.http.statusline == "200 OK" and first.http.protocol == "HTTP/1.1"
    fields = [(name.lower(), value) for name, value in first.http.headers]
    assert ("content-length", "7") in fields and ("x-archive-orig-content-encoding", "gzip") in fields
    assert ("x-folded", "a   b") in fields and ("x-latin", "caf%C3%A9") in fields
    assert not {"transfer-encoding", "content-encoding"} & {name for name, _ in fields}
    assert first.headers["WARC-Date"] == "2023-11-14T22:13:20Z"
    assert first.headers["LCC-Fetched-From"] == f"{A}fetch?x=1" and first.headers["LCC-Subtype"] == "a: b"
    assert first.headers["LCC-Provider"] == "1" and len(first.headers["LCC-Key"]) == 40

    assert (same.kind, same.uri, same.data) == ("revisit", f"{A}same", b"")
    assert same.headers["WARC-Refers-To-Target-URI"] == A
    assert same.headers["WARC-Refers-To"] == first.headers["WARC-Record-ID"]
    assert same.headers["WARC-Payload-Digest"] == first.headers["WARC-Payload-Digest"]
    assert same.headers["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert same.http.get_header("content-type") == "text/html; charset=utf-8"

    assert (large.kind, large.data) == ("response", LARGE)
    assert large.http.get_header("content-type") == "application/octet-stream"
    assert (empty.kind, empty.data, empty.http.statusline) == ("response", b"", "204 No Content")
    assert (ftp.kind, ftp.data) == ("resource", b"<p>page")
    assert ftp.headers["Content-Type"] == "text/plain; charset=latin-1"
    assert (lost.kind, lost.uri) == ("metadata", f"{A}lost") and lost.data.startswith(b"state: left-out\r\nreason: ")
    assert end.kind == "metadata" and end.headers["Content-Type"] == "application/json"
    summary = json.loads(end.data)
    assert {**summary, "next": ""} == {"next": "", "files": 5, "deleted": 0, "missing": 1}

    cache.delete(1, A)
    _, deleted, end = read((await api.get(f"/package?kind={kind}&since={summary['next']}")).body)
    assert (deleted.kind, deleted.uri, deleted.data) == ("metadata", A, b"state: deleted\r\n")


@pytest_twisted.ensureDeferred
async def test_only_the_newest_contents_are_found_again(
    api: Api, cache: Cache, host: ContentHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warc, "CONTENTS_REMEMBERED", 2)
    for number, data in enumerate([b"a", b"b", b"b", b"c", b"a", b"c"]):
        put(cache, host, f"{A}{number}", data)
    records = read((await api.get("/package?kind=warc&since=0")).body)[1:-1]
    assert [record.kind for record in records] == [
        *("response", "response", "revisit"),
        *("response", "response", "revisit"),
    ]


@pytest_twisted.ensureDeferred
async def test_without_warcio(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.roles.cu.packages.kinds.find_spec", lambda name: None)
    reply = await api.get("/package?kind=warc")
    assert reply.status == 501 and "lcc[warc]" in reply.json()["error"]
