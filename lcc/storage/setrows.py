"""The rows of ``qpsdb`` while their queue rows go or move."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from lcc.model import QueueRow
from lcc.storage.transactions import Txn

RETRY_SEQ = 1 << 40
"""Places from here on are those of rows that were sent to the end of their set: behind all that may still arrive."""

_FIRST_BEHIND = 32
"""``firstseq`` is moved once it is so many places behind; a restart looks at no more rows that are gone."""


@attrs.define
class _Set:
    firstseq: int
    lastseq: int
    nurls: int
    removed_upto: int = 0
    changed: bool = False


class QueuedSets:
    """Sets of which rows go.

    :param sets: (psetid, slot) of each.
    """

    def __init__(self, txn: Txn, sets: Iterable[tuple[int, int]]) -> None:
        self._txn = txn
        wanted = set(sets)
        sql = "SELECT psetid, slot, firstseq, lastseq, nurls FROM qpsdb WHERE psetid IN ({in})"
        rows = txn.query_in(sql, sorted({psetid for psetid, _ in wanted}))
        self._sets = {(row[0], row[1]): _Set(*row[2:]) for row in rows if (row[0], row[1]) in wanted}
        self._pids: dict[tuple[int, int], int] = {}

    def removed(self, row: QueueRow) -> None:
        """A queue row of a set is taken away."""
        found = self._sets[row.psetid, row.slot]
        found.nurls -= 1
        found.removed_upto = max(found.removed_upto, row.seq)
        found.changed = True
        self._pids[row.psetid, row.slot] = row.pid

    def place_at_end(self, row: QueueRow) -> int:
        """A place behind all others, for a row that moves there."""
        found = self._sets[row.psetid, row.slot]
        found.lastseq = max(found.lastseq, RETRY_SEQ) + 1
        found.changed = True
        self._pids[row.psetid, row.slot] = row.pid
        return found.lastseq

    def save(self) -> None:
        """Write what has changed; a set without rows goes.  Call it when the queue rows are written."""
        txn = self._txn
        for (psetid, slot), found in sorted(self._sets.items()):
            if not found.changed:
                continue
            if found.nurls <= 0:
                txn.execute("DELETE FROM qpsdb WHERE psetid = ? AND slot = ?", [psetid, slot])
                continue
            if found.removed_upto - found.firstseq >= _FIRST_BEHIND:
                sql = "SELECT MIN(seq) FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? AND seq >= ?"
                where = [self._pids[psetid, slot], slot, psetid, found.firstseq]
                found.firstseq = txn.value(sql, where, found.firstseq)
            txn.execute(
                "UPDATE qpsdb SET firstseq = ?, lastseq = ?, nurls = ? WHERE psetid = ? AND slot = ?",
                [found.firstseq, found.lastseq, found.nurls, psetid, slot],
            )
