"""The port of providers."""

from __future__ import annotations

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Protocol

from lcc.roles.fe_uns.engine import FeUns
from lcc.roles.fe_uns.login import Login
from lcc.transport.ports.connection_limits import Place
from lcc.transport.ports.refusing_port import RefusingPort


class ProviderPort(RefusingPort):
    """Makes a login for each connection of a provider."""

    def __init__(self, uns: FeUns) -> None:
        def build(address: IAddress | None, refusal: str, place: Place) -> Protocol:
            return Login(uns, address, refusal, place).build_stream()

        def count_refused() -> None:
            uns.counters.connections_refused += 1

        settings = uns.settings
        super().__init__(
            settings.connections_max,
            settings.connections_per_address,
            build,
            lambda: not uns.takes_logins,
            count_refused,
        )
