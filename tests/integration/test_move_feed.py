"""A watched site moves with its feed: real processes, each LCC with a scheduler and workers of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes.front_end import FrontEnd, SubLcc
from tests.support.waiting import wait_for

from .test_feeds import SETTINGS, Feeds, curls, serving, titles


@pytest.mark.long
def test_a_feed_is_read_at_the_new_home_of_its_site(tmp_path: Path) -> None:
    front_url = f"sqlite:{tmp_path}/fe.sqlite"
    one = SubLcc(tmp_path, "one", None, front_url, 1, extra=SETTINGS)
    two = SubLcc(tmp_path, "two", None, front_url, 10_001, extra=SETTINGS)
    front = FrontEnd(tmp_path / "front", front_url)
    for lcc in (one, two):  # content is read where the other one's robots read it
        text = lcc.config.read_text()
        content = f'[manager]\ncontent = "http://127.0.0.1:{lcc.content_port}"\n'
        lcc.config.write_text(text.replace("[manager]\n", content))
    feeds = Feeds()
    try:
        with serving(feeds) as site:
            for lcc in (one, two):
                lcc.start("all")
                lcc.join(front)
            one.admin(
                "feed", "add", f"{site}/feed.xml", "--every", "10", "--full-content", "--allow-private", "--json"
            )
            wait_for("items", lambda: titles(one) == ["Item 1", "Item 2"])
            wait_for("pages", lambda: curls(one) == {f"{site}/page/1"})
            (provider,) = one.rows("provider", "list")
            wait_for("both have reported", lambda: all(not row["stale"] for row in front.rows("fe", "list")))
            before = len([path for path, _ in feeds.asked if path.startswith("/page/")])
            front.admin("move", str(provider["pid"]), "--to", "two")
            wait_for("it has moved", lambda: front.rows("moves", "--all")[0]["state"] == "done")
            wait_for("items at its new home", lambda: titles(two) == ["Item 1", "Item 2"])
            assert curls(two) == {f"{site}/page/1"}
            asked = [path for path, _ in feeds.asked if path.startswith("/page/")]
            assert len(asked) == before, "no page was fetched again"
            wait_for("nothing is left", lambda: not one.rows("provider", "list") and not one.rows("feed", "list"))
            feeds.numbers.append(3)
            wait_for("a new item", lambda: titles(two) == ["Item 1", "Item 2", "Item 3"])
            wait_for("its page", lambda: curls(two) == {f"{site}/page/1", f"{site}/page/3"})
            assert titles(one) == [] and not one.rows("provider", "list")
            asked = [path for path, _ in feeds.asked if path.startswith("/page/")]
            assert sorted(asked) == ["/page/1", "/page/3"]
            (feed,) = two.rows("feed", "list")
            shown = json.loads(two.admin("feed", "show", str(feed["id"]), "--json"))
            assert (shown["identity"], shown["item_count"]) == ("id", 3)
    finally:
        for each in (front, one, two):
            each.stop_all()
