"""A port of notifiers: makes a connection for each, within limits."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol

from lcc.transport.ports.connection_limits import ConnectionLimits, Place, party_of


def port_name(setting: str, roles: frozenset[str]) -> str:
    """Of the port for these roles, in metrics."""
    return setting if len(roles) > 1 else f"{setting}:{min(roles)}"


class NotifierPort(Factory):
    """One port.

    :param build: makes a connection, of one of these roles.
    :param roles: that may connect here.
    :param limits: of connections, which all these ports share.
    :param count_refused: is called for each connection that is refused.
    """

    noisy = False

    def __init__(
        self,
        build: Callable[[frozenset[str], Place], Protocol],
        roles: frozenset[str],
        limits: ConnectionLimits,
        count_refused: Callable[[], None],
    ) -> None:
        self._build = build
        self._roles = roles
        self._limits = limits
        self._count_refused = count_refused

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        party = party_of(addr)
        if self._limits.refusal(party):
            self._count_refused()
            return None
        return self._build(self._roles, Place(self._limits, party))
