"""A summary of queue, cache, errors and delays: what the web monitor's pages show, read once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lcc.insight.moving import LocalMoves, local_moves
from lcc.model import Delay
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.registrations import count_proven
from lcc.storage.views.failures import Failures, failures
from lcc.storage.views.inspect import delays
from lcc.storage.views.overview import Overview, overview
from lcc.storage.views.provider_pages import ListedProvider, these_providers
from lcc.storage.views.readers import count_readers

BUSIEST = 50
"""Providers with the most queued URLs."""
DELAYED = 20
LIMIT = 100_000


@attrs.frozen
class Summary:
    """
    :ivar time: when it was read, seconds since 1970.
    :ivar busiest: the providers of ``overview.busiest``.
    :ivar delays: the longest ones; ``delayed``: reason -> number of providers.
    :ivar registrations: that wait for approval.
    :ivar users: content users; ``users_time``: of the last request of one.
    :ivar moves: of providers between sub-LCCs.
    :ivar changes_rate: cache changes per second since the previous summary; None: there is none.
    """

    time: float
    overview: Overview
    busiest: tuple[ListedProvider, ...]
    failures: Failures
    delays: tuple[Delay, ...]
    delayed: dict[str, int]
    registrations: int
    users: int = 0
    users_time: int | None = None
    moves: LocalMoves = LocalMoves()
    changes_rate: float | None = None

    @property
    def queued(self) -> int:
        """URLs to be fetched."""
        return sum(each.urls for each in self.overview.queue)

    def after(self, before: Summary | None) -> Summary:
        """This summary with its rates since the previous one."""
        if before is None or self.time <= before.time or self.overview.epoch != before.overview.epoch:
            return self
        grown = max(0, self.overview.change - before.overview.change)
        return attrs.evolve(self, changes_rate=grown / (self.time - before.time))


def summarise(txn: Txn, now: float, rows_max: int) -> Summary:
    """Read it all: every set of the queue and a row for each provider, nothing for each URL.

    :param rows_max: errors to look at.
    """
    counted = overview(txn, BUSIEST, min(rows_max, LIMIT), now)
    held, reasons = delays(txn, now, DELAYED)
    users, users_time = count_readers(txn)
    pids: Sequence[int] = [pid for pid, _ in counted.busiest]
    return Summary(
        time=now,
        overview=counted,
        busiest=tuple(these_providers(txn, pids, now)),
        failures=failures(txn, now, rows_max),
        delays=tuple(held),
        delayed=reasons,
        registrations=count_proven(txn, int(now)),
        users=users,
        users_time=users_time,
        moves=local_moves(txn),
    )
