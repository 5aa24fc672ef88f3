"""Reads the queue for the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from lcc.interfaces import IQueueRules
from lcc.model import FETCH_NOW, Ahead, Cursor, DeleteOrder, QueueRow, ReadAhead, Waiting
from lcc.storage.database.tables.rows import QUEUE, queue_row
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import get_providers
from lcc.storage.queue.results.revalidation import with_stored


def providers_with_work(txn: Txn) -> list[Waiting]:
    """See :meth:`lcc.interfaces.IQueueStore.providers_with_work`."""
    # In the order of this index, no sort and no temporary table for a hundred thousand providers.
    sql = (
        f"SELECT MIN(q.psetid), q.pid, COALESCE(MAX(p.priority), 0) FROM qpsdb q {txn.by_index('qpsdb_provider')}"
        " LEFT JOIN pidb p ON p.pid = q.pid WHERE q.slot = ? GROUP BY q.pid"
    )
    return sorted(map(Waiting._make, txn.query(sql, [FETCH_NOW])))


def read_ahead(
    txn: Txn,
    rules: IQueueRules,
    cursors: Sequence[Cursor],
    unknown: Sequence[int] = (),
    known: Mapping[Cursor, Ahead] | None = None,
) -> ReadAhead:
    """See :meth:`lcc.interfaces.IQueueStore.read_ahead`.

    A few statements for any number of cursors, so that a provider with few rows costs little more than its rows.

    :param known: what need not be read of the queue.
    """
    found = dict(known or {})
    wanted = [cursor for cursor in cursors if cursor not in found]
    found |= _next_rows(txn, [cursor for cursor in wanted if not cursor.partial])
    found |= _partial_rows(txn, [cursor for cursor in wanted if cursor.partial])
    return ReadAhead(with_stored(txn, rules, [found[cursor] for cursor in cursors]), get_providers(txn, unknown))


class _Set(NamedTuple):
    """As in ``qpsdb``."""

    psetid: int
    firstseq: int
    nurls: int
    full: int


_SETS_EACH = 4
"""Sets for each provider, on the average, that are looked at together."""


def _first_sets(txn: Txn, cursors: Sequence[Cursor]) -> dict[int, list[_Set]]:
    """The first two sets of each provider from its cursor on, and maybe some more of them."""
    wanted = sorted(cursors)
    select = f"SELECT pid, psetid, firstseq, nurls, fullset FROM qpsdb {txn.by_index('qpsdb_provider')}"
    each = [(cursor.pid, FETCH_NOW, cursor.psetid) for cursor in wanted]
    limit = _SETS_EACH * len(wanted)
    condition = "pid = ? AND slot = ? AND psetid >= ?"
    rows = txn.query_ranges(select, condition, each, "pid, slot, psetid", limit)
    sets: dict[int, list[_Set]] = {cursor.pid: [] for cursor in wanted}
    for pid, *values in rows:
        sets[pid].append(_Set(*values))
    if rows and len(rows) >= limit:  # one of them has many sets: those behind it were not reached
        upto = rows[-1][0]
        sets.update(_sets(txn, [cursor for cursor in wanted if cursor.pid >= upto], "", 2))
    return sets


def _sets(txn: Txn, cursors: Sequence[Cursor], more: str, limit: int) -> dict[int, list[_Set]]:
    """The first sets of each provider from its cursor on."""
    sql = (
        f"SELECT pid, psetid, firstseq, nurls, fullset FROM qpsdb {txn.by_index('qpsdb_provider')}"
        f" WHERE pid = ? AND slot = ? AND psetid >= ?{more} ORDER BY psetid LIMIT ?"
    )
    sets: dict[int, list[_Set]] = {cursor.pid: [] for cursor in cursors}
    for pid, *values in txn.query_each(sql, [(cursor.pid, FETCH_NOW, cursor.psetid, limit) for cursor in cursors]):
        sets[pid].append(_Set(*values))
    for found in sets.values():
        found.sort()
    return sets


_IN_SET = "WHERE pid = ? AND slot = ? AND psetid = ? AND seq > ? ORDER BY seq LIMIT ?"
_BEHIND_SET = "WHERE pid = ? AND slot = ? AND psetid > ? ORDER BY psetid, seq LIMIT ?"
# Both in one, with OR, would not be a scan of the index that ends at the limit.


def _rows(txn: Txn, where: str, each: Sequence[tuple[int, ...]]) -> list[QueueRow]:
    """The rows for each of these lists of parameters, in any order."""
    # Without the index hint MariaDB may scan all deleted rows of a set that are not purged yet.
    sql = f"{QUEUE.select} {txn.by_index('qdb_order')} {where}"
    return [queue_row(row) for row in txn.query_each(sql, each)]


def _from(cursor: Cursor, queued: _Set) -> int:
    """The place in this set behind which its rows are read.

    Without this lower bound, many deleted rows that are not purged yet might be scanned.
    """
    first = queued.firstseq - 1
    return max(cursor.seq, first) if queued.psetid == cursor.psetid else first


def _next_rows(txn: Txn, cursors: Sequence[Cursor]) -> dict[Cursor, Ahead]:
    sets = _first_sets(txn, cursors)
    rows: dict[int, list[QueueRow]] = {cursor.pid: [] for cursor in cursors}

    def read(where: str, each: list[tuple[int, ...]]) -> None:
        for row in _rows(txn, where, each):
            rows[row.pid].append(row)

    firsts = [(cursor, sets[cursor.pid][0]) for cursor in sorted(cursors) if sets[cursor.pid]]
    few = [(cursor, first) for cursor, first in firsts if first.nurls <= cursor.limit]
    if _read_few(txn, few, rows):
        firsts = [(cursor, first) for cursor, first in firsts if first.nurls > cursor.limit]
    read(
        _IN_SET,
        [(cursor.pid, FETCH_NOW, first.psetid, _from(cursor, first), cursor.limit) for cursor, first in firsts],
    )
    short = [
        (cursor, sets[cursor.pid][0], cursor.limit - len(rows[cursor.pid]))
        for cursor in cursors
        if len(sets[cursor.pid]) > 1
    ]
    read(_BEHIND_SET, [(cursor.pid, FETCH_NOW, first.psetid, left) for cursor, first, left in short if left > 0])
    for read_rows in rows.values():
        read_rows.sort(key=_place)
    left = _full_left(txn, sets, rows)
    return {cursor: Ahead(cursor.pid, rows[cursor.pid], left.get(cursor.pid, 0)) for cursor in cursors}


def _read_few(txn: Txn, few: Sequence[tuple[Cursor, _Set]], rows: dict[int, list[QueueRow]]) -> bool:
    """Read sets that have no more rows than their cursors ask for; False: they have more, none was read."""
    select = f"{QUEUE.select} {txn.by_index('qdb_order')}"
    each = [(cursor.pid, FETCH_NOW, first.psetid, _from(cursor, first)) for cursor, first in few]
    limit = sum(first.nurls for _, first in few) + 1
    condition = "pid = ? AND slot = ? AND psetid = ? AND seq > ?"
    found = txn.query_ranges(select, condition, each, "pid, slot, psetid, seq", limit)
    if len(found) >= limit:
        return False
    limits = {cursor.pid: cursor.limit for cursor, _ in few}
    for row in map(queue_row, found):
        if len(rows[row.pid]) < limits[row.pid]:  # a count may be wrong
            rows[row.pid].append(row)
    return True


def _place(row: QueueRow) -> tuple[int, int]:
    return row.psetid, row.seq


def _full_left(txn: Txn, sets: dict[int, list[_Set]], rows: dict[int, list[QueueRow]]) -> dict[int, int]:
    """For providers whose last row belongs to a full set: the rows left of this set."""
    ends = {pid: found[-1].psetid for pid, found in rows.items() if found}
    known = {queued.psetid: queued for found in sets.values() for queued in found}
    full = {psetid: queued.nurls for psetid, queued in known.items() if queued.full}
    sql = "SELECT psetid, nurls FROM qpsdb WHERE slot = ? AND fullset = 1 AND psetid IN ({in})"
    full.update(txn.query_in(sql, sorted(set(ends.values()) - known.keys()), [FETCH_NOW]))
    return {pid: full.get(psetid, 0) for pid, psetid in ends.items()}


def _partial_rows(txn: Txn, cursors: Sequence[Cursor]) -> dict[Cursor, Ahead]:
    found: dict[Cursor, Ahead] = {}
    for cursor in cursors:
        each, rows = [], 0
        for queued in _sets(txn, [cursor], " AND fullset = 0", cursor.limit)[cursor.pid]:
            each.append((cursor.pid, FETCH_NOW, queued.psetid, _from(cursor, queued), cursor.limit))
            rows += queued.nurls
            if rows >= cursor.limit:
                break
        read = sorted(_rows(txn, _IN_SET, each), key=_place)
        found[cursor] = Ahead(cursor.pid, read[: cursor.limit])
    return found


def delete_orders(txn: Txn, machine: int, after: int, limit: int, now: int, delete_grace: int) -> list[DeleteOrder]:
    """See :meth:`lcc.interfaces.IQueueStore.deletes`."""
    sql = (
        f"SELECT id, machine, file, not_before FROM fsmdb {txn.by_index('fsmdb_machine')}"
        " WHERE machine = ? AND id > ? ORDER BY id LIMIT ?"
    )
    rows = txn.query(sql, [machine, after, limit])
    # They become due in their order: what is behind the first one that is not is looked at later.  One that would
    # wait for longer than the grace is of a clock that was wrong, or of a longer grace than now.
    waiting = range(now + 1, now + delete_grace + 1)
    return [DeleteOrder(*row[:3]) for row in takewhile(lambda row: row[3] not in waiting, rows)]
