"""The rows that a batch of notices needs: loaded in bulk, changed in memory, saved in bulk.

The same key may occur several times in a batch, so every decision is based on the rows as the notices before have
left them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from lcc.model import COUNTED, DESCRIPTION, SITE, CachedState, QueuedState, Standing, UrlNotice, description_of
from lcc.storage.database.tables.cancelled import forget_cancelled, note_cancelled
from lcc.storage.database.tables.key_ranges import PAGE_BYTES, views_range
from lcc.storage.database.tables.rows import (
    CACHE,
    CACHED,
    CHANGE,
    FETCH,
    GENERATION_SHIFT,
    NOTHING,
    POLLED,
    QUEUE,
    QUEUE_UPDATED,
    TOLD,
    TOMBSTONE_UPDATED,
    WITHDRAWN,
    empty_cache_row,
    notice_values,
)
from lcc.storage.database.transactions import Question
from lcc.storage.queue.write_transaction import WriteTransaction

_RENEWED = ", generation = CASE WHEN generation < ? THEN ? ELSE generation + 1 END"
_QUEUE = "SELECT urlkey, pid, psetid, slot, seq, operation, generation, connseq, source, words, len FROM qdb"
_CACHE = (
    "SELECT urlkey, pid, state, connseq, told_md5, told_len, told_mtime, md5, len, mtime, furl,"
    f" {', '.join(DESCRIPTION)}, source, words, fetched_machineid, fetched_fileid FROM lccurl"
)
_DESCRIPTION_AT = 11
_SOURCE_AT = _DESCRIPTION_AT + len(DESCRIPTION)
_SITE = int(SITE)
_RANGES_AT_ONCE = 100
_new = tuple.__new__


class QueueEntry:
    """A queue row being changed.

    :ivar notice: the new one; None: the stored one stays.
    :ivar length: told, in bytes.
    :ivar new: not stored yet.
    :ivar plain: only the provider's own sets have a say in it (or: have deleted it).
    :ivar restood: others name it than is stored, or by other words.
    :ivar again: it is to be fetched again, as it is.
    """

    __slots__ = (
        "again",
        "changed",
        "generation",
        "key",
        "length",
        "new",
        "notice",
        "pid",
        "place",
        "plain",
        "restood",
        "seen",
        "state",
        "touched",
    )

    def __init__(
        self, key: bytes, pid: int, place: tuple[int, int, int], state: QueuedState, generation: int, new: bool
    ) -> None:
        self.key = key
        self.pid = pid
        self.place = place
        self.state = state
        self.generation = generation
        self.length: int | None = None
        self.seen: int | None = None
        self.notice: UrlNotice | None = None
        self.new = new
        self.changed = False
        self.touched = False
        self.again = False
        self.restood = False
        self.plain = not state.words and (state.source == TOLD or (state.source == _SITE and not state.fetch))

    def stand(self, fetch: bool, standing: Standing) -> None:
        """Set the operation and the standing."""
        connseq, source, words = standing
        if source != self.state.source or words or self.state.words:
            self.restood = True
            self.plain = not words and (source == TOLD or (source == _SITE and not fetch))
        self.state = _new(QueuedState, (fetch, connseq, source, words))
        self.touched = True

    def renew(self, least: int) -> None:
        """What a fetch for an earlier generation brings is no longer all that is wanted.

        :param least: of the rows of this batch (:data:`_RENEWED` does the same).
        """
        self.generation = max(self.generation + 1, least)

    def row(self, notice: UrlNotice) -> tuple[Any, ...]:
        """The row of :data:`QUEUE` with this notice, of which no fetch has failed."""
        fetch, connseq, source, words = self.state
        return (
            *(self.key, self.pid, *self.place, FETCH if fetch else NOTHING, self.generation, connseq),
            *(0, 0, self.seen or 0, source, words, *notice_values(notice)),
        )


class CacheEntry:
    """A cache row being changed.

    :ivar before: as stored.
    :ivar change: the change number of its deletion; None: it is not deleted.
    :ivar withdrawn: the same, where the content stays, because it is polled.
    :ivar tombstone: the deletion that makes it, if it is a new tombstone.
    :ivar plain, restood: as of :class:`QueueEntry`.
    """

    __slots__ = (
        "before",
        "change",
        "confirmed",
        "file",
        "key",
        "machine",
        "new",
        "pid",
        "plain",
        "restood",
        "seen",
        "state",
        "tombstone",
        "touched",
        "withdrawn",
    )

    def __init__(self, key: bytes, pid: int, state: CachedState, machine: int | None, file: int | None) -> None:
        self.key = key
        self.pid = pid
        self.state = self.before = state
        self.machine = machine
        self.file = file
        self.seen: int | None = None
        self.confirmed = False
        self.touched = False
        self.change: int | None = None
        self.withdrawn: int | None = None
        self.tombstone: UrlNotice | None = None
        self.new = False
        self.restood = False
        self.plain = not state.words and (state.source == TOLD or (state.source == _SITE and not state.cached))

    def stand(self, state: CachedState, standing: Standing) -> None:
        """Set the state, with this standing.  What was withdrawn stays so until somebody names it again."""
        connseq, source, words = standing
        self.touched = True
        if source == POLLED:
            source |= self.state.source & WITHDRAWN
        if not (state is self.state and self.plain and source == state.source and not words):
            if source != self.state.source or words or self.state.words:
                self.restood = True
                self.plain = not words and (source == TOLD or (source == _SITE and not state.cached))
            if source != state.source or words != state.words:
                state = state._replace(source=source, words=words)
        self.state = state._replace(connseq=connseq)


def row_questions(keys: Iterable[bytes], extra_cache: Iterable[bytes] = ()) -> list[Question]:
    """The queries for these keys; parameters as of :meth:`RowCache.load`."""
    wanted = sorted(set(keys))
    return [
        Question(f"{_QUEUE} WHERE urlkey IN ({{in}})", wanted),
        Question(f"{_CACHE} WHERE urlkey IN ({{in}})", sorted({*wanted, *extra_cache})),
    ]


NOTHING_CACHED = CachedState(False, 0, "", None, None, "", None, None)


class RowCache:
    """The rows of one batch."""

    def __init__(self, write: WriteTransaction) -> None:
        self.write = write
        self._least = write.next("batch") << GENERATION_SHIFT
        self.queue: dict[bytes, QueueEntry] = {}
        self._revived: set[bytes] = set()
        self.cache: dict[bytes, CacheEntry] = {}
        self.views: dict[bytes, set[bytes]] = {}

    def load(self, keys: Iterable[bytes], extra_cache: Iterable[bytes] = ()) -> None:
        """Read rows.

        :param keys: of both tables.
        :param extra_cache: further keys of ``lccurl``.
        """
        self.add(*self.write.txn.query_several(row_questions(keys, extra_cache)))

    def add(self, queued: Iterable[tuple[Any, ...]], cached: Iterable[tuple[Any, ...]]) -> None:
        """Add the answers to :func:`row_questions`."""
        for row in queued:
            self._add_queue(row)
        for row in cached:
            self._add_cache(row)

    def load_views(self, pages: Iterable[bytes]) -> None:
        """Read the rows of all views of these pages.

        :param pages: a key of each.
        """
        txn = self.write.txn
        ranges = sorted({views_range(key) for key in pages})
        for start in range(0, len(ranges), _RANGES_AT_ONCE):
            some = ranges[start : start + _RANGES_AT_ONCE]
            where = " OR ".join(["urlkey BETWEEN ? AND ?"] * len(some))
            bounds = [bound for pair in some for bound in pair]
            for row in txn.query(f"{_QUEUE} WHERE {where}", bounds):
                self._add_queue(row)
            for row in txn.query(f"{_CACHE} WHERE {where}", bounds):
                self._add_cache(row)
        self.views = {first[:PAGE_BYTES]: set() for first, _ in ranges}
        if ranges:
            for key in [*self.queue, *self.cache]:
                self._note_view(key)

    def _note_view(self, key: bytes) -> None:
        views = self.views.get(key[:PAGE_BYTES])
        if views is not None:
            views.add(key)

    def _add_queue(self, row: tuple[Any, ...]) -> None:
        key, pid, psetid, slot, seq, operation, generation, connseq, source, words, length = row
        if key not in self.queue:
            state = _new(QueuedState, (operation == FETCH, connseq, source, words))
            entry = self.queue[key] = QueueEntry(key, pid, (psetid, slot, seq), state, generation, False)
            entry.length = length

    def _add_cache(self, row: tuple[Any, ...]) -> None:
        key, pid, state = row[:3]
        if key not in self.cache:
            values = (*row[3:_DESCRIPTION_AT], row[_DESCRIPTION_AT:_SOURCE_AT], *row[_SOURCE_AT:-2])
            known = CachedState._make((state == CACHED, *values))
            self.cache[key] = CacheEntry(key, pid, known, *row[-2:])

    def mimetype_of(self, key: bytes) -> str:
        """The mime type of a row that there is."""
        entry = self.queue.get(key)
        if entry is not None and entry.notice is not None:
            return entry.notice.mimetype
        for table in ("lccurl", "qdb"):
            found = self.write.txn.value(f"SELECT mimetype FROM {table} WHERE urlkey = ?", [key])
            if found:
                return str(found)
        return ""

    # Changing.

    def mark(self, key: bytes, seen: int | None) -> None:
        """Mark it as named by a full set."""
        if seen is not None:
            for entry in (self.queue.get(key), self.cache.get(key)):
                if entry is not None:
                    entry.seen = seen
                    entry.touched = True

    def known(self, key: bytes, standing: Standing) -> None:
        """Set its standing."""
        queued, cached = self.queue.get(key), self.cache.get(key)
        if queued is not None:
            queued.stand(queued.state.fetch, standing)
        if cached is not None and (queued is None or self._stands_with(queued, cached)):
            cached.stand(cached.state, standing)

    def _stands_with(self, queued: QueueEntry, cached: CacheEntry) -> bool:
        """Whether a cached row has the standing of its URL.  Not so a tombstone, or what is only polled, while the
        queue has more to say."""
        return not queued.state.fetch or cached.state.counted or not queued.state.source & COUNTED

    def confirm(self, key: bytes, standing: Standing) -> None:
        """The cached content is current."""
        self.known(key, standing)
        self.cache[key].confirmed = True

    def update(self, key: bytes, standing: Standing, notice: UrlNotice) -> None:
        """As :meth:`confirm`, with a new description."""
        self.confirm(key, standing)
        entry = self.cache[key]
        entry.state = entry.state._replace(description=description_of(notice))

    def _pend(self, key: bytes, count: int) -> None:
        """Add the row of this key to the pending URLs of its provider, or remove it."""
        entry = self.queue.get(key)
        if entry is not None and self.is_pending(key):
            self.write.stats(entry.pid).pend(count, entry.length)

    def is_pending(self, key: bytes) -> bool:
        """Whether it is to be fetched, and has no content yet; and is not only polled."""
        entry, cached = self.queue.get(key), self.cache.get(key)
        return (
            entry is not None
            and entry.state.fetch
            and entry.state.source & COUNTED != 0
            and (cached is None or not cached.state.counted)
        )

    def fetch(self, key: bytes, pid: int, place: tuple[int, int, int], standing: Standing, notice: UrlNotice) -> bool:
        """Queue it.

        :param place: (psetid, slot, seq) of a new row.
        :returns: the row is new.
        """
        self._pend(key, -1)
        entry = self.queue.get(key)
        made = entry is None
        stats = self.write.stats(pid)
        if entry is None:
            entry = QueueEntry(key, pid, place, _new(QueuedState, (True, *standing)), self._least, True)
            self.queue[key] = entry
            self._note_view(key)
            stats.nurlproc += 1
        else:
            if not entry.state.fetch:
                stats.nurlproc += 1
                self._revived.add(key)
            entry.stand(True, standing)
            entry.renew(self._least)
        entry.notice = notice
        entry.length = notice.length
        entry.changed = True
        self._name_content(key, standing)
        self._pend(key, 1)
        return made

    def _name_content(self, key: bytes, standing: Standing) -> None:
        """What is to be fetched again is named by the same as its content, all the time."""
        cached = self.cache.get(key)
        if cached is not None and cached.state.source != standing.source and cached.state.counted:
            cached.stand(cached.state, standing)

    def again(self, key: bytes, standing: Standing) -> None:
        """What is queued is to be fetched from now on, as what it is."""
        entry = self.queue[key]
        self._pend(key, -1)
        entry.stand(True, standing)
        entry.renew(self._least)
        entry.again = entry.changed = True
        self._name_content(key, standing)
        self._pend(key, 1)

    def withdraw(self, key: bytes, standing: Standing) -> None:
        """It is only polled from now on: to its provider and to content users it is deleted."""
        self._pend(key, -1)
        queued, cached = self.queue.get(key), self.cache.get(key)
        if queued is not None and queued.state.fetch:
            queued.stand(True, standing)
            queued.renew(self._least)
            queued.again = queued.changed = True
        if cached is not None and cached.state.counted:
            stats = self.write.stats(cached.pid)
            stats.files_used -= 1
            stats.space_used -= cached.state.length or 0
            cached.withdrawn = self.write.next("change")
            cached.stand(cached.state, standing._replace(source=standing.source | WITHDRAWN))

    def refuse(self, key: bytes, standing: Standing, source: int) -> None:
        """Cancel its fetch; its content stays.

        :param source: of the notice.  If others name it, too, it is fetched for them.
        """
        queued, cached = self.queue.get(key), self.cache.get(key)
        if standing.source & ~source:
            named = queued.state.source if queued is not None and queued.state.fetch else 0
            if cached is not None and cached.state.cached:
                named |= cached.state.source
            if named & source:
                self.known(key, standing)
            return
        self._pend(key, -1)
        self.known(key, standing)
        if queued is not None and queued.state.fetch:
            self._do_nothing(queued, standing)

    def _do_nothing(self, queued: QueueEntry, standing: Standing) -> None:
        if queued.state.fetch:
            self.write.stats(queued.pid).nurlproc -= 1
        if queued.new:
            del self.queue[queued.key]
        else:
            queued.renew(self._least)
            queued.stand(False, standing)
            queued.changed = True

    def delete(self, key: bytes, standing: Standing, notice: UrlNotice, pid: int) -> None:
        """Delete its content, cancel its fetch, leave a tombstone."""
        self._pend(key, -1)
        queued = self.queue.get(key)
        if queued is not None:
            self._do_nothing(queued, standing)
        cached = self.cache.get(key)
        if cached is None:
            cached = self.cache[key] = CacheEntry(key, pid, NOTHING_CACHED, None, None)
            cached.new = True
            cached.tombstone = notice
            self._note_view(key)
        elif cached.state.cached:
            cached.change = self.write.next("change")
            if cached.state.counted:
                stats = self.write.stats(pid)
                stats.files_used -= 1
                stats.space_used -= cached.state.length or 0
            standing = standing._replace(source=standing.source | (cached.state.source & WITHDRAWN))
            self.write.delete_file(cached.machine, cached.file)
        cached.stand(NOTHING_CACHED, standing)

    # Writing.

    def save(self) -> frozenset[bytes]:
        """Write all changes.

        :returns: keys of the rows that were queued before and have changed.
        """
        self._save_queue()
        self._save_cache()
        return frozenset(key for key, entry in self.queue.items() if entry.changed and not entry.new)

    def _save_queue(self) -> None:
        txn = self.write.txn
        new: list[tuple[Any, ...]] = []
        renewed: list[tuple[Any, ...]] = []
        groups: dict[tuple[int, tuple[int, str] | None, int | None, str], list[bytes]] = defaultdict(list)
        for key, entry in sorted(self.queue.items()):
            fetch, connseq, source, words = entry.state
            if entry.notice is not None:
                (new if entry.new else renewed).append(entry.row(entry.notice))
            elif entry.changed or entry.touched:
                changes = f", operation = {FETCH if fetch else NOTHING}{_RENEWED}" if entry.changed else ""
                named = (source, words) if entry.restood else None
                groups[connseq, named, entry.seen, changes].append(key)
        forget_cancelled(txn, sorted(key for key in self._revived if self.queue[key].state.fetch))
        note_cancelled(txn, [key for key, entry in self.queue.items() if entry.changed and not entry.state.fetch])
        QUEUE.insert(txn, new)
        QUEUE.upsert(txn, renewed, QUEUE_UPDATED)
        for (connseq, named, seen, more), keys in groups.items():
            changes, values = _changes(connseq, named, seen)
            values += [self._least] * more.count("?")
            txn.execute_in(f"UPDATE qdb SET {changes}{more} WHERE urlkey IN ({{in}})", keys, values)

    def _save_cache(self) -> None:
        txn = self.write.txn
        new: list[tuple[Any, ...]] = []
        gone: list[tuple[Any, ...]] = []
        described: list[tuple[Any, ...]] = []
        restricted: list[tuple[Any, ...]] = []
        withdrawn: list[tuple[Any, ...]] = []
        groups: dict[tuple[int, tuple[int, str] | None, int | None, bool], list[bytes]] = defaultdict(list)
        for key, entry in sorted(self.cache.items()):
            if not entry.touched:
                continue
            connseq = entry.state.connseq
            if entry.new:
                new.append(self._tombstone(entry))
            elif entry.change is not None:
                row = empty_cache_row(key, entry.pid)
                row.update(self._change(entry.change), confirmed_time=self.write.now, **_standing_of(entry.state))
                gone.append(tuple(row.values()))
            else:
                named = (entry.state.source, entry.state.words) if entry.restood else None
                groups[connseq, named, entry.seen, entry.confirmed].append(key)
                if not entry.state.cached:
                    continue
                if entry.withdrawn is not None:
                    row = empty_cache_row(key, entry.pid)
                    row.update(self._change(entry.withdrawn))
                    withdrawn.append(tuple(row.values()))
                    continue
                # A change that was reverted within the batch is none.
                if entry.state.shown != entry.before.shown or entry.state.source != entry.before.source:
                    described.append(self._described(entry, self.write.next("change")))
                elif entry.state.description != entry.before.description:
                    restricted.append(self._described(entry, 0))
        CACHE.insert(txn, new)
        CACHE.upsert(txn, gone, TOMBSTONE_UPDATED)
        CACHE.upsert(txn, withdrawn, CHANGE)
        CACHE.upsert(txn, described, (*DESCRIPTION, *CHANGE))
        CACHE.upsert(txn, restricted, DESCRIPTION)
        for (connseq, named, seen, confirmed), keys in groups.items():
            changes, values = _changes(connseq, named, seen)
            if confirmed:
                changes += ", confirmed_time = ?"
                values.append(self.write.now)
            txn.execute_in(f"UPDATE lccurl SET {changes} WHERE urlkey IN ({{in}})", keys, values)

    def _described(self, entry: CacheEntry, change: int) -> tuple[Any, ...]:
        row = empty_cache_row(entry.key, entry.pid)
        row.update(zip(DESCRIPTION, entry.state.description, strict=True), **self._change(change))
        return tuple(row.values())

    def _change(self, number: int) -> dict[str, int]:
        return {"change_number": number, "change_time": self.write.change_time if number else 0}

    def _tombstone(self, entry: CacheEntry) -> tuple[Any, ...]:
        row = empty_cache_row(entry.key, entry.pid)
        notice = entry.tombstone
        assert notice is not None
        names = {"curl": notice.curl, "mimetype": notice.mimetype}
        row.update(confirmed_time=self.write.now, **names, **_standing_of(entry.state))
        return tuple(row.values())


def _standing_of(state: CachedState) -> dict[str, Any]:
    return {"connseq": state.connseq, "source": state.source, "words": state.words}


def _changes(connseq: int, named: tuple[int, str] | None, seen: int | None) -> tuple[str, list[Any]]:
    changes, values = "connseq = ?", list[Any]([connseq])
    if named is not None:
        changes += ", source = ?, words = ?"
        values += named
    if seen is not None:
        changes += ", seen = ?"
        values.append(seen)
    return changes, values
