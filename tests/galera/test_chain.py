"""The whole chain on a cluster whose nodes are killed; set up as doc/galera.md says."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcc.testing.galera import PASSWORD, USER, PrivateGalera
from tests.support.documents import ROOT, Block, blocks_of
from tests.support.processes.system import ROLES, OriginServer, Site, System
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long

PAGE = ROOT / "doc" / "galera.md"
PAGES = 120
DELAY_MS = 150
FIRST, SECOND, LAST = 20, 60, 100


def played(kind: str) -> Block:
    """The block of this kind that is run here."""
    (block,) = [block for block in blocks_of(PAGE, kind) if block.left_out == "tests/galera/test_chain.py"]
    return block


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[OriginServer]:
    """A slow web server: nodes are killed between two pages, not behind the last."""
    folder = tmp_path / "www" / "site"
    folder.mkdir(parents=True)
    for number in range(PAGES):
        (folder / f"{number}.html").write_text(f"<p>page {number}")
    server = OriginServer(tmp_path / "www", tmp_path / "origin.log", DELAY_MS)
    yield server
    server.stop()


@pytest.fixture
def system(cluster: PrivateGalera, tmp_path: Path, origin: OriginServer) -> Iterator[System]:
    for statement in filter(str.strip, played("sql").text.split(";")):
        if not statement.strip().startswith("CREATE USER"):  # the cluster has one
            cluster.execute(statement)
    settings = tomllib.loads(played("toml").text)["database"]
    hosts = "10.0.0.11,10.0.0.12,10.0.0.13"
    assert settings["url"] == f"mysql://lcc:password@{hosts}/lcc"
    servers = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
    url = settings["url"].replace(hosts, servers).replace(":password@", f":{PASSWORD}@")
    assert USER == "lcc"
    more = {"database": f"query_timeout = {settings['query_timeout']}\n", "bot": "concurrency = 2\n"}
    system = System(tmp_path, origin, url, settings=more)
    for command in played("sh").text.splitlines():
        system.admin(*command.split()[1:])
    yield system
    system.stop_all()
    cluster.execute("DROP DATABASE lcc")


def test_nodes_are_killed_while_pages_are_fetched(cluster: PrivateGalera, system: System) -> None:
    system.start(*ROLES, "cu")
    site = system.add_site("site")
    system.publish_when_up(site)
    first, second, _ = cluster.nodes
    fetched(system, FIRST)
    first.kill()
    fetched(system, SECOND)
    first.start_again()
    # Now the one that they have come to.  A UNS that is started meanwhile begins with the first again.
    system.kill("uns")
    second.kill()
    system.start("uns")
    fetched(system, LAST)
    second.start_again()
    settled(system, site)
    # Nothing was lost, nothing was done twice.
    system.assert_serial()
    twice = [path for path, count in Counter(each["path"] for each in system.origin.requests()).items() if count > 1]
    assert not twice
    (site.folder / "0.html").write_text("<p>changed</p>")
    system.publish_when_up(site)
    settled(system, site)
    assert "no fault" in system.admin("fsck")
    system.kill("qm")
    for name in ("uns", "botm", "bot", "cu"):
        system.stop(name)


def fetched(system: System, count: int) -> None:
    wait_for(f"{count} pages are fetched", lambda: len(system.origin.requests()) >= count)


def settled(system: System, site: Site) -> None:
    system.wait_cached(site)
    wait_for("nothing waits", lambda: re.search(r"(?m)^queue +empty", system.admin("status")))
