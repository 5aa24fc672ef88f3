"""The search server, killed at random while pages change: its index ends as one that was built at once."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import sleep
from typing import Any
from urllib.parse import urlencode

import pytest_twisted
import tantivy
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from lcc.search.index import TextIndex
from tests.support.ports import free_port
from tests.support.processes.system import BIN
from tests.support.roles.content_users import Api
from tests.support.switches import LONG
from tests.support.waiting import wait_for

from .kit import EVERY, Pages, change

KILLS = 20 if LONG else 3


class Server:
    """The real ``lcc-search``."""

    def __init__(self, home: Path, api: Api) -> None:
        self.home = home
        self.port = free_port()
        self.config = home / "lcc.toml"
        self.index = home / "lcc-home" / "search" / "index"
        self.log = home / "search.log"
        home.mkdir()
        self.config.write_text(
            f'[search]\nlisten = "tcp:{self.port}:interface=127.0.0.1"\nopen = true\nworkers = 1\n'
            f'cache = "http://127.0.0.1:{api.port}"\npages_at_once = 3\ncommit_interval = 0.0\n'
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Until it is killed."""
        command = [BIN / "twistd", "-n", "--pidfile=", "lcc-search", "--config", self.config]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, cwd=self.home, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def search(self, query: str) -> Any:
        """The JSON of a query; None: it is not there (yet)."""
        url = f"http://127.0.0.1:{self.port}/search?{urlencode({'q': query, 'format': 'json', 'limit': 100})}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)
        except OSError:
            return None

    def has(self, pages: Pages) -> bool:
        """Whether exactly these pages are found, by the words that they have now."""
        found = self.search(EVERY)
        if not found or not found["complete"] or found["total"] != len(pages.now):
            return False
        return all(self.hits(word) == {(pid, curl)} for (curl, pid, _), word in pages.now.items())

    def hits(self, word: str) -> set[tuple[int, str]]:
        """Provider and URL of the pages that have a word."""
        return {(hit["provider"], hit["url"]) for hit in (self.search(word) or {"hits": ()})["hits"]}

    def documents(self) -> list[tuple[Any, Any]]:
        """All that it has indexed, with what it keeps of each page."""
        index = TextIndex(self.index)
        searcher = index._index.searcher()
        found = [searcher.doc(address) for _, address in searcher.search(tantivy.Query.all_query(), 10_000).hits]
        kept = [(json.loads(each["record"][0]), each["original"]) for each in found]
        assert [*index.versions("")] == [*sorted(index.versions(""))]
        return sorted([each for each in kept if "url" in each[0]], key=lambda each: str(each[0]["key"]))


@pytest_twisted.ensureDeferred
async def test_killed_at_random_it_ends_with_the_index_of_a_new_one(api: Api, pages: Pages, tmp_path: Path) -> None:
    random = Random(tmp_path.name)
    server = Server(tmp_path / "search-home", api)
    change(random, pages)
    for _ in range(KILLS):
        with server.running():
            await deferToThread(wait_for, "it answers", lambda: server.search(EVERY))
            for _ in range(random.randrange(4)):
                change(random, pages)
                await deferLater(reactor, random.expovariate(1 / 0.1))  # type: ignore[arg-type]
            change(random, pages)
            await deferToThread(sleep, random.expovariate(1 / 0.05))
    change(random, pages)
    with server.running():
        await deferToThread(wait_for, "all is found", lambda: server.has(pages))
    grown = server.documents()
    fresh = Server(tmp_path / "fresh-home", api)
    with fresh.running():
        await deferToThread(wait_for, "all is found", lambda: fresh.has(pages))
    assert grown == fresh.documents() and len(grown) == len(pages.now)
    for log in (server.log.read_text(), fresh.log.read_text()):
        assert "Traceback" not in log and "anew" not in log, log[-3000:]
