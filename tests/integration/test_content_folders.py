"""Real processes: a robot that was given another content folder than its BOT-M."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes.system import OriginServer
from tests.support.processes.tree import Tree
from tests.support.waiting import wait_for

PAGES = 30


def test_a_robot_with_another_content_folder_stops_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "www" / "site"
    folder.mkdir(parents=True)
    for page in range(PAGES):
        (folder / f"{page}.html").write_text(f"page {page}")
    origin = OriginServer(tmp_path / "www", tmp_path / "origin.log", 0)
    (tmp_path / "lcc").mkdir()
    tree = Tree(tmp_path / "lcc", origin, None, machines=1, robots=2)
    with tree.configs["bot1b"].open("a") as config:
        config.write('content = "elsewhere"\n')
    try:
        tree.start(*[name for name in tree.names if name != "bot1a"])
        site = tree.add_site("site")
        theirs, ours = tree.content(1).with_name("elsewhere"), tree.content(1)
        why = f"its content folder, {theirs}, is not that of its BOT-M, {ours}"
        refused = wait_for("it is told", lambda: "".join(each["robots_refused"] for each in tree.machine_states()))
        assert refused == f"robot bot1b: {why}"
        assert f"bot bot1b gets no orders: {why}" in tree.log("botm1")
        assert why in tree.admin("status")
        tree.publish_when_up(site)
        tree.start("bot1a")
        wait_for("everything is fetched", lambda: not tree.rows("queue"))
        tree.check_content([site])
        assert not tree.rows("errors")
        assert "cannot be stored" not in tree.log("botm1")
    finally:
        tree.stop_all()
        origin.stop()
