"""The port of providers, and that of gateways: how many connections there may be, and a session for each."""

from __future__ import annotations

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Protocol

from lcc.roles.uns.engine import Uns
from lcc.roles.uns.session import Session
from lcc.transport.ports.connection_limits import Place
from lcc.transport.ports.refusing_port import RefusingPort


class ProviderPort(RefusingPort):
    """Makes a session for each connection of a provider.

    :param gateway: who connects speaks for clients of its own, and is trusted to say their addresses.
    """

    def __init__(self, uns: Uns, gateway: bool = False) -> None:
        def build(address: IAddress | None, refusal: str, place: Place) -> Protocol:
            return Session(uns, getattr(address, "host", ""), refusal, place, gateway).build_stream()

        def count_refused() -> None:
            uns.counters.connections_refused += 1

        settings = uns.settings
        super().__init__(
            settings.connections_max,
            0 if gateway else settings.connections_per_address,
            build,
            lambda: uns.is_full() or not uns.takes_sets,
            count_refused,
        )
