"""Real processes: the queue manager is far from the central BOT-M, whose BOT-Ms lose their connections to it while
orders are on their way.  An order that came to a later connection would be fetched by two robots at once (P6)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.long import LONG

from .links import Links
from .system import OriginServer, wait_for
from .tree import Tree

SITES, PAGES = 24, 30 if LONG else 12
ANSWER_MS = 300
"""The origin takes its time, so that two fetches at once are seen."""
BOT = "concurrency = 24\n"


@pytest.mark.skipif(not LONG, reason="takes minutes: make test-long")
def test_orders_on_their_way_while_branches_connect_again(tmp_path: Path) -> None:
    seed = time.time_ns() % 100_000
    print(f"seed {seed}")
    for site in range(SITES):
        folder = tmp_path / "www" / f"site{site}"
        folder.mkdir(parents=True)
        for page in range(PAGES):
            (folder / f"{page}.html").write_text(f"page {page} of {site}")
    origin = OriginServer(tmp_path / "www", tmp_path / "origin.log", ANSWER_MS)
    (tmp_path / "lcc").mkdir()
    tree = Tree(tmp_path / "lcc", origin, None, machines=2, robots=1, settings={"bot": BOT}, slow_central=True)
    links = Links(seed, tree.links, tmp_path / "links.log")
    try:
        tree.start("uns", "qm")
        sites = [tree.add_site(f"site{number}") for number in range(SITES)]
        for site in sites:
            tree.publish_when_up(site)
        tree.start(*[name for name in tree.names if name not in ("uns", "qm")])
        wait_for("everything is fetched", lambda: not tree.rows("queue"), 150)
        tree.check_content(sites)
    finally:
        tree.stop_all()
        links.stop()
        origin.stop()
    requests = origin.requests()
    overlaps = [each for each in requests if each["active"] > 1]
    print(f"{links.resets} resets, {len(requests)} requests")
    assert not overlaps, f"two requests at once at one provider, {len(overlaps)} times: {overlaps[:5]}"
    assert links.resets >= 5, "the branches were hardly ever reset"
