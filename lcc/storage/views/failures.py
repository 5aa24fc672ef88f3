"""Failed fetches by error code, for ``lcc-admin`` and the web monitor.  All counts are bounded."""

from __future__ import annotations

from typing import Any

import attrs

from lcc.model import FETCH_NOW, retry_time
from lcc.storage.database.tables.rows import CACHED
from lcc.storage.database.transactions import Txn

WITH_CONTENT = "LEFT JOIN lccurl c ON c.urlkey = kept.urlkey"
"""Append it to ``urlerrs kept`` to use :data:`STANDS`."""
STANDS = (
    f"(c.urlkey IS NULL OR (c.state = {CACHED} AND c.generation <= kept.generation)"
    f" OR (c.state <> {CACHED} AND COALESCE(c.confirmed_time, 0) <= kept.time))"
)
"""The error is current: its URL was neither fetched nor deleted since.  A stored error is kept until its provider was
told, in any case; to an operator only current ones matter (as to retries: :mod:`lcc.storage.queue.admin.retry`)."""


@attrs.frozen
class FailureGroup:
    """Failures with one error code.

    :ivar code: :mod:`lcc.errors`.
    :ivar kept: URLs that failed for good, and are current.
    :ivar waiting: URLs that wait for a retry.
    :ivar sites: providers whose site is unreachable.
    :ivar since: time of the first failure or outage, seconds since 1970; None: unknown.
    :ivar last: time of the last failed fetch; None: none.
    :ivar next_try: time of the next retry; None: none.
    """

    code: int
    kept: int = 0
    waiting: int = 0
    sites: int = 0
    since: int | None = None
    last: int | None = None
    next_try: float | None = None


@attrs.frozen
class Failures:
    """Failures by error code.

    :ivar groups: the largest first.
    :ivar more: the limit was reached: numbers are lower bounds.
    """

    groups: tuple[FailureGroup, ...] = ()
    more: bool = False


def failures(txn: Txn, now: float, limit: int, pid: int = 0) -> Failures:
    """What failed, by code.

    :param now: seconds since 1970.
    :param limit: of rows of each kind.
    :param pid: only this provider's; 0: all.
    """
    found: dict[int, dict[str, Any]] = {}
    (kept, more), waiting = _kept(txn, limit, pid), _waiting(txn, limit, pid)
    for code, count, since, last in kept:
        found[code] = {"kept": count, "since": since, "last": last}
    for code, count, since, last, slot in waiting:
        group = found.setdefault(code, {})
        group |= {"waiting": count, "next_try": retry_time(slot)}
        if since:  # a row that was told anew has none
            group |= {"since": min(since, group.get("since", since)), "last": max(last, group.get("last", last))}
    for code, count, until, since in _sites(txn, now, pid):
        group = found.setdefault(code, {})
        if since:
            group["since"] = min(int(since), group.get("since", int(since)))
        group |= {"sites": count, "next_try": min(until, group.get("next_try", until))}
    groups = [FailureGroup(code, **values) for code, values in found.items()]
    groups.sort(key=lambda group: (-group.sites, -(group.kept + group.waiting), group.code))
    return Failures(tuple(groups), more or sum(row[1] for row in waiting) >= limit)


def _kept(txn: Txn, limit: int, pid: int) -> tuple[list[tuple[Any, ...]], bool]:
    where, values = (" WHERE pid = ?", [pid]) if pid else ("", [])
    rows = txn.query(
        "SELECT code, COUNT(DISTINCT named) + COUNT(unnamed), MIN(time), MAX(time) FROM (SELECT kept.code AS code,"
        " kept.time AS time, CASE WHEN kept.urlkey <> ? THEN kept.urlkey END AS named,"
        " CASE WHEN kept.urlkey = ? THEN 1 END AS unnamed"
        f" FROM (SELECT code, time, urlkey, generation FROM urlerrs{where} LIMIT ?) AS kept"
        f" {WITH_CONTENT} WHERE {STANDS}) AS standing GROUP BY code",
        [b"", b"", *values, limit],
    )
    seen = txn.value(f"SELECT COUNT(*) FROM (SELECT 1 FROM urlerrs{where} LIMIT ?) AS some", [*values, limit], 0)
    return rows, int(seen) >= limit


def _waiting(txn: Txn, limit: int, pid: int) -> list[tuple[Any, ...]]:
    # Those that are due first are the ones that are looked at: slots before "fetch now" go down in time.
    index, only, values = ("qpsdb_provider", "s.pid = ? AND ", [pid]) if pid else ("qpsdb_slot", "", [])
    return txn.query(
        "SELECT bad_code, COUNT(*), MIN(bad_time), MAX(bad_time), MAX(slot) FROM"
        " (SELECT q.bad_code AS bad_code, q.bad_time AS bad_time, s.slot AS slot"
        f" FROM qpsdb s {txn.by_index(index)} JOIN qdb q ON q.pid = s.pid AND q.slot = s.slot AND q.psetid = s.psetid"
        f" WHERE {only}s.slot < ? ORDER BY s.slot DESC LIMIT ?) AS waiting GROUP BY bad_code",
        [*values, FETCH_NOW, limit],
    )


def _sites(txn: Txn, now: float, pid: int) -> list[tuple[Any, ...]]:
    only, values = ("pid = ?", [pid]) if pid else ("pid > 0", [])
    return txn.query(
        "SELECT code, COUNT(*), MIN(until_time), MIN(since_time) FROM pdelays"
        f" WHERE {only} AND until_time > ? AND code > 0 GROUP BY code",
        [*values, int(now)],
    )
