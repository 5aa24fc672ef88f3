"""What the notices of a batch do, one after the other, to the rows that they meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from lcc.errors import code
from lcc.interfaces import IQueueRules
from lcc.model import FETCH_NOW, Absorbed, Action, KeyedNotice, Quota, SetAnswer, SetHeader, UrlNotice
from lcc.storage.database.key_ranges import PAGE_BYTES, all_views_key, is_all_views
from lcc.storage.database.transactions import Question, Txn
from lcc.storage.queue.row_cache import RowCache
from lcc.storage.queue.set_positions import SetRows
from lcc.storage.queue.time_slots import move_rows
from lcc.storage.queue.write_transaction import WriteTransaction

_OUTSIDE = code("outside-roots")
_OF_UPDATES = frozenset({Action.FETCH, Action.CONFIRM, Action.UPDATE, Action.KNOWN})


@attrs.define
class PendingNotifications:
    """What the queue manager has to be told.

    It outlives a transaction: a commit whose result got lost may have been made, and then the next try finds nothing
    more to do.
    """

    queued: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    touched: set[bytes] = attrs.field(factory=set)
    deletes: bool = False
    priorities: dict[int, int] = attrs.field(factory=dict)

    def add_queued(self, pid: int, psetid: int, seq: int) -> None:
        """A provider got a row at this place."""
        place = (psetid, seq)
        if pid not in self.queued or place < self.queued[pid]:
            self.queued[pid] = place

    def as_absorbed(self, answers: Iterable[SetAnswer] = ()) -> Absorbed:
        """All of it, with answers to sets."""
        return Absorbed(tuple(answers), self.queued, frozenset(self.touched), self.deletes, self.priorities)


@attrs.frozen
class Registered:
    """What is needed of a provider."""

    priority: int
    quota: Quota
    hours: str
    timezone: str
    roots: tuple[str, ...]

    @property
    def has_quota(self) -> bool:
        """Anything is limited."""
        return self.quota != (None, None)


_SELECT_REGISTERED = (
    "SELECT p.pid, priority, filesmax, spacemax, timeofday, timezone, root FROM pidb p"
    " LEFT JOIN proots r ON r.pid = p.pid WHERE removed = 0 AND p.pid IN ({in})"
)


def registered_question(pids: Iterable[int]) -> Question:
    """What :func:`registered_in` needs to know of these providers."""
    return Question(_SELECT_REGISTERED, sorted(pids))


def registered_in(rows: Iterable[tuple[Any, ...]]) -> dict[int, Registered]:
    """What the answer to that question says."""
    roots: dict[tuple[Any, ...], list[str]] = {}
    for *row, root in rows:
        roots.setdefault(tuple(row), []).extend([] if root is None else [root])
    return {
        pid: Registered(priority, Quota(files, space), hours, timezone, tuple(found))
        for (pid, priority, files, space, hours, timezone), found in roots.items()
    }


def registered_providers(txn: Txn, pids: Iterable[int]) -> dict[int, Registered]:
    """Those of these providers that are registered, and are not being removed."""
    return registered_in(*txn.query_several([registered_question(pids)]))


@attrs.frozen
class SetPart:
    """Elements that are applied now.

    :ivar index: of the first of them in the set.
    """

    header: SetHeader
    psetid: int
    index: int
    notices: Sequence[KeyedNotice]


class Batch:
    """Decides on each notice in order, on the rows as those before have left them.

    :param registered: the providers of all notices.
    """

    def __init__(
        self,
        rows: RowCache,
        write: WriteTransaction,
        rules: IQueueRules,
        registered: Mapping[int, Registered],
        now: int,
    ) -> None:
        self._rows = rows
        self._write = write
        self._rules = rules
        self._registered = registered
        self._now = now
        self._prefixes = {pid: rules.prefixes(provider.roots) for pid, provider in registered.items()}
        self._added: dict[tuple[int, int], SetRows.Added] = {}
        self._headers: dict[int, SetHeader] = {}
        self._moves: dict[bytes, int] = {}

    def apply(self, part: SetPart) -> None:
        """Apply notices of one set."""
        rows = self._rows
        queue, cache, action_for = rows.queue, rows.cache, self._rules.action
        header, pid, connseq, psetid = part.header, part.header.pid, part.header.connseq, part.psetid
        self._headers[psetid] = header
        stats = self._write.stats(pid)
        older = connseq < stats.maxconnseq
        stats.maxconnseq = max(stats.maxconnseq, connseq)
        seen = psetid if header.full else None
        limited = self._registered[pid].has_quota
        prefixes = self._prefixes[pid]
        seq = part.index
        for key, notice in part.notices:
            seq += 1
            floor = stats.fullconnseq
            if older and (views := cache.get(all_views_key(key))) is not None:
                floor = max(floor, views.state.connseq)
            if is_all_views(key):
                if notice.delete:
                    self._delete_all_views(key, header, floor, notice, seen)
                else:  # named, and refused for its mime type: whatever is known of the page was named
                    for view in rows.views.get(key[:PAGE_BYTES], ()):
                        rows.mark(view, seen)
                continue
            queued, cached = queue.get(key), cache.get(key)
            action = action_for(
                notice,
                connseq,
                floor,
                None if queued is None else queued.state,
                None if cached is None else cached.state,
            )
            if action is Action.OLDER:
                continue
            refused = 0
            if action in _OF_UPDATES and not notice.lies_within(prefixes):
                refused = _OUTSIDE  # it was inside when its UNS checked it; the roots have changed since
            elif limited and action is Action.FETCH:
                refused = self._over_quota(key, notice, header, seq)
            if refused:
                if cached is not None and cached.state.cached and cached.file is None:
                    rows.delete(key, connseq, notice, pid)  # it was lost: there is nothing to keep
                else:
                    rows.refuse(key, connseq)
                self._write.error(pid, key, connseq, refused, "", notice)
            elif action is Action.FETCH:
                self._fetch(key, notice, header, (psetid, seq))
            elif action is Action.CONFIRM:
                rows.confirm(key, connseq)
            elif action is Action.UPDATE:
                rows.update(key, connseq, notice)
            elif action is Action.DELETE:
                rows.delete(key, connseq, notice, pid)
            elif action is Action.KNOWN:
                rows.known(key, connseq)
            if seen is not None:
                rows.mark(key, seen)

    def _fetch(self, key: bytes, notice: UrlNotice, header: SetHeader, place: tuple[int, int]) -> None:
        slot = FETCH_NOW
        if notice.hours:
            provider = self._registered[header.pid]
            slot = self._rules.slot(notice.hours, provider.hours, provider.timezone, self._now)
        if self._rows.fetch(key, header.pid, (place[0], slot, place[1]), header.connseq, notice):
            self._add(key, (place[0], slot, place[1]))
            return
        # It keeps its place in the order; but it need not wait for hours that it no longer has.
        entry = self._rows.queue[key]
        psetid, old_slot, seq = entry.place
        if entry.new and slot != old_slot:
            entry.place = (psetid, slot, seq)
            self._add(key, entry.place)
        elif not entry.new and old_slot != FETCH_NOW:
            self._moves[key] = slot

    def _add(self, key: bytes, place: tuple[int, int, int]) -> None:
        psetid, slot, seq = place
        self._added.setdefault((psetid, slot), SetRows.Added(self._headers[psetid])).add(key, seq)

    def queue_again(self, part: SetPart) -> None:
        """Queue these, whatever is known of them: their content is lost."""
        self._headers[part.psetid] = part.header
        for seq, (key, notice) in enumerate(part.notices, part.index + 1):
            self._fetch(key, notice, part.header, (part.psetid, seq))

    def _over_quota(self, key: bytes, notice: UrlNotice, header: SetHeader, seq: int) -> int:
        """The error that there is no room for it; 0: there is."""
        rows, stats = self._rows, self._write.stats(header.pid)
        files = stats.files_used + stats.files_pending
        space = stats.space_used + stats.space_pending
        cached = rows.cache.get(key)
        is_new = False
        if cached is not None and cached.state.cached:
            space -= cached.state.length or 0
        elif rows.is_pending(key):
            space -= rows.queue[key].length or 0
        else:
            is_new = True
        if header.full:
            # What it does not name goes: at the most, what it named so far stays.  The rest is decided by the fetch.
            files, space = min(files, seq - 1), 0
        return self._rules.over_quota(self._registered[header.pid].quota, is_new, files, space, notice.length)

    def _delete_all_views(
        self, key: bytes, header: SetHeader, floor: int, notice: UrlNotice, seen: int | None
    ) -> None:
        """A deletion without a mime type: each view that is known, and a tombstone for those that are not."""
        rows = self._rows
        for view in sorted(rows.views.get(key[:PAGE_BYTES], set()) | {key}):
            queued, cached = rows.queue.get(view), rows.cache.get(view)
            action = self._rules.action(
                notice,
                header.connseq,
                floor,
                None if queued is None else queued.state,
                None if cached is None else cached.state,
            )
            if action is Action.DELETE:
                rows.delete(view, header.connseq, notice, header.pid)
                rows.mark(view, seen)

    # The rows that were made.

    def places(self, pending: PendingNotifications) -> dict[tuple[int, int], SetRows.Added]:
        """The new rows, by set and slot."""
        queue = self._rows.queue
        found = {}
        for (psetid, slot), place in self._added.items():
            # A row may have gone again, or have been made once more by another set of this batch.
            place.keys = {
                key: seq
                for key, seq in place.keys.items()
                if key in queue and queue[key].place == (psetid, slot, seq)
            }
            if place.keys:
                found[psetid, slot] = place
                if slot == FETCH_NOW:
                    pending.add_queued(place.header.pid, psetid, place.first)
        return found

    def move(self, pending: PendingNotifications) -> None:
        """Move the rows that were waiting for other hours than they have now.  Call it when all rows are written."""
        moves: dict[tuple[int, int, int], list[tuple[bytes, int]]] = {}
        for key, slot in self._moves.items():
            entry = self._rows.queue[key]
            psetid, old_slot, seq = entry.place
            if slot != old_slot:
                moves.setdefault((psetid, old_slot, slot), []).append((key, seq))
                if slot == FETCH_NOW:
                    pending.add_queued(entry.pid, psetid, seq)
        for (psetid, source, target), rows in sorted(moves.items()):
            move_rows(self._write.txn, psetid, source, target, rows)
