"""Lists of providers, filtered and sorted, for the web monitor.

Each reads a row for every provider, and to sort by lag one for every set of the queue; none reads URLs.
"""

from __future__ import annotations

from typing import Any

import attrs

from lcc.model import FETCH_NOW
from lcc.storage.database.transactions import Txn
from lcc.storage.views.provider_pages import ListedProvider, these_providers

FILTERS = {
    "queued": "s.nurlproc > 0",
    "errors": "s.errseq > s.errcleared",
    "delayed": "d.reason <> ''",
    "unreachable": "d.code > 0",
    "wanted": "s.wantfullset <> ''",
    "held": "EXISTS (SELECT 1 FROM heldsweeps h WHERE h.pid = p.pid)",
    "removing": "p.removed <> 0",
}
"""Name -> condition.  ``unreachable`` is what :func:`lcc.storage.views.failures.failures` counts as sites."""
DELAY_REASONS = ("hours", "bandwidth", "interval", "site-error", "retry-after")
"""Also names of filters: the reasons of :class:`lcc.model.Delay`."""
_STATE = (
    "CASE WHEN p.removed <> 0 THEN 0 WHEN d.code > 0 THEN 1 WHEN d.reason IS NOT NULL THEN 2"
    " WHEN s.wantfullset <> '' THEN 3 WHEN s.nurlproc > 0 THEN 4 ELSE 5 END, d.reason"
)
ORDERS = {
    "id": "p.pid",
    "queued": "s.nurlproc DESC",
    "errors": "s.errseq - s.errcleared DESC",
    "lag": "CASE WHEN q.oldest IS NULL THEN 1 ELSE 0 END, q.oldest",
    "state": _STATE,
    "files": "s.files_used DESC",
}
_OLDEST = "LEFT JOIN (SELECT pid, MIN(time) AS oldest FROM qpsdb WHERE slot >= ? GROUP BY pid) q ON q.pid = p.pid"


@attrs.frozen
class ProviderChoice:
    """Which providers are listed, and in which order.

    :ivar only: of :data:`FILTERS` or :data:`DELAY_REASONS`; empty: all.
    :ivar code: only those whose site is unreachable with this error; 0: any.
    :ivar priority: only those of this priority; None: any.
    :ivar order: of :data:`ORDERS`.
    """

    only: str = ""
    code: int = 0
    priority: int | None = None
    order: str = "id"


def chosen_providers(
    txn: Txn, choice: ProviderChoice, offset: int, limit: int, now: float
) -> tuple[int, list[ListedProvider]]:
    """How many there are of these, and some of them.

    :param now: seconds since 1970.
    """
    values: list[Any] = []
    tables = "FROM pidb p"
    if choice.order == "lag":
        tables = f"{tables} {_OLDEST}"
        values.append(FETCH_NOW)
    tables += " LEFT JOIN pstats s ON s.pid = p.pid LEFT JOIN pdelays d ON d.pid = p.pid AND d.until_time > ?"
    values.append(int(now))
    wanted: dict[str, Any] = {}
    if choice.only in DELAY_REASONS:
        wanted["d.reason"] = choice.only
    if choice.code:
        wanted["d.code"] = choice.code
    if choice.priority is not None:
        wanted["p.priority"] = choice.priority
    conditions = [FILTERS[choice.only]] if choice.only in FILTERS else []
    conditions += [f"{column} = ?" for column in wanted]
    values += wanted.values()
    chosen = f"{tables} WHERE {' AND '.join(conditions)}" if conditions else tables
    rows = txn.query(
        f"SELECT p.pid {chosen} ORDER BY {ORDERS[choice.order]}, p.pid LIMIT ? OFFSET ?", [*values, limit, offset]
    )
    count = int(txn.value(f"SELECT COUNT(*) {chosen}", values))
    return count, these_providers(txn, [pid for (pid,) in rows], now)
