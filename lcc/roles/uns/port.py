"""The port of providers, and that of gateways: how many connections there may be, and a session for each."""

from __future__ import annotations

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol

from lcc.roles.uns.engine import Uns
from lcc.roles.uns.session import Session
from lcc.transport.connection_limits import ConnectionLimits, Place, party_of

_REFUSED_AT_ONCE = 100
"""Connections over a maximum that are still told why they are refused; those of one address: a tenth."""


class ProviderPort(Factory):
    """Makes a session for each connection of a provider.

    :param gateway: who connects speaks for clients of its own, and is trusted to say their addresses.
    """

    noisy = False

    def __init__(self, uns: Uns, gateway: bool = False) -> None:
        self._uns = uns
        self._gateway = gateway
        settings = uns.settings
        per_address = 0 if gateway else settings.connections_per_address
        self._limits = ConnectionLimits(settings.connections_max, per_address)
        self._refused = ConnectionLimits(_REFUSED_AT_ONCE, _REFUSED_AT_ONCE // 10)

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        uns = self._uns
        party, limits, refusal = party_of(addr), self._limits, ""
        if limits.refusal(party):
            limits, refusal = self._refused, "too-many-connections"
            if limits.refusal(party):
                uns.counters.connections_refused += 1
                return None
        elif uns.is_full() or not uns.takes_sets:
            refusal = "try-later"
        if refusal:
            uns.counters.connections_refused += 1
        session = Session(uns, getattr(addr, "host", ""), refusal, Place(limits, party), self._gateway)
        return session.build_stream()
