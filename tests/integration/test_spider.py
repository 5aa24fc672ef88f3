"""A crawl with real processes and nginx: what is cached is the closure of the links, what the link log has are all of
them, and each page is fetched once; redirects to other sites and folders of files are followed; of endless pages few
are fetched.  :mod:`tests.reliability.crawls` has what is killed meanwhile."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs

from tests.support.processes.crawling import SPIDER_SETTINGS, Crawling
from tests.support.servers.linked_sites import TRAPS, SiteServer, generate, is_trap
from tests.support.waiting import wait_for

SETTINGS = f"{SPIDER_SETTINGS}trap_segments = 10\ntrap_calendar = 10\ntrap_facets = 3\n"
FETCHED_MAX = {"copies": 4, "deep": 10, "sessions": 3, "calendar": 12, "facets": 60, "redirects": 20}
"""Of endless pages; a redirect is a fetch."""


def test_a_crawl_from_its_start_to_the_closure(tmp_path: Path) -> None:
    server = SiteServer(tmp_path / "web", hosts=3)
    graph = generate(1, server.roots, pages=20, links=6)
    linked = (*graph.links[graph.start], *((url, True) for url in (*server.traps, *server.moved)))
    behind = dict.fromkeys(server.moved.values(), ((graph.start, True),))
    graph = attrs.evolve(graph, links={**graph.links, graph.start: linked, **behind}, moved=server.moved)
    world = Crawling(tmp_path, None, server, graph, spider_settings=SETTINGS)
    try:
        files = _crawl_files(world)
        world.add()
        world.system.start("all")
        wait_for("the crawl is done", world.is_done)
        assert not list(world.faults())
        fetched = world.fetched()
        assert sorted(url for url in fetched if not is_trap(url)) == sorted([*world.sites.closure(), *server.moved])
        endless = Counter(url.split("/")[4] for url in fetched if is_trap(url))
        assert endless.keys() == TRAPS.keys()
        assert not {name: count for name, count in endless.items() if count > FETCHED_MAX[name]}
        wait_for("all files are cached", lambda: files == {*filter(_is_file, world.cached())})
        world.system.stop("all")
    finally:
        world.close()


def _crawl_files(world: Crawling) -> set[str]:
    """Their folders are documents with links.  Gives all of these URLs."""
    files = world.system.files
    (files / "sub").mkdir(parents=True)
    (files / "a.html").write_text("<a href=behind.html>b</a>")
    for name in ("behind.html", "sub/c.txt"):
        (files / name).write_text("<p>")
    world.system.admin("spider", "add", "files", "--start", f"file://{files}/", "--restrict-to", "file://")
    return {f"file://{files}/{name}" for name in ("", "a.html", "behind.html", "sub/", "sub/c.txt")}


def _is_file(url: str) -> bool:
    return url.startswith("file:")
