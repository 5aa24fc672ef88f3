"""The front end's database on a cluster: nodes are killed while providers log in; without a primary they wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from lcc.config import DatabaseConfig
from lcc.domain.frontend.repair import plan_repair
from lcc.errors import StoreUnavailable
from lcc.model.frontend.moves import Fence, Move, MoveState
from lcc.model.frontend.places import AtHome
from lcc.model.frontend.traces import FencedAt, FrontState, RepairPlan, Traces
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import FE
from lcc.storage.database.transactions import Txn
from lcc.storage.fe import moves
from lcc.storage.fe.placements import made, placements, put_making
from lcc.storage.fe.repair import read_front, repair_front
from lcc.storage.fe.sublccs import add_sublcc, list_sublccs, list_vitals, report_vitals
from lcc.testing.galera import GaleraNode, PrivateGalera
from tests.support.databases import at_once
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


@pytest.mark.parametrize("first", ["repair", "flip"])
def test_a_repair_and_a_step_of_a_move_at_two_nodes(cluster: PrivateGalera, tmp_path: Path, first: str) -> None:
    """Locks are local to a node: whoever commits later is told so, and looks again at what there is."""
    name, pid = _name(cluster), 7
    one, two, third = (_open(cluster, name, tmp_path, node) for node in cluster.nodes)
    for number in (1, 2):
        one.write(add_sublcc, sublcc(number, subid=0))
    subs = one.interact(list_sublccs)
    move = one.write(moves.order_move, pid, subs[1], None, NOW)
    move = one.write(moves.freeze, one.write(moves.begin_copying, move, NOW), NOW)
    fence = one.interact(moves.get_fence, pid, move.source)
    assert fence is not None
    one.write(moves.obeyed, fence)
    # The source knows of a later freeze: the database was restored from a backup.
    known = {pid: FencedAt(move.epoch + 3, Fence.FROZEN)}
    traces = {
        1: Traces(known, [], [], frozenset([pid]), {pid: 1}, move.id, 2),
        2: Traces({}, [], [], frozenset(), {}, move.id, 2),
    }

    def plan(state: FrontState) -> RepairPlan:
        return plan_repair(state, subs, traces, {}, NOW)

    def repair(txn: Txn) -> RepairPlan:
        return repair_front(txn, plan, NOW)

    def flip(txn: Txn) -> Move:
        return moves.flip(txn, move, ("timeline", 1), NOW)

    steps = [(one, repair), (two, flip)]
    (earlier, begins), (later, then) = steps if first == "repair" else steps[::-1]
    with suppress(moves.Overtaken):
        at_once((earlier, later), begins, then)
    wait_for("the third node is as far", lambda: third.interact(read_front) == one.interact(read_front))
    found = third.interact(read_front)
    (ended,), place = found.moves, found.places[pid]
    assert not plan(found).mends, "it is not put right"
    assert place.subid == move.source and ended.state in (MoveState.CANCELLED, MoveState.DONE)
    for database in (one, two, third):
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
