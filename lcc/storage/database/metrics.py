"""Metrics of a database."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from lcc.model.metrics import Histogram, Reading, counter, histogram

TRANSACTION_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

TRANSACTIONS = histogram(
    "lcc_database_transaction_seconds",
    "Duration of transactions, including waits and retries",
    *("role", "kind"),
)
RETRIES = counter(
    "lcc_database_retries",
    "Failed attempts at transactions by reason: again (deadlock, lock), lost (connection), full (disk), slow",
    *("role", "reason"),
)
REASONS = ("again", "lost", "full", "slow")


class DatabaseCounts:
    """Counts of one database in one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retries = dict.fromkeys(REASONS, 0)
        self._seconds = {True: Histogram(TRANSACTION_SECONDS), False: Histogram(TRANSACTION_SECONDS)}

    def failed(self, reason: str) -> None:
        """Count a failed attempt; may be called in any thread."""
        with self._lock:
            self._retries[reason] += 1

    def ended(self, write: bool, seconds: float) -> None:
        """Count a finished transaction, successful or not; called in the reactor's thread."""
        self._seconds[write].add(seconds)

    def readings(self, role: str) -> Iterator[Reading]:
        """
        :param role: whose database it is.
        """
        kinds = (("read", False), ("write", True))
        yield TRANSACTIONS.by({(role, kind): self._seconds[write].shown() for kind, write in kinds})
        yield RETRIES.by({(role, reason): count for reason, count in self._retries.items()})
