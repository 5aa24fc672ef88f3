"""feedparser's own test feeds, from its source distribution, on a web server: our items equal its own parse.

pip fetches the distribution once, into ``build``; without it the test is skipped.
"""

from __future__ import annotations

import calendar
import http.client
import io
import re
import subprocess
import sys
import tarfile
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from lcc.feeds.encodings import to_utf8
from lcc.feeds.parsing import ParseLimits, parse_feed
from lcc.model.feeds import FeedItem

BUILD = Path(__file__).resolve().parents[2] / "build" / "feedparser"
HEADER = re.compile(rb"^Header:\s+([^:\r\n]+):(.+)$", re.MULTILINE)
LEAST = 2200
SLICE = 8


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its tests, unpacked."""
    name = f"feedparser-{version('feedparser')}"
    archive = BUILD / f"{name}.tar.gz"
    if not archive.exists():
        folder = tmp_path_factory.mktemp("sdist")
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", str(folder), name.replace("-", "==")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("pip takes too long to fetch feedparser's source distribution")
        if done.returncode or not (folder / archive.name).exists():
            pytest.skip(f"pip cannot fetch feedparser's source distribution: {done.stderr[-300:]}")
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / f"{archive.name}.new").write_bytes((folder / archive.name).read_bytes())
        (BUILD / f"{archive.name}.new").replace(archive)
    unpacked = tmp_path_factory.mktemp("corpus")
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    return unpacked / name / "tests"


class Handler(BaseHTTPRequestHandler):
    """A file, with the headers that it names in a comment."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    root: Path

    def do_GET(self) -> None:
        data = (self.root / urllib.parse.unquote(self.path[1:])).read_bytes()
        headers = {"Content-Type": "application/xml"}
        for name, value in HEADER.findall(data):
            headers[name.decode().strip().title()] = value.decode("latin-1").strip()
        self.send_response(200)
        for name in ("Content-Type", "Content-Location"):
            if name in headers:
                self.send_header(name, headers[name])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def served(corpus: Path) -> Iterator[tuple[int, list[str]]]:
    """The port of the web server, and its paths."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Corpus", (Handler,), {"root": corpus}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    paths = [str(path.relative_to(corpus)) for path in corpus.rglob("*") if path.is_file() and path.suffix != ".py"]
    yield server.server_address[1], sorted(paths)
    server.shutdown()
    server.server_close()


def line(text: Any) -> str:
    """White space squeezed, without what cannot be stored."""
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]", "", text or "")
    return " ".join(text.split())


def stamp(entry: Any, *names: str) -> int | None:
    for name in names:
        if dict.get(entry, name):
            time: int = calendar.timegm(dict.get(entry, name))
            return time if time >= 0 else None
    return None


def check_item(item: FeedItem, entry: Any) -> None:
    """What we have of an item is what feedparser has."""
    assert item.id == line(entry.get("id"))
    assert item.link == line(entry.get("link"))
    assert item.title == line(entry.get("title"))
    assert line(item.summary.value) == line(entry.get("summary"))
    contents = [line(each.value) for each in entry.get("content", [])]
    assert line(item.content.value) in (contents or [""])
    assert item.published == stamp(entry, "published_parsed", "created_parsed")
    assert item.updated == stamp(entry, "updated_parsed")
    people = [
        (line(each.get("name")), line(each.get("email"))) for each in entry.get("authors", []) if any(each.values())
    ]
    assert [(each.name, each.email) for each in item.authors] == people
    assert [each.term for each in item.categories] == [line(each.get("term")) for each in entry.get("tags", [])]
    linked = [each.get("href") for each in entry.get("links", []) if each.get("rel") == "enclosure"]
    assert len([each for each in item.enclosures if each.url]) >= len({url for url in linked if url})
    where = entry.get("where")
    if where and where.get("type"):
        assert [(each.kind, each.coordinates) for each in item.places] == [(where["type"], where["coordinates"])]


def check(port: int, paths: list[str]) -> int:
    import feedparser

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    items = 0
    for path in paths:
        connection.request("GET", "/" + urllib.parse.quote(path))
        answer = connection.getresponse()
        data = answer.read()
        content_type = answer.headers["Content-Type"]
        base = answer.headers.get("Content-Location") or f"http://127.0.0.1:{port}/{urllib.parse.quote(path)}"
        theirs = feedparser.parse(
            io.BytesIO(data), response_headers={"content-type": content_type, "content-location": base}
        )
        ours = parse_feed(to_utf8(data, content_type)[0], base, ParseLimits())
        assert len(ours.items) == len(theirs.entries), path
        assert ours.info.kind == (theirs.get("version") or ""), path
        assert ours.info.title == line(theirs.feed.get("title")), path
        for item, entry in zip(ours.items, theirs.entries, strict=True):
            try:
                check_item(item, entry)
            except AssertionError as error:
                raise AssertionError(f"{path}: {error}") from error
        items += len(ours.items)
    connection.close()
    return items


def test_a_slice_of_the_corpus(served: tuple[int, list[str]]) -> None:
    port, paths = served
    assert len(paths) >= LEAST
    assert check(port, paths[::SLICE]) > 0


@pytest.mark.long
def test_the_corpus(served: tuple[int, list[str]]) -> None:
    port, paths = served
    assert check(port, paths) > 1000
