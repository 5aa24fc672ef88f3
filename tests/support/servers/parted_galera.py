"""A Galera cluster whose nodes are on hosts of their own: they can be parted from each other, and from clients."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lcc.testing.galera import NODES, GaleraNode, Host, PrivateGalera
from tests.support.processes.hosts import CLIENTS, GROUP, Hosts


class Parting(Enum):
    """From whom a node is parted; the value: the networks of its host that are cut."""

    NODES = (GROUP,)
    CLIENTS = (CLIENTS,)
    ALL = (GROUP, CLIENTS)


class PartedGalera(PrivateGalera):
    """
    :ivar parted: the nodes that are, and how.
    :raises NoNetwork: hosts cannot be made here; only root may make them.
    """

    def __init__(self, ports: Sequence[int], *, durable: bool = False) -> None:
        self._machines = Hosts(NODES)
        self.parted: dict[str, Parting] = {}
        address = self._machines.address
        hosts = [
            Host(address(number, CLIENTS), address(number, GROUP), tuple(namespace.on))
            for number, namespace in enumerate(self._machines.namespaces)
        ]
        super().__init__(ports, durable=durable, hosts=hosts)

    def part(self, node: GaleraNode, how: Parting) -> None:
        """Nothing that it sends comes through any more, and nothing that is sent to it."""
        self.parted[node.name] = how
        for network in how.value:
            self._machines.cut(self.nodes.index(node), network)

    def mend(self, node: GaleraNode) -> None:
        """It does again."""
        for network in self.parted.pop(node.name).value:
            self._machines.mend(self.nodes.index(node), network)

    def stop(self) -> None:
        super().stop()
        self._machines.close()
