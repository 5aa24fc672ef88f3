"""A crawl with real processes and nginx: what is cached is the closure of the links, what the link log has are all of
them, and each page is fetched once.  :mod:`tests.reliability.crawls` has what is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes.crawling import Crawling
from tests.support.servers.linked_sites import SiteServer, generate
from tests.support.waiting import wait_for


def test_a_crawl_from_its_start_to_the_closure(tmp_path: Path) -> None:
    server = SiteServer(tmp_path / "web", hosts=3)
    world = Crawling(tmp_path, None, server, generate(1, server.roots, pages=20, links=6))
    try:
        world.add()
        world.system.start("all")
        wait_for("the crawl is done", world.is_done)
        assert not list(world.faults())
        assert sorted(world.fetched()) == sorted(world.sites.closure())
        world.system.stop("all")
    finally:
        world.close()
