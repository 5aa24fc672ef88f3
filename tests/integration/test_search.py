"""The search server behind a real LCC: what is told is found, as is what it links to; and a kill loses nothing."""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from lcc.search.index import TextIndex
from tests.support.pdf import pdf_with_text
from tests.support.ports import free_port
from tests.support.processes.system import BIN, OriginServer, Site, System
from tests.support.switches import LONG
from tests.support.waiting import wait_for

KILLS = 20 if LONG else 3


@pytest.fixture
def database_url() -> None:
    """SQLite: what is tested here never sees the database."""


class Searched(System):
    """An LCC whose search server is a process of its own, or one of all.

    :ivar search_port: where it answers.
    """

    def __init__(self, folder: Path, origin: OriginServer) -> None:
        self.search_port = free_port()
        super().__init__(folder, origin, None, extra="[watched]\ninterval = 0\n")
        text = self.config.read_text()
        listen = f'[search]\nlisten = "tcp:{self.search_port}:interface=127.0.0.1"\nopen = true\n'
        (folder / "with-search.toml").write_text(text + listen)

    def config_of(self, name: str) -> Path:
        return self.folder / ("lcc.toml" if name == "all" else "with-search.toml")

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
            raise AssertionError(f"{error}; it finds {self.urls(query)}\n{self.log('search')[-4000:]}") from None


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


def test_told_searched_changed_searched_deleted_searched(system: Searched) -> None:
    site = system.add_site("docs")
    write(site, "a.html", "<title>First page</title><p>zanzibolt in Zürich")
    write(site, "b.pdf", pdf_with_text("zanzibolt printed"))
    write(site, "c.txt", "zanzibolt, plainly")
    system.start("all", "search")
    system.publish_when_up(site)
    system.wait_found("zanzibolt", *(f"{site.url}{name}" for name in ("a.html", "b.pdf", "c.txt")))
    (hit,) = system.search("zurich zanzibolt")["hits"]
    assert (hit["title"], hit["type"], hit["provider"]) == ("First page", "html", site.pid)
    assert [hit["snippet"][begin:end] for begin, end in hit["marks"]] == ["zanzibolt", "Zürich"]
    write(site, "a.html", "<title>Second page</title><p>quiverdam")
    system.publish(site)
    system.wait_found("quiverdam", f"{site.url}a.html")
    assert len(system.urls("zanzibolt")) == 2
    (site.folder / "a.html").unlink()
    (site.folder / "b.pdf").unlink()
    system.publish(site)
    system.wait_found("zanzibolt OR quiverdam")
    system.wait_found("zanzibolt", f"{site.url}c.txt")
    system.stop("search")
    system.stop("all")


def test_a_page_that_nobody_told_is_found_through_the_spider(system: Searched) -> None:
    # Its root is the whole host, of whose robots.txt the spider asks.
    url = system.origin.url("docs").removesuffix("docs/")
    answer = json.loads(system.admin("provider", "add", "--root", url, "--allow-private", "--json"))
    folder = system.origin.root / "docs"
    site = Site(answer["pid"], answer["password"], "docs", folder, f"{url}docs/", system.folder / "docs.state")
    write(site, "index.html", '<title>Start</title><a href="linked.html">more</a>')
    write(site, "linked.html", "<title>Linked</title><p>mumbletop")
    system.start("all", "search")
    system.admin("spider", "add", "docs", "--provider", str(site.pid), "--allow-private")
    tell = (
        f"set -o pipefail; {BIN}/file2url --find {site.folder} -name index.html"
        f" | {BIN}/lcccpstate --statefile={site.state}"
        f" | {BIN}/lcccp --uns=127.0.0.1:{system.port} --pid={site.pid} --urlprefix={site.url}"
    )
    wait_for("it is told", lambda: system.as_provider(site, tell).returncode == 0)
    system.wait_found("mumbletop", f"{site.url}linked.html")
    system.wait_found("more", f"{site.url}index.html")


def test_a_killed_search_server_ends_with_the_index_of_a_new_one(system: Searched) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    site = system.add_site("docs")
    names = [f"{number}.html" for number in range(40)]
    for name in names:
        write(site, name, f"<title>{name}</title><p>round 0")
    system.start("all", "search")
    system.publish_when_up(site)
    for turn in range(1, KILLS + 1):
        for name in chance.sample(names, 10):
            path = site.folder / name
            if path.exists() and chance.random() < 0.3:
                path.unlink()
            else:
                write(site, name, f"<title>{name}</title><p>round {turn}")
        system.publish(site)
        system.kill("search")
        system.start("search")
    left = sorted(path.name for path in site.folder.iterdir())
    system.wait_cached(site)
    system.wait_found("site:127.0.0.1", *(f"{site.url}{name}" for name in left))
    system.stop("search")
    folder = system.folder / "home" / "search" / "index"
    grown = contents(folder)
    system.admin("search", "rebuild")
    system.start("search")
    wait_for("it is built anew", lambda: system.search("site:127.0.0.1")["complete"])
    system.stop("search")
    assert contents(folder) == grown and len(grown) == len(left)


def contents(folder: Path) -> list[tuple[str, int]]:
    """Keys and changes of all pages of an index."""
    return [*TextIndex(folder).versions("")]
