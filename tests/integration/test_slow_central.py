"""Real processes: the queue manager is far from the central BOT-M, whose BOT-Ms lose their connections to it while
orders are on their way.  An order that came to a later connection would be fetched by two robots at once (P6)."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.support.processes.links import Links
from tests.support.processes.system import OriginServer
from tests.support.processes.tree import Tree
from tests.support.switches import LONG
from tests.support.waiting import wait_for

from .raw_provider import RawProvider

SITES, PAGES = 30, 4
RESET_SECONDS = 0.7
"""A BOT-M connects again in a tenth of a second: half a second remains for an order that was on its way."""
ANSWER_MS = 1500
"""Longer than it takes until the queue manager has heard of the new connection, and its next order has come to
another machine: a provider that both of them fetch from is then asked twice at once."""
BOT = "concurrency = 24\n"


def listens(port: int) -> bool:
    """Whether somebody does on this port."""
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(not LONG, reason="takes most of a minute: make test-long")
def test_orders_on_their_way_while_branches_connect_again(tmp_path: Path) -> None:
    begun = time.monotonic()
    seed = time.time_ns() % 100_000
    print(f"seed {seed}")
    for site in range(SITES):
        folder = tmp_path / "www" / f"site{site}"
        folder.mkdir(parents=True)
        for page in range(PAGES):
            (folder / f"page{page}.html").write_text(f"page {page} of {site}")
    origin = OriginServer(tmp_path / "www", tmp_path / "origin.log", ANSWER_MS)
    (tmp_path / "lcc").mkdir()
    tree = Tree(
        tmp_path / "lcc",
        origin,
        None,
        machines=3,
        robots=1,
        settings={"bot": BOT},
        slow_central=True,
        reset_seconds=RESET_SECONDS,
    )
    links = Links(seed, tree.links, tmp_path / "links.log")
    try:
        tree.start("uns", "qm")
        sites = [tree.add_site(f"site{number}") for number in range(SITES)]
        wait_for("the UNS listens", lambda: listens(tree.port))
        for site in sites:
            with RawProvider(tree, site) as provider:
                provider.send_elements(PAGES)
                provider.end_set()
                assert "set_accepted" in provider.answer()
        wait_for("all sets are in the queue", lambda: len(tree.rows("queue")) == SITES)
        print(f"{time.monotonic() - begun:.0f} s: told")
        tree.start(*[name for name in tree.names if name not in ("uns", "qm")])
        wait_for("everything is fetched", lambda: not tree.rows("queue"), 150)
        print(f"{time.monotonic() - begun:.0f} s: fetched")
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
