"""Totals of the whole system, for ``lcc-admin status``.  Read-only.

Expensive counts are bounded.
"""

from __future__ import annotations

from typing import Any

import attrs

from lcc.model import FETCH_NOW
from lcc.storage.database.tables.cancelled import TO_FETCH, WITH_CANCELLED
from lcc.storage.database.tables.status import database_epoch, last_change, next_retry
from lcc.storage.database.transactions import Txn
from lcc.storage.views.failures import STANDS, WITH_CONTENT
from lcc.storage.views.inspect import Count, count_rows


@attrs.frozen
class Waiting:
    """Sets of one priority that have rows in the queue.

    :ivar later: of ``urls``, those that wait for a time slot.
    :ivar retrying: those that wait for a retry.
    """

    priority: int
    providers: int
    sets: int
    urls: int
    later: int
    retrying: int


@attrs.frozen
class Oldest:
    """The set that has waited longest."""

    psetid: int
    pid: int
    urls: int
    time: int


@attrs.frozen
class Overview:
    """
    :ivar run: of the queue manager that claimed the database last; 0: none ever did.
    :ivar providers: registered; ``removing``: of them, those being removed.
    :ivar errors: of fetches that providers were not told yet, or whose telling is not confirmed; the exact count.
    :ivar lag_since: when the oldest set came that could be fetched at any time, of a provider that is not delayed;
        None: none waits.
    :ivar busiest: ``(pid, urls to fetch)``.
    :ivar next_retry: when the first URL that waits to be tried again after an error is due; None: none waits.
    :ivar wanted: reason -> providers that are asked for a full set.
    :ivar held: ``(providers, pages)`` of which full sets would delete so much that somebody has to say so.
    :ivar codes: error code -> how many errors with it are kept and stand.
    :ivar codes_more: there are more errors than were looked at.
    :ivar orders: kind -> orders of lcc-admin that are not carried out yet.
    :ivar deletes: machine -> files to be removed there.
    """

    epoch: str
    run: int
    change: int
    providers: int
    removing: int
    files: int
    space_bytes: int
    errors: int
    queue: tuple[Waiting, ...]
    oldest: Oldest | None
    lag_since: int | None
    busiest: tuple[tuple[int, int], ...]
    next_retry: int | None
    wanted: dict[str, int]
    held: tuple[int, int]
    codes: dict[int, int]
    codes_more: bool
    orders: dict[str, int]
    deletes: dict[int, Count]


def overview(txn: Txn, top: int, limit: int, now: float) -> Overview:
    """All of it.

    :param now: seconds since 1970.
    :param top: providers listed.
    :param limit: rows looked at where there may be very many.
    """
    providers, removing = _row(txn, "SELECT COUNT(*), COALESCE(SUM(removed), 0) FROM pidb")
    files, space, errors = _row(
        txn,
        "SELECT COALESCE(SUM(files_used), 0), COALESCE(SUM(space_used), 0),"
        " COALESCE(SUM(errseq - errcleared), 0) FROM pstats",
    )
    held, held_pages = _row(txn, "SELECT COUNT(*), COALESCE(SUM(deletions), 0) FROM heldsweeps")
    oldest = txn.one(
        f"SELECT s.psetid, MIN(s.pid), SUM({TO_FETCH}), MIN(s.time) FROM qpsdb s {WITH_CANCELLED}"
        f" WHERE {TO_FETCH} > 0 GROUP BY s.psetid ORDER BY s.psetid LIMIT 1"
    )
    busiest = txn.query(
        "SELECT pid, nurlproc FROM pstats WHERE nurlproc > 0 ORDER BY nurlproc DESC, pid LIMIT ?", [top]
    )
    # Errors of URLs that were fetched since are no longer current.
    codes = txn.query(
        "SELECT kept.code, COUNT(*) FROM (SELECT code, time, urlkey, generation FROM urlerrs LIMIT ?) AS kept"
        f" {WITH_CONTENT} WHERE {STANDS} GROUP BY kept.code ORDER BY 2 DESC, kept.code",
        [limit],
    )
    looked_at = count_rows(txn, "FROM urlerrs", [], limit)
    return Overview(
        epoch=database_epoch(txn),
        run=int(txn.value("SELECT value FROM counters WHERE name = 'qm_run'", (), 0)),
        change=last_change(txn),
        providers=int(providers),
        removing=int(removing),
        files=int(files),
        space_bytes=int(space),
        errors=int(errors),
        queue=tuple(_waiting(txn)),
        oldest=None if oldest is None else Oldest(*map(int, oldest)),
        lag_since=txn.value(
            f"SELECT MIN(s.time) FROM qpsdb s {WITH_CANCELLED}"
            " LEFT JOIN pdelays d ON d.pid = s.pid AND d.until_time > ?"
            f" WHERE s.slot = ? AND {TO_FETCH} > 0 AND d.pid IS NULL",
            [int(now), FETCH_NOW],
        ),
        busiest=tuple((pid, count) for pid, count in busiest),
        next_retry=next_retry(txn),
        wanted=dict(
            txn.query(
                "SELECT wantfullset, COUNT(*) FROM pstats WHERE wantfullset <> '' GROUP BY wantfullset"
                " ORDER BY wantfullset"
            )
        ),
        held=(int(held), int(held_pages)),
        codes=dict(codes),
        codes_more=looked_at.more,
        orders=dict(txn.query("SELECT kind, COUNT(*) FROM orders GROUP BY kind ORDER BY kind")),
        deletes=_deletes(txn, limit),
    )


def _row(txn: Txn, sql: str) -> tuple[Any, ...]:
    row = txn.one(sql)
    assert row is not None
    return row


def _waiting(txn: Txn) -> list[Waiting]:
    rows = txn.query(
        f"SELECT s.pri, COUNT(DISTINCT s.pid), COUNT(DISTINCT s.psetid), SUM({TO_FETCH}),"
        f" SUM(CASE WHEN s.slot > ? THEN {TO_FETCH} ELSE 0 END), SUM(CASE WHEN s.slot < ? THEN {TO_FETCH} ELSE 0 END)"
        f" FROM qpsdb s {WITH_CANCELLED} WHERE {TO_FETCH} > 0 GROUP BY s.pri ORDER BY s.pri DESC",
        [FETCH_NOW, FETCH_NOW],
    )
    return [Waiting(*map(int, row)) for row in rows]


def _deletes(txn: Txn, limit: int) -> dict[int, Count]:
    found: dict[int, Count] = {}
    machine: int | None = 0
    while True:
        # A skip scan of the index: from one machine to the next.
        machine = txn.value("SELECT MIN(machine) FROM fsmdb WHERE machine > ?", [machine])
        if machine is None:
            return found
        found[machine] = count_rows(txn, "FROM fsmdb WHERE machine = ?", [machine], limit)
