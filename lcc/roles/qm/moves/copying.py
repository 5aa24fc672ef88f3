"""Copies a provider's rows and content from its source, and follows what changes there (doc/moves.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from lcc.model.content_batches import FILE_BYTES_MAX, FILES_MAX
from lcc.model.frontend.moves import Move
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.moves.steps import take_step
from lcc.roles.qm.moves.verifying import Verifying, too_many
from lcc.storage.database.database import Database
from lcc.storage.database.tables.status import database_epoch
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.moves import CannotMove
from lcc.storage.queue.moves.carried import batch_names
from lcc.storage.queue.moves.departing import (
    ERRORS,
    departing_counts,
    departing_errors,
    departing_page,
    departing_rows,
    departing_whole,
)
from lcc.storage.queue.moves.fences import applied_upto
from lcc.storage.queue.moves.following import Position, is_known, position_now, touched_after
from lcc.storage.queue.moves.paged import PAGE_ROWS, PAGED, Place
from lcc.storage.queue.moves.staging import (
    Cursor,
    Staged,
    asked_in_vain,
    carried_set,
    content_left,
    forget_missed,
    missed,
    read_cursor,
    save_cursor,
    stage_errors,
    stage_page,
    stage_touched,
    stage_whole,
    staged_counts,
    staged_keys,
    unasked,
    uncopied,
)
from lcc.storage.queue.store import QueueStore

_log = Logger()

PAUSE_SECONDS = 0.02
"""Between pages, so that others get their turns."""
FILES_AHEAD = 5000
"""Content files that wait to be fetched while more rows are read."""


@attrs.frozen
class Touched:
    """A page of what has changed at the source.

    :ivar position: behind it; None: the source was put back from a backup, nothing is known.
    :ivar more: there is more.
    """

    keys: list[bytes]
    rows: dict[str, list[tuple[Any, ...]]]
    position: Position | None
    more: bool


class Copying:
    """One look at a move that copies.

    :param there: the database of the source.
    :param verifying: what is copied: from the start when all rows are compared again.
    """

    def __init__(
        self,
        engine: QmEngine,
        store: QueueStore,
        database: Database,
        there: Database,
        move: Move,
        verifying: Verifying,
    ) -> None:
        self._engine = engine
        self._store = store
        self._step = partial(take_step, engine, store)
        self._database = database
        self._there = there
        self._move = move
        self._verifying = verifying
        self._pid = move.pid
        self._carrier = carrier_of(move)
        self._content = content_of(move)

    async def compare(self, seconds: float, *, content_comes: bool = True) -> int:
        """Copy all rows, unless they are; gives how many were written.

        :param seconds: after so long it ends, and goes on when it is called again.
        :param content_comes: if much of it is still to come, no more rows are read; False: it is not waited for.

        The changes since are followed from before the first one was read.  If what has changed is not known, because
        the source was put back from a backup, all is compared again.
        """
        cursor = await self._database.interact(read_cursor, self._pid)
        known = cursor is not None and cursor.move == self._move.id
        if cursor is None or not known or not await self._there.interact(is_known, cursor.position):
            cursor = await self._start(await self._there.interact(position_now))
            if known:
                _log.warn(
                    "The source of provider {pid} was restored from a backup: comparing its rows again",
                    pid=self._pid,
                )
        changed = 0
        until = self._engine.clock.seconds() + seconds
        while cursor.base is not None and self._engine.clock.seconds() < until:
            if content_comes and await self.content_left() > FILES_AHEAD:
                break
            kind, after = cursor.base
            page = await self._there.interact(departing_page, self._pid, kind, after, PAGE_ROWS)
            base = _next_base(kind, page.upto)
            next_cursor = attrs.evolve(cursor, base=base)
            changed += await self._stage(stage_page, cursor.base, page, *self._target, next_cursor)
            cursor = next_cursor
            await self._sleep(PAUSE_SECONDS)
        return changed

    async def follow(self, pause: bool) -> int | None:
        """Copy what has changed since; gives how many rows were written; None: all must be compared again.

        :param pause: the provider goes on: so may others.
        """
        changed = 0
        while True:
            cursor = await self._database.interact(read_cursor, self._pid)
            if cursor is None or cursor.base is not None:
                return None
            touched = await self._there.interact(_touched, self._pid, cursor.position)
            if touched.position is None:
                return None
            if touched.keys:
                cursor = attrs.evolve(cursor, position=touched.position)
                changed += await self._stage(stage_touched, touched.keys, touched.rows, *self._target, cursor)
            if not touched.more:
                break
            if pause:
                await self._sleep(PAUSE_SECONDS)
        keys = await self._database.interact(staged_keys, self._pid, ERRORS.name)
        new, gone = await self._there.interact(departing_errors, self._pid, keys)
        if new or gone:
            await self._step(stage_errors, self._pid, new, gone)
        return changed

    async def is_complete(self) -> bool | None:
        """Whether as many rows are staged as there are at the source; None: it has changed meanwhile, nobody knows.

        That it is not would be a fault of this program: what has changed was not noted.  Then all is compared again.
        """
        cursor = await self._database.interact(read_cursor, self._pid)
        position, counts = await self._there.interact(departing_counts, self._pid)
        if cursor is None or cursor.base is not None:
            return None
        behind, _ = await self._there.interact(touched_after, self._pid, cursor.position, 1)
        staged = await self._database.interact(staged_counts, self._pid)
        if counts == staged:
            return True
        if behind:
            return None
        await self._start(position)
        _log.error(
            "Provider {pid}: {staged} rows are copied, but its source has {counts}: comparing all again",
            pid=self._pid,
            staged=staged,
            counts=counts,
        )
        return False

    async def copied_upto(self) -> tuple[str, int] | None:
        """Timeline and change of the source that all that was copied is of; None: the source does not have it any
        longer, because it was restored from a backup."""
        cursor = await self._database.interact(read_cursor, self._pid)
        if cursor is None or not await self._there.interact(is_known, cursor.position):
            return None
        return cursor.position.timeline, cursor.position.change

    async def copy_whole(self) -> None:
        """Copy the small tables, of a provider that stands still.  With them all is here."""
        epoch = self._move.epoch - (1 if self._move.flip else 0)
        await self._step(stage_whole, self._pid, await self._there.interact(departing_whole, self._pid, epoch))

    async def rows(self) -> int:
        """How many rows of the cache are copied."""
        return (await self._database.interact(staged_counts, self._pid))["lccurl"]

    async def content_left(self) -> int:
        """Content files that are still to be copied.  Those that batches did not bring are asked for one by one."""
        left = await self._database.interact(content_left, self._carrier)
        # In this order: once nothing is left, no batch can end any more that has brought less.
        found = await self._database.interact(missed, self._carrier)
        if not found.keys:
            return left
        names = await self._database.interact(unasked, self._store.rules, *self._target, found.names)
        if names:
            await self._fetch(names, batches=False)
        await self._step(forget_missed, self._carrier, found.keys)
        return await self._database.interact(content_left, self._carrier)

    async def asked_in_vain(self) -> bool:
        """Content was asked for, and did not come: it does not just wait for a robot."""
        return await self._database.interact(asked_in_vain, self._carrier)

    async def check_content(self, rows: int) -> None:
        """:raises CannotMove: content cannot be copied, though it may be there.

        :param rows: that are copied.
        """
        found = await self._database.interact(uncopied, self._carrier)
        count, message = found.failed, found.message
        if not count and too_many(found.gone, rows):
            count, message = found.gone, "they are missing there"
        if count:
            raise CannotMove(f"{count} content files cannot be copied from {self._content}: {message}")

    # Inside.

    @property
    def _target(self) -> tuple[int, str]:
        return self._carrier, self._content

    async def _start(self, position: Position) -> Cursor:
        """Have all rows compared."""
        self._verifying.restart()
        cursor = Cursor(self._move.id, position)
        await self._step(save_cursor, self._pid, cursor)
        return cursor

    async def _stage(self, function: Callable[..., Staged], *args: object) -> int:
        """Stage rows; their content is asked for before.

        :returns: how many were not staged, or otherwise.
        """
        staged: Staged = await self._step(function, self._store.rules, self._pid, *args, True)
        if staged.wanted:
            await self._fetch(staged.wanted)
            staged = await self._step(function, self._store.rules, self._pid, *args)
        self._engine.moves.rows += staged.changed
        return staged.changed

    async def _fetch(self, names: list[str], *, batches: bool = True) -> None:
        """Have content fetched from the source."""
        if batches:
            names = batch_names(names, self._batch_files())
        now, move = self._engine.now(), self._move
        epoch = await self._database.interact(database_epoch)
        number = await self._database.interact(applied_upto, f"move/{move.id}", epoch) + 1
        piece = carried_set(self._store.rules, move, *self._target, names, epoch, number, now)
        self._engine.absorbed(await self._store.absorb([piece], now))

    def _batch_files(self) -> int:
        """A batch is no more than what may be fetched in a second."""
        rate = self._move.number("bandwidth")
        return max(1, min(FILES_MAX, rate // FILE_BYTES_MAX)) if rate else FILES_MAX

    def _sleep(self, seconds: float) -> Deferred[None]:
        return deferLater(self._engine.clock, seconds)


def carrier_of(move: Move) -> int:
    """The provider that carries its content; 0: there is none yet."""
    return move.number("carrier")


def content_of(move: Move) -> str:
    """The URL that content was asked for by, whatever the sub-LCC's is by now."""
    return str(move.progress["content"])


def _next_base(kind: str, upto: bytes | None) -> Place | None:
    if upto is not None:
        return kind, upto
    kinds = list(PAGED)
    rest = kinds[kinds.index(kind) + 1 :]
    return (rest[0], b"") if rest else None


def _touched(txn: Txn, pid: int, position: Position) -> Touched:
    """The next rows that have changed, all of one moment."""
    if not is_known(txn, position):
        return Touched([], {}, None, more=False)
    keys, upto = touched_after(txn, pid, position, PAGE_ROWS)
    count, rows = departing_rows(txn, keys)
    if count == len(keys):
        return Touched(keys, rows, upto, more=count == PAGE_ROWS)
    return Touched(keys[:count], rows, touched_after(txn, pid, position, count)[1], more=True)
