"""Staged rows become the destination's own, a page in each transaction, by statements about all rows of the page.

The database copies them from one of its tables to the other; only what depends on this LCC is worked out here: change
numbers, numbers of sets, time slots, and where the content is (doc/moves.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lcc.interfaces import IQueueRules
from lcc.model import FETCH_NOW
from lcc.model.frontend.moves import Move
from lcc.storage.database.tables.cancelled import note_cancelled
from lcc.storage.database.tables.rows import GENERATION_SHIFT, NOTHING, SETS, SetRow
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.moves.paged import CACHE_ROWS, QUEUE_ROWS, Keys, PagedTable
from lcc.storage.queue.moves.verifying import IS_COPY
from lcc.storage.queue.set_rows import joined
from lcc.storage.queue.write_transaction import WriteTransaction

_OF_PAGE = "r.urlkey BETWEEN ? AND ?"
_SEEN = "COALESCE(r.seen + ?, 0)"
"""Numbers of sets grow."""
_ORIGIN = "COALESCE(r.origin_subid, ?), COALESCE(r.origin_number, r.change_number)"
"""A row that moves twice keeps its first origin."""


def _take_over(
    txn: Txn, table: PagedTable, page: Keys, changed: Mapping[str, tuple[str, Sequence[Any]]], join: str = ""
) -> None:
    """Move the rows of a page into their table.

    :param changed: columns that get other values than at the source: the expression, and its parameters.
    """
    columns = table.table.columns
    values = [changed[column][0] if column in changed else table.value(column) for column in columns]
    parameters = [value for column in columns if column in changed for value in changed[column][1]]
    # There are hardly any: pages whose files were found damaged since they arrived are queued, others stay so.
    same = f"EXISTS (SELECT 1 FROM {table.staged.name} r WHERE r.urlkey = {table.name}.urlkey)"
    txn.execute(f"DELETE FROM {table.name} WHERE urlkey BETWEEN ? AND ? AND {same}", page)
    select = f"SELECT {', '.join(values)} FROM {table.staged.name} r {join} WHERE {_OF_PAGE}"
    txn.execute(f"INSERT INTO {table.name} ({', '.join(columns)}) {select}", [*parameters, *page])
    txn.execute(f"DELETE FROM {table.staged.name} WHERE urlkey BETWEEN ? AND ?", page)


# The cache.


class Damaged(NamedTuple):
    """A row whose content could not be copied.

    :ivar machine, file: of its content at the source; the row still names it.
    """

    key: bytes
    machine: int
    file: int
    url: str


def take_cache_page(write: WriteTransaction, move: Move, shift: int, page: Keys) -> list[Damaged]:
    """Take over a page of the cache.

    :param shift: by how much the numbers of sets grow.
    """
    txn = write.txn
    numbered, carried = _counts(txn, page)
    damaged = _take_content(txn, page) if carried else []
    before, change_time = write.next_changes(numbered)
    # A row that never was in the cache has no change, and no origin.
    origins = ("urlkey", "change_number", "subid", "number")
    numbers = (
        f"SELECT r.urlkey, ? + ROW_NUMBER() OVER (ORDER BY r.urlkey), {_ORIGIN} FROM stagedcache r"
        f" WHERE {_OF_PAGE} AND r.change_number > 0"
    )
    tail = txn.dialect.on_duplicate(origins[:1], origins[1:])
    txn.execute(f"INSERT INTO origins ({', '.join(origins)}) {numbers} {tail}", [before, move.source, *page])
    changed = {
        "change_number": ("CASE WHEN r.change_number > 0 THEN o.change_number ELSE 0 END", ()),
        "change_time": ("CASE WHEN r.change_number > 0 THEN ? ELSE COALESCE(r.change_time, 0) END", [change_time]),
        "seen": (_SEEN, [shift]),
    }
    _take_over(txn, CACHE_ROWS, page, changed, "LEFT JOIN origins o ON o.urlkey = r.urlkey")
    return damaged


def _counts(txn: Txn, page: Keys) -> tuple[int, int]:
    """How many rows have a change, and how many content."""
    counts = "COUNT(CASE WHEN r.change_number > 0 THEN 1 END), COUNT(r.carried)"
    ((numbered, carried),) = txn.query(f"SELECT {counts} FROM stagedcache r WHERE {_OF_PAGE}", page)
    return int(numbered), int(carried)


def _take_content(txn: Txn, page: Keys) -> list[Damaged]:
    """Rows get the files that were copied for them; gives those that have none."""
    found = txn.query(
        "SELECT r.urlkey, r.fetched_machineid, r.fetched_fileid, r.furl, r.curl, c.fetched_fileid, r.carried"
        f" FROM stagedcache r LEFT JOIN lccurl c ON {IS_COPY} WHERE {_OF_PAGE} AND r.carried IS NOT NULL",
        page,
    )
    taken = [row for row in found if row[5] is not None]
    copies = [
        f"fetched_{column} = (SELECT c.fetched_{column} FROM lccurl c WHERE c.urlkey = stagedcache.carried)"
        for column in ("machineid", "fileid")
    ]
    sql = f"UPDATE stagedcache SET {', '.join(copies)} WHERE urlkey IN ({{in}})"
    txn.execute_in(sql, [row[0] for row in taken])
    txn.execute_in("DELETE FROM lccurl WHERE urlkey IN ({in})", [row[6] for row in taken])  # not their files
    return [
        Damaged(bytes(key), machine, file, furl or curl)
        for key, machine, file, furl, curl, copy, _ in found
        if copy is None
    ]


# The queue.


def take_queue_page(
    write: WriteTransaction, rules: IQueueRules, pid: int, provider: Mapping[str, Any], shift: int, page: Keys
) -> None:
    """Take over a page of the queue.

    :param provider: its row of ``pidb``.
    :param shift: by how much the numbers of sets grow.
    """
    txn = write.txn
    _renew_slots(write, rules, provider, page)
    sets = [
        SetRow(psetid + shift, slot, pid, provider["priority"], connseq, fullset, first, last, rows, time)
        for psetid, slot, connseq, fullset, time, first, last, rows in txn.query(
            "SELECT r.psetid, r.slot, COALESCE(MAX(r.set_connseq), MAX(r.connseq)), COALESCE(MAX(r.set_fullset), 0),"
            " COALESCE(MAX(r.set_time), ?), MIN(r.seq), MAX(r.seq), COUNT(*) FROM stagedqueue r"
            f" WHERE {_OF_PAGE} GROUP BY r.psetid, r.slot",
            [write.now, *page],
        )
    ]
    _save_sets(txn, sets)
    # Queued since, because of a file that was found damaged here; counted already.
    queued = f"SELECT COUNT(*) FROM qdb JOIN stagedqueue r ON r.urlkey = qdb.urlkey WHERE {_OF_PAGE}"
    write.stats(pid).nurlproc -= int(txn.value(queued, page, 0))
    cancelled = f"SELECT r.urlkey FROM stagedqueue r WHERE {_OF_PAGE} AND r.operation = {NOTHING}"
    note_cancelled(txn, [key for (key,) in txn.query(cancelled, page)])
    changed = {
        "psetid": ("r.psetid + ?", [shift]),
        "generation": ("?", [write.next("batch") << GENERATION_SHIFT]),
        "seen": (_SEEN, [shift]),
    }
    _take_over(txn, QUEUE_ROWS, page, changed)


def _renew_slots(write: WriteTransaction, rules: IQueueRules, provider: Mapping[str, Any], page: Keys) -> None:
    """Time slots are those of this LCC."""
    of_page = f"urlkey BETWEEN ? AND ? AND slot > {FETCH_NOW}"
    sql = f"SELECT DISTINCT hours FROM stagedqueue WHERE {of_page}"
    for (hours,) in write.txn.query(sql, page):
        slot = rules.slot(hours, provider["timeofday"], provider["timezone"], write.now)
        sql = f"UPDATE stagedqueue SET slot = ? WHERE {of_page} AND hours = ?"
        write.txn.execute(sql, [slot, *page, hours])


def _save_sets(txn: Txn, sets: Sequence[SetRow]) -> None:
    psetids = sorted({row.psetid for row in sets})
    there = {
        (row[0], row[1]): SetRow._make(row)
        for row in txn.query_in(f"{SETS.select} WHERE psetid IN ({{in}})", psetids)
    }
    rows = [
        joined(row, there[row.psetid, row.slot]) if (row.psetid, row.slot) in there else row for row in sorted(sets)
    ]
    SETS.upsert(txn, rows)
