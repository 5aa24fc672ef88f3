"""What must hold of the nodes of a Galera cluster at rest, whoever was killed, stopped or parted: all are together,
and have the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pymysql

from lcc.testing.galera import NODES, GaleraNode, PrivateGalera

from .oracle import Violation

AWAY = "is away"


def check_nodes(cluster: PrivateGalera, database: str) -> Iterator[Violation]:
    """Ask each node for itself; what is written meanwhile may look like a difference."""
    sums = {node.name: checksums(node, database) for node in cluster.nodes}
    yield from judge_nodes(sums)


def judge_nodes(sums: Mapping[str, Mapping[str, str]]) -> Iterator[Violation]:
    """
    :param sums: node -> table -> checksum.
    """
    first = next(iter(sums))
    for name, tables in sums.items():
        if not tables:
            yield Violation("Galera", f"{name} {AWAY}")
        elif sums[first]:
            for table in sorted(tables.keys() | sums[first].keys()):
                if tables.get(table) != sums[first].get(table):
                    yield Violation("Galera", f"{table} of {name} differs from that of {first}")


def checksums(node: GaleraNode, database: str) -> dict[str, str]:
    """Of all tables; empty: the node is not together with all others."""
    if node.status("wsrep_cluster_size") != str(NODES) or not node.serves():
        return {}
    try:
        tables = sorted(str(name) for (name,) in node.execute(f"SHOW TABLES FROM {database}"))
        named = ", ".join(f"{database}.{name}" for name in tables)
        return {str(name): str(checksum) for name, checksum in node.execute(f"CHECKSUM TABLE {named}")}
    except pymysql.err.Error:
        return {}
