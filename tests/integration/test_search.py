"""The search server in a real LCC: what is told is found, as is what it links to."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.pdf import pdf_with_text
from tests.support.ports import free_port
from tests.support.processes.system import OriginServer, Site, System
from tests.support.waiting import wait_for


@pytest.fixture
def database_url() -> None:
    """SQLite: what is tested here never sees the database."""


class Searched(System):
    """An LCC whose search server is in its one process.

    :ivar search_port: where it answers.
    """

    def __init__(self, folder: Path, origin: OriginServer) -> None:
        self.search_port = free_port()
        listen = f'[search]\nlisten = "tcp:{self.search_port}:interface=127.0.0.1"\nopen = true\nworkers = 1\n'
        super().__init__(folder, origin, None, extra=f"[watched]\ninterval = 0\n{listen}")

    def search(self, query: str, **fields: str) -> dict[str, Any]:
        """What is found; nothing while nobody answers."""
        fields = {"q": query, "format": "json", **fields}
        url = f"http://127.0.0.1:{self.search_port}/search?{urlencode(fields)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                found: dict[str, Any] = json.load(reply)
                return found
        except OSError:
            return {"total": 0, "hits": [], "complete": False}

    def urls(self, query: str) -> list[str]:
        return sorted(hit["url"] for hit in self.search(query, limit="100")["hits"])

    def wait_found(self, query: str, *urls: str) -> None:
        """Wait until a query finds exactly these."""
        try:
            wait_for(f"{query} finds {urls}", lambda: self.urls(query) == sorted(urls))
        except AssertionError as error:
            raise AssertionError(f"{error}; it finds {self.urls(query)}\n{self.log('all')[-4000:]}") from None


@pytest.fixture
def system(tmp_path: Path, origin: OriginServer) -> Iterator[Searched]:
    folder = tmp_path / "lcc"
    folder.mkdir()
    system = Searched(folder, origin)
    yield system
    system.stop_all()


def write(site: Site, name: str, content: str | bytes) -> None:
    site.folder.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    (site.folder / name).write_bytes(data)


def test_told_searched_changed_searched_deleted_searched_and_linked(system: Searched) -> None:
    # Its root is the whole host, of whose robots.txt the spider asks.
    root = system.origin.url("docs").removesuffix("docs/")
    answer = json.loads(system.admin("provider", "add", "--root", root, "--allow-private", "--json"))
    folder = system.origin.root / "docs"
    site = Site(answer["pid"], answer["password"], "docs", folder, f"{root}docs/", system.folder / "docs.state")
    system.admin("spider", "add", "docs", "--provider", str(site.pid), "--allow-private")
    write(site, "a.html", '<title>First page</title><p>zanzibolt in Zürich, <a href="../linked.html">more</a>')
    write(site, "b.pdf", pdf_with_text("zanzibolt printed"))
    write(site, "c.txt", "zanzibolt, plainly")
    (system.origin.root / "linked.html").write_text("<title>Linked</title><p>mumbletop")
    system.start("all")
    system.publish_when_up(site)
    system.wait_found("zanzibolt", *(f"{site.url}{name}" for name in ("a.html", "b.pdf", "c.txt")))
    (hit,) = system.search("zurich zanzibolt")["hits"]
    assert (hit["title"], hit["type"], hit["provider"]) == ("First page", "html", site.pid)
    assert [hit["snippet"][begin:end] for begin, end in hit["marks"]] == ["zanzibolt", "Zürich"]
    # Nobody has told it.
    system.wait_found("mumbletop", f"{root}linked.html")
    write(site, "a.html", "<title>Second page</title><p>quiverdam")
    (site.folder / "b.pdf").unlink()
    system.publish(site)
    system.wait_found("quiverdam", f"{site.url}a.html")
    system.wait_found("zanzibolt", f"{site.url}c.txt")
    (site.folder / "a.html").unlink()
    system.publish(site)
    system.wait_found("quiverdam")
    system.wait_found("zanzibolt", f"{site.url}c.txt")
    system.stop("all")
