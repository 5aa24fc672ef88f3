"""What a UNS tells of itself, and what it remembers of what it told a provider."""

from __future__ import annotations

import attrs

from lcc.model import ProviderStatus


@attrs.define
class Counters:
    """Plain numbers since the start, for a person at the console and for metrics."""

    connections: int = 0
    connections_now: int = 0
    logins_accepted: int = 0
    logins_rejected: int = 0
    sets_accepted: int = 0
    sets_rejected: int = 0
    sets_cut_off: int = 0
    urls_received: int = 0
    urls_refused: int = 0
    sets_passed_on: int = 0
    sets_secured: int = 0
    sets_refused_late: int = 0
    """Refused by the queue manager after the provider had been told that they are accepted: damage."""
    links: int = 0
    """Good hellos of a queue manager."""


class FullSetAllowance:
    """Whether a provider may send a full set now, from what it was told at init on.

    The queue manager has the last word; this is so that a provider need not send what will be refused.
    """

    def __init__(self, status: ProviderStatus) -> None:
        self._left = status.full_sets_left
        self._wanted = bool(status.full_set_wanted)

    @property
    def wanted(self) -> bool:
        """The next one is that which the provider was asked for."""
        return self._wanted

    @property
    def allowed(self) -> bool:
        """A full set is wanted, or an unsolicited one is still allowed."""
        return self._wanted or self._left is None or self._left > 0

    def use(self) -> None:
        """A full set was accepted.  A wanted one costs nothing."""
        if self._wanted:
            self._wanted = False
        elif self._left:
            self._left -= 1
