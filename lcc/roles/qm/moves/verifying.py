"""Compares the content of a provider that is copied with the digests in its rows, as it comes (doc/moves.md)."""

from __future__ import annotations

from collections.abc import Collection

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from lcc.storage.database.database import Database
from lcc.storage.fe.moves import CannotMove
from lcc.storage.queue.moves.following import Position, touched_after
from lcc.storage.queue.moves.paged import CACHE_ROWS, PAGE_ROWS
from lcc.storage.queue.moves.staging import Cursor, read_cursor
from lcc.storage.queue.moves.verifying import Compared, compare_keys, compare_page

PAUSE_SECONDS = 0.02
DAMAGED_MAX, DAMAGED_SHARE = 100, 0.05


def too_many(files: int, rows: int) -> bool:
    """Whether so many files that the source has lost, or that hold something else, say that they were not looked for
    in the right place."""
    return files > DAMAGED_MAX + DAMAGED_SHARE * rows


class Verifying:
    """Compares each row once its content is here, and again when the row has changed.

    First it goes over all rows, never ahead of the pass that copies them; then over the rows that have changed since,
    which the source knows.

    :param database: of this LCC.
    :param content: URL of the source's content port.
    """

    def __init__(self, clock: IReactorTime, database: Database, pid: int, content: str) -> None:
        self._clock = clock
        self._database = database
        self._pid = pid
        self._content = content
        self.restart()

    def restart(self) -> None:
        """Compare all rows, from the first one."""
        self._after: bytes | None = b""
        """Key of the last row of the first pass that is compared; None: the pass has ended."""
        self._since: Position | None = None
        """Rows that have changed since are compared after that pass; None: it has not begun."""
        self._wrong: set[bytes] = set()
        """Keys of rows whose content has other digests; too many cancel the move."""
        self._passed: set[bytes] = set()
        """Keys of rows whose content was still to come: they are compared with each look."""

    async def go_on(self, there: Database, rows: int, is_here: bool, seconds: float) -> bool:
        """Compare more; True: all that is copied, and here.

        :param there: the database of the source.
        :param rows: that are copied.
        :param is_here: all rows are copied, and only a few files are still to come: these may be passed over for now.
        :param seconds: after so long it ends.
        :raises CannotMove: much of the content is something else.
        """
        cursor = await self._database.interact(read_cursor, self._pid)
        if cursor is None:
            return False
        if self._since is None:
            self._since = cursor.position
        if self._passed:
            passed, self._passed = self._passed, set()
            self._note(passed, await self._database.interact(compare_keys, passed))
        until = self._clock.seconds() + seconds
        while True:
            if self._after is not None:
                has_more = await self._next_page(cursor, self._after, is_here)
            elif _order(self._since) < _order(cursor.position):
                has_more = await self._next_touched(there, cursor, self._since, is_here)
            else:
                has_more = False
            if too_many(len(self._wrong), rows):
                raise CannotMove(
                    f"{len(self._wrong)} content files from {self._content} do not have the digests in the source's"
                    " database: run lcc-admin fsck there"
                )
            if not has_more or self._clock.seconds() >= until:
                return self._after is None and _order(self._since) >= _order(cursor.position)
            await deferLater(self._clock, PAUSE_SECONDS)

    async def _next_page(self, cursor: Cursor, after: bytes, is_here: bool) -> bool:
        """Go on with the first pass; False: it cannot go on yet."""
        page = await self._database.interact(compare_page, self._pid, after, PAGE_ROWS)
        if page is None:
            if cursor.base is None:
                self._after = None
            return cursor.base is None
        last, compared = page
        if _is_behind(cursor, last) or (compared.missing and not is_here):
            return False
        self._note([], compared)
        self._after = last
        return True

    async def _next_touched(self, there: Database, cursor: Cursor, since: Position, is_here: bool) -> bool:
        """Go on with what has changed; False: it cannot go on yet."""
        keys, upto = await there.interact(touched_after, self._pid, since, PAGE_ROWS)
        compared = await self._database.interact(compare_keys, keys)
        if compared.missing and not is_here:
            return False
        self._note(keys, compared)
        self._since = min(upto, cursor.position, key=_order)  # what is behind the cursor is not copied yet
        return True

    def _note(self, keys: Collection[bytes], compared: Compared) -> None:
        """Note what was found of these rows.  They may have been compared before."""
        self._wrong.difference_update(keys)
        self._wrong.update(compared.wrong)
        self._passed.difference_update(keys)
        self._passed.update(compared.missing)


def _is_behind(cursor: Cursor, key: bytes) -> bool:
    """Whether the comparison that copies rows has yet to come to this row of the cache."""
    return cursor.base is not None and cursor.base[0] == CACHE_ROWS.name and cursor.base[1] < key


def _order(position: Position) -> tuple[int, bool, str]:
    return position.number, not position.key, position.key
