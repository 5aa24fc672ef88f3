"""Connections to the UNSes of sub-LCCs, made when a provider needs one."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from lcc.errors import ConfigError
from lcc.model.frontend.places import SubLcc
from lcc.roles.fe_uns.engine import Unreachable
from lcc.transport.splice import SpliceEnd

_log = Logger()

AVOIDED_SECONDS = 5.0
"""A UNS that could not be reached is the last to be tried for so long."""


class Uplinks:
    """Spreads connections over the UNSes of a sub-LCC; one that cannot be reached is left out.

    :param endpoint: makes the endpoint of a UNS from its string in FEDB.
    """

    def __init__(self, endpoint: Callable[[str], IStreamClientEndpoint], clock: IReactorTime) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._endpoints: dict[str, IStreamClientEndpoint] = {}
        self._avoided_until: dict[str, float] = {}
        self._turn = 0
        self._factory = Factory.forProtocol(SpliceEnd)
        self._factory.noisy = False

    async def connect(self, sub: SubLcc) -> SpliceEnd:
        """A connection to one of its UNSes.

        :raises Unreachable: there is none.
        """
        reasons = []
        for text in self._in_order(sub):
            try:
                end: SpliceEnd = await self._known(text).connect(self._factory)  # type: ignore[assignment]  # its own
            except (CancelledError, ConnectingCancelledError):
                raise CancelledError from None
            except Exception as error:  # the endpoint has logged it
                self._avoided_until[text] = self._clock.seconds() + AVOIDED_SECONDS
                reasons.append(f"{text}: {error}")
            else:
                self._avoided_until.pop(text, None)
                return end
        raise Unreachable(f"sub-LCC {sub.name}: {'; '.join(reasons) or 'it has no UNS'}")

    def _in_order(self, sub: SubLcc) -> list[str]:
        self._turn += 1
        begin = self._turn % (len(sub.uns) or 1)
        now = self._clock.seconds()
        turned = [*sub.uns[begin:], *sub.uns[:begin]]
        return sorted(turned, key=lambda text: self._avoided_until.get(text, 0.0) > now)

    def _known(self, text: str) -> IStreamClientEndpoint:
        if text not in self._endpoints:
            try:
                self._endpoints[text] = self._endpoint(text)
            except ConfigError as error:
                _log.error("Cannot use {endpoint} of a sub-LCC: {error}", endpoint=text, error=str(error))
                raise
        return self._endpoints[text]
