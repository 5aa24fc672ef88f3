"""Metrics of the whole queue: its backlog, its lag, and the providers with the longest lag.

A few statements in one transaction, with small results for any number of providers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from lcc.model import FETCH_NOW
from lcc.model.metrics import Buckets
from lcc.model.survey import Lag, Queued, Survey
from lcc.storage.database.tables.cancelled import TO_FETCH, WITH_CANCELLED
from lcc.storage.database.transactions import Txn

# Without providers whose hours are closed, or whose site is unreachable.  Bandwidth only spaces fetches: it does not
# count here, because the metrics should show a bandwidth that is too small.
_HELD = "LEFT JOIN pdelays AS d ON d.pid = s.pid AND d.until_time > ? AND d.reason <> 'bandwidth'"

# Of each provider with something to fetch now: the time of its first set, and its backlog.
_BY_PROVIDER = (
    f"SELECT s.pid AS pid, MIN(s.time) AS since, SUM({TO_FETCH}) AS urls FROM qpsdb s {_HELD} {WITH_CANCELLED}"
    f" WHERE s.slot = ? AND d.pid IS NULL AND {TO_FETCH} > 0 GROUP BY s.pid"
)

KINDS_MAX = 50
"""Limit of distinct hours (with time zones): for providers with others, the lag counts from the arrival of the
set."""
LOOKED_BACK_SECONDS = 8 * 86400
"""How far back closed hours are considered."""

Closed = Callable[[str, float, float, str], list[tuple[float, float]]]
""":meth:`lcc.domain.fetches.timeslots.TimeSlots.closed_spans`."""


def survey(txn: Txn, now: int, top: int, bounds: Sequence[float], closed: Closed = lambda *_: []) -> Survey:
    """All of it.

    A provider waits from when the first of its sets came, or, if its hours were closed then, from when they opened.

    :param now: seconds since 1970.
    :param top: providers listed.
    :param bounds: upper ends of the buckets of lags, in seconds.
    """
    waiting, values = _waiting(txn, now, closed)
    queued = txn.query(
        f"SELECT s.pri, SUM(CASE WHEN s.slot = ? AND d.pid IS NULL THEN {TO_FETCH} ELSE 0 END),"
        f" SUM(CASE WHEN s.slot > ? OR (s.slot = ? AND d.reason = 'hours') THEN {TO_FETCH} ELSE 0 END),"
        f" SUM(CASE WHEN s.slot < ? OR (s.slot = ? AND d.reason <> 'hours') THEN {TO_FETCH} ELSE 0 END)"
        f" FROM qpsdb s {_HELD} {WITH_CANCELLED} WHERE {TO_FETCH} > 0 GROUP BY s.pri ORDER BY s.pri",
        [*([FETCH_NOW] * 5), now],
    )
    worst = txn.query(
        f"SELECT pid, since, urls FROM ({waiting}) AS waiting ORDER BY since, pid LIMIT ?", [*values, top]
    )
    totals = txn.one(
        "SELECT COALESCE(SUM(files_used), 0), COALESCE(SUM(space_used), 0), COALESCE(SUM(errseq - errcleared), 0),"
        " COALESCE(SUM(CASE WHEN wantfullset <> '' THEN 1 ELSE 0 END), 0) FROM pstats"
    )
    assert totals is not None
    files, space_bytes, errors, wanted = map(int, totals)
    lags, oldest = _lags(txn, now, bounds, waiting, values)
    return Survey(
        time=now,
        queued=tuple(Queued(*map(int, row)) for row in queued),
        lags=lags,
        worst=tuple(Lag(int(pid), max(0, now - int(since)), int(urls)) for pid, since, urls in worst),
        oldest_seconds=oldest,
        delayed={
            str(reason): int(count)
            for reason, count in txn.query(
                "SELECT reason, COUNT(*) FROM pdelays WHERE until_time > ? AND pid > 0 GROUP BY reason", [now]
            )
        },
        providers=int(txn.value("SELECT COUNT(*) FROM pidb WHERE removed = 0", (), 0)),
        files=files,
        space_bytes=space_bytes,
        errors=errors,
        full_sets_wanted=wanted,
    )


def _waiting(txn: Txn, now: int, closed: Closed) -> tuple[str, list[Any]]:
    """A statement that tells of each provider with something to fetch now since when the first of it waits, and how
    much it is; and its values."""
    kinds = txn.query(
        "SELECT DISTINCT timeofday, timezone FROM pidb WHERE removed = 0 AND timeofday <> ''"
        " ORDER BY timeofday, timezone LIMIT ?",
        [KINDS_MAX],
    )
    cases, values = [], []
    for hours, timezone in kinds:
        spans = closed(hours, now - LOOKED_BACK_SECONDS, now, timezone)
        if spans:
            then = " ".join("WHEN a.since >= ? AND a.since < ? THEN ?" for _ in spans)
            cases.append(f"WHEN p.timeofday = ? AND p.timezone = ? THEN CASE {then} ELSE a.since END")
            values += [hours, timezone]
            values += chain.from_iterable((int(begun), int(ended), int(ended)) for begun, ended in spans)
    if not cases:
        return _BY_PROVIDER, [now, FETCH_NOW]
    since = f"CASE {' '.join(cases)} ELSE a.since END"
    sql = (
        f"SELECT a.pid AS pid, {since} AS since, a.urls AS urls FROM ({_BY_PROVIDER}) AS a"
        " LEFT JOIN pidb AS p ON p.pid = a.pid"
    )
    return sql, [*values, now, FETCH_NOW]


def _lags(txn: Txn, now: int, bounds: Sequence[float], waiting: str, values: Sequence[Any]) -> tuple[Buckets, int]:
    """Them, and the longest."""
    upto = ", ".join("SUM(CASE WHEN since >= ? THEN 1 ELSE 0 END)" for _ in bounds)
    row = txn.one(
        f"SELECT {upto}, COUNT(*), SUM(since), MIN(since) FROM ({waiting}) AS waiting",
        [*(now - bound for bound in bounds), *values],
    )
    assert row is not None
    *counts, since, first = (int(value or 0) for value in row)
    total = max(0, now * counts[-1] - since)
    return Buckets(tuple(bounds), tuple(counts), total), max(0, now - first) if counts[-1] else 0
