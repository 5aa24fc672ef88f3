"""What providers owe (:mod:`lcc.domain.fetches.bandwidth`) of which nothing is held at the moment.

Orders of one provider that were sent together may arrive apart, cut anywhere and with any time between: then those
that came first have ended, and nothing else is known of the provider, when the rest comes.  What they left behind is
kept for a moment, so that the rest finds it.
"""

from __future__ import annotations

KEPT_SECONDS = 2.0
"""No debt is kept for longer: what the queue manager sends together is paid for within about a second, and it keeps
long debts itself.  This is a robot's PAY_SECONDS_MAX, too: what is kept here is waited for, never handed back."""


class Debts:
    """Clock times before which no fetch of a provider may begin, by provider; each is given back once."""

    def __init__(self) -> None:
        self._paid_at: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._paid_at)

    def keep(self, pid: int, paid_at: float, now: float) -> None:
        """Nothing of it is held any longer."""
        kept = self._paid_at
        while kept and kept[oldest := next(iter(kept))] <= now:
            del kept[oldest]
        if paid_at > now:
            # At the end: what is older than KEPT_SECONDS is over, and comes to the front.
            paid_at = max(kept.pop(pid, 0.0), min(paid_at, now + KEPT_SECONDS))
            kept[pid] = paid_at

    def take(self, pid: int) -> float:
        """An order of it has come; 0: it owes nothing, as far as is known."""
        return self._paid_at.pop(pid, 0.0)
