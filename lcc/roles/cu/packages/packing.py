"""Goes through the rows of a package and gives each of them, with its content, to a writer.

All of it is generators that block only on content: they are run step by step in a thread.  Where content has gone
since its row was read, the row must be read again: then they give :class:`Again` instead of bytes and are sent the
row as it is now.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Protocol

import attrs

from lcc.insight.records import CACHED
from lcc.model import CachedUrl
from lcc.roles.cu.packages.bodies import Bodies, Body
from lcc.roles.cu.packages.ports import BodyGone, BodyUnavailable
from lcc.storage.views.selected import Selection

ATTEMPTS = 3
"""How often a row is read again whose file has been replaced meanwhile."""


@attrs.frozen
class Again:
    """Send in the row of this key as it is now, or None if there is none."""

    key: bytes


Steps = Generator[bytes | Again, CachedUrl | None, None]


class Writer(Protocol):
    """Makes the bytes of a package."""

    def begin(self) -> Iterator[bytes]:
        """What stands before everything else."""

    def member(self, row: CachedUrl, body: Body) -> Iterator[bytes]:
        """A row with its content."""

    def left_out(self, row: CachedUrl, reason: str) -> Iterator[bytes]:
        """A row whose content cannot be had."""

    def deleted(self, row: CachedUrl) -> Iterator[bytes]:
        """A row that went away; only in answers about changes."""

    def page(self) -> Iterator[bytes]:
        """Some rows are done: what was kept about them must be written, memory is bounded."""

    def end(self, summary: dict[str, Any]) -> Iterator[bytes]:
        """The end mark (:meth:`Packing.end`)."""

    def close(self) -> None:
        """Nothing more is written."""


class Packing:
    """A package that is being made.

    :param selection: of which it is.
    :param changes: it holds changes, with what was deleted.
    """

    def __init__(self, writer: Writer, bodies: Bodies, selection: Selection, changes: bool) -> None:
        self._writer = writer
        self._bodies = bodies
        self._selection = selection
        self._changes = changes
        self._files = 0
        self._deleted = 0
        self._missing = 0

    def begin(self) -> Steps:
        """What stands before the first row."""
        yield from self._writer.begin()

    def rows(self, rows: Iterable[CachedUrl]) -> Steps:
        """A page of rows.

        :raises OSError: content that was begun cannot be read to its end: the package must end here.
        """
        for row in rows:
            yield from self._row(row)
        yield from self._writer.page()

    def end(self, token: str | None) -> Steps:
        """The end mark: an object with ``next`` (the token to come back with), ``files`` (contents in the package),
        ``deleted`` (rows that went away), ``missing`` (rows whose content could not be had).
        """
        summary = {"next": token, "files": self._files, "deleted": self._deleted, "missing": self._missing}
        yield from self._writer.end(summary)

    def close(self) -> None:
        """Nothing more is made."""
        self._writer.close()
        self._bodies.close()

    def abort(self) -> None:
        """From another thread: wait for nothing any longer."""
        self._bodies.abort()

    def _row(self, row: CachedUrl) -> Steps:
        reason = ""
        for _ in range(ATTEMPTS):
            if row.state != CACHED:
                if self._changes:
                    self._deleted += 1
                    yield from self._writer.deleted(row)
                return
            try:
                body = self._bodies.open(row)
            except BodyGone as error:
                reason = str(error)
                now = yield Again(row.key)
                if now is None:
                    row = attrs.evolve(row, state="deleted")
                elif now.state == CACHED and not self._selection.holds(now):
                    row = attrs.evolve(now, state="deleted")  # it has left the selection
                else:
                    row = now
            except BodyUnavailable as error:
                reason = str(error)
                break
            else:
                try:
                    yield from self._writer.member(row, body)
                finally:
                    body.close()
                self._files += 1
                return
        self._missing += 1
        yield from self._writer.left_out(row, reason)
