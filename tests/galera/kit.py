"""Databases of the cluster, opened at nodes that the test chooses."""

from __future__ import annotations

from pathlib import Path
from random import Random

from lcc.config import DatabaseConfig
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from lcc.testing.galera import GaleraNode, PrivateGalera


class Place:
    """An empty database of the cluster.

    :ivar open: opens it at these nodes, in this order.
    """

    def __init__(self, cluster: PrivateGalera, folder: Path) -> None:
        self.cluster = cluster
        self.name = cluster.new_database().rpartition("/")[2]
        self._folder = folder
        self._open: list[BlockingDatabase] = []

    def open(self, *nodes: GaleraNode, retries: int = 8, query_timeout: float = 120.0) -> BlockingDatabase:
        settings = DatabaseConfig(retries=retries, connect_timeout=5.0, query_timeout=query_timeout)
        url = self.cluster.url(self.name, *nodes)
        self._open.append(BlockingDatabase(url, self._folder, settings, random=Random(len(self._open))))
        return self._open[-1]

    def close(self) -> None:
        for database in self._open:
            database.close()


def node_of(txn: Txn) -> str:
    return str(txn.value("SELECT @@wsrep_node_name"))


def counter(txn: Txn, name: str) -> int:
    return int(txn.value("SELECT value FROM counters WHERE name = ?", [name]))
