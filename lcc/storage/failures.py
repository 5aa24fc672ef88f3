"""What failed, by error code: for ``lcc-admin`` and the web monitor.  Nothing here counts without bounds."""

from __future__ import annotations

from typing import Any

import attrs

from lcc.model import FETCH_NOW, retry_time
from lcc.storage.transactions import Txn


@attrs.frozen
class FailureGroup:
    """All that failed with one code.

    :ivar code: :mod:`lcc.errors`.
    :ivar kept: fetches that failed for good, and are kept for their providers.
    :ivar waiting: URLs that are tried again.
    :ivar sites: providers whose site cannot be reached at present.
    :ivar since: when the first of the fetches failed, or the first of the sites was away; seconds since 1970; None: not
        known.
    :ivar last: when the last of the fetches did; None: none has.
    :ivar next_try: when the first of what is tried again is; None: nothing is.
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
    """
    :ivar groups: the largest first.
    :ivar more: there are more than were looked at: numbers are "at least".
    """

    groups: tuple[FailureGroup, ...] = ()
    more: bool = False


def failures(txn: Txn, now: float, limit: int, pid: int = 0) -> Failures:
    """What failed, by code.

    :param now: seconds since 1970.
    :param limit: rows of each kind that are looked at.
    :param pid: only this provider's; 0: all.
    """
    found: dict[int, dict[str, Any]] = {}
    kept, waiting = _kept(txn, limit, pid), _waiting(txn, limit, pid)
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
    counted = [sum(row[1] for row in rows) for rows in (kept, waiting)]
    return Failures(tuple(groups), max(counted) >= limit)


def _kept(txn: Txn, limit: int, pid: int) -> list[tuple[Any, ...]]:
    where, values = (" WHERE pid = ?", [pid]) if pid else ("", [])
    return txn.query(
        f"SELECT code, COUNT(*), MIN(time), MAX(time) FROM (SELECT code, time FROM urlerrs{where} LIMIT ?) AS kept"
        " GROUP BY code",
        [*values, limit],
    )


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
        f"SELECT code, COUNT(*), MIN(until_time), MIN(since_time) FROM pdelays WHERE {only} AND until_time > ? AND code > 0"
        " GROUP BY code",
        [*values, int(now)],
    )
