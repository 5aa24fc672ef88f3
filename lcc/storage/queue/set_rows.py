"""The rows of ``qpsdb``, one for each set and slot with queue rows, while queue rows come, go and move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs
from twisted.logger import Logger

from lcc.model import FETCH_NOW, QueueRow, SetHeader
from lcc.storage.database.tables.rows import SET_EXTENT, SETS, SetRow
from lcc.storage.database.transactions import Question, Txn

_log = Logger()

RETRY_SEQ = 1 << 40
"""Places from here on are for rows that were sent to the end of their set, behind all that may still arrive.  They
are numbered by one counter for all sets (``counters.behind``), so that rows from different time slots never
collide."""

_FIRST_BEHIND = 32
"""``firstseq`` is updated once it is so many places behind: the limit of deleted rows that a restart scans."""

_FEW = 4
"""Sets without rows that are looked at one by one, as they are deleted: that costs no round trip."""

_NO_SEQ = 1 << 62
_LOOKED_AT = 100
_COUNTED = 10_000


_DELETE_IF_EMPTY = (
    "DELETE FROM qpsdb WHERE slot = ? AND psetid = ?"
    " AND NOT EXISTS (SELECT 1 FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? AND seq >= ?)"
)


def derived_set(txn: Txn, pid: int, slot: int, psetid: int, first: int, last: int, rows: int, now: int) -> SetRow:
    """The row of ``qpsdb`` of a set, derived from its rows in ``qdb`` and from the provider.

    Its time is unknown; its rows show whether it is a full set, unless later full sets have named them all.
    """
    looked = txn.query(
        "SELECT connseq, seen FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? ORDER BY seq LIMIT ?",
        [pid, slot, psetid, _LOOKED_AT],
    )
    connseq = min([row[0] for row in looked], default=0)
    full = int(any(row[1] == psetid for row in looked))
    priority = txn.value("SELECT priority FROM pidb WHERE pid = ?", [pid], 0)
    return SetRow(psetid, slot, pid, priority, connseq, full, first, last, rows, now)


@attrs.define
class _Set:
    """A set and slot that loses rows.

    :ivar row: as read.
    :ivar removed_upto: the last place of a removed row.
    """

    row: SetRow
    firstseq: int
    lastseq: int
    nurls: int
    removed_upto: int = 0
    changed: bool = False

    @classmethod
    def of(cls, values: Iterable[int]) -> _Set:
        """A row of ``qpsdb``."""
        row = SetRow._make(values)
        return cls(row, row.firstseq, row.lastseq, row.nurls)

    @property
    def values(self) -> SetRow:
        """The row as it is now."""
        return self.row._replace(firstseq=self.firstseq, lastseq=self.lastseq, nurls=self.nurls)

    @property
    def place(self) -> tuple[int, int, int]:
        """``(pid, slot, psetid)``."""
        return self.row.pid, self.row.slot, self.row.psetid


def sets_question(psetids: Iterable[int]) -> Question:
    """The query for what :class:`QueuedSets` can be told of these sets."""
    return Question(f"{SETS.select} WHERE slot = ? AND psetid IN ({{in}})", sorted(psetids), [FETCH_NOW])


class QueuedSets:
    """Sets that lose rows.

    :param sets: (psetid, slot) of each.
    :param known: the answer to :func:`sets_question`; sets that it lacks are read.
    """

    def __init__(self, txn: Txn, sets: Iterable[tuple[int, int]], known: Iterable[tuple[Any, ...]] = ()) -> None:
        self._txn = txn
        self._sets = {(row[0], row[1]): _Set.of(row) for row in known}
        wanted = set(sets) - self._sets.keys()
        for slot in sorted({slot for _, slot in wanted}):
            sql = f"{SETS.select} WHERE slot = ? AND psetid IN ({{in}})"
            psetids = sorted(psetid for psetid, other in wanted if other == slot)
            self._sets.update({(row[0], slot): _Set.of(row) for row in txn.query_in(sql, psetids, [slot])})

    def removed(self, row: QueueRow) -> None:
        """A queue row is removed."""
        found = self._set_of(row)
        found.nurls -= 1
        found.removed_upto = max(found.removed_upto, row.seq)
        found.changed = True

    def to_the_end(self, row: QueueRow, slot: int, behind: int) -> int:
        """A queue row goes to the end of its set, in this time slot.

        :param behind: the number of this move.
        :returns: its place.
        """
        found, seq = self._set_of(row), RETRY_SEQ + behind
        if slot != row.slot:
            self.removed(row)
            found = self._set_in(row.psetid, slot, found)
            found.firstseq = min(found.firstseq, seq)
            found.nurls += 1
        found.lastseq = max(found.lastseq, seq)
        found.changed = True
        return seq

    def _set_in(self, psetid: int, slot: int, like: _Set) -> _Set:
        """The row of a set for another slot."""
        found = self._sets.get((psetid, slot))
        if found is None:
            sql = f"{SETS.select} WHERE psetid = ? AND slot = ?"
            row = self._txn.one(sql, [psetid, slot])
            found = _Set(like.row._replace(slot=slot), _NO_SEQ, 0, 0) if row is None else _Set.of(row)
            self._sets[psetid, slot] = found
        return found

    def _set_of(self, row: QueueRow) -> _Set:
        found = self._sets.get((row.psetid, row.slot))
        if found is None:
            # It is missing, which should not happen: restore it, so that its rows are fetched.
            _log.error("Set {psetid} of provider {pid} was missing; restored", psetid=row.psetid, pid=row.pid)
            sql = (
                "SELECT COUNT(*), MIN(seq), MAX(seq) FROM (SELECT seq FROM qdb"
                " WHERE pid = ? AND slot = ? AND psetid = ? ORDER BY seq LIMIT ?) AS page"
            )
            count, first, _last = self._txn.query(sql, [row.pid, row.slot, row.psetid, _COUNTED])[0]
            sql = "SELECT MAX(seq) FROM qdb WHERE pid = ? AND slot = ? AND psetid = ?"
            last = self._txn.value(sql, [row.pid, row.slot, row.psetid])
            made = derived_set(self._txn, row.pid, row.slot, row.psetid, first, last, count, 0)
            SETS.upsert(self._txn, [made])
            found = self._sets[row.psetid, row.slot] = _Set.of(made)
        return found

    def save(self) -> None:
        """Write changes; delete sets without rows.  Call it when the queue rows are written."""
        txn = self._txn
        changed = [found for _, found in sorted(self._sets.items()) if found.changed]
        left = [found for found in changed if found.nurls > 0]
        late = [found for found in left if found.removed_upto - found.firstseq >= _FIRST_BEHIND]
        empty = [found for found in changed if found.nurls <= 0]
        is_asked = bool(late) or len(empty) > _FEW
        firsts = self._first_places([*late, *empty]) if is_asked else {}
        for found in late:
            found.firstseq = firsts.get((found.row.psetid, found.row.slot), found.firstseq)
        SETS.upsert(txn, [found.values for found in left], SET_EXTENT)
        # In case a count is wrong, those with rows stay.
        if is_asked:
            self._delete([found for found in empty if (found.row.psetid, found.row.slot) not in firsts])
        else:
            for found in empty:
                txn.execute(_DELETE_IF_EMPTY, [found.row.slot, found.row.psetid, *found.place, found.firstseq])

    def _delete(self, sets: Iterable[_Set]) -> None:
        gone: dict[int, list[int]] = {}
        for found in sets:
            gone.setdefault(found.row.slot, []).append(found.row.psetid)
        for slot, psetids in gone.items():
            self._txn.execute_in("DELETE FROM qpsdb WHERE slot = ? AND psetid IN ({in})", psetids, [slot])

    def _first_places(self, sets: Iterable[_Set]) -> dict[tuple[int, int], int]:
        """The first row of each of these sets: (psetid, slot) -> place."""
        # MIN goes straight to the place; with LIMIT, MariaDB scans all deleted rows of the set.
        sql = "SELECT ?, ?, MIN(seq) FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? AND seq >= ?"
        each = [(found.row.psetid, found.row.slot, *found.place, found.firstseq) for found in sets]
        rows = self._txn.query_each(sql, each)
        return {(psetid, slot): seq for psetid, slot, seq in rows if seq is not None}


class AddedRows:
    """New queue rows of one set and slot.

    :ivar keys: key -> place.
    """

    def __init__(self, header: SetHeader) -> None:
        self.header = header
        self.keys: dict[bytes, int] = {}

    def add(self, key: bytes, seq: int) -> None:
        """A row at this place."""
        self.keys[key] = seq

    @property
    def first(self) -> int:
        """The earliest place."""
        return min(self.keys.values())

    @property
    def last(self) -> int:
        """The latest place."""
        return max(self.keys.values())


def add_to_sets(
    txn: Txn,
    added: Mapping[tuple[int, int], AddedRows],
    new_psetids: Collection[int],
    priorities: Mapping[int, int],
    now: int,
) -> None:
    """Make the rows of sets that got new queue rows, or add to those that are there.

    :param added: (psetid, slot) -> what was added.
    :param new_psetids: sets that have no rows yet.
    """
    psetids = sorted({psetid for psetid, _ in added if psetid not in new_psetids})
    sql = "SELECT psetid, slot, firstseq, lastseq, nurls FROM qpsdb WHERE psetid IN ({in}) AND slot >= ?"
    old = {(row[0], row[1]): row[2:] for row in txn.query_in(sql, psetids, after=[FETCH_NOW])}
    rows = []
    for (psetid, slot), each in sorted(added.items(), key=lambda item: item[0]):
        first, last, count = old.get((psetid, slot), (each.first, each.last, 0))
        header, count = each.header, count + len(each.keys)
        known = (psetid, slot, header.pid, priorities[header.pid], header.connseq, int(header.full))
        rows.append(SetRow(*known, min(first, each.first), max(last, each.last), count, now))
    SETS.upsert(txn, rows, SET_EXTENT)


def move_rows(txn: Txn, psetid: int, source: int, target: int, rows: Sequence[tuple[bytes, int]]) -> None:
    """Rows of one set go from one slot to another, keeping their places.

    :param rows: ``(key, seq)``; at least one.
    """
    select = f"{SETS.select} WHERE psetid = ? AND slot = ?"
    found = txn.one(select, [psetid, source])
    if found is None:
        return
    old = SetRow._make(found)
    txn.execute_in("UPDATE qdb SET slot = ? WHERE urlkey IN ({in})", [key for key, _ in rows], [target])
    sql = "SELECT MIN(seq) FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? AND seq >= ?"
    first = txn.value(sql, [old.pid, source, psetid, old.firstseq])
    if first is None:
        txn.execute("DELETE FROM qpsdb WHERE psetid = ? AND slot = ?", [psetid, source])
    else:
        where = [max(1, old.nurls - len(rows)), first, psetid, source]
        txn.execute("UPDATE qpsdb SET nurls = ?, firstseq = ? WHERE psetid = ? AND slot = ?", where)
    places = [seq for _, seq in rows]
    moved = old._replace(slot=target, firstseq=min(places), lastseq=max(places), nurls=len(rows))
    there = txn.one(select, [psetid, target])
    SETS.upsert(txn, [moved if there is None else joined(moved, SetRow._make(there))], SET_EXTENT)


def joined(one: SetRow, other: SetRow) -> SetRow:
    """The row of a set that has the queue rows of both."""
    first, last = min(one.firstseq, other.firstseq), max(one.lastseq, other.lastseq)
    return one._replace(firstseq=first, lastseq=last, nurls=one.nurls + other.nurls)
