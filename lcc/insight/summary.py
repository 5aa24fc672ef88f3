"""What is summed up now and then, in the background, for all pages together: they ask the database for none of it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lcc.model import Delay
from lcc.storage.database.transactions import Txn
from lcc.storage.views.failures import Failures, failures
from lcc.storage.views.inspect import delays
from lcc.storage.views.overview import Overview, overview
from lcc.storage.views.provider_pages import ListedProvider, these_providers

BUSIEST = 50
"""Providers with most in the queue."""
DELAYED = 20
LIMIT = 100_000


@attrs.frozen
class Summary:
    """
    :ivar time: when it was made, seconds since 1970.
    :ivar overview: queue, cache, counts.
    :ivar busiest: the providers of ``overview.busiest``.
    :ivar delays: that last longest; ``delayed``: reason -> providers.
    :ivar registrations: that wait for the operator.
    :ivar changes_rate: changes of the cache per second since the one before; None: there is none.
    """

    time: float
    overview: Overview
    busiest: tuple[ListedProvider, ...]
    failures: Failures
    delays: tuple[Delay, ...]
    delayed: dict[str, int]
    registrations: int
    changes_rate: float | None = None

    def after(self, before: Summary | None) -> Summary:
        """The same, with what has happened since the one before."""
        if before is None or self.time <= before.time or self.overview.epoch != before.overview.epoch:
            return self
        grown = max(0, self.overview.change - before.overview.change)
        return attrs.evolve(self, changes_rate=grown / (self.time - before.time))


def summarise(txn: Txn, now: float, rows_max: int) -> Summary:
    """Sum it all up.  Reads every set of the queue and a line for each provider; nothing by URL.

    :param rows_max: errors that are looked at.
    """
    counted = overview(txn, BUSIEST, min(rows_max, LIMIT))
    held, reasons = delays(txn, now, DELAYED)
    pids: Sequence[int] = [pid for pid, _ in counted.busiest]
    waiting = txn.value("SELECT COUNT(*) FROM registrations WHERE state = 'proven' AND expires > ?", [int(now)], 0)
    return Summary(
        time=now,
        overview=counted,
        busiest=tuple(these_providers(txn, pids, now)),
        failures=failures(txn, now, rows_max),
        delays=tuple(held),
        delayed=reasons,
        registrations=int(waiting),
    )
