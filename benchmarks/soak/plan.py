"""How long the parts of a soak are, and the limits that its overload is to meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

HERE = Path(__file__).parent.parent
PROVIDERS = 32
PROBES = 4
"""More providers, that tell of single pages."""
PROBE_SECONDS = 0.05
WINDOW_SECONDS = 10.0
"""Latency and rates are looked at for so long each."""
SPOOLED_BYTES = 300
"""What a URL takes in a spool, about."""


@attrs.frozen
class Plan:
    """
    :ivar minutes: at half the measured rate.
    :ivar overload_seconds: at ten times that.
    :ivar calm_seconds: at half the measured rate once more, after the backlog is gone.
    :ivar pages: fetched to measure the rate.
    :ivar limit_seconds: the queue, and besides it the spool, may hold what is fetched in so long.
    """

    minutes: float
    overload_seconds: float = 120.0
    calm_seconds: float = 60.0
    pages: int = 20_000
    limit_seconds: float = 15.0

    @classmethod
    def slice(cls, seconds: float) -> Plan:
        """A short one, for tests."""
        return cls(seconds / 60, seconds / 2, seconds / 3, 2000, 4.0)

    def settings(self, rate: float) -> dict[str, dict[str, Any]]:
        """The configuration: limits that an overload reaches soon; files of replaced content do not pile up."""
        room = int(rate * self.limit_seconds)
        return {
            "qm": {"queue_rows_max": room, "absorb_backlog_max": max(4000, room // 4), "delete_grace": 20},
            # All providers come from one address here.
            "uns": {"spool_max_bytes": max(1 << 20, room * SPOOLED_BYTES), "connections_per_address": 0},
        }

    def window_pages(self, rate: float) -> int:
        """Pages of each provider: so many that a queue and a spool at their limits name none of them twice."""
        return max(100, int(4 * rate * self.limit_seconds / PROVIDERS))
