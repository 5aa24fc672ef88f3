"""The rows that a batch of results is about: as read, as the results before have left them, and as they are written.

What a result does to them says :mod:`lcc.storage.queue.results.record`.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

import attrs

from lcc.errors import CODES
from lcc.interfaces import IQueueRules
from lcc.model import COUNTED, FetchResult, QueueRow, Quota, Standing, retry_slot
from lcc.storage.database.tables.cancelled import forget_cancelled
from lcc.storage.database.tables.rows import CACHE, CACHED, DELETED, TOMBSTONE_UPDATED, empty_cache_row
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.registered import registered_providers
from lcc.storage.queue.set_rows import QueuedSets
from lcc.storage.queue.write_transaction import WriteTransaction

_MISMATCH = CODES["mimetype-mismatch"]
_UPDATED = CACHE.without(("urlkey", "pid"))
STANDING = ("connseq", "source", "words")
"""The columns of :class:`lcc.model.Standing`."""
_standing_values = itemgetter(*STANDING)


class Bad(NamedTuple):
    """Why a row went to the end of its set."""

    code: int
    text: str


def standing_of(cached: dict[str, Any]) -> Standing:
    """Who names this cached row."""
    return Standing._make(_standing_values(cached))


def counts(cached: dict[str, Any] | None) -> bool:
    """Whether it is content of a page that is counted: it is not only polled."""
    return cached is not None and cached["state"] == CACHED and cached["source"] & COUNTED != 0


def is_current(cached: dict[str, Any], result: FetchResult) -> bool:
    """Whether this result brought the content that is cached: it came twice."""
    return (cached["fetched_machineid"], cached["fetched_fileid"]) == (result.machine, result.file)


@attrs.define
class ResultRows:
    """The rows of a batch, as the results before have left them.

    :ivar cache: lccurl rows by key, each a dictionary of its columns.
    :ivar untyped: some of the providers have, or had, rows without a mime type of their own.
    :ivar changed: keys of those to be written.
    """

    txn: Txn
    write: WriteTransaction
    rules: IQueueRules
    now: int
    quotas: dict[int, Quota]
    queue: dict[bytes, QueueRow]
    seen: dict[bytes, int]
    cache: dict[bytes, dict[str, Any]]
    sets: QueuedSets
    untyped: bool = False
    changed: dict[bytes, None] = attrs.field(factory=dict)
    moved: dict[bytes, tuple[QueueRow, Bad]] = attrs.field(factory=dict)
    taken: set[bytes] = attrs.field(factory=set)
    cancelled: set[bytes] = attrs.field(factory=set)
    _private: dict[int, bool] = attrs.field(factory=dict)

    def allows_private(self, pid: int) -> bool:
        """Whether this provider may be fetched from at private addresses by now."""
        if pid not in self._private:
            self._private[pid] = bool(self.txn.value("SELECT allow_private FROM pidb WHERE pid = ?", [pid], 0))
        return self._private[pid]

    def last_error(self, row: QueueRow) -> int:
        """Why this row is tried again; 0: it is not."""
        return int(self.txn.value("SELECT bad_code FROM qdb WHERE urlkey = ?", [row.key], 0))

    def pend(self, key: bytes, count: int) -> None:
        """Add the row of this key to the pending URLs of its provider, or remove it."""
        row, cached = self.queue.get(key), self.cache.get(key)
        if row is not None and not row.delete and row.source & COUNTED and not counts(cached):
            self.write.stats(row.pid).pend(count, row.notice.length)

    def take_away(self, row: QueueRow) -> None:
        """Remove this row from the queue."""
        del self.queue[row.key]
        self.moved.pop(row.key, None)
        self.taken.add(row.key)
        self.sets.removed(row)
        if row.delete:
            self.cancelled.add(row.key)
        else:
            self.write.stats(row.pid).nurlproc -= 1

    def try_later(self, row: QueueRow, bad: Bad) -> None:
        """Put this row into a time slot, later the more attempts it has had."""
        due = self.rules.retry_time(max(1, row.attempts), row.key, self.now)
        self.to_the_end(row, retry_slot(due), bad)

    def to_the_end(self, row: QueueRow, slot: int, bad: Bad) -> None:
        """Put this row behind all others of its set, in this time slot."""
        seq = self.sets.to_the_end(row, slot, self.write.next("behind"))
        moved = row._replace(slot=slot, seq=seq, generation=row.generation + 1)
        self.queue[row.key] = moved
        self.moved[row.key] = moved, bad

    def discard_file(self, result: FetchResult) -> None:
        """Delete an unwanted file, unless it is the one in the cache (a duplicate result)."""
        if result.file is None:
            return
        cached, row = self.cache.get(result.key), self.queue.get(result.key)
        if cached is None and self._is_another_rows(result):
            return
        if cached is None and row is None and not registered_providers(self.txn, [result.pid]):
            # Nothing of this provider is fetched any more: no tombstone is needed.
            self.write.delete_file(result.machine, result.file)
            return
        if cached is None:
            cached = self.cache[result.key] = empty_cache_row(result.key, result.pid)
            cached["confirmed_time"] = self.now
            if row is not None:
                cached.update(curl=row.notice.curl, mimetype=row.notice.mimetype)
                if row.delete:
                    cached.update(connseq=row.connseq, source=row.source, words=row.words)
        elif is_current(cached, result):
            return
        self.write.delete_file(result.machine, result.file)
        if cached["generation"] < result.generation:
            cached["generation"] = result.generation
            self.changed[result.key] = None

    def _is_another_rows(self, result: FetchResult) -> bool:
        """A provider that arrived has taken the file over from its carrier, and this result came twice."""
        sql = "SELECT 1 FROM lccurl WHERE fetched_machineid = ? AND fetched_fileid = ? LIMIT 1"
        return self.txn.one(sql, [result.machine, result.file]) is not None

    def has_no_file(self, row: QueueRow) -> bool:
        """Its content was lost (:mod:`lcc.storage.queue.maintenance.lost_content`): if a fetch fails, nothing is
        left."""
        cached = self.cache.get(row.key)
        return cached is not None and cached["state"] == CACHED and cached["fetched_fileid"] is None

    def failed(self, row: QueueRow, code: int, detail: str = "") -> None:
        """Store an error; what is cached has the last words of those whose notice it was."""
        self.write.error(row.pid, row.key, row.connseq, code, detail, row.notice, row.generation, row.source)
        cached = self.cache.get(row.key)
        if cached is None:
            return
        former, standing = standing_of(cached), Standing(row.connseq, row.source, row.words)
        if not counts(cached) and not (former.source == standing.source and former.words == standing.words):
            # Nothing more is known of it than before, but for the last words.
            connseq = max(former.connseq, standing.connseq)
            standing = Standing.of(connseq, former.source, former.joined(standing).numbers)
        if former != standing and former.connseq <= standing.connseq:
            cached.update(zip(STANDING, standing, strict=True))
            self.changed[row.key] = None
        if code == _MISMATCH and cached["revalidate"]:
            # "Not modified" has no type: fetch it next time.
            cached["revalidate"] = 0
            self.changed[row.key] = None

    def delete_content(self, row: QueueRow) -> None:
        """Delete what is cached of this row; its tombstone has the standing of the row."""
        cached = self.cache.get(row.key)
        if cached is None or cached["state"] != CACHED:
            return
        connseq, source, words = row.connseq, row.source & COUNTED, row.words
        if counts(cached):
            stats = self.write.stats(row.pid)
            stats.files_used -= 1
            stats.space_used -= cached["len"] or 0
        else:
            connseq, source, words = Standing.of(
                connseq, cached["source"], Standing(connseq, row.source, words).numbers
            )
        self.write.delete_file(cached["fetched_machineid"], cached["fetched_fileid"])
        empty = empty_cache_row(row.key, row.pid)
        cached.update({column: empty[column] for column in TOMBSTONE_UPDATED})
        cached.update(
            state=DELETED,
            **self.write.next_change(),
            connseq=connseq,
            source=source,
            words=words,
            confirmed_time=self.now,
        )
        self.changed[row.key] = None

    def over_quota(self, result: FetchResult, row: QueueRow, cached: dict[str, Any]) -> int:
        """The error code of the exceeded quota; 0: none is exceeded."""
        quota = self.quotas.get(result.pid)
        if quota is None or not row.source & COUNTED:
            return 0
        stats = self.write.stats(result.pid)
        is_new = not counts(cached)
        space = stats.space_used - (0 if is_new else cached["len"] or 0)
        return self.rules.over_quota(quota, is_new, stats.files_used, space, result.size_bytes)

    def is_arriving(self, psetid: int) -> bool:
        """Whether the set is incomplete: a full set has not yet deleted what it did not name."""
        return self.txn.one("SELECT 1 FROM setspos WHERE part_psetid = ?", [psetid]) is not None

    def save(self) -> None:
        """Write all changes."""
        txn = self.txn
        rows = [tuple(self.cache[key].values()) for key in sorted(self.changed)]
        CACHE.upsert(txn, rows, _UPDATED)
        txn.execute_in("DELETE FROM qdb WHERE urlkey IN ({in})", sorted(self.taken))
        forget_cancelled(txn, sorted(self.cancelled))
        for key, (row, bad) in sorted(self.moved.items()):
            txn.execute_in(
                "UPDATE qdb SET slot = ?, seq = ?, generation = ?, attempts = ?, unreached = ?,"
                " bad_code = ?, bad_text = ?, bad_time = ? WHERE urlkey IN ({in})",
                [key],
                [row.slot, row.seq, row.generation, row.attempts, row.unreached, *bad, self.now],
            )
        self.sets.save()
