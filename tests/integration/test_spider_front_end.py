"""A spider over a front end, real processes: sites of two sub-LCCs that link to each other are crawled as one web."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lcc.client.blocking import Cache
from lcc.model.spider.crawls import BUCKETS
from tests.support.processes.crawling import SETTINGS, SPIDER_SETTINGS, Crawling, CrawlingSystem
from tests.support.processes.front_end import FrontEnd, add_provider, sub_lcc
from tests.support.processes.system import System
from tests.support.servers.linked_sites import SiteServer, generate
from tests.support.waiting import wait_for

from .databases import MARIADB_ALWAYS


class FrontSpider(CrawlingSystem):
    """A spider whose LCC is a front end: it has tables of its own, and nothing else."""

    def __init__(
        self, folder: Path, front: FrontEnd, front_url: str, database_url: str | None = None, spiders: int = 1
    ) -> None:
        spider = f'name = "spider"\nconnect = "unix:{front.folder}/home/notify-spider.sock"\n'
        spider += f'cache = "unix:{front.folder}/home/cu.sock"\n{SPIDER_SETTINGS}'
        super().__init__(folder, database_url, spiders, spider, f'[fe]\ndatabase = "{front_url}"\n')

    def another(self, text: str, name: str) -> str:
        return text.replace('name = "spider"', f'name = "{name}"')


class FrontCrawling(Crawling):
    """Sites crawled by such spiders."""

    def __init__(
        self,
        folder: Path,
        front: FrontEnd,
        front_url: str,
        server: SiteServer,
        database_url: str | None,
        spiders: int,
    ) -> None:
        self.front = front
        self._front_url = front_url
        super().__init__(folder, database_url, server, generate(3, server.roots, pages=20, links=6), spiders)

    def build_system(self, folder: Path, database_url: str | None, spiders: int, settings: str) -> CrawlingSystem:
        return FrontSpider(folder, self.front, self._front_url, database_url, spiders)

    def cached(self) -> dict[str, dict[str, Any]]:
        with Cache(f"unix:{self.front.folder}/home/cu.sock") as users:
            return {row["curl"]: row for row in users.urls()}


def _sub(folder: Path, name: str, front_url: str, machine: int) -> System:
    return sub_lcc(folder, name, None, front_url, machine, SETTINGS)


def _divided(system: CrawlingSystem) -> bool:
    """Each spider has its share of the buckets."""
    spiders = json.loads(system.admin("spider", "status", "--json"))["spiders"]
    return sorted(each["buckets"] for each in spiders) == [BUCKETS // len(system.spiders)] * len(system.spiders)


@pytest.mark.long
@MARIADB_ALWAYS
def test_a_crawl_over_two_sub_lccs(tmp_path: Path, database_url: str | None) -> None:
    """On MariaDB two spiders share it."""
    front_url = f"sqlite:{tmp_path}/fe.sqlite"
    subs = {"one": _sub(tmp_path, "one", front_url, 1), "two": _sub(tmp_path, "two", front_url, 10_001)}
    front = FrontEnd(tmp_path / "front", front_url)
    server = SiteServer(tmp_path / "web", hosts=4)
    world = FrontCrawling(tmp_path, front, front_url, server, database_url, 2 if database_url else 1)
    try:
        for name, lcc in subs.items():
            front.add_whole(name, lcc)
            lcc.start("all")
        # A registered provider's robots.txt is polled because the spider asks for it.
        pid, _ = add_provider(subs["two"], server.roots[1])
        front.start("fe-uns", "fe-cu")
        wait_for("both have reported", lambda: all(row["files"] is not None for row in front.rows("fe", "list")))
        world.system.start(*world.system.spiders)
        restrict = r"http://127\.0\.1\.\d+:"
        world.system.admin(
            "spider", "add", "all", "--start", server.roots[0], "--restrict-to", restrict, "--allow-private"
        )
        wait_for("some pages are cached", lambda: len(world.cached()) > 10)
        subs["two"].kill("all")
        world.system.kill("spider")
        subs["two"].start("all")
        world.system.start("spider")
        wait_for("the crawl is done", world.is_done)
        assert not list(world.faults())
        homes = {lcc: {row["pid"] for row in lcc.rows("urls") if row["state"] == "cached"} for lcc in subs.values()}
        assert pid in homes[subs["two"]] and all(homes.values())
        wait_for("they divide the hosts", lambda: _divided(world.system))
        for name in world.system.spiders:
            world.system.stop(name)
        front.stop("fe-cu")
        front.stop("fe-uns")
        for lcc in subs.values():
            lcc.stop("all")
    finally:
        front.stop_all()
        for lcc in subs.values():
            lcc.stop_all()
        world.close()


def test_a_crawl_that_completes_a_provider_of_a_sub_lcc(tmp_path: Path) -> None:
    """Its roots are those that its sub-LCC has."""
    front_url = f"sqlite:{tmp_path}/fe.sqlite"
    two = _sub(tmp_path, "two", front_url, 1)
    front = FrontEnd(tmp_path / "front", front_url)
    front.add_whole("two", two)
    pid, _ = add_provider(two, "http://site.example/docs/")
    (tmp_path / "lcc").mkdir()
    spider = FrontSpider(tmp_path / "lcc", front, front_url)
    spider.admin("spider", "add", "docs", "--provider", str(pid))
