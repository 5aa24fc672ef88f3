"""What every write of the queue manager keeps besides queue and cache: fence, counters, delete orders, statistics.

A transaction of the queue manager opens the books first, which locks the counters and checks that no newer queue
manager has claimed the database; it closes them last, which writes what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from lcc.errors import Busy
from lcc.storage.transactions import Txn

_STATS = (
    *("files_used", "space_used", "nurlproc", "errseq", "errcleared", "maxconnseq"),
    *("fullconnseq", "fullsets_used", "fullsets_since", "wantfullset", "last_set_time"),
)


@attrs.define
class Stats:
    """A row of ``pstats``."""

    files_used: int = 0
    space_used: int = 0
    nurlproc: int = 0
    errseq: int = 0
    errcleared: int = 0
    maxconnseq: int = 0
    fullconnseq: int = 0
    fullsets_used: int = 0
    fullsets_since: int = 0
    wantfullset: str = ""
    last_set_time: int = 0


class Books:
    """The books of one transaction.

    :param run: of the queue manager that writes.
    :raises Busy: a newer one has claimed the database.
    """

    def __init__(self, txn: Txn, run: int) -> None:
        self.txn = txn
        rows = txn.query(f"SELECT name, value FROM counters{txn.for_update}")
        self._counters: dict[str, int] = dict(rows)
        self._counters_before = dict(self._counters)
        if self._counters["qm_run"] != run:
            raise Busy(f"a newer queue manager (run {self._counters['qm_run']}) has claimed the database")
        self._stats: dict[int, Stats] = {}
        self._stats_before: dict[int, tuple[Any, ...]] = {}
        self._files: list[tuple[int, int, int]] = []

    def next(self, counter: str) -> int:
        """Count one on."""
        self._counters[counter] += 1
        return self._counters[counter]

    def load_stats(self, pids: Iterable[int]) -> None:
        """Read the statistics of these providers at once."""
        missing = sorted(set(pids) - self._stats.keys())
        sql = f"SELECT pid, {', '.join(_STATS)} FROM pstats WHERE pid IN ({{in}})"
        found = {row[0]: row[1:] for row in self.txn.query_in(sql, missing)}
        for pid in missing:
            self._stats[pid] = Stats(*found[pid]) if pid in found else Stats()
            self._stats_before[pid] = found.get(pid, ())

    def stats(self, pid: int) -> Stats:
        """The statistics of a provider, to be read and changed."""
        if pid not in self._stats:
            self.load_stats([pid])
        return self._stats[pid]

    def delete_file(self, machine: int | None, file: int | None) -> None:
        """Order that a content file is removed."""
        if machine is not None and file is not None:
            self._files.append((self.next("file_order"), machine, file))

    @property
    def deletes(self) -> bool:
        """Whether files were ordered to be removed."""
        return bool(self._files)

    def close(self) -> None:
        """Write what has changed."""
        self.txn.insert("fsmdb", ("id", "machine", "file"), self._files)
        changed = []
        for pid, stats in sorted(self._stats.items()):
            values = tuple(getattr(stats, name) for name in _STATS)
            if values != self._stats_before[pid] and (self._stats_before[pid] or stats != Stats()):
                changed.append((pid, *values))
        self.txn.upsert("pstats", ("pid", *_STATS), changed, ("pid",))
        before = self._counters_before
        counters = [(name, value) for name, value in self._counters.items() if value != before[name]]
        self.txn.upsert("counters", ("name", "value"), counters, ("name",))


def claim_run(txn: Txn) -> int:
    """Begin a new run: the writes of all older ones fail from now on."""
    txn.execute("UPDATE counters SET value = value + 1 WHERE name = 'qm_run'")
    return int(txn.value("SELECT value FROM counters WHERE name = 'qm_run'"))
