"""A provider arrives from another sub-LCC (doc/moves.md).

First comes the provider itself, with its counters and errors (:func:`admit`): it can log in, its sets are held.  Then
the cache, page by page, and the queue; a page takes its rows out of what is staged: so each is taken over once,
whatever is killed.  Nothing is fetched, and no set applied, before all is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from lcc.interfaces import IQueueRules
from lcc.model import FETCH_NOW, Delay
from lcc.model.frontend.moves import Fence, Move
from lcc.storage.database.tables.rows import DELAYS
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.sessions import ORDER_JUMP
from lcc.storage.providers.watched import forget_left_roots
from lcc.storage.queue.intake.held_deletions import HeldSweep, save_held
from lcc.storage.queue.intake.said_sets import merge_said
from lcc.storage.queue.maintenance.lost_content import fetch_again
from lcc.storage.queue.moves.arriving_rows import take_cache_page, take_queue_page
from lcc.storage.queue.moves.departing import (
    COUNTERS_KIND,
    ERRORS,
    SAID_COLUMNS,
    SAID_KIND,
    TAKEN_COLUMNS,
    TAKEN_KIND,
    WHOLE,
    from_text,
)
from lcc.storage.queue.moves.fences import applied_upto, put_fence
from lcc.storage.queue.moves.paged import CACHE_ROWS, PAGE_ROWS, QUEUE_ROWS, STAGED, START, Place, has_rows, next_page
from lcc.storage.queue.moves.staging import CURSOR
from lcc.storage.queue.write_transaction import Stats, WriteTransaction

_SHIFT = "shift"
"""Kind of the staged row that says by how much the numbers of sets have grown."""
_AHEAD_SECONDS = 2.0
"""Clocks that differ less are taken for equal."""
_COUNTED_FROM_NOW = ("bandwidth", "interval")
"""Reasons of delays that a clock which is behind must not shorten."""
_ENDS = ("until_time", "owed_time")
"""Times of a delay that must not come too early."""
_DAMAGED = "damaged"
"""Kind of staged rows that name content that could not be copied: machine and file at the source."""
_ROOTS = ("proots", "formerroots")
ORDER_MARGIN = ORDER_JUMP << 8
"""By how much order numbers are higher than all that the source has absorbed: its UNSes may have drawn later ones, of
sets that are still in their spools; their counter may even have jumped, more than once."""
_ALL = 1 << 30


@attrs.frozen
class Arrived:
    """What a page has done.

    :ivar more: there is more to do.
    :ivar place: how far it is.
    :ivar damaged: URLs whose content could not be copied; they are fetched again.
    """

    more: bool
    place: Place
    damaged: tuple[str, ...] = ()


def admit(write: WriteTransaction, move: Move) -> Delay | None:
    """Have the provider itself here, so that it can log in.

    :returns: it must wait; None: it need not.
    """
    txn, pid = write.txn, move.pid
    if txn.one("SELECT 1 FROM fenced WHERE pid = ? AND epoch >= ?", [pid, move.epoch]) is not None:
        return None  # it was done before
    _shift(write, pid)
    (provider,) = [row for _, row in _next(txn, pid, "pidb", 1)]
    columns = WHOLE["pidb"][0]
    txn.upsert("pidb", columns, [[provider[column] for column in columns]], ("pid",))
    for table in _ROOTS:
        columns = WHOLE[table][0]
        txn.execute(f"DELETE FROM {table} WHERE pid = ?", [pid])
        roots = [[row[column] for column in columns] for _, row in _next(txn, pid, table, _ALL)]
        txn.insert(table, columns, roots)
    forget_left_roots(txn, pid)
    stats = write.stats(pid)
    for _, row in _next(txn, pid, "pstats", 1):
        for field in attrs.fields(Stats):
            setattr(stats, field.name, row[field.name])
    stats.maxconnseq += ORDER_MARGIN
    errors = [row for _, row in _next(txn, pid, ERRORS.name, _ALL)]
    ERRORS.upsert(txn, [[row[column] for column in ERRORS.columns] for row in errors])
    said = [row for _, row in _next(txn, pid, SAID_KIND, _ALL)]
    texts = SAID_COLUMNS[:-1]
    merge_said(txn, [(*[bytes.fromhex(row[name]) for name in texts], row["time"]) for row in said])
    for _, row in _next(txn, pid, TAKEN_KIND, _ALL):
        _take_position(txn, row)
    delay = None
    for _, row in _next(txn, pid, "pdelays", 1):
        delay = _by_this_clock(Delay(**row), write.now)
        DELAYS.upsert(txn, [list(delay)])
    put_fence(write, pid, move.epoch, Fence.ARRIVING)
    return delay


def _take_position(txn: Txn, row: Mapping[str, Any]) -> None:
    """How far sets that were held of a provider are applied at its source: they are no more to be applied here."""
    uns, epoch = bytes.fromhex(row["uns"]), bytes.fromhex(row["epoch"])
    if applied_upto(txn, uns.decode(), epoch.decode()) < row["last_number"]:
        values = (uns, epoch, row["last_number"], row["answered_number"])
        txn.upsert("setspos", TAKEN_COLUMNS, [values], ("uns", "epoch"))


def arrive_page(
    write: WriteTransaction, rules: IQueueRules, move: Move, place: Place = START, page_rows: int = PAGE_ROWS
) -> Arrived:
    """Take over the next rows of a provider that is admitted.

    :param place: as the last page gave it; whoever does not know begins at the start.
    """
    txn, pid = write.txn, move.pid
    kind, after = place
    if kind == CACHE_ROWS.name:
        page = next_page(txn, CACHE_ROWS.staged.name, pid, after, page_rows)
        if page is not None:
            damaged = take_cache_page(write, move, _shift(write, pid), page)
            lost = [(row.key, f'{{"machine":{row.machine},"file":{row.file}}}') for row in damaged]
            _stage(txn, pid, _DAMAGED, lost)
            if not has_rows(txn, CACHE_ROWS.staged.name, pid, page[1]):
                note_flip(write, move, arrived=True)
            return Arrived(True, (kind, page[1]), tuple([row.url for row in damaged]))
        kind, after = QUEUE_ROWS.name, b""
    page = next_page(txn, QUEUE_ROWS.staged.name, pid, after, page_rows)
    if page is not None:
        (provider,) = [row for _, row in _next(txn, pid, "pidb", 1)]
        take_queue_page(write, rules, pid, provider, _shift(write, pid), page)
        return Arrived(True, (kind, page[1]))
    staged = _next(txn, pid, _DAMAGED, page_rows)
    if _next(txn, pid, "pidb", 1):
        _complete(write, move)
    elif staged:
        _fetch_damaged(write, rules, pid, staged)
    else:
        return Arrived(False, (kind, after))
    return Arrived(True, (kind, after))


def _next(txn: Txn, pid: int, kind: str, limit: int) -> list[tuple[bytes, dict[str, Any]]]:
    rows = txn.query(
        "SELECT rowkey, rowtext FROM staged WHERE pid = ? AND kind = ? ORDER BY rowkey LIMIT ?", [pid, kind, limit]
    )
    return [(bytes(key), from_text(text)) for key, text in rows]


def _take(txn: Txn, pid: int, kind: str, staged: list[tuple[bytes, dict[str, Any]]]) -> None:
    keys = [key for key, _ in staged]
    txn.execute_in("DELETE FROM staged WHERE pid = ? AND kind = ? AND rowkey IN ({in})", keys, [pid, kind])


def _stage(txn: Txn, pid: int, kind: str, rows: list[tuple[bytes, str]]) -> None:
    STAGED.upsert(txn, [(pid, kind, key, text) for key, text in rows])


def note_flip(write: WriteTransaction, move: Move, *, arrived: bool) -> None:
    """Readers of this database are to know the map that this move has made."""
    other = move.source if arrived else move.dest
    row = (move.flip, move.pid, other, int(arrived), move.epoch, write.now)
    columns = ("flip", "pid", "subid", "arrived", "epoch", "time")
    write.txn.upsert("flips", columns, [row], ("flip",), ("flip",))


def _shift(write: WriteTransaction, pid: int) -> int:
    """By how much the numbers of the provider's sets grow, so that they are nobody else's here; and whatever is
    numbered here from now on is later than what was numbered there."""
    txn = write.txn
    known = txn.value("SELECT rowtext FROM staged WHERE pid = ? AND kind = ?", [pid, _SHIFT])
    if known is not None:
        return int(from_text(known)["shift"])
    there = from_text(txn.value("SELECT rowtext FROM staged WHERE pid = ? AND kind = ?", [pid, COUNTERS_KIND]))
    shift = write.reach("psetid", 0)
    write.reach("psetid", shift + there["psetid"])
    for name in ("batch", "behind", "change_time"):
        write.reach(name, there[name])
    _stage(txn, pid, _SHIFT, [(b"\0", f'{{"shift":{shift}}}')])
    return shift


# The provider itself.


def _complete(write: WriteTransaction, move: Move) -> None:
    """All rows are here."""
    txn, pid = write.txn, move.pid
    shift = _shift(write, pid)
    for _, row in _next(txn, pid, "heldsweeps", 1):
        save_held(txn, HeldSweep(**row | {"psetid": row["psetid"] + shift}))
    for kind in (*WHOLE, COUNTERS_KIND, SAID_KIND, TAKEN_KIND, ERRORS.name, CURSOR, _SHIFT):
        txn.execute("DELETE FROM staged WHERE pid = ? AND kind = ?", [pid, kind])
    note_flip(write, move, arrived=True)  # it may have had no rows


def content_bytes(txn: Txn, pid: int) -> int:
    """How much content of a provider is here."""
    return int(txn.value("SELECT space_used FROM pstats WHERE pid = ?", [pid], 0))


def open_arrived(write: WriteTransaction, move: Move) -> None:
    """The front end knows that all is here: the provider may be fetched, and its sets applied."""
    txn, pid = write.txn, move.pid
    if put_fence(write, pid, move.epoch, Fence.OPEN):
        tell_work(write, pid, txn.value("SELECT priority FROM pidb WHERE pid = ?", [pid], 0))


def _by_this_clock(delay: Delay, now: int) -> Delay:
    """The delay by the wall clock of this queue manager.

    The source's clock may be ahead; or behind, which looks as if the delay had been saved long ago.  So what was left
    of an interval, and of a debt, counts from now: they are short.

    :param now: in whole seconds: it may be nearly a second later.
    """
    ahead = delay.saved_time - now
    if not delay.saved_time or 0 <= ahead < _AHEAD_SECONDS:
        return delay
    names: tuple[str, ...] = ("until_time", "owed_time", "since_time", "saved_time")
    if ahead < 0:
        names = ("until_time", "owed_time", "saved_time") if delay.reason in _COUNTED_FROM_NOW else ("owed_time",)
    changed = {}
    for name in names:
        if time := getattr(delay, name):
            changed[name] = max(0.0, time - ahead + (1.0 if name in _ENDS else 0.0))
    return delay._replace(**changed)


def tell_work(write: WriteTransaction, pid: int, priority: int) -> None:
    """The queue manager is told what of a provider can be fetched."""
    first = write.txn.one(
        "SELECT psetid, firstseq FROM qpsdb WHERE pid = ? AND slot = ? ORDER BY psetid LIMIT 1", [pid, FETCH_NOW]
    )
    if first is not None:
        write.pending.add_queued(pid, *first)
        write.pending.add_priorities({pid: priority})


def _fetch_damaged(
    write: WriteTransaction, rules: IQueueRules, pid: int, staged: list[tuple[bytes, dict[str, Any]]]
) -> None:
    files: dict[int, list[int]] = {}
    for _, row in staged:
        files.setdefault(row["machine"], []).append(row["file"])
    for machine, some in sorted(files.items()):
        fetch_again(write, rules, machine, some, delete=False)
    _take(write.txn, pid, _DAMAGED, staged)
