"""A crawl with real processes and nginx: what is cached is the closure of the links, what the link log has are all of
them, and each page is fetched once; whatever is killed meanwhile."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lcc.config import load_config
from lcc.model.crawls import CrawlSettings, CrawlStatus
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import SPIDER
from lcc.storage.database.place import place_of
from lcc.storage.spider.orders import CRAWL_ADD, ORDERS, add_body
from lcc.storage.spider.views import crawl_status
from tests.support.processes.system import System
from tests.support.servers.linked_sites import LinkedSites, SiteServer, generate
from tests.support.waiting import wait_for

from .databases import SQLITE_ALWAYS

ROLES = ("uns", "qm", "botm", "bot", "cu", "scheduler", "manager", "spider")
SETTINGS = """
[qm]
lease = 10
retry_initial = 0.5
[watched]
interval = 0
bandwidth_bytes = 0
[manager]
user = "root"
[spider]
stores = ["links"]
told_wait = 3.0
lease = 10.0
"""


class Crawling:
    """An LCC, and sites that link to each other.

    :param spiders: their names.
    """

    def __init__(self, folder: Path, database_url: str | None, hosts: int, pages: int) -> None:
        self.server = SiteServer(folder / "web", hosts)
        self.sites: LinkedSites = generate(1, self.server.roots, pages, 6)
        self.sites.write(self.server.root)
        (folder / "lcc").mkdir()
        self.system = System(folder / "lcc", None, database_url, extra=SETTINGS)
        config = load_config(self.system.config)
        place = place_of(config, SPIDER)
        self._frontier = BlockingDatabase(
            place.url, place.home, config.database, random=random.Random(1), series=place.series
        )

    def add(self, name: str) -> None:
        """Order a crawl of all sites."""
        body = add_body(CrawlSettings(restrict_to=r"http://127\.0\.1\.\d+:", allow_private=True), [self.sites.start])
        self._frontier.interact(lambda txn: ORDERS.give(txn, CRAWL_ADD, name, body, 1))

    def status(self, name: str) -> CrawlStatus | None:
        return self._frontier.interact(crawl_status, name)

    def is_done(self, name: str) -> bool:
        status = self.status(name)
        return status is not None and status.counts.get("cached", 0) > 0 and status.is_done

    def cached(self) -> set[str]:
        return {row["curl"] for row in self.system.rows("urls")}

    def fetched(self) -> list[str]:
        """Paths without robots.txt."""
        return [path for path in (row["path"] for row in self.server.requests()) if path != "/robots.txt"]

    def logged(self) -> set[tuple[str, str]]:
        """Source and target of the links in the log."""
        edges = set()
        for path in sorted((self.system.folder / "home" / "spider" / "links").iterdir()):
            for line in gzip.decompress(path.read_bytes()).splitlines():
                link: dict[str, Any] = json.loads(line)
                edges.add((link["source"], link["target"]))
        return edges

    def check(self) -> None:
        """What there must be once a crawl is done."""
        closure = self.sites.closure()
        assert self.cached() == closure
        assert self.logged() == self.sites.edges(closure)

    def close(self) -> None:
        self.system.stop_all()
        self.server.stop()
        self._frontier.close()


@contextmanager
def crawling(folder: Path, database_url: str | None, hosts: int, pages: int) -> Iterator[Crawling]:
    one = Crawling(folder, database_url, hosts, pages)
    try:
        yield one
    finally:
        one.close()


def test_a_crawl_from_its_start_to_the_closure(tmp_path: Path) -> None:
    with crawling(tmp_path, None, hosts=3, pages=20) as world:
        world.add("all")
        world.system.start("all")
        wait_for("the crawl is done", lambda: world.is_done("all"))
        world.check()
        # A second site of the same address range has pages with the same paths: they are counted together.
        closure = sorted("/" + page.split("/", 3)[3] for page in world.sites.closure())
        assert sorted(path.replace("/index.html", "/") for path in world.fetched()) == closure
        world.system.stop("all")


@pytest.mark.long
@SQLITE_ALWAYS
@pytest.mark.parametrize("seed", range(3))
def test_roles_are_killed_while_a_crawl_runs(tmp_path: Path, database_url: str | None, seed: int) -> None:
    chance = random.Random(seed)
    with crawling(tmp_path, database_url, hosts=5, pages=60) as world:
        world.add("all")
        world.system.start(*ROLES)
        for _ in range(20):
            if world.is_done("all"):
                break
            victim = chance.choice([*ROLES, "spider", "spider"])
            wait_for("something happens", _progress(world))
            world.system.kill(victim)
            world.system.start(victim)
        wait_for("the crawl is done", lambda: world.is_done("all"), patience_seconds=600)
        world.check()


def _progress(world: Crawling) -> Any:
    before = world.status("all")

    def made() -> bool:
        now = world.status("all")
        return now is not None and (before is None or now.counts != before.counts or now.is_done)

    return made
