"""A port that serves so many connections, and tells those beyond why it does not."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol

from lcc.transport.ports.connection_limits import ConnectionLimits, Place, party_of

_REFUSED_AT_ONCE = 100
"""Connections over a maximum that are still told why they are refused; those of one address: a tenth."""


class RefusingPort(Factory):
    """
    :param connections_max: at once.
    :param per_address: of those, of one address; 0: no such limit.
    :param build: makes the protocol of a connection from its address, the name of the error that it is to be refused
        with (empty: none), and its place.
    :param is_closed: nobody is served now: the error is "try-later".
    :param count_refused: called for each connection that is refused.
    """

    noisy = False

    def __init__(
        self,
        connections_max: int,
        per_address: int,
        build: Callable[[IAddress | None, str, Place], Protocol],
        is_closed: Callable[[], bool],
        count_refused: Callable[[], None],
    ) -> None:
        self._build = build
        self._is_closed = is_closed
        self._count_refused = count_refused
        self._limits = ConnectionLimits(connections_max, per_address)
        self._refused = ConnectionLimits(_REFUSED_AT_ONCE, _REFUSED_AT_ONCE // 10)

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        party, limits, refusal = party_of(addr), self._limits, ""
        if limits.refusal(party):
            limits, refusal = self._refused, "too-many-connections"
            if limits.refusal(party):
                self._count_refused()
                return None
        elif self._is_closed():
            refusal = "try-later"
        if refusal:
            self._count_refused()
        return self._build(addr, refusal, Place(limits, party))
