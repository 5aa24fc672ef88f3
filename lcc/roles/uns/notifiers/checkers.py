"""What is known of the providers that notifiers speak of: kept for some seconds, because a notifier tells many small
sets of each."""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from lcc.domain.notices.elements import ElementChecker
from lcc.errors import SetError
from lcc.model import Provider, Source

KNOWN_SECONDS = 10.0
"""Roots that an operator has changed count after so long; the queue manager looks at them, too."""
_KNOWN_MAX = 20_000
_ORDERS_MAX = 200_000


@attrs.define
class _Known:
    provider: Provider | None
    until: float
    checkers: dict[Source, ElementChecker] = attrs.field(factory=dict)


class Checkers:
    """Providers, and what checks their elements.

    :param read: gives a provider; None: there is none.
    :param read_orders: gives the last order number that was drawn, by provider.
    :param make: makes what checks a provider's elements of a source.
    """

    def __init__(
        self,
        clock: IReactorTime,
        read: Callable[[int], Deferred[Provider | None]],
        read_orders: Callable[[Collection[int]], Deferred[dict[int, int]]],
        make: Callable[[Provider, Source], ElementChecker],
    ) -> None:
        self._clock = clock
        self._read = read
        self._read_orders = read_orders
        self._make = make
        self._known: dict[int, _Known] = {}
        self._orders: dict[int, int] = {}

    def lacks(self, pid: int, order: int) -> bool:
        """:meth:`load` has to be called first."""
        known = self._known.get(pid)
        if known is None or known.until <= self._clock.seconds():
            return True
        return known.provider is not None and order > self._orders.get(pid, 0)

    async def load(self, wanted: Collection[tuple[int, int]]) -> None:
        """Read what is wanted of these providers and order numbers.

        :raises StoreUnavailable: the database does not answer.
        """
        await self._read_providers({pid for pid, _ in wanted if self.lacks(pid, 0)})
        orders = sorted({pid for pid, order in wanted if order and self.lacks(pid, order)})
        if orders:
            found = await self._read_orders(orders)
            for pid in orders:
                self.drawn(pid, found.get(pid, 0))
        # Another notifier may have had one of them made, or changed, meanwhile.
        while forgotten := {pid for pid, _ in wanted if pid not in self._known}:
            await self._read_providers(forgotten)

    async def _read_providers(self, pids: Collection[int]) -> None:
        reading = [(pid, self._read(pid)) for pid in pids]
        fault: Exception | None = None
        for pid, provider in reading:
            try:
                self._keep(pid, await provider)
            except Exception as error:
                fault = error
        if fault is not None:
            raise fault

    def _keep(self, pid: int, provider: Provider | None) -> None:
        if provider is not None and provider.removed:
            provider = None
        if len(self._known) >= _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known.pop(pid, None)  # the newest is the last
        self._known[pid] = _Known(provider, self._clock.seconds() + KNOWN_SECONDS)

    def drawn(self, pid: int, order: int) -> None:
        """This order number of the provider was drawn."""
        if order > self._orders.get(pid, 0):
            if len(self._orders) >= _ORDERS_MAX:
                del self._orders[next(iter(self._orders))]
            self._orders.pop(pid, None)
            self._orders[pid] = order

    def is_drawn(self, pid: int, order: int) -> bool:
        """Whether this number was drawn, as far as is known."""
        return order <= self._orders.get(pid, 0)

    def forget(self, pid: int) -> None:
        """This provider was made, or changed, just now."""
        self._known.pop(pid, None)

    def checker(self, pid: int, source: Source) -> ElementChecker:
        """What checks elements of this provider and source.

        :raises SetError: "provider-gone"; "internal": its hours cannot be understood.
        """
        known = self._known.get(pid)
        if known is None or known.provider is None:
            raise SetError("provider-gone")
        checker = known.checkers.get(source)
        if checker is None:
            checker = known.checkers[source] = self._make(known.provider, source)
        return checker
