"""Makes a connection for each notifier, within limits."""

from __future__ import annotations

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol

from lcc.roles.uns.notifiers.connection import NotifierConnection
from lcc.roles.uns.notifiers.hub import Notifiers
from lcc.transport.connection_limits import ConnectionLimits, Place, party_of


class NotifierPort(Factory):
    """One port.

    :param roles: that may connect here.
    :param limits: of connections, which all these ports share.
    """

    noisy = False

    def __init__(self, hub: Notifiers, roles: frozenset[str], limits: ConnectionLimits) -> None:
        self._hub = hub
        self._roles = roles
        self._limits = limits

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        party = party_of(addr)
        if self._limits.refusal(party):
            self._hub.uns.counters.notifier_connections_refused += 1
            return None
        return NotifierConnection(self._hub, self._roles, Place(self._limits, party)).build_stream()
