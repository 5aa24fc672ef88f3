"""Checks and repairs derived tables (seed 002, section 6).

``qpsdb`` is derived from ``qdb``; the counters of ``pstats`` from ``qdb`` and ``lccurl``.  All are written in the
same transactions as their sources; so these checks, page by page in the background or at once on
``lcc-admin rebuild``, find nothing unless something was damaged.

What is too big for one page is counted while it may change.  Such a count is only believed if the changes made
meanwhile cannot explain the stored value.  Providers that arrive or leave are left out: their counters come and
go as a whole, their rows page by page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from twisted.logger import Logger

from lcc.model import COUNTED, FETCH_NOW
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import CACHED, FETCH, SETS
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.moves.fences import INCOMPLETE, is_incomplete
from lcc.storage.queue.schedule.waiting_retries import BEFORE_SLOTS
from lcc.storage.queue.set_rows import derived_set
from lcc.storage.queue.write_transaction import WriteTransaction

_log = Logger()

PAGE_ROWS = 5000
PAGE_SETS = 100

_IN_PARTS = f"LEFT JOIN fenced f ON f.pid = t.pid AND f.state IN ({INCOMPLETE})"
"""``f.pid`` is NULL where a provider has all of its rows here."""

Check = Callable[[WriteTransaction, bytes], "bytes | None"]
"""``check(write, progress)`` checks a page; returns where the next one begins, None: done."""


class _Counted(NamedTuple):
    """A set that is being counted.

    :ivar before: its stored number of rows when the counting began; -1: it was missing.
    :ivar upto: the last place that is counted.
    """

    pid: int = 0
    slot: int = BEFORE_SLOTS
    psetid: int = 0
    before: int = 0
    rows: int = 0
    first: int = 0
    upto: int = -1


def believed(counted: int, stored: int, before: int) -> int:
    """The right value of a number that may have changed while it was counted.

    :param before, stored: the stored value when counting began, and ended.
    """
    return stored if abs(stored - counted) <= abs(stored - before) else counted


def check_sets(write: WriteTransaction, progress: bytes) -> bytes | None:
    """Each set that has rows in ``qdb`` has its row in ``qpsdb``."""
    txn, left = write.txn, PAGE_ROWS
    at = _Counted(*map(int, progress.split())) if progress else _Counted()
    for _ in range(PAGE_SETS):
        if at.upto < 0:
            found = _next_set(txn, at)
            if found is None:
                return None
            before = txn.value("SELECT nurls FROM qpsdb WHERE psetid = ? AND slot = ?", [found[2], found[1]], -1)
            at = _Counted(*found, before)
        sql = (
            "SELECT COUNT(*), MIN(seq), MAX(seq) FROM (SELECT seq FROM qdb"
            " WHERE pid = ? AND slot = ? AND psetid = ? AND seq > ? ORDER BY seq LIMIT ?) AS page"
        )
        count, first, last = txn.query(sql, [at.pid, at.slot, at.psetid, at.upto, left])[0]
        if count:
            at = at._replace(rows=at.rows + count, first=at.first if at.upto >= 0 else first, upto=last)
        if count == left:
            break
        left -= count
        if at.rows:
            _mend_set(write, at)
        at = at._replace(upto=-1)
    return b" ".join([b"%d" % number for number in at])


def _next_set(txn: Txn, after: _Counted) -> tuple[int, int, int] | None:
    """The next set in the order of the index, by three short index scans."""
    select = "SELECT pid, slot, psetid FROM qdb WHERE"
    found = (
        txn.one(
            f"{select} pid = ? AND slot = ? AND psetid > ? ORDER BY psetid LIMIT 1",
            [after.pid, after.slot, after.psetid],
        )
        or txn.one(f"{select} pid = ? AND slot > ? ORDER BY slot, psetid LIMIT 1", [after.pid, after.slot])
        or txn.one(f"{select} pid > ? ORDER BY pid, slot, psetid LIMIT 1", [after.pid])
    )
    if found is not None and is_incomplete(txn, found[0]):
        sql = (
            f"SELECT t.pid, t.slot, t.psetid FROM qdb t {_IN_PARTS} WHERE t.pid > ? AND f.pid IS NULL"
            " ORDER BY t.pid, t.slot, t.psetid LIMIT 1"
        )
        return txn.one(sql, [found[0]])
    return found


def _mend_set(write: WriteTransaction, at: _Counted) -> None:
    txn = write.txn
    if is_incomplete(txn, at.pid):  # by now
        return
    where = [at.psetid, at.slot]
    row = txn.one("SELECT firstseq, lastseq, nurls, pid FROM qpsdb WHERE psetid = ? AND slot = ?", where)
    if row is not None and row[3] == at.pid:
        first, last, stored = row[:3]
        rows = believed(at.rows, stored, at.before)
        right = (min(first, at.first), max(last, at.upto), rows)
        if right == (first, last, stored):
            return
        txn.execute(
            "UPDATE qpsdb SET firstseq = ?, lastseq = ?, nurls = ? WHERE psetid = ? AND slot = ?", [*right, *where]
        )
    else:
        derived = derived_set(txn, at.pid, at.slot, at.psetid, at.first, at.upto, at.rows, write.now)
        SETS.upsert(txn, [derived])
    _log.error(
        "Set {psetid} of provider {pid} (slot {slot}) did not match the queue; repaired",
        psetid=at.psetid,
        pid=at.pid,
        slot=at.slot,
    )
    if at.slot == FETCH_NOW:
        write.pending.add_queued(at.pid, at.psetid, at.first)


def check_rows_of_sets(write: WriteTransaction, progress: bytes) -> bytes | None:
    """Each row of ``qpsdb`` has rows in ``qdb``."""
    txn = write.txn
    psetid, slot = map(int, progress.split()) if progress else (0, BEFORE_SLOTS)
    select = "SELECT psetid, slot, pid FROM qpsdb WHERE"
    rows = txn.query(f"{select} psetid = ? AND slot > ? ORDER BY slot LIMIT ?", [psetid, slot, PAGE_SETS])
    if len(rows) < PAGE_SETS:
        sql = f"{select} psetid > ? ORDER BY psetid, slot LIMIT ?"
        rows += txn.query(sql, [psetid, PAGE_SETS - len(rows)])
    for psetid, slot, pid in rows:
        if txn.one(
            "SELECT 1 FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? LIMIT 1", [pid, slot, psetid]
        ) is None and not is_incomplete(txn, pid):
            txn.execute("DELETE FROM qpsdb WHERE psetid = ? AND slot = ?", [psetid, slot])
            _log.error("Set {psetid} of provider {pid} has no rows; removed", psetid=psetid, pid=pid)
    return b"%d %d" % (psetid, slot) if len(rows) == PAGE_SETS else None


_COUNTERS = ("files_used", "space_used", "nurlproc", "files_pending", "space_pending")


def check_counters(write: WriteTransaction, progress: bytes) -> bytes | None:
    """The counters of each provider match its rows."""
    txn, left = write.txn, PAGE_ROWS
    if not progress:
        stored, right = write.count_queue()
        if stored != right:
            _log.error("Queue size was {stored}, should be {right}; repaired", stored=stored, right=right)
    pid, key, before, counts = _parse_counted(progress)
    for _ in range(PAGE_SETS):
        if not key:
            sql = f"SELECT t.pid FROM pstats t {_IN_PARTS} WHERE t.pid > ? AND f.pid IS NULL ORDER BY t.pid LIMIT 1"
            found = txn.value(sql, [pid])
            if found is None:
                return None
            pid, key = found, provider_range(found)[0]
            before, counts = [getattr(write.stats(pid), name) for name in _COUNTERS], [0] * len(_COUNTERS)
        key, looked = _count_page(txn, key, provider_range(pid)[1], left, counts)
        left -= looked
        if key:
            break
        if is_incomplete(txn, pid):  # by now
            continue
        stats = write.stats(pid)
        for name, counted, stored_before in zip(_COUNTERS, counts, before, strict=True):
            stored = getattr(stats, name)
            right = believed(counted, stored, stored_before)
            if right != stored:
                _log.error(
                    "{name} of provider {pid} was {stored}, should be {right}; repaired",
                    name=name,
                    pid=pid,
                    stored=stored,
                    right=right,
                )
                setattr(stats, name, right)
        if left <= 0:
            break
    return b"%d %s %s" % (pid, key.hex().encode() or b"-", b" ".join([b"%d" % number for number in before + counts]))


def _parse_counted(progress: bytes) -> tuple[int, bytes, list[int], list[int]]:
    if not progress:
        return 0, b"", [], []
    pid, key, *numbers = progress.split()
    half = len(_COUNTERS)
    values = [int(number) for number in numbers]
    return int(pid), b"" if key == b"-" else bytes.fromhex(key.decode()), values[:half], values[half:]


def _count_page(txn: Txn, low: bytes, high: bytes, limit: int, counts: list[int]) -> tuple[bytes, int]:
    """Count the rows behind a key; returns the last key examined (empty: done), and the number of rows."""
    sql = "SELECT urlkey, state, source, len FROM lccurl WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
    cached = txn.query(sql, [low, high, limit])
    end = cached[-1][0] if len(cached) == limit else b""
    sql = "SELECT urlkey, operation, source, len FROM qdb WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
    queued = txn.query(sql, [low, end or high, limit])
    if len(queued) == limit:
        end = queued[-1][0]
        cached = [row for row in cached if row[0] <= end]
    there = set()
    for key, state, source, length in cached:
        if state == CACHED and source & COUNTED:
            there.add(key)
            counts[0] += 1
            counts[1] += length or 0
    for key, operation, source, length in queued:
        if operation == FETCH:
            counts[2] += 1
            if key not in there and source & COUNTED:
                counts[3] += 1
                counts[4] += length or 0
    return end, max(len(cached), len(queued))


CHECKS: tuple[Check, ...] = (check_sets, check_rows_of_sets, check_counters)
