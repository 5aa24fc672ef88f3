"""What a UNS tells of itself, and what it remembers of what it told a provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs

from lcc.model import ProviderStatus


@attrs.define
class Counters:
    """Plain numbers since the start, for a person at the console and for metrics."""

    connections: int = 0
    connections_now: int = 0
    connections_refused: int = 0
    logins_accepted: int = 0
    logins_rejected: int = 0
    sets_accepted: int = 0
    sets_rejected: int = 0
    sets_cut_off: int = 0
    urls_received: int = 0
    urls_refused: int = 0
    set_bytes: int = 0
    """Of the elements of complete sets."""
    sets_passed_on: int = 0
    sets_secured: int = 0
    sets_refused_late: int = 0
    """Refused by the queue manager after the provider had been told that they are accepted: damage."""
    links: int = 0
    """Good hellos of a queue manager."""


class FullSets:
    """The unsolicited full sets that came here, by provider: what the database does not know yet counts, too."""

    def __init__(self) -> None:
        self._under_way: Counter[int] = Counter()
        self._applied: Counter[int] = Counter()

    def begun(self, pid: int) -> None:
        """One begins to arrive, or is found in the spool."""
        self._under_way[pid] += 1

    def ended(self, pid: int, *, applied: bool) -> None:
        """One is applied by a queue manager, or nothing will come of it."""
        self._under_way[pid] -= 1
        if not self._under_way[pid]:
            del self._under_way[pid]
        if applied:
            self._applied[pid] += 1

    def view(self, pid: int) -> Callable[[], int]:
        """How many there are that the database did not know when this was called."""
        known = self._applied[pid]
        return lambda: self._under_way.get(pid, 0) + self._applied[pid] - known


class FullSetAllowance:
    """Whether a provider may send a full set now, from what it was told at init on.

    :param unknown: how many unsolicited ones there are of which ``status`` does not know.
    """

    def __init__(self, status: ProviderStatus, unknown: Callable[[], int]) -> None:
        self._left = status.full_sets_left
        self._wanted = bool(status.full_set_wanted)
        self._unknown = unknown

    @property
    def wanted(self) -> bool:
        """The next one is that which the provider was asked for."""
        return self._wanted

    @property
    def allowed(self) -> bool:
        """A full set is wanted, or an unsolicited one is still allowed."""
        return self._wanted or self._left is None or self._left > self._unknown()

    def use(self) -> None:
        """A full set was accepted: it was the wanted one, if one was wanted."""
        self._wanted = False
