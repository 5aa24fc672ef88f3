"""The front end's database on a cluster: nodes are killed while providers log in; without a primary they wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.model.frontend.places import AtHome
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import FE
from lcc.storage.fe.placements import made, placements, put_making
from lcc.storage.fe.sublccs import add_sublcc, list_sublccs, list_vitals, report_vitals
from lcc.testing.galera import GaleraNode, PrivateGalera
from tests.support.processes.front_end import FrontEnd, add_provider, login, sub_lcc
from tests.support.sublccs import NOW, sublcc, vitals
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long


def _name(cluster: PrivateGalera) -> str:
    return cluster.new_database().rpartition("/")[2]


def _open(cluster: PrivateGalera, name: str, folder: Path, *nodes: GaleraNode) -> BlockingDatabase:
    settings = DatabaseConfig(retries=100, connect_timeout=5.0)
    return BlockingDatabase(cluster.url(name, *nodes), folder, settings, random=Random(len(nodes)), series=FE)


def test_fedb_and_pmdb_at_three_nodes_at_once(cluster: PrivateGalera, tmp_path: Path) -> None:
    name = _name(cluster)
    _open(cluster, name, tmp_path, cluster.nodes[0]).interact(list_sublccs)
    databases = [_open(cluster, name, tmp_path, node) for node in cluster.nodes]
    nobody = dict.fromkeys(("subid", "first_pid", "last_pid", "first_machine", "last_machine"), 0)

    def add(number: int) -> list[int]:
        database = databases[number]
        subs = [
            database.write(add_sublcc, sublcc(1, **{**nobody, "name": f"s{number}{each}", "made_time": NOW}))
            for each in range(5)
        ]
        for sub in subs:
            database.write(put_making, sub.first_pid, sub.subid, NOW)
            database.write(made, sub.first_pid, NOW)
            assert database.write(report_vitals, sub.name, vitals(sub.subid, files=sub.subid))
        return [sub.subid for sub in subs]

    with ThreadPoolExecutor(3) as threads:
        subids = [subid for found in threads.map(add, range(3)) for subid in found]
    assert sorted(subids) == list(range(1, 16))
    for database in databases:
        subs = database.interact(list_sublccs)
        ranges = sorted((sub.first_pid, sub.last_pid) for sub in subs)
        assert len(subs) == 15 and all(a[1] < b[0] for a, b in pairwise(ranges))
        placed = database.interact(placements, [sub.first_pid for sub in subs])
        assert [each and (each.subid, each.state) for each in placed] == [(sub.subid, AtHome.HERE) for sub in subs]
        assert {subid: each.files for subid, each in database.interact(list_vitals).items()} == {n: n for n in subids}
        database.close()


def test_without_a_primary_providers_are_told_to_try_again_later(cluster: PrivateGalera, tmp_path: Path) -> None:
    name = _name(cluster)
    url = cluster.url(name, *cluster.nodes)
    lcc = sub_lcc(tmp_path, "one", None, url, 1)
    front = FrontEnd(tmp_path / "front", url, "[database]\nretries = 2\nconnect_timeout = 2.0\n")
    try:
        lcc.start("uns", "qm")
        front.add("one", lcc)
        first_root, second_root = "http://a.example.org/", "http://b.example.org/"
        pid, password = add_provider(lcc, first_root)
        front.start("fe-uns")
        accepted = lambda: "init_accepted" in login(front.port, pid, password)  # noqa: E731
        later = lambda: "1012" in login(front.port, pid, password)  # noqa: E731
        wait_for("a provider gets through", accepted)
        first, second, third = cluster.nodes
        first.kill()
        wait_for("two are left", lambda: third.status("wsrep_cluster_size") == "2" and third.serves())
        wait_for("a provider gets through by another node", accepted)
        second.kill()
        wait_for("one does not serve", lambda: not third.serves())
        wait_for("providers are told to try again later", later)
        with pytest.raises(StoreUnavailable):
            patient = DatabaseConfig(retries=1)
            BlockingDatabase(url, tmp_path, patient, random=Random(1), series=FE).interact(list_sublccs)
        # The sub-LCC goes on by itself: its own address, its own commands.
        assert "init_accepted" in login(lcc.port, pid, password)
        other, secret = add_provider(lcc, second_root)
        second.start_again()
        wait_for("a provider gets through again", accepted)
        wait_for("so does one that was made meanwhile", lambda: "init_accepted" in login(front.port, other, secret))
        wait_for("its sub-LCC reports again", lambda: front.rows("fe", "list")[0]["providers"] == 2)
        first.start_again()
        front.stop("fe-uns")
    finally:
        front.stop_all()
        lcc.stop_all()
