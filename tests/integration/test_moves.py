"""A provider moves between two LCCs, real processes, while it publishes and both queue managers are killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lcc.client.blocking import Cache
from tests.support.processes.followers import Follower
from tests.support.processes.front_end import FrontEnd, SubLccs
from tests.support.processes.system import OriginServer, Site
from tests.support.waiting import wait_for

from .databases import SQLITE_ALWAYS

LayOut = Callable[[str, int], Path]


@SQLITE_ALWAYS
def test_a_provider_moves_while_it_publishes(
    tmp_path: Path, origin: OriginServer, lay_out: LayOut, sub_lccs: SubLccs
) -> None:
    front, one, two = sub_lccs
    pages = lay_out("pages", 30)
    one.start("all")
    two.start("all")
    site = one.add_site("pages")
    one.join(front)
    two.join(front)
    front.start("fe-uns")
    _publish_in_the_end(front, site)
    assert len(one.wait_cached(site)) == 30

    wait_for("both have reported", lambda: all(not row["stale"] for row in front.rows("fe", "list")))
    front.admin("move", str(site.pid), "--to", "two")
    published = killed_after = 0

    def moved() -> bool:
        nonlocal published, killed_after
        published += 1
        (pages / f"later{published}.txt").write_text(f"later {published}\n")
        _publish_in_the_end(front, site)
        if published == 2:
            for lcc in (two, one):
                lcc.kill("all")
            killed_after = len(origin.requests())
            for lcc in (two, one):
                lcc.start("all")
        return front.rows("moves", "--all")[0]["state"] == "done"

    wait_for("it has moved", moved)
    assert front.admin("fe", "where", str(site.pid)) == "two\n"
    (pages / "last.txt").write_text("last\n")
    _publish_in_the_end(front, site)
    assert len(two.wait_cached(site)) == 31 + published
    wait_for("nothing is left", lambda: not one.rows("provider", "list") and len(two.rows("provider", "list")) == 1)
    for lcc in (one, two):
        lcc.admin("fsck")

    paths = {f"/pages/{path.relative_to(pages)}" for path in pages.rglob("*.*")}
    assert len(paths) == 31 + published
    origin.assert_each_once(paths, killed_after)
    one.assert_serial()
    for each, name in ((front, "fe-uns"), (one, "all"), (two, "all")):
        each.stop(name)


@pytest.mark.long
def test_followers_while_a_provider_moves(
    tmp_path: Path, origin: OriginServer, lay_out: LayOut, sub_lccs: SubLccs
) -> None:
    """It moves there and back; one follower asks all the time with any limit, another one now and then."""
    front, one, two = sub_lccs
    address = f"unix:{front.folder}/home/cu.sock"
    eager = Follower(address, tmp_path / "eager", "random")
    lazy = Follower(address, tmp_path / "lazy", "random")
    try:
        pages = lay_out("pages", 60)
        lay_out("others", 5)
        one.start("all")
        two.start("all")
        site = one.add_site("pages")
        one.join(front)
        two.join(front)
        others = two.add_site("others")
        front.start("fe-uns", "fe-cu")
        for each in (site, others):
            _publish_in_the_end(front, each)
        one.wait_cached(site)
        two.wait_cached(others)
        for follower in (eager, lazy):
            follower.start()
        wait_for("both have copies", lambda: len(eager.copy()) == len(lazy.copy()) == 65)
        before = eager.told()

        files = sorted(pages.rglob("*.*"))
        published = 0

        def change() -> None:
            nonlocal published
            published += 1
            files[published % 40].write_text(f"changed {published}\n")
            if 40 + published < len(files):
                files[40 + published].unlink()
            (pages / f"new{published}.txt").write_text(f"new {published}\n")
            _publish_in_the_end(front, site)

        for number, dest in enumerate(("two", "one")):
            lazy.kill()
            change()
            front.admin("move", str(site.pid), "--to", dest)

            def moved(number: int = number) -> bool:
                change()
                return front.rows("moves", "--all")[number]["state"] == "done"

            wait_for("it has moved", moved)
            lazy.start()
        change()
        one.wait_cached(site)
        with Cache(address) as users:
            cached = {row["curl"]: row["md5"] for row in users.urls()}
            assert len(cached) == len(list(pages.rglob("*.*"))) + 5
        for follower in (eager, lazy):
            wait_for("its copy is the cache", lambda f=follower: {u: m for u, (m, _) in f.copy().items()} == cached)
            assert all(told == has for told, has in follower.copy().values())
        # What did not change is told again only to who was killed while it asked.
        again = {page: count for page, count in eager.told().items() if count > 1}
        assert not {page for page in again if before[page]}, again
        assert max(again.values(), default=1) <= 3
    finally:
        for follower in (eager, lazy):
            follower.end()


def _publish_in_the_end(front: FrontEnd, site: Site) -> None:
    """The front end may only be starting, or the provider stand still."""
    wait_for("the set is accepted", lambda: front.publish(site, expect=(0, 3, 4)).returncode == 0)
