"""A front end's database that is put back from before a move, or lost: real processes, and a follower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from lcc.admin.cli import main
from lcc.config import DatabaseConfig
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import FE
from lcc.storage.database.transactions import Txn
from lcc.testing.galera import PrivateGalera
from tests.support.databases import dumped, put_back, table_names
from tests.support.processes.followers import Follower
from tests.support.processes.front_end import FrontEnd, SubLccs
from tests.support.processes.system import OriginServer, Site
from tests.support.waiting import wait_for

LayOut = Callable[[str, int], Path]
ROLES = ("fe-uns", "fe-cu")


@contextmanager
def _with_one_node_less(request: pytest.FixtureRequest, front_url: str) -> Iterator[None]:
    """If it is a cluster, the node that is asked first is killed, and comes back."""
    if "," not in front_url:
        yield
        return
    cluster: PrivateGalera = request.getfixturevalue("galera")
    node, *others = cluster.nodes
    node.kill()
    wait_for("the others go on", lambda: all(other.status("wsrep_cluster_size") == "2" for other in others))
    yield
    node.start_again()
    wait_for("it is back", lambda: node.status("wsrep_cluster_size") == "3" and node.serves())


@pytest.mark.parametrize(
    "database_url",
    ["sqlite", "mariadb", "galera"],
    indirect=True,
)
@pytest.mark.long
def test_a_front_ends_database_is_put_back_and_then_lost(
    tmp_path: Path, origin: OriginServer, lay_out: LayOut, sub_lccs: SubLccs, request: pytest.FixtureRequest
) -> None:
    front, one, two = sub_lccs
    follower = Follower(f"unix:{front.folder}/home/cu.sock", tmp_path / "follower", "random")
    try:
        pages = lay_out("pages", 20)
        for lcc in (one, two):
            lcc.start("all")
        site = one.add_site("pages")
        for lcc in (one, two):
            lcc.join(front)
        front.start(*ROLES)
        _publish_in_the_end(front, site)
        one.wait_cached(site)
        follower.start()
        wait_for("the follower has a copy", lambda: len(follower.copy()) == 20)
        wait_for("both have reported", lambda: all(not row["stale"] for row in front.rows("fe", "list")))

        with _open(front.url, tmp_path) as database:
            backup = database.interact(dumped)
        front.admin("move", str(site.pid), "--to", "two")
        wait_for("it has moved", lambda: front.rows("moves", "--all")[0]["state"] == "done")
        _publish(front, site, pages / "moved.txt")
        two.wait_cached(site)
        _has_all(follower, pages)

        # Put back, while everything runs; a front end that starts only then knows nothing else.
        with _open(front.url, tmp_path) as database:
            database.write(put_back, backup)
        front.kill("fe-cu")
        front.start("fe-cu")
        assert front.admin("fe", "where", str(site.pid)) == "one\n"
        (pages / "later.txt").write_text("later\n")
        assert "1012" in front.publish(site, expect=(3,)).stderr
        assert f"provider {site.pid} has moved from one to two" in _shown(front)
        with _with_one_node_less(request, front.url):
            assert "1 provider repaired" in front.admin("fe", "repair", "--apply")
            assert front.admin("fe", "repair") == "Nothing to repair.\n"
        assert front.admin("fe", "where", str(site.pid)) == "two\n"
        _publish_in_the_end(front, site)
        two.wait_cached(site)
        _has_all(follower, pages)

        # Lost: the sub-LCCs are told of in another order.
        follower.kill()
        for each, names in ((front, ROLES), (one, ("all",)), (two, ("all",))):
            for name in names:
                each.stop(name)
        with _open(front.url, tmp_path) as database:
            database.write(_drop)
        front.admin("fe", "init")
        for lcc, number in ((two, "2"), (one, "1")):
            options = ("--uns", f"tcp:127.0.0.1:{lcc.port}", "--content", f"http://127.0.0.1:{lcc.content_port}")
            pids, machines = ("1-10000000", "1-10000") if lcc is one else ("10000001-20000000", "10001-20000")
            options += ("--database", lcc.database, "--pids", pids, "--machines", machines, "--number", number)
            front.admin("fe", "add", lcc.name, *options)
        assert "1 provider repaired" in front.admin("fe", "repair", "--apply")
        for lcc in (one, two):
            lcc.start("all")
        front.start(*ROLES)
        follower.start()
        _publish(front, site, pages / "last.txt")
        two.wait_cached(site)
        _has_all(follower, pages)
        assert max(follower.told().values()) == 1, "it was told something twice"

        wait_for("both have reported", lambda: all(not row["stale"] for row in front.rows("fe", "list")))
        front.admin("move", str(site.pid), "--to", "one")
        wait_for("it has moved back", lambda: front.rows("moves", "--all")[-1]["state"] == "done")
        assert len(one.wait_cached(site)) == 23 and not two.cached(site)
        origin.assert_each_once({f"/pages/{path.relative_to(pages)}" for path in pages.rglob("*.*")}, 0)
        one.assert_serial()
    finally:
        follower.end()


@contextmanager
def _open(url: str, folder: Path) -> Iterator[BlockingDatabase]:
    database = BlockingDatabase(url, folder, DatabaseConfig(retries=10), random=Random(1), series=FE)
    try:
        yield database
    finally:
        database.close()


def _drop(txn: Txn) -> None:
    for name in table_names(txn):
        txn.execute(f"DROP TABLE {name}")


def _shown(front: FrontEnd) -> str:
    """What would be repaired."""
    result = CliRunner().invoke(main, ["--config", str(front.admin_config), "fe", "repair"])
    assert result.exit_code == 1, result.output
    return result.output


def _publish(front: FrontEnd, site: Site, path: Path) -> None:
    path.write_text(f"{path.name}\n")
    _publish_in_the_end(front, site)


def _has_all(follower: Follower, pages: Path) -> None:
    count = len(list(pages.rglob("*.*")))
    wait_for("the follower has all pages", lambda: len(follower.copy()) == count)


def _publish_in_the_end(front: FrontEnd, site: Site) -> None:
    """The front end may only be starting."""
    wait_for("the set is accepted", lambda: front.publish(site, expect=(0, 3, 4)).returncode == 0)
