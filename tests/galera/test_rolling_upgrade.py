"""A rolling upgrade from version 0.1.0 on a cluster, as doc/galera.md has it, with work queued and spooled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcc.testing.galera import GaleraNode, PrivateGalera
from tests.support.processes.mixed import Mixed, code_of_0_1_0
from tests.support.processes.system import ROLES, OriginServer, Site
from tests.support.waiting import wait_for

from .conftest import are_together

pytestmark = pytest.mark.long


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[OriginServer]:
    (tmp_path / "www").mkdir()
    server = OriginServer(tmp_path / "www", tmp_path / "origin.log", 0)
    yield server
    server.stop()


@pytest.fixture
def mixed(cluster: PrivateGalera, tmp_path: Path, origin: OriginServer) -> Iterator[Mixed]:
    """An LCC of version 0.1.0 on the cluster; nothing runs yet."""
    code, folder = tmp_path / "0.1.0", tmp_path / "lcc"
    for each in (code, folder):
        each.mkdir()
    url = cluster.new_database()
    system = Mixed(folder, origin, code_of_0_1_0(code), url)
    system.former |= {*ROLES, "tools"}
    yield system
    system.stop_all()
    cluster.drop_database(url)


class Publishing:
    """A provider that changes a page, adds one and removes one whenever it is asked to."""

    def __init__(self, system: Mixed, site: Site) -> None:
        self._system = system
        self._site = site
        self._count = 0
        site.folder.mkdir(exist_ok=True)

    def tell(self) -> None:
        """Change, and tell: the set is accepted."""
        self._count += 1
        folder, count = self._site.folder, self._count
        (folder / "changed.html").write_text(f"<p>version {count}")
        (folder / f"new-{count}.html").write_text(f"<p>new {count}")
        (folder / f"new-{count - 2}.html").unlink(missing_ok=True)
        self._system.publish_when_up(self._site)

    def told_and_fetched(self) -> None:
        """The same, and the cache has it."""
        self.tell()
        self._system.wait_cached(self._site)


def test_a_rolling_upgrade(cluster: PrivateGalera, mixed: Mixed) -> None:
    sites = [Publishing(mixed, mixed.add_site(name)) for name in ("one", "other")]
    one, other = sites
    mixed.start(*ROLES)
    for site in sites:
        site.told_and_fetched()

    # The servers, one after the other: the roles of 0.1.0 go on.
    for node in cluster.nodes:
        restart(cluster, node, one)
        one.told_and_fetched()

    # The queue manager first, and alone, while URLs are queued; what is told meanwhile is in the spool of the UNS.
    mixed.stop("bot")
    mixed.kill("botm")
    other.tell()
    wait_for("they are queued", lambda: sum(row["queued"] for row in mixed.rows("queue")) >= 2)
    mixed.stop("qm")
    one.tell()
    replace(mixed, "qm")
    wait_for("it has changed the tables", lambda: migrated(cluster, mixed))
    # The UNS of 0.1.0 goes on with the new tables; nothing is fetched yet.
    one.tell()
    other.tell()

    # The BOT-M of 0.1.0 may be started again; then it is replaced with its robot.
    mixed.start("botm", "bot")
    one.told_and_fetched()
    replace(mixed, "botm", "bot")
    one.told_and_fetched()

    # The UNS last; while it is away, providers come again later.
    other.tell()
    replace(mixed, "uns")
    for site in sites:
        site.told_and_fetched()
    mixed.former.clear()
    for site in sites:
        site.told_and_fetched()

    # All is new; the servers again, one after the other, and one is lost.
    for node in cluster.nodes:
        restart(cluster, node, other)
    cluster.nodes[0].kill()
    for site in sites:
        site.told_and_fetched()
    cluster.nodes[0].start_again()
    mixed.assert_serial()
    assert not any(mixed.rows("fsck")[-1]["summary"]["found"].values())
    for name in reversed(ROLES):
        mixed.stop(name)


def replace(mixed: Mixed, *names: str) -> None:
    """Processes of this version in place of those of 0.1.0, if they run."""
    for name in names:
        if name in mixed.processes:
            mixed.kill(name)
        mixed.former.discard(name)
    mixed.former.discard("admin")
    mixed.start(*names)


def migrated(cluster: PrivateGalera, mixed: Mixed) -> bool:
    """All nodes have tables that are not those of 0.1.0."""
    (name,) = re.findall(r"/(lcc\d+)\"", mixed.config.read_text())
    sql = f"SELECT value FROM {name}.meta WHERE name = 'schema'"
    return all(int(str(node.execute(sql)[0][0])) > 1 for node in cluster.nodes)


def restart(cluster: PrivateGalera, node: GaleraNode, site: Publishing) -> None:
    """As when a server is upgraded: it ends in order, and comes back; something is told meanwhile."""
    node.end()
    site.tell()
    node.start_again()
    wait_for("all are together", lambda: are_together(cluster))
