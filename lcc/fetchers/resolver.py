"""Names to addresses, remembered for a while.

Owns: a bounded cache of answers.  Lookups of one name at one time are joined.  Failures are remembered for a few
seconds only, so that a thousand URLs of a site whose name is gone ask once, not a thousand times.
"""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer

from lcc.errors import FetchError

NAMES_MAX = 4096
"""Names remembered at once."""
ADDRESSES_MAX = 64
"""Addresses taken of one answer; a longer one is refused."""
FAILURE_SECONDS = 5.0
"""How long a failure is remembered."""


@attrs.frozen
class _Answer:
    """What is known of a name: its addresses, or why there are none."""

    addresses: tuple[str, ...]
    failure: str
    until: float


@implementer(IResolutionReceiver)
class _Lookup:
    """One question that is under way, and all who wait for it."""

    def __init__(self, owner: CachingResolver, name: str) -> None:
        self._owner = owner
        self._name = name
        self._addresses: list[str] = []
        self.waiting: list[Deferred[tuple[str, ...]]] = []
        self.timer: Any = None
        self.done = False

    def resolutionBegan(self, resolutionInProgress: Any) -> None:
        """Nothing to do: the system's resolver cannot be interrupted."""

    def addressResolved(self, address: Any) -> None:
        """One more address; others than IP are of no use."""
        if isinstance(address, (IPv4Address, IPv6Address)) and address.host not in self._addresses:
            self._addresses.append(address.host)

    def resolutionComplete(self) -> None:
        """That was all."""
        if not self._addresses:
            self.end((), "no such host")
        elif len(self._addresses) > ADDRESSES_MAX:
            self.end((), f"more than {ADDRESSES_MAX} addresses")
        else:
            self.end(tuple(self._addresses), "")

    def end(self, addresses: tuple[str, ...], failure: str) -> None:
        """Give the answer to everyone, once."""
        if not self.done:
            self.done = True
            if self.timer is not None and self.timer.active():
                self.timer.cancel()
            self._owner._ended(self._name, self, addresses, failure)


class CachingResolver:
    """Resolves host names.

    :param clock: the reactor or a clock.
    :param inner: asks for real.
    :param keep_seconds: how long an answer is used again.
    :param timeout_seconds: how long an answer is waited for.
    """

    def __init__(self, clock: Any, inner: IHostnameResolver, keep_seconds: float, timeout_seconds: float) -> None:
        self._clock = clock
        self._inner = inner
        self._keep_seconds = keep_seconds
        self._timeout_seconds = timeout_seconds
        self._answers: dict[str, _Answer] = {}
        self._lookups: dict[str, _Lookup] = {}

    def resolve(self, name: str) -> Deferred[tuple[str, ...]]:
        """The addresses of a name, at least one.

        Fails with FetchError "dns-failed".  Cancelling it does not disturb others that wait for the same name.
        """
        answer = self._answers.get(name)
        if answer is not None:
            if self._clock.seconds() < answer.until:
                result: Deferred[tuple[str, ...]] = Deferred()
                _give(result, name, answer.addresses, answer.failure)
                return result
            del self._answers[name]
        lookup = self._lookups.get(name)
        fresh = lookup is None
        if lookup is None:
            lookup = self._lookups[name] = _Lookup(self, name)
        waiting = lookup.waiting
        result = Deferred(lambda gone: waiting.remove(gone) if gone in waiting else None)
        waiting.append(result)
        if fresh:
            self._ask(name, lookup)
        return result

    def close(self) -> None:
        """End all lookups; those who wait get "dns-failed"."""
        for lookup in list(self._lookups.values()):
            lookup.end((), "the robot stops")
        self._answers.clear()

    def _ask(self, name: str, lookup: _Lookup) -> None:
        reason = f"no answer within {self._timeout_seconds:g} seconds"
        lookup.timer = self._clock.callLater(self._timeout_seconds, lookup.end, (), reason)
        try:
            self._inner.resolveHostName(lookup, name, 0, [IPv4Address, IPv6Address], "TCP")
        except (ValueError, OSError) as error:
            lookup.end((), str(error)[:200])

    def _ended(self, name: str, lookup: _Lookup, addresses: tuple[str, ...], failure: str) -> None:
        if self._lookups.get(name) is lookup:
            del self._lookups[name]
        keep = FAILURE_SECONDS if failure else self._keep_seconds
        if keep > 0:
            while len(self._answers) >= NAMES_MAX:
                del self._answers[next(iter(self._answers))]
            self._answers[name] = _Answer(addresses, failure, self._clock.seconds() + keep)
        waiting, lookup.waiting = list(lookup.waiting), []
        for result in waiting:
            if not result.called:
                _give(result, name, addresses, failure)


def _give(result: Deferred[tuple[str, ...]], name: str, addresses: tuple[str, ...], failure: str) -> None:
    if failure:
        result.errback(FetchError("dns-failed", f"{name[:100]}: {failure}"))
    else:
        result.callback(addresses)
