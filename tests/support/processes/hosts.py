"""Hosts with two networks each: one to the others, one to this machine.  Each can be cut by itself.

What is sent through a cut link is lost, as if a cable was pulled: nobody is told.
"""

from __future__ import annotations

from .namespace import Namespace, NoNetwork, ip

GROUP, CLIENTS = "group", "clients"
"""The two networks of a host: to the other hosts, to this machine."""
_NETS_MAX = 256


class Hosts:
    """So many of them, each a network namespace.  All of it is gone when this process is.

    :ivar namespaces: the hosts.
    :raises NoNetwork: they cannot be made.
    """

    def __init__(self, count: int) -> None:
        self.namespaces: list[Namespace] = []
        self._switch: Namespace | None = None
        try:
            self._build(count)
        except BaseException:
            self.close()
            raise

    def _build(self, count: int) -> None:
        self._switch = switch = Namespace()
        switch.ip("link add lcc type bridge")
        switch.ip("link set lcc up")
        for number in range(count):
            host = Namespace()
            self.namespaces.append(host)
            host.ip("link set lo up")
            switch.ip(f"link add {GROUP}{number} type veth peer name {GROUP} netns {host.pid}")
            switch.ip(f"link set dev {GROUP}{number} master lcc up")
            host.ip(f"addr add {self.address(number, GROUP)}/24 dev {GROUP}")
            host.ip(f"link set dev {GROUP} up")
        self._net = self._claim_net()
        for number, host in enumerate(self.namespaces):
            device = self._device(self._net, number)
            host.ip(f"addr add {self.address(number, CLIENTS)}/30 dev {CLIENTS}")
            host.ip(f"link set dev {CLIENTS} up")
            ip(f"addr add 10.78.{self._net}.{4 * number + 1}/30 dev {device}")
            ip(f"link set dev {device} up")

    def _claim_net(self) -> int:
        """The first third number of addresses that no other process has, nor what is left of one: a device's name is
        there once."""
        for net in range(_NETS_MAX):
            claimed: list[str] = []
            try:
                for number, host in enumerate(self.namespaces):
                    device = self._device(net, number)
                    ip(f"link add {device} type veth peer name {CLIENTS} netns {host.pid}")
                    claimed.append(device)
            except NoNetwork:
                for device in claimed:
                    ip(f"link del {device}")
            else:
                return net
        raise NoNetwork("no veth device can be made here")

    @staticmethod
    def _device(net: int, number: int) -> str:
        return f"lcc{net}-{number}"

    def address(self, number: int, network: str) -> str:
        """Of a host in a network."""
        return f"10.79.0.{number + 1}" if network == GROUP else f"10.78.{self._net}.{4 * number + 2}"

    def cut(self, number: int, network: str) -> None:
        """Nothing comes through any more."""
        self._set(number, network, "down")

    def mend(self, number: int, network: str) -> None:
        """It does again."""
        self._set(number, network, "up")

    def _set(self, number: int, network: str, state: str) -> None:
        # The other end has no carrier then; its routes stay, so that nothing leaves by another way.
        if network == GROUP:
            assert self._switch is not None
            self._switch.ip(f"link set dev {GROUP}{number} {state}")
        else:
            self.namespaces[number].ip(f"link set dev {CLIENTS} {state}")

    def close(self) -> None:
        """End it all."""
        for namespace in (*self.namespaces, self._switch):
            if namespace is not None:
                namespace.close()
