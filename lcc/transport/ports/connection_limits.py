"""How many connections a port serves: in all, and of each address, so that one peer cannot take everybody's place."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any

_IPV6_PREFIX_BITS = 64


def party_of(address: Any) -> str:
    """Who is at the other end, as far as its address tells: an IPv4 address, or the /64 network of an IPv6 address,
    because whoever has one of its addresses has all of them.  Empty: nobody can be told from another (UNIX sockets).

    :param address: of Twisted; None: there is none.
    """
    host = getattr(address, "host", "")
    return party_of_host(host) if isinstance(host, str) else ""


@lru_cache(1024)
def party_of_host(host: str) -> str:
    """The same of an address as text; what is no address stands for itself."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    network = int(found) >> (128 - _IPV6_PREFIX_BITS) << (128 - _IPV6_PREFIX_BITS)
    return f"{IPv6Address(network)}/{_IPV6_PREFIX_BITS}"


class ConnectionLimits:
    """Counts connections, in all and by party, against their maxima.

    :param total_max: connections at once.
    :param each_max: of them, of one party; 0: no such limit.
    :ivar total: connections that there are.
    """

    def __init__(self, total_max: int, each_max: int = 0) -> None:
        self._total_max = total_max
        self._each_max = each_max
        self.total = 0
        self._parties: Counter[str] = Counter()

    def refusal(self, party: str) -> str:
        """Why there is no place for one more of this party; empty: there is one."""
        if self.total >= self._total_max:
            return f"there are {self.total}"
        if self.is_used_up(party):
            return f"there are {self._parties[party]} from {party}"
        return ""

    def is_used_up(self, party: str) -> bool:
        """This party has as many as one may have."""
        return bool(self._each_max and party and self._parties[party] >= self._each_max)

    def enter(self, party: str) -> None:
        """One more of this party."""
        self.total += 1
        self._parties[party] += 1

    def leave(self, party: str) -> None:
        """One less."""
        self.total -= 1
        self._parties[party] -= 1
        if not self._parties[party]:
            del self._parties[party]


class Place:
    """One connection as :class:`ConnectionLimits` counts it.

    :param limits: among which it is.
    :ivar party: who is at the other end.
    """

    def __init__(self, limits: ConnectionLimits, party: str) -> None:
        self._limits = limits
        self.party = party

    def take(self) -> None:
        """The connection begins."""
        self._limits.enter(self.party)

    def leave(self) -> None:
        """It is gone."""
        self._limits.leave(self.party)
