"""Files of deleted content, on machines that come and go, with real processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.processes.system import OriginServer
from tests.support.processes.tree import Tree
from tests.support.waiting import wait_for


@pytest.fixture
def tree(tmp_path: Path, origin: OriginServer, database_url: str | None) -> Iterator[Tree]:
    """Two machines with a robot each, behind a central BOT-M; nothing runs yet."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    made = Tree(folder, origin, database_url, machines=2, robots=1)
    yield made
    made.stop_all()


@pytest.mark.long
def test_a_machine_that_is_away_deletes_when_it_is_back(tree: Tree, lay_out: Callable[[str, int], Path]) -> None:
    sites = []
    tree.start("uns", "qm", "central", "botm1", "botm2")
    for machine, name in ((1, "a"), (2, "b")):
        lay_out(name, 10)
        site = tree.add_site(name)
        sites.append(site)
        tree.start(f"bot{machine}a")
        tree.publish_when_up(site)
        wait_for("all is cached", lambda site=site: len(tree.cached(site)) == 10)
        tree.kill(f"bot{machine}a")
    before = tree.content_files()
    assert sorted(machine for machine, _ in before) == [1] * 10 + [2] * 10
    tree.kill("botm2")
    for site in sites:
        shutil.rmtree(site.folder / "part0")
        tree.publish(site)
    wait_for("machine 1 has deleted", lambda: sum(m == 1 for m, _ in tree.content_files()) == 8)
    assert [len(tree.cached(site)) for site in sites] == [8, 8], "content users see none of it at once"
    assert {key for key in tree.content_files() if key[0] == 2} == {key for key in before if key[0] == 2}
    # Not even a restart of the queue manager forgets them.
    tree.kill("qm")
    tree.start("qm", "botm2")
    wait_for("machine 2 has deleted", lambda: sum(m == 2 for m, _ in tree.content_files()) == 8)
    wait_for("no order is left", lambda: tree.status()["deletes"] == [])
    tree.check_content(sites)
