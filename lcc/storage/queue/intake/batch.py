"""Applies the notices of a batch, in order, to the rows of queue and cache."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import attrs

from lcc.errors import code
from lcc.interfaces import IQueueRules
from lcc.model import (
    ANY_TYPE,
    COUNTED,
    FETCH_NOW,
    HINTS,
    SITE,
    Action,
    CachedState,
    Decision,
    KeyedNotice,
    QueuedState,
    SetHeader,
    Standing,
    UrlNotice,
)
from lcc.storage.database.tables.key_ranges import PAGE_BYTES, all_views_key, is_all_views, is_untyped, untyped_key
from lcc.storage.database.tables.rows import POLLED, TOLD
from lcc.storage.queue.intake.row_cache import RowCache
from lcc.storage.queue.registered import Registered
from lcc.storage.queue.set_rows import RETRY_SEQ, AddedRows, add_to_sets, move_rows
from lcc.storage.queue.write_transaction import Stats, WriteTransaction

_OUTSIDE = code("outside-roots")
_OF_UPDATES = frozenset({Action.FETCH, Action.AGAIN, Action.CONFIRM, Action.UPDATE, Action.KNOWN})
_SITE, _HINTS = int(SITE), int(HINTS)


def _standing(state: QueuedState | CachedState) -> Standing:
    return Standing(state.connseq, state.source, state.words)


@attrs.frozen
class SetPart:
    """The elements of a set that a batch applies.

    :ivar index: of the first of them in the set.
    :ivar source: mask of those whose word they are; 0: as the header says.
    """

    header: SetHeader
    psetid: int
    index: int
    notices: Sequence[KeyedNotice]
    source: int = 0


class Batch:
    """Applies each notice to the rows as the notices before have left them; :meth:`commit` writes the rows.

    :param registered: the providers of all notices.
    :ivar rows: must be loaded before notices are applied.
    """

    def __init__(self, write: WriteTransaction, rules: IQueueRules, registered: Mapping[int, Registered]) -> None:
        self.rows = RowCache(write)
        self._write = write
        self._rules = rules
        self._registered = registered
        self._prefixes = {pid: rules.prefixes(provider.roots) for pid, provider in registered.items()}
        self._added: dict[tuple[int, int], AddedRows] = {}
        self._headers: dict[int, SetHeader] = {}
        self._moves: dict[bytes, int] = {}

    def apply(self, part: SetPart) -> None:
        """Apply notices of one set."""
        rows = self.rows
        queue, cache, action_for = rows.queue, rows.cache, self._rules.action
        header, pid, connseq, psetid = part.header, part.header.pid, part.header.connseq, part.psetid
        self._headers[psetid] = header
        stats = self._write.stats(pid)
        source = part.source or int(header.source)
        told, named, deleted = source == TOLD, Standing(connseq), Standing(connseq, _SITE)
        older = connseq < stats.maxconnseq
        stats.maxconnseq = max(stats.maxconnseq, connseq)
        seen = psetid if header.full else None
        limited = self._registered[pid].has_quota
        prefixes = self._prefixes[pid]
        untyped = bool(stats.untyped) and source & _SITE
        places: Iterable[tuple[int, KeyedNotice]] = enumerate(part.notices, part.index + 1)
        for seq, (key, notice) in places if told else self._of_typed_views(places, stats):
            floor, views = stats.fullconnseq, None
            if older and (views := cache.get(all_views_key(key))) is not None:
                floor = max(floor, views.state.connseq if views.plain else _standing(views.state).told_number)
            if is_all_views(key):
                if notice.delete or notice.retract:
                    self._of_all_views(key, header, source, notice, seen)
                else:  # named, and refused for its mime type: whatever is known of the page was named
                    for view in rows.views.get(key[:PAGE_BYTES], ()):
                        rows.mark(view, seen)
                continue
            queued, cached = queue.get(key), cache.get(key)
            plain = told and (queued is None or queued.plain) and (cached is None or cached.plain)
            if plain:
                action = action_for(
                    notice,
                    connseq,
                    floor,
                    None if queued is None else queued.state,
                    None if cached is None else cached.state,
                )
                standing = deleted if action is Action.DELETE else named
            if not plain or (action is Action.OLDER and notice.delete):
                # Also a late deletion: to words that are older still, it is the last.
                action, standing, notice = self._decide(key, header, source, notice)
            if action is Action.OLDER:
                continue
            if untyped and notice.delete and (action is Action.DELETE or not standing.source & _SITE):
                self._forget_hints(key, header, source, notice)
            refused = 0
            if action in _OF_UPDATES and not notice.lies_within(prefixes) and source != POLLED:
                refused = _OUTSIDE  # the roots have changed since its UNS checked it
            elif limited and action is Action.FETCH and source != POLLED:
                refused = self._over_quota(key, notice, header, seq)
            if refused:
                if cached is not None and cached.state.cached and cached.file is None:
                    rows.delete(key, standing, notice, pid)  # its file was lost: nothing to keep
                else:
                    rows.refuse(key, standing, source)
                self._write.error(pid, key, connseq, refused, "", notice, source=source)
            elif action is Action.FETCH:
                self._fetch(key, notice, header, standing, (psetid, seq))
            elif action is Action.CONFIRM:
                rows.confirm(key, standing)
            elif action is Action.UPDATE:
                rows.update(key, standing, notice)
            elif action is Action.KNOWN:
                rows.known(key, standing)
            elif action is not Action.NAMED:
                self._do(action, key, notice, header, standing, (psetid, seq))
            if seen is not None and not (notice.delete and action is Action.KNOWN):
                rows.mark(key, seen)  # but not where the deletion is older than what names it

    def _of_typed_views(
        self, notices: Iterable[tuple[int, KeyedNotice]], stats: Stats
    ) -> Iterator[tuple[int, KeyedNotice]]:
        """The notices with their places, each as the notices before have left its page: one without a mime type is
        about the typed views, where there are any; if it takes something away, about all views."""
        for seq, keyed in notices:
            key, notice = keyed
            if not is_untyped(key):
                yield seq, keyed
                continue
            if notice.delete or notice.retract:
                yield seq, KeyedNotice(all_views_key(key), notice._replace(mimetype=""))
                continue
            views = self._typed_views(key)
            if not views:
                stats.untyped = 1
                yield seq, keyed
            for number, view in enumerate(views):
                # There is one place for them in the set.
                place = seq if not number else RETRY_SEQ + self._write.next("behind")
                yield place, KeyedNotice(view, notice._replace(mimetype=self.rows.mimetype_of(view)))

    def _forget_hints(self, key: bytes, header: SetHeader, source: int, notice: UrlNotice) -> None:
        """The site has deleted a typed view: what only others have noticed of the page goes as well, as they cannot
        bring it back either."""
        other, rows = untyped_key(key), self.rows
        queued, cached = rows.queue.get(other), rows.cache.get(other)
        named = queued.state.source if queued is not None and queued.state.fetch else 0
        if cached is not None and cached.state.cached:
            named |= cached.state.source
        if other == key or not named & _HINTS or named & _SITE:
            return
        action, standing, _ = self._decide(other, header, source, notice)
        if action is not Action.OLDER:
            self._do(action, other, notice._replace(mimetype=ANY_TYPE), header, standing)

    def _typed_views(self, key: bytes) -> list[bytes]:
        """The views of this page that have a mime type, and are cached or to be fetched."""
        queue, cache = self.rows.queue, self.rows.cache
        return [
            view
            for view in sorted(self.rows.views.get(key[:PAGE_BYTES], ()))
            if not (is_all_views(view) or is_untyped(view))
            and ((view in queue and queue[view].state.fetch) or (view in cache and cache[view].state.cached))
        ]

    def _do(
        self,
        action: Action,
        key: bytes,
        notice: UrlNotice,
        header: SetHeader,
        standing: Standing,
        place: tuple[int, int] | None = None,
    ) -> None:
        """What is done more rarely.

        :param place: (psetid, seq) of a new row, where one may be needed.
        """
        rows = self.rows
        if action is Action.DELETE:
            rows.delete(key, standing, notice, header.pid)
        elif action is Action.WITHDRAW:
            rows.withdraw(key, standing)
        elif action is Action.AGAIN:
            queued = rows.queue.get(key)
            if queued is not None and queued.state.fetch:
                rows.again(key, standing)
            elif place is not None:
                self._fetch(key, notice, header, standing, place)

    def _decide(self, key: bytes, header: SetHeader, source: int, notice: UrlNotice) -> Decision:
        """Where more than the provider's own sets have a say."""
        rows = self.rows
        queued, cached = rows.queue.get(key), rows.cache.get(key)
        others: list[bytes] = []
        if source & _SITE:
            others = [all_views_key(key)]
        elif source & _HINTS:
            others = sorted(rows.views.get(key[:PAGE_BYTES], ()))
        page = [
            _standing(entry.state)
            for other in others
            for entry in (rows.queue.get(other), rows.cache.get(other))
            if entry is not None and other != key
        ]
        return self._rules.decision(
            notice,
            source,
            header.connseq,
            self._write.stats(header.pid).fullconnseq,
            page,
            None if queued is None else queued.state,
            None if cached is None else cached.state,
        )

    def _fetch(
        self, key: bytes, notice: UrlNotice, header: SetHeader, standing: Standing, place: tuple[int, int]
    ) -> None:
        slot = FETCH_NOW
        if notice.hours:
            provider = self._registered[header.pid]
            slot = self._rules.slot(notice.hours, provider.hours, provider.timezone, self._write.now)
        if self.rows.fetch(key, header.pid, (place[0], slot, place[1]), standing, notice):
            self._add(key, (place[0], slot, place[1]))
            return
        # It keeps its place in the order, but not the time slot of its former hours.
        entry = self.rows.queue[key]
        psetid, old_slot, seq = entry.place
        if entry.new and slot != old_slot:
            entry.place = (psetid, slot, seq)
            self._add(key, entry.place)
        elif not entry.new and old_slot != FETCH_NOW:
            self._moves[key] = slot

    def _add(self, key: bytes, place: tuple[int, int, int]) -> None:
        psetid, slot, seq = place
        self._added.setdefault((psetid, slot), AddedRows(self._headers[psetid])).add(key, seq)

    def queue_again(self, part: SetPart) -> None:
        """Queue these unconditionally, as what is cached of them says; their rows are loaded."""
        self._headers[part.psetid] = part.header
        for seq, (key, notice) in enumerate(part.notices, part.index + 1):
            state = self.rows.cache[key].state
            standing = Standing(state.connseq, state.source & (COUNTED | POLLED), state.words)
            self._fetch(key, notice, part.header, standing, (part.psetid, seq))

    def _over_quota(self, key: bytes, notice: UrlNotice, header: SetHeader, seq: int) -> int:
        """The error code of the exceeded quota; 0: none is exceeded."""
        rows, stats = self.rows, self._write.stats(header.pid)
        files = stats.files_used + stats.files_pending
        space = stats.space_used + stats.space_pending
        cached = rows.cache.get(key)
        is_new = False
        if cached is not None and cached.state.counted:
            space -= cached.state.length or 0
        elif rows.is_pending(key):
            space -= rows.queue[key].length or 0
        else:
            is_new = True
        if header.full:
            # What it does not name goes: at the most, what it named so far stays.  The rest is decided by the fetch.
            files, space = min(files, seq - 1), 0
        return self._rules.over_quota(self._registered[header.pid].quota, is_new, files, space, notice.length)

    def _of_all_views(self, key: bytes, header: SetHeader, source: int, notice: UrlNotice, seen: int | None) -> None:
        """A deletion without a mime type: deletes each known view, and leaves a tombstone for the unknown ones.  The
        same of what is retracted."""
        rows = self.rows
        for view in sorted(rows.views.get(key[:PAGE_BYTES], set()) | {key}):
            action, standing, _ = self._decide(view, header, source, notice)
            if action is Action.KNOWN:
                rows.known(view, standing)
            elif action is not Action.OLDER:
                self._do(action, view, notice, header, standing)
                rows.mark(view, seen)

    # Writing.

    def commit(self, new_psetids: Collection[int] = frozenset()) -> None:
        """Write the rows, and note what the queue manager has to be told.

        :param new_psetids: sets that have no rows yet.
        """
        write = self._write
        priorities = {pid: provider.priority for pid, provider in self._registered.items()}
        write.pending.add_priorities(priorities)
        add_to_sets(write.txn, self._made(), new_psetids, priorities, write.now)
        write.pending.touched |= self.rows.save()
        self._move()

    def _made(self) -> dict[tuple[int, int], AddedRows]:
        """The new rows, by set and slot."""
        queue = self.rows.queue
        found = {}
        for (psetid, slot), place in self._added.items():
            # The row may be gone, or replaced by one of another set of this batch.
            place.keys = {
                key: seq
                for key, seq in place.keys.items()
                if key in queue and queue[key].place == (psetid, slot, seq)
            }
            if place.keys:
                found[psetid, slot] = place
                if slot == FETCH_NOW:
                    self._write.pending.add_queued(place.header.pid, psetid, place.first)
        return found

    def _move(self) -> None:
        """Move rows to the time slots of their new hours."""
        moves: dict[tuple[int, int, int], list[tuple[bytes, int]]] = {}
        for key, slot in self._moves.items():
            entry = self.rows.queue[key]
            psetid, old_slot, seq = entry.place
            if slot != old_slot:
                moves.setdefault((psetid, old_slot, slot), []).append((key, seq))
                if slot == FETCH_NOW:
                    self._write.pending.add_queued(entry.pid, psetid, seq)
        for (psetid, source, target), rows in sorted(moves.items()):
            move_rows(self._write.txn, psetid, source, target, rows)
