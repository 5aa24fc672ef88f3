"""The cluster, all of its nodes up before each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lcc.testing.galera import NODES, GaleraNode, PrivateGalera
from tests.support.waiting import wait_for

from .kit import Place


@pytest.fixture
def cluster(galera: PrivateGalera) -> Iterator[PrivateGalera]:
    for node in galera.nodes:
        if node.process is None:
            node.start_again()
    wait_for("all are together", lambda: are_together(galera))
    yield galera


def are_together(cluster: PrivateGalera) -> bool:
    """All nodes serve, and know all others."""
    return all(_is_together(node) for node in cluster.nodes)


def _is_together(node: GaleraNode) -> bool:
    return node.status("wsrep_cluster_size") == str(NODES) and node.serves()


@pytest.fixture
def place(cluster: PrivateGalera, tmp_path: Path) -> Iterator[Place]:
    place = Place(cluster, tmp_path)
    yield place
    place.close()
