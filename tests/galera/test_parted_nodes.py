"""Nodes that are parted from the others by the network, and come back: what ``make kill-test`` does with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.queue.write_transaction import claim_run
from lcc.testing.galera import PORTS, GaleraNode
from tests.support.databases import need_galera
from tests.support.ports import free_port
from tests.support.processes.namespace import NoNetwork
from tests.support.servers.parted_galera import PartedGalera, Parting
from tests.support.waiting import wait_for

from .conftest import are_together

pytestmark = pytest.mark.long
STATUS = "wsrep_cluster_status"


@pytest.fixture(scope="module")
def parted() -> Iterator[PartedGalera]:
    need_galera()
    try:
        cluster = PartedGalera([free_port() for _ in range(PORTS)])
    except NoNetwork as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


@pytest.fixture
def cluster(parted: PartedGalera) -> PartedGalera:
    wait_for("all are together", lambda: are_together(parted))
    return parted


def opened(cluster: PartedGalera, url: str, node: GaleraNode, folder: Path) -> BlockingDatabase:
    settings = DatabaseConfig(retries=0, connect_timeout=3.0, query_timeout=5.0)
    return BlockingDatabase(cluster.url(url.rpartition("/")[2], node), folder, settings, random=Random(1))


@pytest.mark.parametrize("how", [Parting.NODES, Parting.ALL])
def test_a_node_that_is_parted_from_the_others_is_in_no_majority(
    cluster: PartedGalera, how: Parting, tmp_path: Path
) -> None:
    url = cluster.new_database()
    node, *others = cluster.nodes
    alone, together = opened(cluster, url, node, tmp_path), opened(cluster, url, others[0], tmp_path)
    assert alone.write(claim_run) == 1
    cluster.part(node, how)
    wait_for("it has noticed", lambda: node.status(STATUS) == "non-Primary")
    wait_for("the others go on without it", lambda: all(other.serves() for other in others))
    assert {other.status("wsrep_cluster_size") for other in others} == {"2"}
    with pytest.raises(StoreUnavailable):
        alone.write(claim_run)
    assert together.write(claim_run) == 2
    cluster.mend(node)
    wait_for("it is back", lambda: are_together(cluster))
    assert alone.write(claim_run) == 3
    for database in (alone, together):
        database.close()


def test_a_node_that_only_clients_cannot_reach_stays_with_the_others(cluster: PartedGalera, tmp_path: Path) -> None:
    url = cluster.new_database()
    node, other, _ = cluster.nodes
    alone, together = opened(cluster, url, node, tmp_path), opened(cluster, url, other, tmp_path)
    assert together.write(claim_run) == 1
    cluster.part(node, Parting.CLIENTS)
    with pytest.raises(StoreUnavailable):
        alone.write(claim_run)
    assert together.write(claim_run) == 2 and node.status(STATUS) == "Primary"
    cluster.mend(node)
    # The neighbour that did not answer is not asked for at once.
    wait_for("clients reach it", lambda: is_reached(alone))
    assert alone.write(claim_run) == 3
    for database in (alone, together):
        database.close()


def is_reached(database: BlockingDatabase) -> bool:
    """Its server answers."""
    try:
        return database.interact(lambda txn: txn.value("SELECT 1")) == 1
    except StoreUnavailable:
        return False
