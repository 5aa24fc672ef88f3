"""Rows that were queued a moment ago: to read them ahead the database need not be asked.

A transaction that absorbs sets knows the rows that it makes.  Until the next write they are what a query would find
from the first of its new sets on, because sets are numbered in the order in which they begin; and all that it would
find of a provider that had nothing to fetch before, which is asked where a transaction has sets of few providers.  So
a page that comes alone goes out without a query; under load there is nearly always another write in between, and rows
are read for many providers together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from lcc.model import FETCH_NOW, Ahead, Cursor, QueueRow
from lcc.storage.database.tables.rows import queue_row
from lcc.storage.database.transactions import Question
from lcc.storage.queue.intake.row_cache import CacheEntry, QueueEntry

_FEW = 4
_SELECT_FIRST = "SELECT MIN(psetid) FROM qpsdb WHERE pid = ? AND slot = ?"


def first_set_questions(pids: Collection[int]) -> list[Question]:
    """Whether these providers have anything to fetch; not asked for many."""
    return [Question(_SELECT_FIRST, None, (pid, FETCH_NOW)) for pid in sorted(pids)] if len(pids) <= _FEW else []


def idle_providers(pids: Collection[int], answers: Iterable[Sequence[tuple[Any, ...]]]) -> set[int]:
    """Those that have nothing, as far as it was asked (:func:`first_set_questions`)."""
    return {pid for pid, rows in zip(sorted(pids), answers, strict=False) if rows[0][0] is None}


class FreshRows:
    """The queue as a transaction has left it, as far as that knows.

    :param psetids: sets that began there.
    :param full: the full sets among them.
    :param idle: providers that had nothing to fetch before.
    :param queue: the queue rows that it knows, by key.
    :param cache: the cache rows that it knows, by key.
    """

    def __init__(
        self,
        psetids: Collection[int],
        full: Collection[int],
        idle: Collection[int],
        queue: Mapping[bytes, QueueEntry],
        cache: Mapping[bytes, CacheEntry],
    ) -> None:
        self._psetids = psetids
        self._full = full
        self._idle = idle
        self._queue = queue
        self._cache = cache
        self._rows: dict[int, list[QueueRow]] | None = None
        self._with_others: set[int] = set()

    def ahead(self, cursor: Cursor) -> Ahead | None:
        """What is to be read there, without what a server may confirm; None: the database must be asked."""
        if cursor.partial:
            return None
        pid, at = cursor.pid, (cursor.psetid, cursor.seq)
        by_provider = self._by_provider()
        if cursor.psetid not in self._psetids and (pid not in self._idle or pid in self._with_others):
            return None
        rows = [row for row in by_provider.get(pid, ()) if (row.psetid, row.seq) > at]
        if any(row.psetid in self._full for row in rows):
            return None  # how much is left of such a set must be known, too
        return Ahead(pid, rows[: cursor.limit])

    def is_cached(self, key: bytes) -> bool:
        """There is content of this URL, which a server may confirm."""
        cached = self._cache.get(key)
        return cached is not None and cached.state.cached

    def _by_provider(self) -> dict[int, list[QueueRow]]:
        if self._rows is None:
            self._rows = {}
            for entry in self._queue.values():
                psetid, slot, _seq = entry.place
                if not entry.new or psetid not in self._psetids or entry.notice is None:
                    self._with_others.add(entry.pid)  # it may have come from a time slot
                    continue
                if slot != FETCH_NOW:
                    continue
                self._rows.setdefault(entry.pid, []).append(queue_row(entry.row(entry.notice)))
            for rows in self._rows.values():
                rows.sort(key=lambda row: (row.psetid, row.seq))
        return self._rows
